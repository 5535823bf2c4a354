//! `Job` and `CronJob`.
//!
//! [`job_spec`] has the rules for the spec, which the template of a CronJob shares; [`job_update`] and [`job_status`] those
//! for changes.
//!
//! Upstream: pkg/apis/batch, pkg/registry/batch.

mod cron_job;
mod failure_policy;
mod indexes;
mod job;
mod job_conditions;
mod job_selector;
mod job_spec;
mod job_status;
mod job_update;
mod success_policy;
mod time_zone;

pub(super) use cron_job::CronJob;
pub(super) use job::Job;

/// The API group.
const GROUP: &str = "batch";

/// The completion mode in which each pod has an index.
const INDEXED: &str = "Indexed";
/// The other completion mode.
const NON_INDEXED: &str = "NonIndexed";

#[cfg(test)]
mod tests;
