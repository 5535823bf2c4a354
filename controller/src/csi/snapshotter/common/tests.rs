//! Binding with the fake API, without any driver: sidecars may run elsewhere.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::csi::rig::{DRIVER, Rig, survives};
use crate::options::Options;
use crate::testing::{FakeApi, TestDriver};
use orlop_client::names::{
    ANN_SNAPSHOT_BEING_DELETED, FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND,
    FINALIZER_SNAPSHOT_CONTENT,
};

const THIS: [Run; 1] = [run];
const SNAPSHOTS: &str = "volumesnapshots";
const CONTENTS: &str = "volumesnapshotcontents";
const MADE: &str = "snapcontent-u-s";

fn class(name: &str, is_default: bool) -> Value {
    let annotations = if is_default { json!({ANN_DEFAULT_SNAPSHOT_CLASS: "true"}) } else { json!({}) };
    json!({"kind": "VolumeSnapshotClass", "metadata": {"name": name, "annotations": annotations}, "driver": DRIVER,
        "deletionPolicy": "Delete", "parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "s",
            "csi.storage.k8s.io/snapshotter-secret-namespace": "${volumesnapshot.namespace}"}})
}

fn snapshot(source: Value, class: Value) -> Value {
    json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "ns", "name": "s", "uid": "u-s"},
        "spec": {"source": source, "volumeSnapshotClassName": class}})
}

fn of_claim() -> Value {
    snapshot(json!({"persistentVolumeClaimName": "a"}), json!("k"))
}

async fn rig() -> Rig {
    let rig = Rig { api: FakeApi::new(), double: TestDriver::new(DRIVER, &[], &[]) };
    rig.bound_claim("a", "1Gi");
    rig.api.seed(class("k", false));
    rig
}

fn taken(rig: &Rig) {
    let status = json!({"status": {"snapshotHandle": "sh", "readyToUse": true, "restoreSize": 1 << 30,
        "creationTime": 1_767_225_600_000_000_000_i64}});
    rig.api.patch(CONTENTS, MADE, "status", status);
}

#[tokio::test(start_paused = true)]
async fn i6_content_is_created_and_bound_despite_failures() {
    let act = |rig: &Rig| drop(rig.api.seed(of_claim()));
    let rig = survives(&THIS, rig, act, |_| ()).await;
    let content = rig.api.get(CONTENTS, MADE).unwrap();
    assert_eq!(content["metadata"]["finalizers"], json!([FINALIZER_SNAPSHOT_CONTENT]));
    assert_eq!(
        content["metadata"]["annotations"]["snapshot.storage.kubernetes.io/deletion-secret-namespace"],
        "ns"
    );
    assert_eq!(content["spec"]["source"], json!({"volumeHandle": "h-a"}));
    assert_eq!(
        rig.field(SNAPSHOTS, "ns/s", "/status"),
        json!({"boundVolumeSnapshotContentName": MADE, "readyToUse": false})
    );
    let held = json!([FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND]);
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/metadata/finalizers"), held);
    assert_eq!(
        rig.field("persistentvolumeclaims", "ns/a", "/metadata/finalizers"),
        json!([FINALIZER_SNAPSHOT_CLAIM])
    );
    let said = "VolumeSnapshot ns/s Normal CreatingSnapshot Waiting for a snapshot ns/s to be created by the CSI driver.";
    assert_eq!(rig.api.events(), [said]);

    // The sidecar, wherever it runs, takes the snapshot.
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    taken(&rig);
    rig.api.settle().await;
    assert_eq!(
        rig.field(SNAPSHOTS, "ns/s", "/status"),
        json!({"boundVolumeSnapshotContentName": MADE, "readyToUse": true, "restoreSize": "1Gi",
            "creationTime": "2026-01-01T00:00:00Z"})
    );
    assert_eq!(rig.field("persistentvolumeclaims", "ns/a", "/metadata/finalizers"), Value::Null);
    assert_eq!(
        rig.api.events()[1..],
        [
            "VolumeSnapshot ns/s Normal SnapshotCreated Snapshot ns/s was successfully created by the CSI driver.",
            "VolumeSnapshot ns/s Normal SnapshotReady Snapshot ns/s is ready to use.",
        ]
    );
    // The content is not deleted concurrently.
    rig.api.delete(SNAPSHOTS, "ns/s");
    rig.api.settle().await;
    let content = rig.api.get(CONTENTS, MADE).unwrap();
    assert_eq!(content["metadata"]["annotations"][ANN_SNAPSHOT_BEING_DELETED], "yes");
    assert!(content["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/metadata/finalizers"), json!([FINALIZER_SNAPSHOT_BOUND]));
    rig.api.patch(CONTENTS, MADE, "", json!({"metadata": {"finalizers": null}}));
    rig.api.settle().await;
    assert_eq!(rig.api.get(SNAPSHOTS, "ns/s"), None);
}

#[tokio::test(start_paused = true)]
async fn i6_existing_content_is_bound_and_retained_despite_failures() {
    let make = async || {
        let rig = rig().await;
        rig.api.seed(json!({"kind": "VolumeSnapshotContent", "metadata": {"name": "p"},
            "spec": {"volumeSnapshotRef": {"namespace": "ns", "name": "s"}, "deletionPolicy": "Retain", "driver": DRIVER,
                "source": {"snapshotHandle": "sh"}}, "status": {"snapshotHandle": "sh", "readyToUse": true}}));
        rig.api.seed(snapshot(json!({"volumeSnapshotContentName": "p"}), Value::Null));
        rig
    };
    let rig = survives(&THIS, make, |_| (), |_| ()).await;
    assert_eq!(rig.field(CONTENTS, "p", "/spec/volumeSnapshotRef/uid"), "u-s");
    assert_eq!(rig.field(CONTENTS, "p", "/metadata/finalizers"), json!([FINALIZER_SNAPSHOT_CONTENT]));
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), true);

    let rig = survives(&THIS, make, |rig| assert!(rig.api.delete(SNAPSHOTS, "ns/s")), |_| ()).await;
    assert_eq!(rig.api.get(SNAPSHOTS, "ns/s"), None);
    assert_eq!(rig.field(CONTENTS, "p", "/metadata/deletionTimestamp"), Value::Null, "Retain");
    assert_eq!(rig.field(CONTENTS, "p", "/metadata/annotations"), json!({ANN_SNAPSHOT_BEING_DELETED: "yes"}));
}

#[tokio::test(start_paused = true)]
async fn snapshot_is_queued_when_a_missing_object_appears() {
    let rig = Rig { api: FakeApi::new(), double: TestDriver::new(DRIVER, &[], &[]) };
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.seed(snapshot(json!({"persistentVolumeClaimName": "a"}), Value::Null));
    rig.api.settle().await;
    let why =
        || rig.field(SNAPSHOTS, "ns/s", "/status/error/message").as_str().unwrap_or_default().to_owned();
    assert!(
        why().starts_with("Failed to set default snapshot class with error failed to retrieve PVC a"),
        "{}",
        why()
    );
    rig.bound_claim("a", "1Gi");
    rig.api.settle().await;
    assert_eq!(why(), "Failed to set default snapshot class with error cannot find default snapshot class");
    rig.api.seed(class("k", true));
    rig.api.settle().await;
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/spec/volumeSnapshotClassName"), "k");
    assert!(rig.api.get(CONTENTS, MADE).is_some());
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/error"), Value::Null);
    let reasons: Vec<bool> =
        rig.api.events().iter().map(|line| line.contains("Warning SetDefaultSnapshotClassFailed")).collect();
    assert_eq!(reasons, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn deleted_snapshot_waits_for_its_restore() {
    let rig = rig().await;
    rig.api.seed(of_claim());
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    rig.api.seed(
        json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "b"}, "spec":
        {"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}},
        "status": {"phase": "Pending"}}),
    );
    taken(&rig);
    rig.api.settle().await;
    rig.api.delete(SNAPSHOTS, "ns/s");
    rig.api.settle().await;
    assert_eq!(rig.field(CONTENTS, MADE, "/metadata/deletionTimestamp"), Value::Null);
    let said = "VolumeSnapshot ns/s Warning SnapshotDeletePending Snapshot is being used to restore a PVC";
    assert_eq!(rig.api.events().last().unwrap(), said);
    rig.api.patch("persistentvolumeclaims", "ns/b", "status", json!({"status": {"phase": "Bound"}}));
    rig.api.settle().await;
    assert!(rig.field(CONTENTS, MADE, "/metadata/deletionTimestamp").is_string());
}

#[tokio::test(start_paused = true)]
async fn claim_finalizer_is_removed_with_its_last_open_snapshot() {
    let rig = rig().await;
    rig.api.seed(of_claim());
    let running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    drop(running);
    // Its finalizers are removed by hand while no controller runs.
    rig.api.patch(SNAPSHOTS, "ns/s", "", json!({"metadata": {"finalizers": null}}));
    rig.api.delete(SNAPSHOTS, "ns/s");
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    assert_eq!(rig.field("persistentvolumeclaims", "ns/a", "/metadata/finalizers"), Value::Null);
    assert!(rig.api.get(CONTENTS, MADE).is_some(), "a content without a snapshot is not deleted");
}

/// The status of a snapshot may contain any text as the name of its content.
#[tokio::test(start_paused = true)]
async fn snapshot_of_a_content_with_an_impossible_name_can_be_deleted() {
    let rig = rig().await;
    let mut bound = snapshot(json!({"volumeSnapshotContentName": "/tmp"}), Value::Null);
    bound["metadata"]["finalizers"] = json!([FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND]);
    bound["status"] = json!({"boundVolumeSnapshotContentName": "/tmp", "readyToUse": true});
    rig.api.seed(bound);
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    let events = rig.api.events();
    assert!(events.last().unwrap().contains("Warning SnapshotContentMissing"), "{events:?}");
    rig.api.delete(SNAPSHOTS, "ns/s");
    rig.api.settle().await;
    assert_eq!(rig.api.get(SNAPSHOTS, "ns/s"), None);
}
