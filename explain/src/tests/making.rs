//! Data sources, capacity, quotas, and pods whose volumes restrict their nodes: cases as in `others`.

use serde_json::{Value, json};

use super::others::{CLAIM, Case, POD, attachment, bound, bound_claim, csi_node, csi_volume, event};
use super::{claim, class, node, pod, volume, with};
use crate::model::{Code, Severity};

fn snapshot(status: Value) -> Value {
    json!({"kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1", "metadata": {"namespace": "ns", "name": "s"},
        "spec": {"source": {"persistentVolumeClaimName": "old"}}, "status": status})
}

fn content(driver: &str) -> Value {
    json!({"kind": "VolumeSnapshotContent", "apiVersion": "snapshot.storage.k8s.io/v1", "metadata": {"name": "sc"},
        "spec": {"volumeSnapshotRef": {"namespace": "ns", "name": "s"}, "deletionPolicy": "Delete", "driver": driver,
            "source": {"volumeHandle": "h"}}})
}

fn driver(spec: Value) -> Value {
    json!({"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "d.test"}, "spec": spec})
}

fn room(size: &str, zone: &str) -> Value {
    json!({"kind": "CSIStorageCapacity", "apiVersion": "storage.k8s.io/v1", "metadata": {"namespace": "ns", "name": format!("r-{zone}")},
        "storageClassName": "gold", "capacity": size, "nodeTopology": {"matchLabels": {"zone": zone}}})
}

/// A claim with class gold of driver d.test, and its class and driver.
fn asks(mode: &str, in_claim: Value) -> Vec<Value> {
    vec![
        with(with(claim(), json!({"spec": {"storageClassName": "gold"}})), in_claim),
        class("gold", "d.test", mode),
        driver(json!({"storageCapacity": true})),
    ]
}

fn from(kind: &str, name: &str) -> Value {
    let group = if kind == "VolumeSnapshot" { json!("snapshot.storage.k8s.io") } else { Value::Null };
    let source = json!({"apiGroup": group, "kind": kind, "name": name});
    json!({"spec": {"dataSource": source, "dataSourceRef": source}})
}

pub(super) fn cases() -> Vec<Case> {
    let case = |name, objects, ask, code, severity, words| Case { name, objects, ask, code, severity, words };
    let and = |mut objects: Vec<Value>, more: Vec<Value>| {
        objects.extend(more);
        objects
    };
    let of_snapshot = || asks("Immediate", from("VolumeSnapshot", "s"));
    let of_claim = || asks("Immediate", from("PersistentVolumeClaim", "old"));
    let old = |spec: Value| {
        let named =
            json!({"metadata": {"name": "old", "uid": "uid-old"}, "spec": {"storageClassName": "gold"}});
        with(with(bound_claim(), named), spec)
    };
    let ready = json!({"readyToUse": true, "restoreSize": "5Gi", "boundVolumeSnapshotContentName": "sc"});
    let without_account = "create Pod web-1 in StatefulSet web failed error: pods \"web-1\" is forbidden: error looking \
                           up service account ns/robot: serviceaccount \"robot\" not found";
    let set = |ready: u64| {
        json!({"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"namespace": "ns", "name": "web"},
            "spec": {"replicas": 2}, "status": {"readyReplicas": ready}})
    };
    let refused = "create Claim d-web-1 for Pod web-1 in StatefulSet web failed error: persistentvolumeclaims \"d-web-1\" is \
                   forbidden: exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=8Gi, limited: \
                   requests.storage=10Gi";
    let in_zone_a = || {
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}});
        with(csi_volume(), json!({"spec": {"nodeAffinity": affinity}}))
    };
    let cordoned = || with(node("a", "a"), json!({"spec": {"unschedulable": true}}));
    vec![
        case(
            "a snapshot is missing",
            of_snapshot(),
            CLAIM,
            Code::SourceMissing,
            Severity::Attention,
            &["snapshot ns/s, which does not exist"],
        ),
        case(
            "a snapshot is being taken",
            and(of_snapshot(), vec![snapshot(json!({"readyToUse": false}))]),
            CLAIM,
            Code::SourceNotReady,
            Severity::Waiting,
            &["snapshot ns/s, which is not ready yet"],
        ),
        case(
            "a snapshot could not be taken",
            and(of_snapshot(), vec![snapshot(json!({"error": {"message": "no space for it."}}))]),
            CLAIM,
            Code::SourceNotReady,
            Severity::Attention,
            &["could not be created: no space for it. It is retried."],
        ),
        case(
            "a snapshot is larger",
            and(of_snapshot(), vec![snapshot(ready.clone()), content("d.test")]),
            CLAIM,
            Code::SourceUnfit,
            Severity::Attention,
            &[
                "has a size of 5Gi, and the claim requests only 1Gi",
                "with a request of 5Gi",
                "replace --force",
            ],
        ),
        case(
            "a snapshot of another driver",
            and(of_snapshot(), vec![snapshot(ready), content("e.test")]),
            CLAIM,
            Code::SourceUnfit,
            Severity::Attention,
            &["taken by driver e.test", "class gold provisions volumes with d.test"],
        ),
        case(
            "a claim to copy is missing",
            of_claim(),
            CLAIM,
            Code::SourceMissing,
            Severity::Attention,
            &["a clone of claim ns/old, which does not exist"],
        ),
        case(
            "a claim to copy is pending",
            and(of_claim(), vec![old(json!({"status": {"phase": "Pending"}}))]),
            CLAIM,
            Code::SourceNotReady,
            Severity::Waiting,
            &["`orlop why pvc/old -n ns`"],
        ),
        case(
            "a claim to copy is larger",
            and(of_claim(), vec![old(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}))]),
            CLAIM,
            Code::SourceUnfit,
            Severity::Attention,
            &["has a size of 2Gi, and its clone requests only 1Gi", "replace --force"],
        ),
        case(
            "a claim to copy is a block device",
            and(of_claim(), vec![old(json!({"spec": {"volumeMode": "Block"}}))]),
            CLAIM,
            Code::SourceUnfit,
            Severity::Attention,
            &["mode Block", "replace --force"],
        ),
        case(
            "an earlier claim of the name had failed",
            and(
                asks("Immediate", json!({})),
                vec![with(
                    event(("PersistentVolumeClaim", "c"), "ProvisioningFailed", "the array is full"),
                    json!({"involvedObject": {"uid": "uid-before"}}),
                )],
            ),
            CLAIM,
            Code::WaitsForProvisioner,
            Severity::Waiting,
            &["d.test will be called"],
        ),
        case(
            "a populator fills it",
            asks("Immediate", from("Backup", "b")),
            CLAIM,
            Code::PopulatorAwaited,
            Severity::Waiting,
            &["Backup ns/b", "populator"],
        ),
        case(
            "an attributes class is missing",
            asks("Immediate", json!({"spec": {"volumeAttributesClassName": "fast"}})),
            CLAIM,
            Code::AttributesClassMissing,
            Severity::Attention,
            &["fast, which does not exist"],
        ),
        case(
            "a bound claim asks for an attributes class that is missing",
            vec![
                with(bound_claim(), json!({"spec": {"volumeAttributesClassName": "fast"}})),
                bound(volume()),
            ],
            CLAIM,
            Code::AttributesClassMissing,
            Severity::Attention,
            &["fast, which does not exist"],
        ),
        case(
            "no room where the pod may run",
            and(
                asks("WaitForFirstConsumer", json!({})),
                vec![
                    with(pod("p", None), json!({"spec": {"nodeSelector": {"zone": "a"}}})),
                    node("a", "a"),
                    node("b", "b"),
                    room("500Mi", "a"),
                    room("8Gi", "b"),
                ],
            ),
            CLAIM,
            Code::NoRoomLeft,
            Severity::Attention,
            &["requests 1Gi", "at most 500Mi where pod p can run", "capacity for 8Gi"],
        ),
        case(
            "room enough",
            and(
                asks("WaitForFirstConsumer", json!({})),
                vec![pod("p", None), node("a", "a"), room("8Gi", "a")],
            ),
            CLAIM,
            Code::PodNotScheduled,
            Severity::Waiting,
            &["p has none yet"],
        ),
        case(
            "a quota refuses a claim",
            vec![set(1), event(("StatefulSet", "web"), "FailedCreate", refused)],
            ("statefulsets", "ns/web"),
            Code::QuotaExceeded,
            Severity::Attention,
            &[
                "Claim d-web-1 cannot be created",
                "quota q",
                "requests 5Gi, 8Gi of 10Gi",
                r#""requests.storage":"13Gi""#,
            ],
        ),
        case(
            "the service account of pods is missing",
            vec![set(1), event(("StatefulSet", "web"), "FailedCreate", without_account)],
            ("statefulsets", "ns/web"),
            Code::ServiceAccountMissing,
            Severity::Attention,
            &["service account robot of namespace ns does not exist", r#""name":"robot""#, "kubectl create"],
        ),
        case(
            "a deployment reports the refusal in a condition",
            vec![with(
                set(1),
                json!({"kind": "Deployment", "status": {"conditions": [
                    {"type": "ReplicaFailure", "status": "True", "message": without_account},
                ]}}),
            )],
            ("deployments", "ns/web"),
            Code::ServiceAccountMissing,
            Severity::Attention,
            &["service account robot of namespace ns does not exist"],
        ),
        case(
            "something else is refused",
            vec![set(1), event(("StatefulSet", "web"), "FailedCreate", "a webhook denied the request")],
            ("statefulsets", "ns/web"),
            Code::CreationFailed,
            Severity::Attention,
            &["a webhook denied the request"],
        ),
        case(
            "a volume pins its pod to a node that is cordoned",
            vec![bound_claim(), in_zone_a(), pod("p", None), cordoned(), node("b", "b")],
            POD,
            Code::VolumePinsPod,
            Severity::Attention,
            &["Volume v of claim ns/c can be used on nodes with zone=a only, and node a is cordoned"],
        ),
        case(
            "a volume pins its pod to a node that is gone",
            vec![bound_claim(), in_zone_a(), pod("p", None), node("b", "b")],
            POD,
            Code::VolumePinsPod,
            Severity::Attention,
            &["no such node exists"],
        ),
        case(
            "no room for one more volume",
            vec![
                bound_claim(),
                csi_volume(),
                pod("p", None),
                node("a", "a"),
                csi_node("a", 1),
                with(attachment("a", true), json!({"spec": {"source": {"persistentVolumeName": "w"}}})),
            ],
            POD,
            Code::DriverFull,
            Severity::Attention,
            &["node a has 1 of the 1 volumes that d.test supports there"],
        ),
        case(
            "files get their group",
            vec![
                bound_claim(),
                csi_volume(),
                with(pod("p", Some("b")), json!({"spec": {"securityContext": {"fsGroup": 2000}}})),
                node("b", "b"),
                csi_node("b", 8),
                attachment("b", true),
                event(
                    ("Pod", "p"),
                    "VolumePermissionChangeInProgress",
                    "Setting volume ownership for /x, processed 41000 files.",
                ),
            ],
            POD,
            Code::OwnershipChanging,
            Severity::Waiting,
            &["fsGroup 2000", "41000 files so far"],
        ),
    ]
}
