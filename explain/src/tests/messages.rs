//! Messages are true and lead to a next step: texts that an answer must contain, and texts that it must not
//! contain.

use serde_json::{Value, json};

use super::others::{self, CLAIM, POD, attachment, bound_claim, csi_node, csi_volume, lost};
use super::{ask, claim, class, making, node, pod, volume, with, world};
use crate::Why;
use crate::model::{Code, Severity};

struct ExpectedMessage {
    name: &'static str,
    objects: Vec<Value>,
    ask: (&'static str, &'static str),
    /// `None` if there is no cause.
    code: Option<Code>,
    severity: Severity,
    said: &'static [&'static str],
    unsaid: &'static [&'static str],
}

const VOLUME: (&str, &str) = ("persistentvolumes", "v");
const NODE: (&str, &str) = ("nodes", "a");
const ATTACHMENT: (&str, &str) = ("volumeattachments", "va-a");

fn out_of_service(node: Value) -> Value {
    let taint =
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    with(node, json!({"spec": {"taints": [taint]}}))
}

fn driver() -> Value {
    json!({"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "d.test"}, "spec": {}})
}

fn classless() -> Value {
    with(claim(), json!({"spec": {"storageClassName": null}}))
}

/// Cases about nodes and the objects that depend on them.
fn nodes() -> Vec<ExpectedMessage> {
    let case = |name, objects, ask, code, severity, said, unsaid| ExpectedMessage {
        name,
        objects,
        ask,
        code,
        severity,
        said,
        unsaid,
    };
    let attached = |node: Value| vec![node, attachment("a", true), csi_volume(), csi_node("a", 8)];
    let used = |node: Value| {
        let running = with(pod("p", Some("a")), json!({"status": {"phase": "Running"}}));
        vec![node, bound_claim(), csi_volume(), attachment("a", true), csi_node("a", 8), running]
    };
    // Pod p on node b needs the volume that is attached to node a.
    let wanted = |more: Vec<Value>| {
        let mut objects =
            vec![bound_claim(), csi_volume(), pod("p", Some("b")), node("b", "b"), csi_node("b", 8)];
        objects.push(attachment("a", true));
        objects.extend(more);
        objects
    };
    let user = || pod("q", Some("a"));
    let counting =
        json!({"metadata": {"annotations": {"orlop.dev/detach-not-before": "2026-05-01T12:06:00Z"}}});
    let unready =
        || with(node("a", "a"), json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    vec![
        case(
            "a cordoned node is healthy",
            vec![with(node("a", "a"), json!({"spec": {"unschedulable": true}}))],
            NODE,
            Some(Code::NodeCordoned),
            Severity::Ok,
            &["is cordoned", r#""command":"kubectl uncordon a""#, r#"{"unschedulable":null}"#],
            &["ends that"],
        ),
        case(
            "a lost node",
            vec![lost(node("a", "a"))],
            NODE,
            Some(Code::NodeLost),
            Severity::Attention,
            &[
                "by force after 6 minutes",
                "`kubectl taint node a node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`",
            ],
            &[],
        ),
        case(
            "a lost node that is out of service",
            vec![out_of_service(lost(node("a", "a")))],
            NODE,
            Some(Code::NodeOutOfService),
            Severity::Attention,
            &["has sent no heartbeat", "`kubectl taint node a node.kubernetes.io/out-of-service-`"],
            &["nodeshutdown", "by force after"],
        ),
        case(
            "an attachment of a lost node",
            attached(lost(node("a", "a"))),
            ATTACHMENT,
            Some(Code::NodeLost),
            Severity::Attention,
            &["is attached to node a by d.test. Node a has sent no heartbeat"],
            &[],
        ),
        case(
            "an attachment of a node that is not ready",
            attached(unready()),
            ATTACHMENT,
            Some(Code::NodeUnready),
            Severity::Attention,
            &["is attached to node a by d.test. Node a is not ready"],
            &[],
        ),
        case(
            "an attachment of a lost node that goes at a time",
            vec![lost(node("a", "a")), with(attachment("a", true), counting), csi_volume(), csi_node("a", 8)],
            ATTACHMENT,
            Some(Code::ForcedDetach),
            Severity::Waiting,
            &["the node is not ready", "2026-05-01T12:06:00Z"],
            &["kubectl taint"],
        ),
        case(
            "an attachment of a node that is well",
            attached(node("a", "a")),
            ATTACHMENT,
            None,
            Severity::Ok,
            &["is attached to node a by d.test."],
            &[],
        ),
        case(
            "a claim that is used on a lost node",
            used(lost(node("a", "a"))),
            CLAIM,
            Some(Code::NodeLost),
            Severity::Attention,
            &["used by p. Node a has sent no heartbeat"],
            &[],
        ),
        case(
            "a claim that is used on a node that is well",
            used(node("a", "a")),
            CLAIM,
            None,
            Severity::Ok,
            &["used by p."],
            &[],
        ),
        case(
            "a volume that is attached to a lost node",
            used(lost(node("a", "a"))),
            VOLUME,
            Some(Code::NodeLost),
            Severity::Attention,
            &["attached to a; used by p", "Node a has sent no heartbeat"],
            &[],
        ),
        case(
            "a volume is held by a lost node",
            wanted(vec![lost(node("a", "a")), user()]),
            POD,
            Some(Code::HeldByNode),
            Severity::Attention,
            &[
                "pod q still uses the volume there",
                "`kubectl taint node a node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`",
            ],
            &[],
        ),
        case(
            "a volume is held by a node that is out of service",
            wanted(vec![out_of_service(lost(node("a", "a"))), user()]),
            POD,
            Some(Code::HeldByNode),
            Severity::Waiting,
            &["Node a is out of service, so pod q is removed from it"],
            &["kubectl taint"],
        ),
        case(
            "a volume is on a node that is out of service",
            wanted(vec![out_of_service(lost(node("a", "a")))]),
            POD,
            Some(Code::HeldByNode),
            Severity::Waiting,
            &["detached by force immediately"],
            &["the force-detach timeout starts"],
        ),
        case(
            "a volume is held by a node that is gone",
            wanted(vec![user()]),
            POD,
            Some(Code::HeldByNode),
            Severity::Waiting,
            &["Node a does not exist any more, so pod q will be garbage-collected soon"],
            &["kubectl taint"],
        ),
    ]
}

/// Cases about missing fixes, and about commands in sentences.
fn other_messages() -> Vec<ExpectedMessage> {
    let case = |name, objects, ask, code, severity, said, unsaid| ExpectedMessage {
        name,
        objects,
        ask,
        code,
        severity,
        said,
        unsaid,
    };
    let far = || class("far-class", "far.test", "Immediate");
    let by_hand = || class("hand", "kubernetes.io/no-provisioner", "Immediate");
    let set = json!({"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"namespace": "ns", "name": "web"},
        "spec": {"replicas": 2}, "status": {"readyReplicas": 1}});
    vec![
        case(
            "of two classes one is answered",
            vec![classless(), far(), class("gold", "d.test", "Immediate"), driver()],
            CLAIM,
            Some(Code::NoDefaultClass),
            Severity::Attention,
            &["Available classes: gold. Name one in the claim", "Sets the class of the claim to gold"],
            &["far-class"],
        ),
        case(
            "no class is answered",
            vec![classless(), far(), by_hand()],
            CLAIM,
            Some(Code::NoDefaultClass),
            Severity::Attention,
            &["Existing classes: far-class. No provisioner for them is installed (far.test)"],
            &["Sets the class of the claim", "hand"],
        ),
        case(
            "a volume is reserved for a claim that is there",
            vec![with(volume(), json!({"spec": {"claimRef": {"namespace": "ns", "name": "c"}}})), claim()],
            VOLUME,
            Some(Code::ReservedForPending),
            Severity::Waiting,
            &["`orlop why pvc/c -n ns`"],
            &[],
        ),
        case(
            "a claim names what is not there",
            vec![with(claim(), json!({"spec": {"volumeName": "w"}}))],
            CLAIM,
            Some(Code::VolumeMissing),
            Severity::Attention,
            &["`orlop undelete pv/w` restores it"],
            &[],
        ),
        case(
            "a claim has lost an unknown volume",
            vec![with(bound_claim(), json!({"spec": {"volumeName": null}}))],
            CLAIM,
            Some(Code::LostName),
            Severity::Attention,
            &["`orlop history pvc/c -n ns`"],
            &[],
        ),
        case(
            "a set lacks pods",
            vec![set],
            ("statefulsets", "ns/web"),
            None,
            Severity::Waiting,
            &["`orlop why pod/NAME -n ns`"],
            &[],
        ),
    ]
}

#[test]
fn answers_contain_only_true_statements() {
    let mut failed = Vec::new();
    for case in nodes().into_iter().chain(other_messages()) {
        let why = ask(&world(&case.objects), case.ask.0, case.ask.1);
        let text = serde_json::to_string(&why).unwrap();
        let missing: Vec<_> = case.said.iter().filter(|words| !text.contains(*words)).collect();
        let wrong: Vec<_> = case.unsaid.iter().filter(|words| text.contains(*words)).collect();
        let coded = match case.code {
            Some(code) => why.causes.iter().any(|cause| cause.code == code),
            None => why.causes.is_empty(),
        };
        if !coded || why.severity != case.severity || !missing.is_empty() || !wrong.is_empty() {
            failed.push(format!(
                "{}: wanted {:?} and {:?}, without {missing:?}, and not {wrong:?}:\n{}",
                case.name,
                case.code,
                case.severity,
                serde_json::to_string_pretty(&why).unwrap()
            ));
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

/// Without dynamic provisioning no class provisions a volume.
#[test]
fn no_class_is_offered_without_dynamic_provisioning() {
    let mut table = world(&[classless(), class("gold", "d.test", "Immediate"), driver()]);
    table.settings.dynamic_provisioning = false;
    let why = ask(&table, CLAIM.0, CLAIM.1);
    let cause = why.causes.iter().find(|cause| cause.code == Code::NoDefaultClass).unwrap();
    assert!(cause.message.contains("dynamic provisioning is disabled"), "{}", cause.message);
    assert_eq!(cause.fix, None);
}

/// The text outside of backticks in every sentence of an answer.
fn bare(why: &Why) -> Vec<String> {
    let mut sentences = vec![why.summary.clone()];
    sentences.extend(why.blocked_by.iter().map(|blocker| blocker.message.clone()));
    for cause in &why.causes {
        sentences.push(cause.message.clone());
        sentences.extend(cause.fix.iter().map(|fix| fix.message.clone()));
    }
    sentences.iter().flat_map(|sentence| sentence.split('`').step_by(2)).map(str::to_owned).collect()
}

/// Without backticks, the full stop after a command would be copied with it.
#[test]
fn commands_in_sentences_are_in_backticks() {
    let cases = nodes().into_iter().chain(other_messages()).map(|case| (case.name, case.objects, case.ask));
    let states = others::cases().into_iter().chain(making::cases());
    let states = states.map(|case| (case.name, case.objects, case.ask));
    for (name, objects, asked) in cases.chain(states) {
        for words in bare(&ask(&world(&objects), asked.0, asked.1)) {
            assert!(!words.contains("kubectl ") && !words.contains("orlop "), "{name}: {words}");
        }
    }
}
