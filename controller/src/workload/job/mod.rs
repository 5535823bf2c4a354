//! Runs Jobs: creates pods until enough of them have succeeded or too many have failed. Upstream: pkg/controller/job.
//!
//! Each pod of a Job has a finalizer, so that its end is counted exactly once: the controller writes the UIDs of finished pods into
//! `status.uncountedTerminatedPods`, removes the finalizer of these pods, and then moves their number to the counters.
//!
//! [`assess`] evaluates the pods and determines whether the Job ends, [`manage`] decides which pods to create or delete,
//! [`conclude`] and [`track`] compute the status, and [`control`] performs the changes.

pub mod assess;
pub mod backoff;
pub mod conclude;
pub mod conditions;
pub mod control;
pub mod failure_policy;
pub mod finalizers;
pub mod indexes;
pub mod manage;
mod perform;
pub mod pod_facts;
pub mod pods;
pub mod spec;
pub mod success_policy;
pub mod template;
pub mod track;

pub use conditions::{end_of, is_finished};
pub use control::run;

#[cfg(test)]
mod tests;
