//! Runs CronJobs: creates a Job at each time of the schedule, and deletes old Jobs. Upstream: pkg/controller/cronjob.
//!
//! [`times`] computes the due time, [`decide`] whether a Job starts, [`jobs`] the Job and those to delete; [`control`] performs the
//! changes. The name of a Job contains its time, so that it is not created twice.

pub mod control;
pub mod decide;
pub mod jobs;
pub mod times;

pub use control::run;

#[cfg(test)]
mod tests;
