//! Decides whether the file system on the node must be expanded, and computes the claim status for it. Pure.
//!
//! Upstream: pkg/kubelet/volumemanager, pkg/volume/util/operationexecutor (node expander).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition};
use orlop_apimachinery::quantity::Quantity;
use orlop_client::meta::annotation;
use orlop_client::names::ANN_NODE_EXPANSION_NOT_REQUIRED;
use orlop_volume::resize::conditions::{self, NODE_ERROR};
use orlop_volume::resize::target::{self, Stage};
use serde_json::{Value, json};

use crate::volume::{Source, VolumeSpec};

/// The size of a volume recorded by the node: the capacity of its claim.
pub(super) fn known_size(spec: &VolumeSpec) -> Option<Quantity> {
    spec.claim.as_deref().map(target::capacity)
}

/// The capacity of a claim.
pub(super) fn recorded(claim: &PersistentVolumeClaim) -> Quantity {
    target::capacity(claim)
}

/// The size to which the node must expand the volume, if it is smaller. `known` is the capacity of the claim when
/// the volume was mounted here; `None` before that.
pub(super) fn wanted_size(spec: &VolumeSpec, known: Option<&Quantity>) -> Option<Quantity> {
    let (Source::Persistent(volume), Some(claim), false) = (&spec.source, &spec.claim, spec.read_only) else {
        return None;
    };
    needed(claim, volume, known)
}

/// The same for a claim and its volume.
pub(super) fn needed(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    known: Option<&Quantity>,
) -> Option<Quantity> {
    let (size, recorded) = (target::volume_capacity(volume), target::capacity(claim));
    if size <= *known.unwrap_or(&recorded) {
        return None;
    }
    let allowed = match target::stage(claim) {
        Stage::NodePending | Stage::NodeInProgress => true,
        // Another node has completed the expansion of the claim, but this node must expand its mount too.
        Stage::None => {
            recorded == size
                && is_shared(volume)
                && annotation(claim, ANN_NODE_EXPANSION_NOT_REQUIRED).is_none()
        }
        Stage::ControllerInProgress | Stage::ControllerInfeasible | Stage::NodeInfeasible => false,
    };
    allowed.then_some(size)
}

fn is_shared(volume: &PersistentVolume) -> bool {
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.iter().any(|mode| mode == "ReadWriteMany")
}

fn old(claim: &PersistentVolumeClaim) -> &[PersistentVolumeClaimCondition] {
    claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn patch(claim: &PersistentVolumeClaim, status: Value) -> Value {
    json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status})
}

/// The patch for the start of the expansion; `None` when the claim already shows it or has no node stage.
pub(super) fn begun(claim: &PersistentVolumeClaim) -> Option<Value> {
    let pending = target::stage(claim) == Stage::NodePending;
    pending.then(|| {
        patch(claim, json!({"allocatedResourceStatuses": {"storage": Stage::NodeInProgress.text()}}))
    })
}

/// The patch for the completed expansion; `None` when another node has written it.
pub(super) fn finished(claim: &PersistentVolumeClaim, size: &Quantity) -> Option<Value> {
    if target::stage(claim) == Stage::None && target::capacity(claim) == *size {
        return None;
    }
    let status = json!({
        "capacity": {"storage": size.to_string()},
        "conditions": conditions::merged(old(claim), None, false),
        "allocatedResourceStatuses": {"storage": null},
    });
    Some(patch(claim, status))
}

/// The patch for a failed expansion; `None` when the claim already shows it. `infeasible`: there is no retry.
pub(super) fn failed(
    claim: &PersistentVolumeClaim,
    why: &str,
    infeasible: bool,
    now: Timestamp,
) -> Option<Value> {
    let error = conditions::holds(NODE_ERROR, Some(format!("failed to expand pvc with {why}")), now);
    let new = conditions::merged(old(claim), Some(error), true);
    let marked = target::stage(claim) == Stage::NodeInfeasible;
    if new == old(claim) && (!infeasible || marked) {
        return None;
    }
    let mut status = json!({"conditions": new});
    if infeasible {
        status["allocatedResourceStatuses"] = json!({"storage": Stage::NodeInfeasible.text()});
    }
    Some(patch(claim, status))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn claim(capacity: &str, stage: &str) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"resourceVersion": "7"}, "status": {"capacity": {"storage": capacity},
            "conditions": [{"type": "FileSystemResizePending", "status": "True"}, {"type": "Other", "status": "True"}]}});
        if !stage.is_empty() {
            claim["status"]["allocatedResourceStatuses"] = json!({"storage": stage});
        }
        serde_json::from_value(claim).unwrap()
    }

    fn volume(capacity: &str, mode: &str) -> PersistentVolume {
        let spec = json!({"capacity": {"storage": capacity}, "accessModes": [mode]});
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    }

    #[test]
    fn node_expands_only_in_its_stages() {
        let (rwo, rwx) = ("ReadWriteOnce", "ReadWriteMany");
        let table = [
            ("nothing grew", claim("1Gi", ""), volume("1Gi", rwo), None, None),
            ("pending", claim("1Gi", "NodeResizePending"), volume("2Gi", rwo), None, Some("2Gi")),
            (
                "in progress",
                claim("1Gi", "NodeResizeInProgress"),
                volume("2Gi", rwo),
                Some("1Gi"),
                Some("2Gi"),
            ),
            ("infeasible", claim("1Gi", "NodeResizeInfeasible"), volume("2Gi", rwo), None, None),
            (
                "the driver is at it",
                claim("1Gi", "ControllerResizeInProgress"),
                volume("2Gi", rwo),
                None,
                None,
            ),
            ("larger from the beginning", claim("1Gi", ""), volume("2Gi", rwo), None, None),
            ("no node was needed", claim("2Gi", ""), volume("2Gi", rwo), Some("1Gi"), None),
            ("another node finished", claim("2Gi", ""), volume("2Gi", rwx), Some("1Gi"), Some("2Gi")),
            ("mounted after that", claim("2Gi", ""), volume("2Gi", rwx), None, None),
            ("and here too", claim("2Gi", ""), volume("2Gi", rwx), Some("2Gi"), None),
        ];
        for (name, claim, volume, known, wanted) in table {
            let size = |text: &str| Quantity::parse(text).unwrap();
            let known = known.map(size);
            assert_eq!(needed(&claim, &volume, known.as_ref()), wanted.map(size), "{name}");
        }
        let mut marked = claim("2Gi", "");
        marked.metadata.annotations =
            Some([(ANN_NODE_EXPANSION_NOT_REQUIRED.to_owned(), "true".to_owned())].into());
        assert_eq!(needed(&marked, &volume("2Gi", rwx), Quantity::parse("1Gi").ok().as_ref()), None);
    }

    #[test]
    fn claim_status_shows_each_stage() {
        let size = Quantity::parse("2Gi").unwrap();
        assert_eq!(
            begun(&claim("1Gi", "NodeResizePending")).unwrap()["status"],
            json!({"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}})
        );
        assert_eq!(begun(&claim("1Gi", "NodeResizeInProgress")), None, "a repetition");
        let done = finished(&claim("1Gi", "NodeResizeInProgress"), &size).unwrap();
        assert_eq!(done["metadata"]["resourceVersion"], "7");
        assert_eq!(done["status"]["capacity"]["storage"], "2Gi");
        assert_eq!(done["status"]["conditions"], json!([{"type": "Other", "status": "True"}]));
        assert_eq!(finished(&claim("2Gi", ""), &size), None);
        let now = Timestamp::from_second(5).unwrap();
        let error = failed(&claim("1Gi", "NodeResizeInProgress"), "no", true, now).unwrap();
        assert_eq!(error["status"]["allocatedResourceStatuses"]["storage"], "NodeResizeInfeasible");
        assert_eq!(error["status"]["conditions"][2]["message"], "failed to expand pvc with no");
    }
}
