//! Explanations (`why`): the real server explains every state, and the suggested fix resolves it. `pairs`
//! contains claims and volumes that do not match because of one rule; this module contains attachments,
//! deletions, lost and retained data, and quotas, in one process and in two.

mod pairs;

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// The nodes here have no agents, and keep the status that the test writes.
const NO_AGENTS: &str = "--controllers=*,-nodelifecycle";

/// The path of the collection of an object, from its own fields.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let inside = object["metadata"]["namespace"].as_str();
    let inside = inside.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let plural = match object["kind"].as_str().unwrap() {
        "StorageClass" => "storageclasses".to_owned(),
        "VolumeAttributesClass" => "volumeattributesclasses".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    format!("{root}/{version}{inside}/{plural}")
}

/// The path of a referenced object.
fn place(reference: &Value) -> String {
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let root = if text("apiVersion").contains('/') { "/apis" } else { "/api" };
    let inside = match text("namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let plural = text("resource").split('.').next().unwrap();
    format!("{root}/{}{inside}/{plural}/{}", text("apiVersion"), text("name"))
}

/// The path of the question about an object: `pods/p`, in the namespace `default` if its kind is namespaced.
fn question(object: &str) -> String {
    let cluster = ["persistentvolumes/", "nodes/", "volumeattachments"];
    let inside = if cluster.iter().any(|kind| object.starts_with(kind)) { "" } else { "namespaces/default/" };
    format!("/apis/orlop.dev/v1/{inside}{object}/why")
}

/// The cause with this code.
fn cause<'a>(why: &'a Value, code: &str) -> Option<&'a Value> {
    why["causes"].as_array()?.iter().find(|cause| cause["code"] == code)
}

/// Asks until a cause has this code and contains all of these words.
async fn explained(http: &Http, object: &str, code: &str, words: &[&str]) -> Value {
    let said = |why: &Value| {
        let text = why.to_string();
        cause(why, code).is_some() && words.iter().all(|words| text.contains(words))
    };
    http.until(&question(object), &format!("{code} {words:?}"), said).await
}

/// The output of the command about an object, as a user reads it.
fn read(plane: &Plane, object: &str, namespace: &str) -> String {
    let mut orlop = command(&*ORLOP, plane.dir());
    let output = orlop.args(["why", object, "-n", namespace, "--server", &plane.url()]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Carries out a fix: as a request, or with its command if that is one of orlop's own.
async fn carry_out(plane: &Plane, fix: &Value) {
    let http = plane.http();
    if fix["plan"].is_object() {
        let text = fix["command"].as_str().unwrap();
        let mut words = text.split(' ');
        assert_eq!(words.next(), Some("orlop"), "{text}");
        let mut orlop = command(&*ORLOP, plane.dir());
        let output = orlop.args(words).args(["--yes", "--server", &plane.url()]).output().unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let mut done = false;
    if fix["patch"].is_object() {
        assert_eq!(fix["patch"]["type"], "merge");
        http.patch(&place(&fix["patch"]["target"]), &fix["patch"]["body"]).await.expect(200);
        done = true;
    }
    if fix["delete"].is_object() {
        let path = place(&fix["delete"]);
        http.delete(&format!("{path}?gracePeriodSeconds=0")).await;
        http.until_gone(&path).await;
        done = true;
    }
    if fix["create"].is_object() {
        http.create(&collection(&fix["create"]), &fix["create"]).await;
        done = true;
    }
    assert!(done, "{fix:#}");
}

/// A ready node with free capacity.
async fn add_node(http: &Http, name: &str, labels: Value) {
    let meta = json!({"name": name, "labels": labels,
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}});
    http.create(NODES, &json!({"kind": "Node", "apiVersion": "v1", "metadata": meta})).await;
    let room = json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    http.patch(&format!("{NODES}/{name}/status"), &room).await.expect(200);
    http.patch(&format!("{NODES}/{name}"), &json!({"spec": {"taints": null}})).await.expect(200);
}

fn pod(name: &str, node: &str, claim: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": {"nodeName": node,
        "containers": [{"name": "c", "image": "none"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}})
}

/// A bound pair of a volume and a claim.
async fn add_pair(http: &Http, name: &str, source: Value) {
    let claim = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name}, "spec": {
        "storageClassName": "", "volumeName": name, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": name}});
    for (key, value) in source.as_object().unwrap() {
        spec[key] = value.clone();
    }
    http.create(
        VOLUMES,
        &json!({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}),
    )
    .await;
    http.create(CLAIMS, &claim).await;
    phase(http, &format!("{CLAIMS}/{name}"), "Bound").await;
}

async fn phase(http: &Http, path: &str, wanted: &str) {
    http.until(path, wanted, |object| object["status"]["phase"] == wanted).await;
}

/// Attachments that block a volume, until when, and finalizers that block a deletion.
async fn held(plane: &Plane) {
    let http = plane.http();
    let driver = json!({"metadata": {"name": "d.test"}, "spec": {"attachRequired": true}});
    http.create("/apis/storage.k8s.io/v1/csidrivers", &driver).await;
    for name in ["a", "b"] {
        add_node(&http, name, json!({})).await;
        let drivers = json!([{"name": "d.test", "nodeID": name, "topologyKeys": null}]);
        let node = json!({"metadata": {"name": name}, "spec": {"drivers": drivers}});
        http.create("/apis/storage.k8s.io/v1/csinodes", &node).await;
    }
    add_pair(&http, "c", json!({"csi": {"driver": "d.test", "volumeHandle": "h"}})).await;
    http.create(PODS, &pod("q", "a", "c")).await;
    let list = http
        .until(ATTACHMENTS, "one", |list| list["items"].as_array().is_some_and(|all| all.len() == 1))
        .await;
    let attachment = list["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let waits = explained(&http, "pods/q", "AttachPending", &["Volume c", "node a"]).await;
    assert_eq!(waits["severity"], "waiting");
    let attached = json!({"status": {"attached": true}});
    http.patch(&format!("{ATTACHMENTS}/{attachment}/status"), &attached).await.expect(200);
    explained(&http, "pods/q", "Starting", &["node a"]).await;

    // ReadWriteOnce, and attached to another node.
    http.create(PODS, &pod("p", "b", "c")).await;
    let waits = explained(
        &http,
        "pods/p",
        "HeldByNode",
        &["it is attached to a and needed on b", "On node a, pod q uses it"],
    )
    .await;
    assert_eq!(waits["severity"], "attention", "{waits:#}");
    println!("{}", read(plane, "pod/p", "default"));
    // That node is lost with the volume mounted, and its pod is deleted by force.
    let lost = json!({"status": {"volumesInUse": ["kubernetes.io/csi/d.test^h"],
        "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}});
    http.patch(&format!("{NODES}/a/status"), &lost).await.expect(200);
    explained(&http, "nodes/a", "NodeLost", &["out-of-service"]).await;
    println!("{}", read(plane, "node/a", "default"));
    http.delete(&format!("{PODS}/q?gracePeriodSeconds=0")).await;
    let waits = explained(&http, "pods/p", "HeldByNode", &["by force at"]).await;
    let until = cause(&waits, "HeldByNode").unwrap()["until"].as_str().unwrap_or_default();
    assert!(until.parse::<jiff::Timestamp>().unwrap() > jiff::Timestamp::now(), "{waits:#}");
    println!("{}", read(plane, "pod/p", "default"));

    // Objects whose deletion is blocked.
    http.delete(&format!("{CLAIMS}/c")).await;
    let stays = explained(&http, "persistentvolumeclaims/c", "Finalizers", &["p on node b"]).await;
    let block = &stays["blocked_by"][0];
    assert_eq!(
        (&block["finalizer"], &block["objects"][0]["name"]),
        (&json!("kubernetes.io/pvc-protection"), &json!("p"))
    );
    println!("{}", read(plane, "pvc/c", "default"));
    http.delete(&format!("{VOLUMES}/c")).await;
    let stays = explained(&http, "persistentvolumes/c", "Finalizers", &["claim default/c"]).await;
    let finalizers = stays["blocked_by"].as_array().unwrap();
    assert!(finalizers.iter().any(|block| block["finalizer"] == "kubernetes.io/pv-protection"), "{stays:#}");
    println!("{}", read(plane, "pv/c", "default"));
    let held = json!({"metadata": {"finalizers": ["external-attacher/d-test"]}});
    http.patch(&format!("{ATTACHMENTS}/{attachment}"), &held).await.expect(200);
    http.delete(&format!("{ATTACHMENTS}/{attachment}")).await;
    let of = format!("volumeattachments.storage.k8s.io/{attachment}");
    let stays = explained(&http, &of, "Finalizers", &["d.test detaches the volume from node a"]).await;
    assert_eq!(stays["blocked_by"][0]["owner"], "the attacher of d.test", "{stays:#}");
    println!("{}", read(plane, &format!("attachment/{attachment}"), "default"));
    // Only the pod blocked the claim: when it is deleted, all of them are.
    let stays = explained(&http, "persistentvolumeclaims/c", "Finalizers", &["p on node b"]).await;
    carry_out(plane, &stays["blocked_by"][0]["fix"]).await;
    http.until_gone(&format!("{CLAIMS}/c")).await;
}

/// Data whose claim or volume was deleted: the safe verbs.
async fn kept(plane: &Plane) {
    let http = plane.http();
    add_pair(&http, "lost", json!({"hostPath": {"path": "/tmp/lost"}})).await;
    http.delete(&format!("{VOLUMES}/lost")).await;
    http.patch(&format!("{VOLUMES}/lost"), &json!({"metadata": {"finalizers": null}})).await;
    phase(&http, &format!("{CLAIMS}/lost"), "Lost").await;
    let why = explained(
        &http,
        "persistentvolumeclaims/lost",
        "LostVolume",
        &["volume lost", "orlop pvc recover lost"],
    )
    .await;
    println!("{}", read(plane, "pvc/lost", "default"));
    carry_out(plane, &cause(&why, "LostVolume").unwrap()["fix"]).await;
    phase(&http, &format!("{CLAIMS}/lost"), "Bound").await;

    add_pair(&http, "kept", json!({"hostPath": {"path": "/tmp/kept"}})).await;
    http.delete(&format!("{CLAIMS}/kept")).await;
    let why = explained(&http, "persistentvolumes/kept", "Retained", &["default/kept"]).await;
    println!("{}", read(plane, "pv/kept", "default"));
    carry_out(plane, &cause(&why, "Retained").unwrap()["fix"]).await;
    phase(&http, &format!("{VOLUMES}/kept"), "Available").await;

    // The deleter refuses paths outside /tmp.
    let stuck = json!({"hostPath": {"path": "/srv/stuck"}, "persistentVolumeReclaimPolicy": "Delete"});
    add_pair(&http, "stuck", stuck).await;
    http.delete(&format!("{CLAIMS}/stuck")).await;
    phase(&http, &format!("{VOLUMES}/stuck"), "Failed").await;
    let why = explained(&http, "persistentvolumes/stuck", "ReclaimFailed", &["/srv/stuck"]).await;
    println!("{}", read(plane, "pv/stuck", "default"));
    carry_out(plane, &cause(&why, "ReclaimFailed").unwrap()["fix"]).await;
    let why =
        explained(&http, "persistentvolumes/stuck", "ReclaimFailed", &["its policy is now Retain"]).await;
    carry_out(plane, &cause(&why, "ReclaimFailed").unwrap()["fix"]).await;
    phase(&http, &format!("{VOLUMES}/stuck"), "Available").await;
}

/// Objects that cannot be created: rejected by a quota, or with a missing source.
async fn refused(plane: &Plane) {
    let http = plane.http();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.storage": "1Gi"}}});
    http.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    let counted = |quota: &Value| quota["status"]["used"]["requests.storage"].is_string();
    http.until("/api/v1/namespaces/default/resourcequotas/q", "counted", counted).await;
    let template = json!({"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": "5Gi"}}}});
    let labels = json!({"app": "web"});
    let set = json!({"metadata": {"name": "web"}, "spec": {"serviceName": "web", "replicas": 1,
        "selector": {"matchLabels": labels}, "volumeClaimTemplates": [template],
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    http.create("/apis/apps/v1/namespaces/default/statefulsets", &set).await;
    let why = explained(
        &http,
        "statefulsets.apps/web",
        "QuotaExceeded",
        &["Claim d-web-0", "quota q", "requests 5Gi"],
    )
    .await;
    println!("{}", read(plane, "statefulset/web", "default"));
    carry_out(plane, &cause(&why, "QuotaExceeded").unwrap()["fix"]).await;
    http.until(&format!("{CLAIMS}/d-web-0"), "made", |claim| claim["status"].is_object()).await;

    let class = json!({"metadata": {"name": "gold"}, "provisioner": "d.test"});
    http.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    http.delete("/api/v1/namespaces/default/resourcequotas/q").await;
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let claim = json!({"metadata": {"name": "copy"}, "spec": {"storageClassName": "gold", "dataSource": source,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    http.until("/api/v1/namespaces/default/resourcequotas", "none", |list| list["items"] == json!([])).await;
    http.create(CLAIMS, &claim).await;
    explained(
        &http,
        "persistentvolumeclaims/copy",
        "SourceMissing",
        &["snapshot default/s, which does not exist"],
    )
    .await;
    println!("{}", read(plane, "pvc/copy", "default"));
    let snapshot = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "s"},
        "spec": {"source": {"persistentVolumeClaimName": "d-web-0"}}});
    http.create("/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots", &snapshot).await;
    explained(&http, "persistentvolumeclaims/copy", "SourceNotReady", &["snapshot default/s"]).await;
}

/// An object on which a controller keeps failing (I12), until the cause is gone.
async fn failing(plane: &Plane, layout: Layout) {
    let http = plane.http();
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/replicasets.apps": "0"}}});
    http.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    let counted = |quota: &Value| quota["status"]["used"]["count/replicasets.apps"].is_string();
    http.until("/api/v1/namespaces/default/resourcequotas/none", "counted", counted).await;
    let labels = json!({"app": "shop"});
    let deployment = json!({"metadata": {"name": "shop"}, "spec": {"replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    http.create("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    let fails = |why: &Value| cause(why, "SyncFailing").is_some();
    let why = http.until(&question("deployments.apps/shop"), "SyncFailing", fails).await;
    let text = cause(&why, "SyncFailing").unwrap()["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("deployment-controller") && text.contains("exceeded quota: none"), "{text}");
    println!("{}", read(plane, "deployment/shop", "default"));
    if layout == Layout::OneProcess {
        let metrics = http.get("/metrics").await.text();
        let line = "orlop_controller_failing_objects{controller=\"deployment-controller\"} 1";
        assert!(metrics.contains(line), "{metrics}");
    }
    http.delete("/api/v1/namespaces/default/resourcequotas/none").await;
    // The next retry may be far off: the change of the deployment makes the controller sync it now.
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    http.patch("/apis/apps/v1/namespaces/default/deployments/shop", &touched).await.expect(200);
    let healthy = |why: &Value| cause(why, "SyncFailing").is_none();
    http.until(&question("deployments.apps/shop"), "no SyncFailing", healthy).await;
}

async fn all_states(layout: Layout) {
    let mut plane = Plane::of(layout).controller_flags(&[NO_AGENTS]).start().await;
    let http = plane.http();
    add_pair(&http, "first", json!({"hostPath": {"path": "/tmp/first"}})).await;
    let begun = Instant::now();
    let first = http.get(&question("persistentvolumeclaims/first")).await;
    println!("{layout:?}: the first answer after {:?}", begun.elapsed());
    assert_eq!(first.code, 200, "{}", first.text());
    let missing = http.get(&question("persistentvolumeclaims/none")).await;
    assert_eq!(missing.code, 404, "{}", missing.text());
    held(&plane).await;
    kept(&plane).await;
    refused(&plane).await;
    failing(&plane, layout).await;
    plane.stop().await;
}

#[tokio::test]
async fn states_are_explained_in_one_process() {
    all_states(Layout::OneProcess).await;
}

#[tokio::test]
async fn states_are_explained_in_two_processes() {
    all_states(Layout::TwoProcesses).await;
}
