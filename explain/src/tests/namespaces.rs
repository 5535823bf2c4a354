//! Terminating namespaces: the objects and the finalizers that they wait for.

use serde_json::{Value, json};

use super::others::{bound_claim, deleted, leaving_namespace};
use super::{ask, pod, with, world};
use crate::model::{Code, Severity};

const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";
const LIST: &str = "`kubectl get configmaps,widgets.a.test -n ns -o custom-columns=KIND:.kind,NAME:.metadata.name,FINALIZERS:.metadata.finalizers`";

struct Case {
    name: &'static str,
    objects: Vec<Value>,
    severity: Severity,
    said: &'static [&'static str],
    unsaid: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let case = |name, objects, severity, said, unsaid| Case { name, objects, severity, said, unsaid };
    let pods = (REMAINING, "Some resources are remaining: pods. has 2 resource instances");
    let maps = (
        REMAINING,
        "Some resources are remaining: configmaps. has 1 resource instances, widgets.a.test has 12 resource instances",
    );
    let held = (
        FINALIZERS,
        "Some content in the namespace has finalizers remaining: example.test/hold in 1 resource instances",
    );
    let protection = (
        FINALIZERS,
        "Some content in the namespace has finalizers remaining: kubernetes.io/pvc-protection in 1 resource instances",
    );
    let failure =
        ("NamespaceDeletionContentFailure", "Failed to delete all resource types, 1 remaining: no way");
    let elsewhere = with(pod("z", Some("n1")), json!({"metadata": {"namespace": "ns-2"}}));
    let claim = with(bound_claim(), json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}));
    let foreign = with(leaving_namespace(&[(REMAINING, "")]), json!({"spec": {"finalizers": ["a.test/b"]}}));
    let of_metadata =
        with(leaving_namespace(&[(REMAINING, "")]), json!({"metadata": {"finalizers": ["a.test/meta"]}}));
    vec![
        case(
            "pods remain",
            vec![
                leaving_namespace(&[pods]),
                pod("p", Some("n1")),
                deleted(pod("q", None), &[]),
                elsewhere,
                claim,
            ],
            Severity::Waiting,
            &[
                "It still contains pods (2).",
                "These pods remain: p on node n1 and q (being deleted). Other objects are deleted after the pods.",
                "These claims remain: c (kubernetes.io/pvc-protection).",
                "`kubectl get pods -n ns",
                "`orlop why KIND/NAME -n ns`",
                "namespace-controller",
                r#""name":"q""#,
            ],
            &["node n1 and z", r#""name":"z""#, "will be deleted soon"],
        ),
        case(
            "a finalizer of another component",
            vec![leaving_namespace(&[maps, held])],
            Severity::Attention,
            &[
                "It still contains configmaps (1), widgets.a.test (12).",
                "wait for these finalizers: example.test/hold (one object). Each is removed by the component that added it.",
                LIST,
            ],
            &["will be deleted soon"],
        ),
        case(
            "a finalizer of Kubernetes",
            vec![leaving_namespace(&[maps, protection])],
            Severity::Waiting,
            &["kubernetes.io/pvc-protection (one object)"],
            &[],
        ),
        case(
            "a failure",
            vec![leaving_namespace(&[failure])],
            Severity::Attention,
            &[
                "The controller failed and tries again: Failed to delete all resource types, 1 remaining: no way.",
            ],
            &["will be deleted soon", "kubectl get"],
        ),
        case(
            "no report",
            vec![leaving_namespace(&[])],
            Severity::Waiting,
            &["has not reported yet which objects remain", "check that a controller process runs"],
            &["will be deleted soon"],
        ),
        case(
            "no objects",
            vec![leaving_namespace(&[(REMAINING, ""), (FINALIZERS, "")])],
            Severity::Waiting,
            &["It contains no objects any more: it will be deleted soon."],
            &["kubectl get"],
        ),
        case(
            "another finalizer in the spec",
            vec![foreign],
            Severity::Attention,
            &["Finalizer a.test/b in its spec", "/api/v1/namespaces/ns/finalize"],
            &["contains no objects"],
        ),
        case(
            "a finalizer in the metadata",
            vec![of_metadata],
            Severity::Attention,
            &["Finalizer a.test/meta must be removed", "contains no objects any more"],
            &["a.test/meta in its spec"],
        ),
    ]
}

#[test]
fn terminating_namespace_names_its_content_and_finalizers() {
    for case in cases() {
        let why = ask(&world(&case.objects), "namespaces", "ns");
        let text = serde_json::to_string(&why).unwrap();
        assert_eq!(why.severity, case.severity, "{}: {text}", case.name);
        assert!(why.causes.iter().any(|cause| cause.code == Code::Finalizers), "{}: {text}", case.name);
        assert!(
            why.summary.starts_with("Namespace ns is being deleted and waits. "),
            "{}: {text}",
            case.name
        );
        for said in case.said {
            assert!(text.contains(said), "{}: {said}: {text}", case.name);
        }
        for unsaid in case.unsaid {
            assert!(!text.contains(unsaid), "{}: {unsaid}: {text}", case.name);
        }
    }
}
