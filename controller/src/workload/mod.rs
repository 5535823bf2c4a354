//! Workloads: objects that keep a number of pods. Pods are not run here; they are made, kept to their number and taken away,
//! so that the volumes of a workload follow it.
//!
//! [`replicas`] is ReplicationController and ReplicaSet, which are one machine; [`deployment`] moves between ReplicaSets;
//! [`stateful_set`] keeps pods with names and claims of their own. Each is a pure decision over cached objects and a thin
//! part that acts. The rest is what they share. Upstream: pkg/controller/{replicaset,deployment,statefulset}.

pub mod adopt;
pub mod batch;
pub mod deployment;
pub mod error;
pub mod expectations;
pub mod hash;
pub mod owned;
pub mod ready;
pub mod replicas;
pub mod stateful_set;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;
