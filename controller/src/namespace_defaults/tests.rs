//! Tests both controllers on the fake API server, and their decisions.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::root_ca::{DESCRIPTION, KEY, Need, ROOT_CA, decide};
use super::*;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};
use orlop_client::meta::annotation;
use orlop_client::names::ANN_DESCRIPTION;

fn namespace(name: &str) -> Value {
    json!({"kind": "Namespace", "metadata": {"name": name}})
}

fn with_ca() -> Options {
    Options { root_ca: Some("PEM".to_owned()), ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn every_active_namespace_gets_an_account_and_a_root_ca() {
    let api = FakeApi::new();
    api.seed(namespace("a"));
    api.seed(json!({"kind": "Namespace", "metadata": {"name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": "Terminating"}}));
    let _running = api.start(&[service_accounts::run, root_ca::run], with_ca());
    api.settle().await;
    api.create(namespace("b"));
    api.settle().await;
    for name in ["a", "b"] {
        assert!(api.get("serviceaccounts", &format!("{name}/default")).is_some(), "{name}");
        let map = api.get("configmaps", &format!("{name}/{ROOT_CA}")).unwrap();
        assert_eq!(map["data"], json!({KEY: "PEM"}), "{name}");
        assert_eq!(map["metadata"]["annotations"][ANN_DESCRIPTION], DESCRIPTION, "{name}");
    }
    assert_eq!(api.list("serviceaccounts").len(), 2, "nothing in a namespace that goes away");
    assert_eq!(api.list("configmaps").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn deleted_or_changed_defaults_are_restored() {
    let api = FakeApi::new();
    api.seed(namespace("a"));
    api.seed(
        json!({"kind": "ConfigMap", "metadata": {"namespace": "a", "name": "other"}, "data": {"k": "v"}}),
    );
    let _running = api.start(&[service_accounts::run, root_ca::run], with_ca());
    api.settle().await;
    assert!(api.delete("serviceaccounts", "a/default"));
    assert!(api.delete("configmaps", "a/kube-root-ca.crt"));
    api.settle().await;
    assert!(api.get("serviceaccounts", "a/default").is_some());
    api.patch("configmaps", "a/kube-root-ca.crt", "", json!({"data": {KEY: "forged", "more": "x"}}));
    api.settle().await;
    assert_eq!(api.get("configmaps", "a/kube-root-ca.crt").unwrap()["data"], json!({KEY: "PEM"}));
    assert_eq!(api.get("configmaps", "a/other").unwrap()["data"], json!({"k": "v"}));
}

#[tokio::test(start_paused = true)]
async fn failed_creation_is_retried() {
    let api = FakeApi::new();
    api.seed(namespace("a"));
    for resource in ["serviceaccounts", "configmaps"] {
        api.fail(Fault { verb: "create", resource, skip: 0, kind: FaultKind::Broken });
    }
    let _running = api.start(&[service_accounts::run, root_ca::run], Options::default());
    api.settle().await;
    assert_eq!((api.list("serviceaccounts").len(), api.list("configmaps").len()), (1, 1));
    assert_eq!(api.pending_faults(), 0);
}

#[test]
fn root_ca_is_repaired_but_an_empty_bundle_replaces_no_other() {
    let active: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}})).unwrap();
    let going: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}))
            .unwrap();
    let map = |data: Value, description: &str| -> k8s_openapi::api::core::v1::ConfigMap {
        serde_json::from_value(
            json!({"metadata": {"name": ROOT_CA, "annotations": {ANN_DESCRIPTION: description, "mine": "x"}}, "data": data}),
        )
        .unwrap()
    };
    let right = map(json!({KEY: "PEM"}), DESCRIPTION);
    let word = |need: Need| match need {
        Need::Nothing => "nothing".to_owned(),
        Need::Make(map) => format!("make {}", map.data.unwrap()[KEY]),
        Need::Replace(map) => {
            assert_eq!(annotation(&map, "mine"), Some("x"), "other annotations stay");
            let data = map.data.unwrap();
            assert_eq!(data.len(), 1, "other keys are removed");
            format!("replace {}", data[KEY])
        }
    };
    for (case, namespace, there, bundle, want) in [
        ("1 none", Some(&active), None, Some("PEM"), "make PEM"),
        ("2 right", Some(&active), Some(&right), Some("PEM"), "nothing"),
        ("3 another bundle", Some(&active), Some(&right), Some("NEW"), "replace NEW"),
        ("4 not described", Some(&active), Some(&map(json!({KEY: "PEM"}), "?")), Some("PEM"), "replace PEM"),
        (
            "5 more keys",
            Some(&active),
            Some(&map(json!({KEY: "PEM", "k": ""}), DESCRIPTION)),
            Some("PEM"),
            "replace PEM",
        ),
        ("6 going away", Some(&going), None, Some("PEM"), "nothing"),
        ("7 gone", None, Some(&right), Some("NEW"), "nothing"),
        ("8 no authority, none", Some(&active), None, None, "make "),
        ("9 no CA, another ConfigMap", Some(&active), Some(&right), None, "nothing"),
        ("10 no authority, no key", Some(&active), Some(&map(json!({}), DESCRIPTION)), None, "replace "),
        (
            "11 no authority, more keys",
            Some(&active),
            Some(&map(json!({KEY: "PEM", "k": ""}), DESCRIPTION)),
            None,
            "replace PEM",
        ),
    ] {
        assert_eq!(word(decide(namespace, there, bundle)), want, "{case}");
    }
}
