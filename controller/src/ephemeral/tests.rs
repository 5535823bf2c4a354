//! Tests ephemeral volumes on the fake API server.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind, survives_faults};

const THIS: [Run; 1] = [run];

fn template(name: &str) -> Value {
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gold",
            "resources": {"requests": {"storage": "1Gi"}}}}}})
}

fn pod(volumes: &[&str]) -> Value {
    let volumes: Vec<Value> = volumes.iter().map(|v| template(v)).collect();
    json!({"kind": "Pod", "metadata": {"namespace": "default", "name": "p-1", "uid": "uid-pod"},
        "spec": {"containers": [], "volumes": volumes}, "status": {"phase": "Pending"}})
}

fn owner() -> Value {
    json!([{"apiVersion": "v1", "kind": "Pod", "name": "p-1", "uid": "uid-pod", "controller": true,
        "blockOwnerDeletion": true}])
}

#[tokio::test(start_paused = true)]
async fn prot_eph_2_each_volume_gets_a_claim_from_its_template() {
    let api = FakeApi::new();
    api.seed(pod(&["scratch", "cache"]));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    for name in ["default/p-1-scratch", "default/p-1-cache"] {
        let claim = api.get("persistentvolumeclaims", name).unwrap();
        assert_eq!(claim["metadata"]["ownerReferences"], owner());
        assert_eq!(claim["metadata"]["labels"], json!({"app": "x"}));
        assert_eq!(claim["metadata"]["annotations"], json!({"note": "y"}));
        assert_eq!(claim["spec"], template("v")["ephemeral"]["volumeClaimTemplate"]["spec"]);
    }
    assert_eq!(api.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn prot_eph_4_deleted_claim_is_recreated_while_the_pod_exists() {
    let api = FakeApi::new();
    api.seed(pod(&["scratch"]));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    let first = api.get("persistentvolumeclaims", "default/p-1-scratch").unwrap();
    api.delete("persistentvolumeclaims", "default/p-1-scratch");
    api.settle().await;
    let second = api.get("persistentvolumeclaims", "default/p-1-scratch").unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn prot_eph_5_terminating_pod_gets_no_claim() {
    let api = FakeApi::new();
    let mut terminating = pod(&["scratch"]);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    terminating["metadata"]["finalizers"] = json!(["example.test/hold"]);
    api.seed(terminating);
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(api.list("persistentvolumeclaims").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn claim_without_owner_is_reported_and_replaced_after_its_deletion() {
    let api = FakeApi::new();
    api.seed(
        json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "p-1-scratch"}}),
    );
    api.seed(pod(&["scratch"]));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(
        api.events(),
        [
            "Pod default/p-1 Warning FailedBinding ephemeral volume scratch: PVC default/p-1-scratch was not created for \
            pod default/p-1 (pod is not owner)"
        ]
    );
    // Tests: PROT-PVC-12
    api.delete("persistentvolumeclaims", "default/p-1-scratch");
    api.settle().await;
    let claim = api.get("persistentvolumeclaims", "default/p-1-scratch").unwrap();
    assert_eq!(claim["metadata"]["ownerReferences"], owner());
}

#[tokio::test(start_paused = true)]
async fn refused_creation_is_reported_with_the_server_message_and_retried() {
    let api = FakeApi::new();
    api.fail(Fault {
        verb: "create",
        resource: "persistentvolumeclaims",
        skip: 0,
        kind: FaultKind::Status(403, "Forbidden", "quota"),
    });
    api.seed(pod(&["scratch"]));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(
        api.events(),
        ["Pod default/p-1 Warning FailedBinding ephemeral volume scratch: create PVC p-1-scratch: quota"]
    );
    assert!(api.get("persistentvolumeclaims", "default/p-1-scratch").is_some());
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(pod(&["scratch", "cache"]));
    };
    let act = |api: &FakeApi| {
        api.delete("persistentvolumeclaims", "default/p-1-cache");
    };
    survives_faults(&THIS, Options::default(), seed, act).await;
}
