//! Pods with claims, whose volumes are bound or provisioned before the pods.

use serde_json::{Value, json};

use super::{ALONE, WITH_BINDER, condition, node, node_of, pod};
use crate::options::Options;
use crate::testing::{FakeApi, survives_faults};

pub(super) fn class(name: &str, provisioner: &str) -> Value {
    json!({"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain"})
}

pub(super) fn claim(name: &str, class: &str, mode: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": name}, "spec": {
        "storageClassName": class, "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}})
}

/// An available volume on one node.
pub(super) fn local(name: &str, node: &str) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"},
        "persistentVolumeReclaimPolicy": "Retain", "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}},
        "status": {"phase": "Available"}})
}

/// A bound pair of claim and volume, of a CSI driver.
fn bound(api: &FakeApi, name: &str, mode: &str, zone: Option<&str>) {
    let mut volume = json!({"kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")}, "spec": {
        "accessModes": [mode], "capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": name},
        "storageClassName": "fast", "claimRef": {"namespace": "ns", "name": name, "uid": format!("uid-{name}")},
        "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Bound"}});
    if let Some(zone) = zone {
        volume["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": zone});
    }
    api.seed(volume);
    let mut claim = claim(name, "fast", mode);
    claim["metadata"]["uid"] = json!(format!("uid-{name}"));
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = json!(format!("pv-{name}"));
    claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": [mode]});
    api.seed(claim);
}

fn volume_of(api: &FakeApi, claim: &str) -> (String, String) {
    let claim = api.get("persistentvolumeclaims", &format!("ns/{claim}")).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&claim["spec"]["volumeName"]), text(&claim["status"]["phase"]))
}

fn selected(api: &FakeApi, claim: &str) -> Option<String> {
    let claim = api.get("persistentvolumeclaims", &format!("ns/{claim}")).unwrap();
    let annotations = &claim["metadata"]["annotations"];
    annotations["volume.kubernetes.io/selected-node"].as_str().map(str::to_owned)
}

/// Provisions the volume that a claim waits for, in a zone.
fn provision(api: &FakeApi, name: &str, zone: &str) {
    let claim = api.get("persistentvolumeclaims", &format!("ns/{name}")).unwrap();
    api.create(json!({"kind": "PersistentVolume", "metadata": {"name": format!("made-{name}")}, "spec": {
        "accessModes": claim["spec"]["accessModes"], "capacity": {"storage": "1Gi"},
        "storageClassName": claim["spec"]["storageClassName"], "csi": {"driver": "d", "volumeHandle": name},
        "claimRef": {"namespace": "ns", "name": name, "uid": claim["metadata"]["uid"]},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}}}}));
}

fn three_nodes(api: &FakeApi) {
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        api.seed(node(name, zone));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_follow_their_local_volumes() {
    let api = FakeApi::new();
    three_nodes(&api);
    api.seed(class("local", "kubernetes.io/no-provisioner"));
    for (volume, node) in [("pv-2a", "n2"), ("pv-2b", "n2"), ("pv-3", "n3")] {
        api.seed(local(volume, node));
    }
    let _running = api.start(&WITH_BINDER, Options::default());
    for name in ["c1", "c2", "c3"] {
        api.create(claim(name, "local", "ReadWriteOnce"));
    }
    api.create(pod("two", &["c1", "c2"]));
    api.settle().await;
    assert_eq!(node_of(&api, "two").as_deref(), Some("n2"), "only there are two volumes");
    api.create(pod("one", &["c3"]));
    api.create(pod("again", &["c1"]));
    api.settle().await;
    assert_eq!(node_of(&api, "one").as_deref(), Some("n3"));
    assert_eq!(node_of(&api, "again").as_deref(), Some("n2"), "where its bound claim is");
    assert_eq!(volume_of(&api, "c3"), ("pv-3".to_owned(), "Bound".to_owned()));
    // No volume is left.
    api.create(claim("c4", "local", "ReadWriteOnce"));
    api.create(pod("late", &["c4"]));
    api.settle().await;
    let said = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind. no new claims to \
                deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&api, "late").1, said);
    api.create(local("pv-1", "n1"));
    api.settle().await;
    assert_eq!(node_of(&api, "late").as_deref(), Some("n1"), "the new volume woke it");
}

fn seed_local(api: &FakeApi) {
    three_nodes(api);
    api.seed(class("local", "kubernetes.io/no-provisioner"));
    api.seed(local("pv-2a", "n2"));
    api.seed(local("pv-2b", "n2"));
    for name in ["c1", "c2"] {
        api.seed(claim(name, "local", "ReadWriteOnce"));
    }
}

fn one_pod(api: &FakeApi) {
    api.create(pod("p", &["c1", "c2"]));
}

#[tokio::test(start_paused = true)]
async fn i6_any_write_of_a_binding_can_fail_once() {
    let api = survives_faults(&WITH_BINDER, Options::default(), seed_local, one_pod).await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n2"));
    let phases = ["c1", "c2"].map(|claim| volume_of(&api, claim).1);
    assert_eq!(phases, ["Bound", "Bound"]);
}

#[tokio::test(start_paused = true)]
async fn volume_is_provisioned_for_the_node_without_delaying_others() {
    let api = FakeApi::new();
    three_nodes(&api);
    let mut zonal = class("fast", "d");
    zonal["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]);
    api.seed(zonal);
    let _running = api.start(&WITH_BINDER, Options::default());
    api.create(claim("c", "fast", "ReadWriteOnce"));
    api.create(pod("p", &["c"]));
    api.settle().await;
    assert_eq!((selected(&api, "c").as_deref(), node_of(&api, "p")), (Some("n2"), None));
    // I12: the pod waits, the next one does not.
    api.create(pod("q", &[]));
    api.settle().await;
    assert!(node_of(&api, "q").is_some());
    provision(&api, "c", "b");
    api.settle().await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n2"));
    assert_eq!(volume_of(&api, "c"), ("made-c".to_owned(), "Bound".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn rejected_node_is_replaced_by_another() {
    let api = FakeApi::new();
    three_nodes(&api);
    api.seed(class("fast", "d"));
    api.seed(json!({"kind": "CSIDriver", "metadata": {"name": "d"}, "spec": {"storageCapacity": true}}));
    let room = |name: &str, zone: &str, size: &str| {
        json!({"kind": "CSIStorageCapacity", "metadata": {"namespace": "ns", "name": name}, "storageClassName": "fast",
            "capacity": size, "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": zone}}})
    };
    api.seed(room("cap-a", "a", "10Gi"));
    let _running = api.start(&WITH_BINDER, Options::default());
    api.create(claim("c", "fast", "ReadWriteOnce"));
    api.create(pod("p", &["c"]));
    api.settle().await;
    assert_eq!(selected(&api, "c").as_deref(), Some("n1"), "only there is room");
    api.patch("csistoragecapacities", "ns/cap-a", "", json!({"capacity": "0"}));
    api.patch(
        "persistentvolumeclaims",
        "ns/c",
        "",
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}}),
    );
    api.settle().await;
    assert_eq!((selected(&api, "c"), node_of(&api, "p")), (None, None));
    assert!(condition(&api, "p").1.contains("3 node(s) did not have enough free storage."));
    let failed =
        "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"c\"";
    assert!(api.events().iter().any(|event| event.ends_with(failed)), "{:?}", api.events());
    api.create(room("cap-c", "c", "10Gi"));
    api.settle().await;
    assert_eq!(selected(&api, "c").as_deref(), Some("n3"));
    provision(&api, "c", "c");
    api.settle().await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n3"));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_claim_times_out() {
    let api = FakeApi::new();
    api.seed(node("n1", "a"));
    api.seed(class("fast", "d"));
    let options =
        Options { scheduler_bind_timeout: std::time::Duration::from_secs(120), ..Options::default() };
    let _running = api.start(&WITH_BINDER, options);
    api.create(claim("c", "fast", "ReadWriteOnce"));
    api.create(pod("p", &["c"]));
    api.settle().await;
    assert_eq!(condition(&api, "p").0, "");
    api.settle().await;
    api.settle().await;
    let said = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert_eq!(condition(&api, "p"), ("SchedulerError".to_owned(), said.to_owned()));
    // The pod is deleted while it waits again: its resources are freed.
    api.delete_with("pods", "ns/p", json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    for name in ["a", "b", "c", "d"] {
        api.create(pod(name, &[]));
    }
    api.settle().await;
    assert!(["a", "b", "c", "d"].iter().all(|pod| node_of(&api, pod).is_some()));
}

#[tokio::test(start_paused = true)]
async fn read_write_once_pod_claim_is_used_by_one_pod() {
    let api = FakeApi::new();
    three_nodes(&api);
    bound(&api, "c", "ReadWriteOncePod", None);
    let _running = api.start(&ALONE, Options::default());
    api.create(pod("p", &["c"]));
    api.create(pod("q", &["c"]));
    api.settle().await;
    let placed = ["p", "q"].map(|pod| node_of(&api, pod).is_some());
    assert_eq!(placed, [true, false]);
    let said = "3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                another pod.";
    assert!(condition(&api, "q").1.contains(said));
    api.delete_with("pods", "ns/p", json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert!(node_of(&api, "q").is_some());
}

#[tokio::test(start_paused = true)]
async fn volume_limits_and_zones_restrict_nodes() {
    let api = FakeApi::new();
    three_nodes(&api);
    for node in ["n1", "n2", "n3"] {
        let driver = json!({"name": "d", "nodeID": node, "allocatable": {"count": 1}});
        api.seed(json!({"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [driver]}}));
    }
    for (name, zone) in [("b1", "b"), ("b2", "b")] {
        bound(&api, name, "ReadWriteOnce", Some(zone));
    }
    let _running = api.start(&ALONE, Options::default());
    api.create(pod("p", &["b1"]));
    api.settle().await;
    api.create(pod("q", &["b2"]));
    api.settle().await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n2"));
    let said =
        "0/3 nodes are available: 1 node(s) exceed max volume count, 2 node(s) had no available volume zone.";
    assert!(condition(&api, "q").1.starts_with(said), "{:?}", condition(&api, "q"));
    // The same volume is counted once.
    api.create(pod("r", &["b1"]));
    api.settle().await;
    assert_eq!(node_of(&api, "r").as_deref(), Some("n2"));
    // The pods are deleted, but one volume is still attached.
    api.seed(json!({"kind": "VolumeAttachment", "metadata": {"name": "va"}, "spec": {"attacher": "d", "nodeName": "n2",
        "source": {"persistentVolumeName": "pv-b1"}}}));
    api.delete_with("pods", "ns/p", json!({"gracePeriodSeconds": 0}));
    api.delete_with("pods", "ns/r", json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(node_of(&api, "q"), None);
    api.delete("volumeattachments", "va");
    api.settle().await;
    assert_eq!(node_of(&api, "q").as_deref(), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn created_claim_wakes_its_pod() {
    let api = FakeApi::new();
    three_nodes(&api);
    let _running = api.start(&WITH_BINDER, Options::default());
    api.create(pod("p", &["c"]));
    api.settle().await;
    let said = "0/3 nodes are available: persistentvolumeclaim \"c\" not found. no new claims to deallocate, preemption: \
                0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&api, "p"), ("Unschedulable".to_owned(), said.to_owned()));
    api.create(claim("c", "none", "ReadWriteOnce"));
    api.settle().await;
    assert!(
        condition(&api, "p")
            .1
            .contains("available: pod has unbound immediate PersistentVolumeClaims. no new")
    );
    let mut volume = local("pv", "n3");
    volume["spec"]["storageClassName"] = json!("none");
    api.create(volume);
    api.settle().await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n3"));
}

#[tokio::test(start_paused = true)]
async fn pods_sharing_a_claim_wait_for_it_together() {
    let api = FakeApi::new();
    three_nodes(&api);
    api.seed(class("local", "kubernetes.io/no-provisioner"));
    api.seed(class("fast", "d"));
    api.seed(local("pv-3", "n3"));
    let _running = api.start(&WITH_BINDER, Options::default());
    api.create(claim("there", "local", "ReadWriteOnce"));
    api.create(claim("made", "fast", "ReadWriteOnce"));
    for name in ["p", "q", "r"] {
        api.create(pod(name, &["there", "made"]));
    }
    api.settle().await;
    assert_eq!(selected(&api, "made").as_deref(), Some("n3"), "where the other claim's volume is");
    assert!(["p", "q", "r"].iter().all(|pod| node_of(&api, pod).is_none()));
    provision(&api, "made", "c");
    api.settle().await;
    for name in ["p", "q", "r"] {
        assert_eq!(node_of(&api, name).as_deref(), Some("n3"), "{name}");
    }
    let events = api.events();
    assert!(!events.iter().any(|event| event.contains("FailedScheduling")), "{events:?}");
}
