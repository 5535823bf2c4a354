//! Deployments: from one ReplicaSet to the next, a few pods at a time. Upstream: pkg/controller/deployment.
//!
//! [`plan`] is the decision: what the ReplicaSets should look like after this sync, and the status. It is made of [`amounts`] (surge
//! and unavailability in numbers), [`sets`] (revisions, annotations, a new ReplicaSet), [`rollout`] (one step of a rollout),
//! [`scale`] (a change of the number in the middle of one) and [`status`]. [`control`] writes the differences.

pub mod amounts;
pub mod control;
pub mod plan;
pub mod rollout;
pub mod scale;
pub mod sets;
pub mod status;

pub use control::run;

#[cfg(test)]
mod tests;
