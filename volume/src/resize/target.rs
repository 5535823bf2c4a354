//! Decides the size that a claim is expanded to next. Pure.
//!
//! A claim may request another size while the last resize is in progress, also a smaller one, to recover from a size that
//! cannot be provided. The size in progress is recorded in the claim's status and is finished first, unless it is known that no
//! operation is in progress any more (upstream: external-resizer, expandAndRecover).

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use orlop_apimachinery::quantity::Quantity;
use std::collections::BTreeMap;

/// `status.allocatedResourceStatuses.storage`: the stage of the last resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No resize is in progress.
    None,
    /// The driver was called, or is about to be.
    ControllerInProgress,
    /// The driver cannot expand to this size.
    ControllerInfeasible,
    /// The file system has to be resized on the node.
    NodePending,
    /// The node is resizing.
    NodeInProgress,
    /// The node cannot resize.
    NodeInfeasible,
}

impl Stage {
    /// The value in the API; `None` for no resize.
    pub fn text(self) -> Option<&'static str> {
        match self {
            Stage::None => None,
            Stage::ControllerInProgress => Some("ControllerResizeInProgress"),
            Stage::ControllerInfeasible => Some("ControllerResizeInfeasible"),
            Stage::NodePending => Some("NodeResizePending"),
            Stage::NodeInProgress => Some("NodeResizeInProgress"),
            Stage::NodeInfeasible => Some("NodeResizeInfeasible"),
        }
    }

    fn of(text: Option<&str>) -> Self {
        let all = [
            Stage::ControllerInProgress,
            Stage::ControllerInfeasible,
            Stage::NodePending,
            Stage::NodeInProgress,
            Stage::NodeInfeasible,
        ];
        all.into_iter().find(|stage| stage.text() == text).unwrap_or(Stage::None)
    }
}

/// The input of the decision.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The requested size.
    pub request: Quantity,
    /// The size of the last or current resize.
    pub allocated: Option<Quantity>,
    /// The volume's capacity.
    pub volume: Quantity,
    /// The stage of the resize.
    pub stage: Stage,
    /// Condition FileSystemResizePending.
    pub waits_for_node: bool,
    /// The last error in this process was final: no operation is in progress.
    pub settled: bool,
    /// The driver expands volumes, not only nodes do.
    pub controller_expands: bool,
    /// The remaining delay of an infeasible attempt.
    pub rests: Option<Duration>,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A node has to finish first.
    Wait,
    /// The same size was infeasible recently.
    Later(Duration),
    /// Call the driver with this size. `again`: the status already records it.
    Expand {
        /// The size.
        size: Quantity,
        /// Whether the status already records the size.
        again: bool,
    },
}

/// Decides the next action.
pub fn decide(facts: &Facts) -> Target {
    let Facts { request, allocated, volume, stage, .. } = facts;
    let recorded = || allocated.as_ref().unwrap_or(request);
    let size = if volume < request {
        match stage {
            Stage::NodeInfeasible => recorded(),
            // A call of the driver would be harmless here, but it is not needed: the node comes first.
            Stage::NodePending | Stage::NodeInProgress if volume >= recorded() => return Target::Wait,
            Stage::NodePending | Stage::NodeInProgress => recorded(),
            Stage::ControllerInProgress if facts.settled => request,
            Stage::ControllerInProgress => recorded(),
            Stage::ControllerInfeasible | Stage::None => request,
        }
    } else {
        match stage {
            Stage::NodePending | Stage::NodeInProgress => return Target::Wait,
            Stage::NodeInfeasible if facts.controller_expands => recorded(),
            Stage::NodeInfeasible => request,
            // The driver finished without a record of it, or the claim requests less than before.
            Stage::ControllerInProgress | Stage::ControllerInfeasible => recorded(),
            // From an API server without this status field.
            Stage::None if allocated.is_none() && facts.waits_for_node => return Target::Wait,
            Stage::None => recorded(),
        }
    };
    let same = allocated.as_ref() == Some(size);
    match facts.rests {
        Some(rests) if same => Target::Later(rests),
        Some(_) | None => Target::Expand { size: size.clone(), again: same && *stage != Stage::None },
    }
}

/// The storage entry of a resource list. The server admits no unparsable quantity.
pub fn storage(resources: Option<&BTreeMap<String, Text>>) -> Option<Quantity> {
    Quantity::parse(&resources?.get("storage")?.0).ok()
}

/// The size that the claim requests.
pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    storage(resources.and_then(|resources| resources.requests.as_ref())).unwrap_or(Quantity::ZERO)
}

/// The capacity of the claim.
pub fn capacity(claim: &PersistentVolumeClaim) -> Quantity {
    let status = claim.status.as_ref();
    storage(status.and_then(|status| status.capacity.as_ref())).unwrap_or(Quantity::ZERO)
}

/// The capacity of the volume.
pub fn volume_capacity(volume: &PersistentVolume) -> Quantity {
    let spec = volume.spec.as_ref();
    storage(spec.and_then(|spec| spec.capacity.as_ref())).unwrap_or(Quantity::ZERO)
}

/// The size recorded in the claim's status.
pub fn allocated(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    storage(claim.status.as_ref()?.allocated_resources.as_ref())
}

/// The stage of the claim's resize.
pub fn stage(claim: &PersistentVolumeClaim) -> Stage {
    let statuses = claim.status.as_ref().and_then(|status| status.allocated_resource_statuses.as_ref());
    Stage::of(statuses.and_then(|statuses| statuses.get("storage")).map(String::as_str))
}

/// Whether a bound claim requests more than its capacity.
pub fn is_needed(claim: &PersistentVolumeClaim) -> bool {
    is_bound(claim) && requested(claim) > capacity(claim)
}

/// Phase Bound.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Quantity {
        Quantity::parse(text).expect("a size")
    }

    fn facts(volume: &str, request: &str, allocated: &str, stage: Stage) -> Facts {
        let allocated = (!allocated.is_empty()).then(|| size(allocated));
        let (request, volume) = (size(request), size(volume));
        let (settled, waits_for_node, controller_expands, rests) = (false, false, true, None);
        Facts { request, allocated, volume, stage, waits_for_node, settled, controller_expands, rests }
    }

    fn to(text: &str, again: bool) -> Target {
        Target::Expand { size: size(text), again }
    }

    #[test]
    fn target_follows_stage_and_requested_size() {
        use Stage::{
            ControllerInProgress, ControllerInfeasible, NodeInProgress, NodeInfeasible, NodePending, None,
        };
        let table = [
            ("fresh", facts("1Gi", "2Gi", "", None), to("2Gi", false)),
            ("after an older one", facts("1Gi", "3Gi", "1Gi", None), to("3Gi", false)),
            ("infeasible, other request", facts("1Gi", "2Gi", "9Gi", ControllerInfeasible), to("2Gi", false)),
            ("infeasible, same request", facts("1Gi", "9Gi", "9Gi", ControllerInfeasible), to("9Gi", true)),
            ("under way", facts("1Gi", "2Gi", "2Gi", ControllerInProgress), to("2Gi", true)),
            (
                "under way, a larger request waits",
                facts("1Gi", "3Gi", "2Gi", ControllerInProgress),
                to("2Gi", true),
            ),
            (
                "under way, a smaller request waits",
                facts("1Gi", "2Gi", "9Gi", ControllerInProgress),
                to("9Gi", true),
            ),
            (
                "failed for good, smaller request",
                Facts { settled: true, ..facts("1Gi", "2Gi", "9Gi", ControllerInProgress) },
                to("2Gi", false),
            ),
            ("under way without a size", facts("1Gi", "2Gi", "", ControllerInProgress), to("2Gi", false)),
            ("node first", facts("2Gi", "3Gi", "2Gi", NodePending), Target::Wait),
            ("node at it", facts("2Gi", "3Gi", "2Gi", NodeInProgress), Target::Wait),
            ("node, volume too small", facts("1Gi", "3Gi", "2Gi", NodePending), to("2Gi", true)),
            ("node cannot", facts("1Gi", "3Gi", "2Gi", NodeInfeasible), to("2Gi", true)),
            ("volume is there, node has it", facts("3Gi", "3Gi", "3Gi", NodeInProgress), Target::Wait),
            ("volume is there, node cannot", facts("3Gi", "3Gi", "3Gi", NodeInfeasible), to("3Gi", true)),
            ("volume is there, claim shrunk", facts("3Gi", "2Gi", "3Gi", NodeInfeasible), to("3Gi", true)),
            (
                "the same, nodes expand alone",
                Facts { controller_expands: false, ..facts("3Gi", "2Gi", "3Gi", NodeInfeasible) },
                to("2Gi", false),
            ),
            (
                "crash after the volume was written",
                facts("2Gi", "2Gi", "2Gi", ControllerInProgress),
                to("2Gi", true),
            ),
            ("status lost", facts("2Gi", "2Gi", "2Gi", None), to("2Gi", false)),
            ("no status was recorded", facts("2Gi", "2Gi", "", None), to("2Gi", false)),
            (
                "the same, and the node has it",
                Facts { waits_for_node: true, ..facts("2Gi", "2Gi", "", None) },
                Target::Wait,
            ),
        ];
        for (name, facts, wanted) in table {
            assert_eq!(decide(&facts), wanted, "{name}");
        }
    }

    #[test]
    fn infeasible_size_is_delayed_and_another_is_not() {
        let rests = Some(Duration::from_secs(7));
        let same = Facts { rests, ..facts("1Gi", "9Gi", "9Gi", Stage::ControllerInfeasible) };
        assert_eq!(decide(&same), Target::Later(Duration::from_secs(7)));
        let other = Facts { rests, ..facts("1Gi", "2Gi", "9Gi", Stage::ControllerInfeasible) };
        assert_eq!(decide(&other), to("2Gi", false));
    }

    #[test]
    fn stages_match_the_api_values() {
        assert_eq!(Stage::of(Some("NodeResizePending")), Stage::NodePending);
        assert_eq!(Stage::of(Option::None), Stage::None);
        assert_eq!(Stage::of(Some("Odd")), Stage::None, "a value of another time");
    }
}
