//! ReplicationController and ReplicaSet: as many pods as are asked for. Upstream: pkg/controller/replicaset, which serves both
//! kinds too.
//!
//! [`order`] says which pods go first, [`decide`] how many are missing or too many and what the status is, [`control`] acts.

pub mod control;
pub mod decide;
pub mod kind;
pub mod order;

pub use control::{replica_sets, replication_controllers};

#[cfg(test)]
mod tests;
