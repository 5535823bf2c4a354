//! Tests of namespace deletion against the fake API server.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::protection;
use crate::testing::{FakeApi, Fault, FaultKind, survives_faults};

const THIS: [Run; 1] = [run];

fn namespace() -> Value {
    json!({"kind": "Namespace", "metadata": {"name": "ns"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

fn object(kind: &str, name: &str, finalizers: &[&str]) -> Value {
    json!({"kind": kind, "metadata": {"namespace": "ns", "name": name, "finalizers": finalizers}, "spec": {}})
}

fn pod(node: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p"}, "spec": {"containers": [], "nodeName": node,
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "status": {"phase": "Running"}})
}

fn condition(api: &FakeApi, type_: &str) -> (String, String, String) {
    let ns = api.get("namespaces", "ns").unwrap();
    let all = ns["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one =
        all.iter().find(|c| c["type"] == type_).unwrap_or_else(|| panic!("no {type_} in {all:?}")).clone();
    let text = |f: &str| one[f].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn empty_and_populated_namespaces_are_deleted() {
    let api = FakeApi::new();
    api.seed(namespace());
    api.seed(object("ConfigMap", "a", &[]));
    api.seed(object("Secret", "s", &[]));
    api.seed(object("CSIStorageCapacity", "k", &[]));
    api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "other", "name": "stays"}}));
    api.seed(json!({"kind": "PersistentVolume", "metadata": {"name": "stays"}}));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(api.take_writes(), [], "a living namespace is left alone");
    api.delete("namespaces", "ns");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(api.list("namespaces").len(), 0);
    let left: Vec<Value> = api.dump().iter().map(|o| o["metadata"]["name"].clone()).collect();
    assert_eq!(left, ["stays", "stays"]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_deleted_first_and_the_claim_after_its_pod_ended() {
    let api = FakeApi::new();
    api.seed(namespace());
    api.seed(pod("node-1"));
    api.seed(object("PersistentVolumeClaim", "c", &["kubernetes.io/pvc-protection"]));
    let _running = api.start(&[run, protection::claim::run], Options::default());
    api.delete("namespaces", "ns");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let claim = api.get("persistentvolumeclaims", "ns/c").unwrap();
    assert!(
        claim["metadata"].get("deletionTimestamp").is_none(),
        "nothing else is deleted before the pods are gone"
    );
    assert_eq!(
        condition(&api, "NamespaceContentRemaining"),
        (
            "True".into(),
            "SomeResourcesRemain".into(),
            "Some resources are remaining: pods. has 1 resource instances".into()
        )
    );
    assert_eq!(condition(&api, "NamespaceFinalizersRemaining").1, "ContentHasNoFinalizers");
    assert_eq!(condition(&api, "NamespaceDeletionDiscoveryFailure").1, "ResourcesDiscovered");
    assert_eq!(condition(&api, "NamespaceDeletionGroupVersionParsingFailure").1, "ParsedGroupVersions");
    assert_eq!(condition(&api, "NamespaceDeletionContentFailure").1, "ContentDeleted");
    // The kubelet reports that the pod has ended.
    api.delete_with("pods", "ns/p", json!({"gracePeriodSeconds": 0}));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(api.list("namespaces").len(), 0, "no waiting once the last obstacle is gone");
}

#[tokio::test(start_paused = true)]
async fn content_with_finalizers_is_reported_and_checked_again() {
    let api = FakeApi::new();
    api.seed(namespace());
    api.seed(object("ConfigMap", "a", &["example.test/hold"]));
    let _running = api.start(&THIS, Options::default());
    api.delete("namespaces", "ns");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        condition(&api, "NamespaceFinalizersRemaining"),
        (
            "True".into(),
            "SomeFinalizersRemain".into(),
            "Some content in the namespace has finalizers remaining: example.test/hold in 1 resource instances".into()
        )
    );
    api.patch("configmaps", "ns/a", "", json!({"metadata": {"finalizers": null}}));
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(api.list("namespaces").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_is_reported_and_blocks_the_deletion() {
    let api = FakeApi::new();
    api.seed(namespace());
    for _ in 0..6 {
        api.fail(Fault {
            verb: "get",
            resource: "discovery",
            skip: 0,
            kind: FaultKind::Status(503, "ServiceUnavailable", "not now"),
        });
    }
    let _running = api.start(&THIS, Options::default());
    api.delete("namespaces", "ns");
    tokio::time::sleep(Duration::from_millis(4)).await;
    let (value, reason, message) = condition(&api, "NamespaceDeletionDiscoveryFailure");
    assert_eq!((value.as_str(), reason.as_str()), ("True", "DiscoveryFailed"));
    assert!(message.contains("not now"), "{message}");
    api.settle().await;
    assert_eq!(api.list("namespaces").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_the_configured_delay() {
    let api = FakeApi::new();
    api.seed(namespace());
    let options = Options { namespace_deletion_delay: Duration::from_secs(5), ..Options::default() };
    let _running = api.start(&THIS, options);
    api.settle().await;
    api.delete("namespaces", "ns");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(api.list("namespaces").len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(api.list("namespaces").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(namespace());
        api.seed(object("ConfigMap", "a", &[]));
        api.seed(object("PersistentVolumeClaim", "c", &[]));
        api.seed(pod(""));
    };
    let act = |api: &FakeApi| {
        api.delete("namespaces", "ns");
    };
    let api = survives_faults(&THIS, Options::default(), seed, act).await;
    assert_eq!(api.dump(), Vec::<Value>::new());
}
