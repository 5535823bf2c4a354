//! A volume of the lab driver, created by hand: it is expanded, its attributes are changed, and it is snapshotted
//! while the control plane is killed; then the snapshot is deleted. Checks ask the driver for its state.

use std::time::Duration;

use orlop_csi::driver::{Driver, Line};
use orlop_csi::socket;
use orlop_csi::v1::{
    CapacityRange, CreateVolumeRequest, ListSnapshotsRequest, VolumeCapability, volume_capability,
};
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

const NAME: &str = "lab.example";
const CLAIM: &str = "/api/v1/namespaces/default/persistentvolumeclaims/c";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
const SNAPSHOT: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots/s";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
const CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

/// The driver's process, and a client of it.
struct Lab {
    _process: Process,
    driver: Driver,
    dir: tempfile::TempDir,
}

impl Lab {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("faults"), "[]").unwrap();
        let args = [
            "csi-hostpath",
            "--endpoint",
            &endpoint(&dir),
            "--data-dir",
            &path("volumes"),
            "--driver-name",
            NAME,
            "--faults",
            &path("faults"),
        ];
        let process = Process::start("driver", dir.path(), &args.map(str::to_owned));
        let line = Line::new(socket::connect(&endpoint(&dir)).unwrap(), Duration::from_secs(20));
        let driver =
            wait::until("the driver answers", async || line.identify().await.map_err(|e| e.to_string()));
        Lab { driver: driver.await, _process: process, dir }
    }

    fn faults(&self, faults: &Value) {
        std::fs::write(self.dir.path().join("faults"), faults.to_string()).unwrap();
    }

    async fn volume(&self, bytes: i64) -> String {
        let mount = volume_capability::AccessType::Mount(Default::default());
        let mode = volume_capability::access_mode::Mode::SingleNodeWriter;
        let capability = VolumeCapability {
            access_type: Some(mount),
            access_mode: Some(volume_capability::AccessMode { mode: mode.into() }),
        };
        let request = CreateVolumeRequest {
            name: "by-hand".to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            volume_capabilities: vec![capability],
            ..Default::default()
        };
        self.driver.create_volume(request).await.unwrap().volume.unwrap().volume_id
    }

    async fn snapshots(&self) -> Vec<String> {
        let all = self.driver.list_snapshots(ListSnapshotsRequest::default()).await.unwrap().entries;
        all.into_iter().filter_map(|entry| entry.snapshot).map(|snapshot| snapshot.snapshot_id).collect()
    }
}

fn endpoint(dir: &tempfile::TempDir) -> String {
    format!("unix://{}", dir.path().join("csi.sock").display())
}

async fn bound_claim(http: &Http, handle: &str) {
    let class = json!({"kind": "StorageClass", "metadata": {"name": "lab"}, "provisioner": NAME,
        "allowVolumeExpansion": true});
    http.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let volume = json!({"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
        "capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "lab",
        "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": NAME, "volumeHandle": handle},
        "claimRef": {"namespace": "default", "name": "c"}}});
    http.create(VOLUMES, &volume).await;
    let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"storageClassName": "lab",
        "accessModes": ["ReadWriteOnce"], "volumeName": "pv", "resources": {"requests": {"storage": "64Mi"}}}});
    http.create("/api/v1/namespaces/default/persistentvolumeclaims", &claim).await;
    http.until(CLAIM, "bound", |claim| claim["status"]["phase"] == "Bound").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volume_is_expanded_modified_and_snapshotted() {
    let lab = Lab::start().await;
    let flag = format!("--csi-endpoint={NAME}={}", endpoint(&lab.dir));
    let mut plane = Plane::of(Layout::OneProcess).controller_flags(&[&flag]).start().await;
    let http = plane.http();
    bound_claim(&http, &lab.volume(64 << 20).await).await;

    http.patch(CLAIM, &json!({"spec": {"resources": {"requests": {"storage": "96Mi"}}}})).await.expect(200);
    let claim = http.until(CLAIM, "larger", |claim| claim["status"]["capacity"]["storage"] == "96Mi").await;
    assert_eq!(claim["status"]["allocatedResources"]["storage"], "96Mi");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/node-expansion-not-required"], "true");
    assert!(claim["status"].get("conditions").is_none(), "{claim:#}");
    assert_eq!(http.get(&format!("{VOLUMES}/pv")).await.expect(200)["spec"]["capacity"]["storage"], "96Mi");

    let gold = json!({"kind": "VolumeAttributesClass", "metadata": {"name": "gold"}, "driverName": NAME,
        "parameters": {"tier": "gold"}});
    http.create("/apis/storage.k8s.io/v1/volumeattributesclasses", &gold).await;
    http.patch(CLAIM, &json!({"spec": {"volumeAttributesClassName": "gold"}})).await.expect(200);
    let current = |claim: &Value| claim["status"]["currentVolumeAttributesClassName"] == "gold";
    http.until(CLAIM, "with other attributes", current).await;

    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": NAME,
        "metadata": {"name": "k", "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"}},
        "deletionPolicy": "Delete"});
    http.create(CLASSES, &class).await;
    // The control plane is killed while the driver works.
    lab.faults(&json!([{"rpc": "CreateSnapshot", "times": 1, "fault": "no-answer"}]));
    let snapshot = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "s"}, "spec": {"source": {"persistentVolumeClaimName": "c"}}});
    http.create(SNAPSHOTS, &snapshot).await;
    wait::until("the driver was asked", async || {
        let asked = lab.snapshots().await;
        if asked.is_empty() { Err("no snapshot yet".to_owned()) } else { Ok(()) }
    })
    .await;
    plane.kill_and_restart().await;
    let http = plane.http();
    let ready = http.until(SNAPSHOT, "ready", |snapshot| snapshot["status"]["readyToUse"] == true).await;
    assert_eq!(ready["status"]["restoreSize"], "96Mi");
    assert_eq!(ready["spec"]["volumeSnapshotClassName"], "k");
    let there = lab.snapshots().await;
    let name = ready["status"]["boundVolumeSnapshotContentName"].as_str().unwrap();
    let content = http.get(&format!("{CONTENTS}/{name}")).await.expect(200);
    assert_eq!(there, [content["status"]["snapshotHandle"].as_str().unwrap()], "one, and it is known");
    let free =
        |claim: &Value| !claim["metadata"]["finalizers"].to_string().contains("pvc-as-source-protection");
    http.until(CLAIM, "let go", free).await;

    http.delete(SNAPSHOT).await.expect(200);
    http.until_gone(SNAPSHOT).await;
    assert_eq!(http.get(CONTENTS).await.expect(200)["items"], json!([]));
    assert_eq!(lab.snapshots().await, Vec::<String>::new());
    plane.stop().await;
}
