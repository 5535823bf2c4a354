//! Runs DaemonSets: maintains one pod on each suitable node. Upstream: pkg/controller/daemon.
//!
//! [`placement`] decides which nodes are suitable, and creates the pod for a node. [`manage`] decides which pods are
//! missing or surplus, [`rollout`] which pods of older templates are replaced, [`status`] counts pods, and [`history`]
//! stores the templates. [`backoff`] delays the deletion of failed pods. [`control`] performs the changes, and
//! [`node_updates`] queues DaemonSets when nodes change.

pub mod backoff;
pub mod control;
pub mod history;
pub mod manage;
pub mod node_updates;
pub mod placement;
pub mod rollout;
pub mod status;

pub use control::run;

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
