//! Scheduling of pods with local volumes on three nodes, each for the first pod that requests it. Nothing runs
//! here: a node is only an object that states its capacity.

use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const NODES: &str = "/api/v1/nodes";

async fn add_node(http: &Http, name: &str) {
    let labels = json!({"kubernetes.io/hostname": name});
    http.create(
        NODES,
        &json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}),
    )
    .await;
    let room = json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}});
    http.patch(&format!("{NODES}/{name}/status"), &room).await.expect(200);
}

/// A new node is tainted until it is ready.
async fn open_node(http: &Http, name: &str) {
    http.patch(&format!("{NODES}/{name}"), &json!({"spec": {"taints": null}})).await.expect(200);
}

async fn add_volume(http: &Http, name: &str, node: &str) {
    let term =
        json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let volume = json!({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "persistentVolumeReclaimPolicy": "Retain", "local": {"path": format!("/mnt/{name}")},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}});
    http.create(VOLUMES, &volume).await;
}

async fn add_class(http: &Http) {
    let class = json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    http.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
}

/// Creates a pod with its own claim.
async fn add_pod(http: &Http, name: &str) {
    let claim = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name}, "spec": {
        "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    http.create(CLAIMS, &claim).await;
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}});
    http.create(PODS, &pod).await;
}

fn condition(pod: &Value) -> Option<&Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == "PodScheduled")
}

fn says(pod: &Value, message: &str) -> bool {
    condition(pod).is_some_and(|one| {
        one["status"] == "False" && one["reason"] == "Unschedulable" && one["message"] == message
    })
}

async fn placed(http: &Http, pod: &str) -> String {
    let has_node = |pod: &Value| pod["spec"]["nodeName"].is_string();
    let pod = http.until(&format!("{PODS}/{pod}"), "it has a node", has_node).await;
    assert_eq!(condition(&pod).map(|one| &one["status"]), Some(&json!("True")), "{pod:#}");
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

async fn land(layout: Layout) {
    let mut plane = Plane::of(layout).start().await;
    let http = plane.http();
    add_class(&http).await;
    add_pod(&http, "first").await;
    let none = "no nodes available to schedule pods";
    http.until(&format!("{PODS}/first"), "there is no node", |pod| says(pod, none)).await;

    for node in ["n1", "n2", "n3"] {
        add_node(&http, node).await;
    }
    let closed = "0/3 nodes are available: 3 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/3 \
                  nodes are available: 3 Preemption is not helpful for scheduling.";
    http.until(&format!("{PODS}/first"), "the nodes are closed", |pod| says(pod, closed)).await;
    for node in ["n1", "n2", "n3"] {
        open_node(&http, node).await;
    }
    let nothing = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind. no new claims to \
                   deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    http.until(&format!("{PODS}/first"), "there is no volume", |pod| says(pod, nothing)).await;
    let claim = http.get(&format!("{CLAIMS}/first")).await.json();
    assert_eq!(claim["status"]["phase"], "Pending", "no volume was chosen for it");

    add_volume(&http, "pv-2", "n2").await;
    assert_eq!(placed(&http, "first").await, "n2");
    for (volume, node) in [("pv-1", "n1"), ("pv-3a", "n3"), ("pv-3b", "n3")] {
        add_volume(&http, volume, node).await;
    }
    for pod in ["a", "b", "c"] {
        add_pod(&http, pod).await;
    }
    plane.kill_and_restart().await;
    let mut nodes = Vec::new();
    for pod in ["a", "b", "c"] {
        let node = placed(&http, pod).await;
        let bound = |claim: &Value| claim["status"]["phase"] == "Bound";
        let claim = http.until(&format!("{CLAIMS}/{pod}"), "bound", bound).await;
        let volume =
            http.get(&format!("{VOLUMES}/{}", claim["spec"]["volumeName"].as_str().unwrap())).await.json();
        let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
        assert_eq!(term["matchExpressions"][0]["values"][0], json!(node), "its volume is where it is");
        nodes.push(node);
    }
    nodes.sort();
    assert_eq!(nodes, ["n1", "n3", "n3"]);
    let is_scheduled = |list: &Value| {
        list["items"].as_array().unwrap().iter().any(|event| {
            event["reason"] == "Scheduled" && event["message"] == "Successfully assigned default/first to n2"
        })
    };
    http.until("/api/v1/namespaces/default/events", "an event about it", is_scheduled).await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_are_scheduled_to_their_volumes_in_one_process() {
    land(Layout::OneProcess).await;
}

#[tokio::test]
async fn pods_are_scheduled_to_their_volumes_in_two_processes() {
    land(Layout::TwoProcesses).await;
}

#[tokio::test]
async fn pods_stay_unassigned_without_the_scheduler() {
    let mut plane =
        Plane::of(Layout::OneProcess).controller_flags(&["--controllers=*,-kube-scheduler"]).start().await;
    let http = plane.http();
    add_node(&http, "n1").await;
    open_node(&http, "n1").await;
    add_class(&http).await;
    add_pod(&http, "p").await;
    let waits = |list: &Value| {
        list["items"].as_array().unwrap().iter().any(|event| event["reason"] == "WaitForPodScheduled")
    };
    // The binder has processed the pod and reports why the claim waits.
    http.patch(&format!("{CLAIMS}/p"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    http.until("/api/v1/namespaces/default/events", "the binder waits for the pod's node", waits).await;
    let pod = http.get(&format!("{PODS}/p")).await.json();
    assert!(pod["spec"].get("nodeName").is_none() && condition(&pod).is_none(), "{pod:#}");
    plane.stop().await;
}
