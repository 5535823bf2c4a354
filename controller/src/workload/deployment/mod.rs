//! Runs Deployments: moves pods from one ReplicaSet to the next, a few at a time. Upstream:
//! pkg/controller/deployment.
//!
//! [`plan`] decides the ReplicaSets after this sync, and the status. It uses [`amounts`] (surge and
//! unavailability as numbers), [`sets`] (revisions, annotations, a new ReplicaSet), [`rollout`] (one step of a
//! rollout), [`scale`] (a change of the desired number during a rollout) and [`status`]. [`rollback`]
//! restores the template of an earlier revision. [`control`] writes the differences.

pub mod amounts;
pub mod control;
pub mod plan;
pub mod rollback;
pub mod rollout;
pub mod scale;
pub mod sets;
pub mod status;

pub use control::run;

#[cfg(test)]
mod tests;
