//! Runs ReplicationControllers and ReplicaSets: maintains the desired number of pods. Upstream:
//! pkg/controller/replicaset, which also serves both kinds.
//!
//! [`order`] ranks pods for deletion, [`decide`] computes the number to create or delete and the status,
//! [`control`] performs the changes.

pub mod control;
pub mod decide;
pub mod kind;
pub mod order;

pub use control::{replica_sets, replication_controllers};

#[cfg(test)]
mod tests;
