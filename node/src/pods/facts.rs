//! The facts about one pod that its status is computed from.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::runtime::PodState;

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    /// Volumes are waited for, or the runtime has not taken it yet.
    Making,
    /// The runtime has it.
    Running,
    /// It is being taken away; what it leaves is not gone yet.
    Stopping,
    /// Nothing of it is left to run.
    Over,
}

/// Why a pod fails that no container has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFailure {
    /// `NodeAffinity`.
    pub(super) reason: String,
    /// In words.
    pub(super) message: String,
}

/// What is known of a pod on this node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodFacts {
    pub(super) stage: PodStage,
    /// What the runtime says; none when it does not know the pod.
    pub(super) state: Option<PodState>,
    /// It has failed for this.
    pub(super) verdict: Option<PodFailure>,
    /// The address of the node.
    pub(super) address: Option<String>,
    /// When this was so.
    pub(super) now: Timestamp,
}

/// API times have whole seconds.
pub(super) fn seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
