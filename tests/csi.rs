//! CSI volumes from claim to deletion, with all of orlop in one process and the lab driver in
//! another. Nodes are only API objects, and the driver's state shows what is attached.

use serde_json::{Value, json};

use crate::harness::csi::Hostpath;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const NODES: &str = "/api/v1/nodes";
const STORAGE: &str = "/apis/storage.k8s.io/v1";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
const SNAPSHOT_CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
const DRIVER: &str = "hostpath.csi.orlop.dev";
const SEGMENT: &str = "topology.hostpath.csi.orlop.dev/node";

struct Lab {
    plane: Plane,
    driver: Hostpath,
    http: Http,
    _dir: tempfile::TempDir,
}

impl Lab {
    /// A driver with flags, a class with this binding mode, and three nodes.
    async fn start(flags: &[&str], mode: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags: Vec<&str> = flags.iter().copied().chain(["--other-nodes=n3"]).collect();
        let driver = Hostpath::start(dir.path(), &flags).await;
        let plane = Plane::of(Layout::OneProcess).controller_flags(&[&driver.flag()]).start().await;
        let http = plane.http();
        let class = json!({"metadata": {"name": "lab"}, "provisioner": DRIVER, "volumeBindingMode": mode,
            "allowVolumeExpansion": true});
        http.create(&format!("{STORAGE}/storageclasses"), &class).await;
        let object = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}});
        http.create(&format!("{STORAGE}/csidrivers"), &object).await;
        let lab = Lab { plane, driver, http, _dir: dir };
        for node in ["n1", "n2", "n3"] {
            lab.add_node(node).await;
        }
        lab
    }

    async fn add_node(&self, name: &str) {
        let managed = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        let labels = json!({"kubernetes.io/hostname": name, SEGMENT: name});
        self.http
            .create(NODES, &json!({"metadata": {"name": name, "labels": labels, "annotations": managed}}))
            .await;
        // A new node is tainted until it is ready.
        self.http.patch(&format!("{NODES}/{name}"), &json!({"spec": {"taints": null}})).await.expect(200);
        let entry = json!({"name": DRIVER, "nodeID": name, "topologyKeys": [SEGMENT]});
        let object = json!({"metadata": {"name": name}, "spec": {"drivers": [entry]}});
        self.http.create(&format!("{STORAGE}/csinodes"), &object).await;
        self.tell(
            name,
            &json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"},
            "conditions": [{"type": "Ready", "status": "True"}]}),
        )
        .await;
    }

    /// Updates the status of a node.
    async fn tell(&self, node: &str, status: &Value) {
        self.http.patch(&format!("{NODES}/{node}/status"), &json!({"status": status})).await.expect(200);
    }

    async fn claim(&self, name: &str, source: Option<Value>) {
        let mut spec = json!({"storageClassName": "lab", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}}});
        if let Some(source) = source {
            spec["dataSource"] = source;
        }
        self.http.create(CLAIMS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    async fn bound(&self, claim: &str) -> Value {
        self.http.until(&format!("{CLAIMS}/{claim}"), "bound", |it| it["status"]["phase"] == "Bound").await
    }

    /// The volume of a bound claim.
    async fn volume(&self, claim: &str) -> Value {
        let claim = self.bound(claim).await;
        let name = claim["spec"]["volumeName"].as_str().unwrap();
        self.http.get(&format!("{VOLUMES}/{name}")).await.expect(200)
    }

    async fn handle(&self, claim: &str) -> String {
        let volume = self.volume(claim).await;
        volume["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned()
    }

    /// Creates a pod with a claim; on a node, if `more` names one.
    async fn pod(&self, name: &str, claim: &str, more: Value) {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}});
        for (key, value) in more.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.http.create(PODS, &pod).await;
    }

    /// The node to which a pod is assigned.
    async fn node_of(&self, pod: &str) -> String {
        let path = format!("{PODS}/{pod}");
        let pod = self.http.until(&path, "it has a node", |pod| pod["spec"]["nodeName"].is_string()).await;
        pod["spec"]["nodeName"].as_str().unwrap().to_owned()
    }

    async fn end_pod(&self, name: &str) {
        self.http.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")).await.expect(200);
    }

    /// Waits until the driver has published a volume to exactly these nodes, and the API shows the same.
    async fn on(&self, claim: &str, nodes: &[&str]) {
        let (handle, volume) = (self.handle(claim).await, self.volume(claim).await);
        let name = &volume["metadata"]["name"];
        wait::until(&format!("{claim} is on {nodes:?}"), async || {
            let there = self.driver.nodes_of(&handle).await.unwrap_or_default();
            let list = self.http.get(&format!("{STORAGE}/volumeattachments")).await.expect(200);
            let items = list["items"].as_array().unwrap();
            let of_it = items.iter().filter(|it| it["spec"]["source"]["persistentVolumeName"] == *name);
            let said: Vec<&str> = of_it
                .filter(|it| it["status"]["attached"] == true)
                .filter_map(|it| it["spec"]["nodeName"].as_str())
                .collect();
            if there == nodes && said == nodes {
                Ok(())
            } else {
                Err(format!("driver {there:?}, API {said:?}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn csi_volume_lives_from_claim_to_deletion() {
    let mut lab = Lab::start(&[], "Immediate").await;
    lab.claim("data", None).await;
    let volume = lab.volume("data").await;
    assert_eq!(volume["spec"]["csi"]["driver"], DRIVER);
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], DRIVER);

    // The scheduler assigns a node to the pod, and the volume is attached there.
    lab.pod("first", "data", json!({})).await;
    let node = lab.node_of("first").await;
    lab.on("data", &[&node]).await;
    let unique = format!("kubernetes.io/csi/{DRIVER}^{}", lab.handle("data").await);
    let reported = |it: &Value| it["status"]["volumesAttached"][0]["name"] == unique;
    lab.http.until(&format!("{NODES}/{node}"), "the node's status names it", reported).await;

    // The volume is expanded; the work left for the node is recorded where the node agent looks.
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Mi"}}}});
    lab.http.patch(&format!("{CLAIMS}/data"), &larger).await.expect(200);
    let path = format!("{VOLUMES}/{}", volume["metadata"]["name"].as_str().unwrap());
    lab.http.until(&path, "it has grown", |it| it["spec"]["capacity"]["storage"] == "2Mi").await;

    // A snapshot, a volume restored from it, and a clone.
    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "lab"}, "driver": DRIVER, "deletionPolicy": "Delete"});
    lab.http.create(SNAPSHOT_CLASSES, &class).await;
    let snapshot = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "s"},
        "spec": {"volumeSnapshotClassName": "lab", "source": {"persistentVolumeClaimName": "data"}}});
    lab.http.create(SNAPSHOTS, &snapshot).await;
    lab.http.until(&format!("{SNAPSHOTS}/s"), "ready", |it| it["status"]["readyToUse"] == true).await;
    let of =
        |group: Value, kind: &str, name: &str| Some(json!({"apiGroup": group, "kind": kind, "name": name}));
    for (claim, source) in [
        ("restored", of(json!("snapshot.storage.k8s.io"), "VolumeSnapshot", "s")),
        ("cloned", of(Value::Null, "PersistentVolumeClaim", "data")),
    ] {
        let larger = json!({"metadata": {"name": claim}, "spec": {"storageClassName": "lab",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Mi"}}, "dataSource": source}});
        lab.http.create(CLAIMS, &larger).await;
        lab.bound(claim).await;
    }
    assert_eq!(lab.driver.driver().await.all_volumes().await.unwrap().len(), 3);

    // Delete all objects, with a kill in between; the driver has no volumes afterwards.
    lab.end_pod("first").await;
    lab.plane.kill_and_restart().await;
    lab.http = lab.plane.http();
    lab.http.delete(&format!("{SNAPSHOTS}/s")).await.expect(200);
    for claim in ["data", "restored", "cloned"] {
        lab.http.delete(&format!("{CLAIMS}/{claim}")).await.expect(200);
    }
    for path in [CLAIMS, VOLUMES, SNAPSHOTS, CONTENTS, &format!("{STORAGE}/volumeattachments")] {
        lab.http.until(path, "nothing is left", |list| list["items"] == json!([])).await;
    }
    assert!(lab.driver.driver().await.all_volumes().await.unwrap().is_empty());
}

#[tokio::test]
async fn volumes_are_created_in_the_topology_of_the_pod() {
    let lab = Lab::start(&["--topology"], "WaitForFirstConsumer").await;
    for node in ["n1", "n2", "n3"] {
        lab.claim(node, None).await;
    }
    // Without a pod no volume is created.
    let waits = |it: &Value| it["status"]["phase"] == "Pending";
    lab.http.until(&format!("{CLAIMS}/n1"), "it waits", waits).await;
    for node in ["n1", "n2", "n3"] {
        let selector = json!({"nodeSelector": {"kubernetes.io/hostname": node}});
        lab.pod(&format!("on-{node}"), node, selector).await;
    }
    for node in ["n1", "n2", "n3"] {
        assert_eq!(lab.node_of(&format!("on-{node}")).await, node);
        let volume = lab.volume(node).await;
        let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
        assert_eq!((&term["key"], &term["values"]), (&json!(SEGMENT), &json!([node])), "{volume:#}");
        lab.on(node, &[node]).await;
    }
    // A second pod is assigned to the volume's node, even though other nodes have more free resources.
    lab.pod("beside", "n3", json!({})).await;
    assert_eq!(lab.node_of("beside").await, "n3");
}

#[tokio::test]
async fn volumes_follow_pods_and_leave_dead_nodes() {
    let lab = Lab::start(&[], "Immediate").await;
    lab.claim("data", None).await;
    lab.bound("data").await;
    lab.pod("first", "data", json!({"nodeName": "n1"})).await;
    lab.on("data", &["n1"]).await;
    let unique = format!("kubernetes.io/csi/{DRIVER}^{}", lab.handle("data").await);

    // The node mounts the volume. The next pod waits, and its status names the pod that uses the volume.
    lab.tell("n1", &json!({"volumesInUse": [unique]})).await;
    lab.pod("second", "data", json!({"nodeName": "n2"})).await;
    let refused = |list: &Value| {
        list["items"].as_array().unwrap().iter().any(|event| {
            let text = event["message"].as_str().unwrap_or_default();
            event["reason"] == "FailedAttachVolume"
                && text.starts_with("Multi-Attach error for volume")
                && text.contains("first")
        })
    };
    let events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=second";
    lab.http.until(events, "the event names the holder", refused).await;
    lab.end_pod("first").await;
    lab.on("data", &["n1"]).await;
    lab.tell("n1", &json!({"volumesInUse": null})).await;
    lab.on("data", &["n2"]).await;

    // A node dies with the volume mounted. With the out-of-service taint, the volume is detached immediately.
    lab.tell(
        "n2",
        &json!({"volumesInUse": [unique], "conditions": [{"type": "Ready", "status": "Unknown"}]}),
    )
    .await;
    lab.end_pod("second").await;
    lab.pod("third", "data", json!({"nodeName": "n3"})).await;
    lab.on("data", &["n2"]).await;
    let taint =
        json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]);
    lab.http.patch(&format!("{NODES}/n2"), &json!({"spec": {"taints": taint}})).await.expect(200);
    lab.on("data", &["n3"]).await;
}
