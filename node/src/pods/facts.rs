//! The facts about one pod that its status is computed from.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::runtime::PodState;

/// The stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    /// The pod waits for its volumes, or the runtime has not started it yet.
    Making,
    /// The runtime has started the pod.
    Running,
    /// The pod is being stopped, and its volumes are not all released yet.
    Stopping,
    /// The pod has stopped, and its volumes are released.
    Over,
}

/// Why a pod fails although no container has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFailure {
    /// `NodeAffinity`.
    pub(super) reason: String,
    /// The message, for example why the affinity does not match.
    pub(super) message: String,
}

/// The facts of the agent about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodFacts {
    pub(super) stage: PodStage,
    /// The state that the runtime reports; `None` when it does not know the pod.
    pub(super) state: Option<PodState>,
    /// The reason the pod has failed.
    pub(super) verdict: Option<PodFailure>,
    /// The address of the node.
    pub(super) address: Option<String>,
    /// The time of these facts.
    pub(super) now: Timestamp,
}

/// A time in whole seconds, as the API stores it.
pub(super) fn seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
