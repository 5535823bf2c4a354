//! The scheduler: pods without a node get one. It decides about one pod after the other, in memory and without waiting;
//! what has to be written and waited for then runs beside, a task per pod. What is done and what is not is told in
//! docs/scheduling.md.
//!
//! Reading order. What is known: [`amounts`], [`terms`], [`pod`], [`cluster`], [`disk`], [`disks`], [`capacity`], [`volumes`]. What is decided: [`filter`],
//! [`score`], [`message`], [`decide`]. Who waits: [`queue`]. What is done: [`bind`], [`bind_notify`]. What runs it: [`state`], [`control`] and `feed`,
//! which takes up what the informers say and wakes whom it may help.
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
pub mod message;
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
