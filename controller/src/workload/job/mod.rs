//! Runs Jobs: creates pods until enough of them have succeeded or too many have failed. Upstream: pkg/controller/job.
//!
//! Each pod of a Job has a finalizer, so that its end is counted exactly once: the controller writes the UIDs of finished pods into
//! `status.uncountedTerminatedPods`, removes the finalizer of these pods, and then moves their number to the counters.
//!
//! [`assess`] evaluates the pods and determines whether the Job ends, [`manage`] decides which pods to create or delete,
//! [`conclude`] and [`track`] compute the status, and [`control`] performs the changes.

mod assess;
mod backoff;
mod conclude;
mod conditions;
mod control;
mod failure_policy;
mod finalizers;
mod indexes;
mod manage;
mod pod_facts;
mod pods;
mod spec;
mod success_policy;
mod template;
mod track;

pub use conditions::{finish, is_finished};
pub use control::run;

#[cfg(test)]
mod tests;
