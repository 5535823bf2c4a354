//! Runs DaemonSets: maintains one pod on each suitable node. Upstream: pkg/controller/daemon.
//!
//! [`placement`] decides which nodes are suitable, and creates the pod for a node. [`manage`] decides which pods are
//! missing or surplus, [`rollout`] which pods of older templates are replaced, as the [`strategy`] permits. [`status`]
//! counts pods, and [`history`] describes the revisions of the template. [`backoff`] delays the deletion of failed pods.
//! [`control`] performs the changes, and [`node_updates`] selects the DaemonSets that a changed node concerns, from a table of all nodes
//! ([`node_table`]) and one of all DaemonSets ([`requirements`]).

pub mod backoff;
pub mod control;
pub mod history;
pub mod manage;
pub mod node_table;
pub mod node_updates;
pub mod placement;
pub mod requirements;
mod revisions;
pub mod rollout;
pub mod status;
pub mod strategy;
mod writes;

pub use control::run;

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
