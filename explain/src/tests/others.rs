//! Cases other than pairs: one state of the cluster, one query, the expected code and the texts that the answer
//! must contain.

use serde_json::{Value, json};

use super::{ask, claim, class, making, node, pod, volume, with, world};
use crate::model::{Code, Severity};

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) objects: Vec<Value>,
    pub(super) ask: (&'static str, &'static str),
    pub(super) code: Code,
    pub(super) severity: Severity,
    pub(super) words: &'static [&'static str],
}

pub(super) fn csi_volume() -> Value {
    let csi = json!({"driver": "d.test", "volumeHandle": "h"});
    with(bound(volume()), json!({"spec": {"hostPath": null, "csi": csi}}))
}

pub(super) fn bound(object: Value) -> Value {
    with(
        object,
        json!({"status": {"phase": "Bound"}, "spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": "uid-c"}}}),
    )
}

pub(super) fn bound_claim() -> Value {
    with(
        claim(),
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}),
    )
}

pub(super) fn attachment(node: &str, attached: bool) -> Value {
    json!({"kind": "VolumeAttachment", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": format!("va-{node}")},
        "spec": {"attacher": "d.test", "nodeName": node, "source": {"persistentVolumeName": "v"}},
        "status": {"attached": attached}})
}

pub(super) fn csi_node(name: &str, count: i64) -> Value {
    json!({"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name},
        "spec": {"drivers": [{"name": "d.test", "nodeID": name, "allocatable": {"count": count}}]}})
}

pub(super) fn lost(node: Value) -> Value {
    with(
        node,
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]}}),
    )
}

pub(super) fn deleted(object: Value, finalizers: &[&str]) -> Value {
    with(object, json!({"metadata": {"deletionTimestamp": "2026-05-01T11:00:00Z", "finalizers": finalizers}}))
}

pub(super) fn event(of: (&str, &str), reason: &str, message: &str) -> Value {
    json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "ns"},
        "involvedObject": {"kind": of.0, "name": of.1}, "reason": reason, "message": message, "lastTimestamp": "2026-05-01T11:59:00Z"})
}

pub(super) const CLAIM: (&str, &str) = ("persistentvolumeclaims", "ns/c");
const VOLUME: (&str, &str) = ("persistentvolumes", "v");
pub(super) const POD: (&str, &str) = ("pods", "ns/p");

pub(super) fn cases() -> Vec<Case> {
    let case = |name, objects, ask, code, severity, words| Case { name, objects, ask, code, severity, words };
    let released = |policy: &str| {
        let gone = json!({"status": {"phase": "Released"}, "spec": {"persistentVolumeReclaimPolicy": policy,
            "claimRef": {"namespace": "ns", "name": "gone", "uid": "uid-gone"}}});
        with(volume(), gone)
    };
    let used = |node: &str| {
        vec![
            bound_claim(),
            csi_volume(),
            pod("p", Some(node)),
            super::node("b", "b"),
            super::node("a", "a"),
            csi_node("b", 8),
        ]
    };
    let and = |mut objects: Vec<Value>, more: Vec<Value>| {
        objects.extend(more);
        objects
    };
    let counting =
        json!({"metadata": {"annotations": {"orlop.dev/detach-not-before": "2026-05-01T12:06:00Z"}}});
    vec![
        case(
            "a volume is gone",
            vec![bound_claim()],
            CLAIM,
            Code::LostVolume,
            Severity::Attention,
            &["volume v", "orlop pvc recover c -n ns"],
        ),
        case(
            "a volume has another claim",
            vec![bound_claim(), with(bound(volume()), json!({"spec": {"claimRef": {"uid": "uid-x"}}}))],
            CLAIM,
            Code::LostToOther,
            Severity::Attention,
            &["an earlier claim of this name"],
        ),
        case(
            "a name is gone",
            vec![with(bound_claim(), json!({"spec": {"volumeName": null}})), bound(volume())],
            CLAIM,
            Code::LostName,
            Severity::Attention,
            &["spec.volumeName"],
        ),
        case(
            "a claim grows",
            vec![
                with(bound_claim(), json!({"spec": {"resources": {"requests": {"storage": "4Gi"}}}})),
                bound(volume()),
            ],
            CLAIM,
            Code::ResizePending,
            Severity::Waiting,
            &["has 2Gi and requests 4Gi"],
        ),
        case(
            "provisioning failed",
            vec![
                with(claim(), json!({"spec": {"storageClassName": "gold"}})),
                class("gold", "d.test", "Immediate"),
                event(("PersistentVolumeClaim", "c"), "ProvisioningFailed", "the array is full"),
            ],
            CLAIM,
            Code::ProvisioningFailed,
            Severity::Attention,
            &["the array is full", "d.test"],
        ),
        case(
            "retained",
            vec![released("Retain")],
            VOLUME,
            Code::Retained,
            Severity::Attention,
            &["ns/gone", "orlop pv reclaim v --keep-data", r#""claimRef":null"#],
        ),
        case(
            "deleted",
            vec![released("Delete")],
            VOLUME,
            Code::DeletionPending,
            Severity::Waiting,
            &["the controller"],
        ),
        case(
            "recycled",
            vec![released("Recycle")],
            VOLUME,
            Code::RecyclePending,
            Severity::Waiting,
            &["scrubbed"],
        ),
        case(
            "reclaiming failed",
            vec![with(
                released("Delete"),
                json!({"status": {"phase": "Failed", "message": "no such plugin"}}),
            )],
            VOLUME,
            Code::ReclaimFailed,
            Severity::Attention,
            &["no such plugin", "`orlop pv reclaim v --keep-data` makes it available again"],
        ),
        case("free", vec![volume()], VOLUME, Code::FreeVolume, Severity::Ok, &["is available to claims"]),
        case(
            "reserved for a missing claim",
            vec![with(volume(), json!({"spec": {"claimRef": {"namespace": "ns", "name": "gone"}}}))],
            VOLUME,
            Code::ReservedForAbsent,
            Severity::Waiting,
            &["ns/gone"],
        ),
        case(
            "a pod's claim is missing",
            vec![pod("p", None)],
            POD,
            Code::ClaimMissing,
            Severity::Attention,
            &["ns/c", "create it"],
        ),
        case(
            "a pod's claim is pending",
            vec![pod("p", None), claim()],
            POD,
            Code::ClaimNotBound,
            Severity::Attention,
            &["ns/c is not bound yet", "there are no volumes"],
        ),
        case(
            "a volume is held elsewhere",
            and(used("b"), vec![attachment("a", true), pod("q", Some("a"))]),
            POD,
            Code::HeldByNode,
            Severity::Attention,
            &["it is attached to a and needed on b", "On node a, pod q uses it"],
        ),
        case(
            "a volume is taken by force",
            and(used("b"), vec![with(attachment("a", true), counting)]),
            POD,
            Code::HeldByNode,
            Severity::Waiting,
            &["2026-05-01T12:06:00Z"],
        ),
        case(
            "not attached yet",
            and(used("b"), vec![attachment("b", false)]),
            POD,
            Code::AttachPending,
            Severity::Waiting,
            &["Volume v", "node b"],
        ),
        case(
            "attaching failed",
            and(
                used("b"),
                vec![with(
                    attachment("b", false),
                    json!({"status": {"attachError": {"message": "no slot"}}}),
                )],
            ),
            POD,
            Code::AttachFailed,
            Severity::Attention,
            &["no slot"],
        ),
        case(
            "no driver on the node",
            and(used("a"), vec![attachment("a", true)]),
            POD,
            Code::DriverNotOnNode,
            Severity::Attention,
            &["d.test", "node a"],
        ),
        case(
            "mounting failed",
            and(used("b"), vec![attachment("b", true), event(("Pod", "p"), "FailedMount", "wrong fs type")]),
            POD,
            Code::MountFailed,
            Severity::Attention,
            &["wrong fs type"],
        ),
        case(
            "a lost node",
            vec![lost(node("a", "a")), pod("p", Some("a"))],
            ("nodes", "a"),
            Code::NodeLost,
            Severity::Attention,
            &["one pod", "6 minutes"],
        ),
        case(
            "a full driver",
            vec![node("a", "a"), csi_node("a", 1), attachment("a", true)],
            ("nodes", "a"),
            Code::DriverFull,
            Severity::Waiting,
            &["supports one volume", "1 of 1"],
        ),
        case(
            "an attachment of a node that is gone",
            vec![attachment("z", true), csi_volume(), csi_node("a", 1)],
            ("volumeattachments", "va-z"),
            Code::NodeGone,
            Severity::Attention,
            &["Node z"],
        ),
        case(
            "a used claim shall go",
            vec![
                deleted(bound_claim(), &["kubernetes.io/pvc-protection"]),
                bound(volume()),
                pod("p", Some("a")),
            ],
            CLAIM,
            Code::Finalizers,
            Severity::Attention,
            &["pod p on node a"],
        ),
        case(
            "a bound volume shall go",
            vec![bound_claim(), deleted(bound(volume()), &["kubernetes.io/pv-protection"])],
            VOLUME,
            Code::Finalizers,
            Severity::Attention,
            &["claim ns/c"],
        ),
        case(
            "an unknown finalizer",
            vec![deleted(volume(), &["example.test/hold"])],
            VOLUME,
            Code::Finalizers,
            Severity::Attention,
            &["example.test/hold"],
        ),
        case(
            "an attachment without its driver shall go",
            vec![deleted(attachment("a", true), &["external-attacher/d-test"]), node("a", "a"), csi_volume()],
            ("volumeattachments", "va-a"),
            Code::Finalizers,
            Severity::Attention,
            &["d.test"],
        ),
    ]
}

/// A namespace that is being deleted, with the messages of conditions that are true.
pub(super) fn leaving_namespace(conditions: &[(&str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(name, message)| {
            json!({"type": name, "status": if message.is_empty() { "False" } else { "True" }, "message": message})
        })
        .collect();
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ns"},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating", "conditions": conditions}});
    deleted(namespace, &[])
}

#[test]
fn every_state_has_its_code_and_message() {
    let mut failed = Vec::new();
    for case in cases().into_iter().chain(making::cases()) {
        let why = ask(&world(&case.objects), case.ask.0, case.ask.1);
        let text = serde_json::to_string(&why).unwrap();
        let missing: Vec<_> = case.words.iter().filter(|words| !text.contains(*words)).collect();
        let coded = why.causes.iter().any(|cause| cause.code == case.code);
        if !coded || why.severity != case.severity || !missing.is_empty() || why.summary.is_empty() {
            failed.push(format!(
                "{}: wanted {:?} and {:?}, without {missing:?}:\n{}",
                case.name,
                case.code,
                case.severity,
                serde_json::to_string_pretty(&why).unwrap()
            ));
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn code_table_in_the_docs_is_complete() {
    let text = include_str!("../../../docs/why.md");
    for (_, name, meaning) in Code::ALL {
        let row = format!("| `{name}` | {meaning} |");
        assert!(text.contains(&row), "docs/why.md lacks the row\n{row}");
    }
    assert_eq!(text.matches("\n| `").count(), Code::ALL.len(), "docs/why.md has a row too many");
}
