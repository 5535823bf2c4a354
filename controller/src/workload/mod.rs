//! Controllers of workloads, which maintain a number of pods. They create, count and delete pods but do not run
//! them, so that the volumes of a workload follow it.
//!
//! [`replicas`] serves ReplicationController and ReplicaSet, which share one implementation; [`deployment`]
//! moves pods between ReplicaSets; [`stateful_set`] maintains pods with stable names and their own claims;
//! [`daemon_set`] maintains one pod per node; [`job`] runs pods until enough of them succeed; [`cron_job`] creates
//! Jobs at the times of a schedule; [`ttl_after_finished`] deletes finished Jobs. Each consists of a pure decision
//! over cached objects and a thin layer that performs it. The other modules are shared.
//!
//! Upstream: pkg/controller/{replicaset,deployment,statefulset,daemon,job,cronjob,ttlafterfinished}.

pub mod adopt;
pub mod batch;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod error;
pub mod expectations;
pub mod hash;
pub mod job;
pub mod owned;
pub mod parts;
pub mod pod_control;
pub mod ready;
pub mod replica;
pub mod replicas;
pub mod stateful_set;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod ttl_after_finished;
pub mod writes;
