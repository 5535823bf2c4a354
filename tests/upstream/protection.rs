//! The protection of volumes and claims in use (upstream: test/e2e/storage/pv_protection.go and
//! pvc_protection.go).

use serde_json::{Value, json};

use super::{PODS, delete_with, plane, pod};
use crate::harness::http::Http;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Creates a volume that only its own claim selects, by label; waits until it is available, and returns its path.
async fn volume(http: &Http, name: &str) -> String {
    let body = json!({
        "metadata": {"name": name, "labels": {"e2e-pv-pool": name}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/tmp/data"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    });
    http.create(VOLUMES, &body).await;
    let path = format!("{VOLUMES}/{name}");
    let volume = http.until(&path, "available", |volume| volume["status"]["phase"] == "Available").await;
    assert_eq!(volume["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    path
}

async fn bound_claim(http: &Http, name: &str) -> String {
    let body = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "",
            "selector": {"matchLabels": {"e2e-pv-pool": name}},
        },
    });
    http.create(CLAIMS, &body).await;
    let path = format!("{CLAIMS}/{name}");
    let claim = http.until(&path, "bound", |claim| claim["status"]["phase"] == "Bound").await;
    let finalizers = claim["metadata"]["finalizers"].as_array().unwrap();
    assert!(finalizers.contains(&json!("kubernetes.io/pvc-protection")), "{claim}");
    path
}

fn user(name: &str, claim: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "n".into();
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

fn now() -> Value {
    json!({"gracePeriodSeconds": 0})
}

/// pv_protection.go: both of its cases
#[tokio::test]
async fn volume_in_use_is_protected() {
    let (_plane, http) = plane().await;
    let free = volume(&http, "free").await;
    delete_with(&http, &free, &now()).await.expect(200);
    http.until_gone(&free).await;

    let used = volume(&http, "used").await;
    let claim = bound_claim(&http, "used").await;
    delete_with(&http, &used, &now()).await.expect(200);
    let kept = http.get(&used).await.expect(200);
    assert!(kept["metadata"]["deletionTimestamp"].is_string(), "{kept}");
    delete_with(&http, &claim, &now()).await.expect(200);
    http.until_gone(&used).await;
}

/// pvc_protection.go: its three cases, without the scheduler's message about the second pod
#[tokio::test]
async fn claim_in_use_is_protected() {
    let (_plane, http) = plane().await;
    volume(&http, "idle").await;
    let idle = bound_claim(&http, "idle").await;
    delete_with(&http, &idle, &now()).await.expect(200);
    http.until_gone(&idle).await;

    volume(&http, "busy").await;
    let busy = bound_claim(&http, "busy").await;
    http.create(PODS, &user("first", "busy")).await;
    delete_with(&http, &busy, &now()).await.expect(200);
    let kept = http.get(&busy).await.expect(200);
    assert!(kept["metadata"]["deletionTimestamp"].is_string(), "{kept}");
    // A second user that is created and deleted changes nothing.
    http.create(PODS, &user("second", "busy")).await;
    delete_with(&http, &format!("{PODS}/second"), &now()).await.expect(200);
    let kept = http.get(&busy).await.expect(200);
    assert_eq!(kept["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    delete_with(&http, &format!("{PODS}/first"), &now()).await.expect(200);
    http.until_gone(&busy).await;
}
