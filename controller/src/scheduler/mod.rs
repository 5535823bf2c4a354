//! The scheduler: assigns pods to nodes. It decides about one pod at a time, in memory and without waiting; writes and waits run
//! in a separate task per pod. docs/scheduling.md lists what is supported.
//!
//! Reading order. State: [`amounts`], [`host_ports`], [`inline_disks`], [`terms`], [`pod`], [`cluster`], [`disk`], [`disks`], [`capacity`], [`volumes`]. Decisions: [`filter`],
//! [`score`], [`message`], [`decide`]. Waiting pods: [`node_needs`], [`queue`]. Effects: [`bind`], [`bind_notify`]. The loop: [`state`], [`control`], and `feed`,
//! which applies the changes from the informers and queues the pods that they may help.
//!
//! Upstream: pkg/scheduler.

pub mod amounts;
pub mod bind;
pub mod bind_notify;
pub mod capacity;
pub mod cluster;
pub mod control;
pub mod decide;
pub mod disk;
pub mod disks;
mod feed;
pub mod filter;
pub mod host_ports;
pub mod inline_disks;
pub mod message;
pub mod node_needs;
pub mod pod;
pub mod queue;
mod report;
pub mod score;
pub mod state;
pub mod terms;
pub mod volumes;

#[cfg(test)]
mod tests;

pub use control::run;
