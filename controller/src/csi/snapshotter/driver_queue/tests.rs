//! Both controllers with the fake API and an in-memory driver: the driver's snapshots and the contents' handles must match.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_csi::error::Code;
use orlop_csi::v1::{CreateSnapshotRequest, DeleteSnapshotRequest, ListSnapshotsRequest};
use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::csi::rig::{DRIVER, Rig, survives};
use crate::csi::snapshotter::common;
use crate::options::Options;
use crate::testing::{Failing, TestDriver};
use orlop_client::names::{ANN_SNAPSHOT_BEING_CREATED, FINALIZER_SNAPSHOT_CONTENT};

const BOTH: [Run; 2] = [common::run, run];
const SNAPSHOTS: &str = "volumesnapshots";
const CONTENTS: &str = "volumesnapshotcontents";
const MADE: &str = "snapcontent-u-s";

async fn rig() -> Rig {
    let rpcs = [Rpc::CreateDeleteSnapshot, Rpc::ListSnapshots];
    let rig = Rig::with(TestDriver::new(DRIVER, &rpcs, &[])).await;
    rig.bound_claim("a", "1Gi");
    rig.api.seed(json!({"kind": "VolumeSnapshotClass", "metadata": {"name": "k"}, "driver": DRIVER,
        "deletionPolicy": "Delete", "parameters": {"tier": "cold",
            "csi.storage.k8s.io/snapshotter-secret-name": "s", "csi.storage.k8s.io/snapshotter-secret-namespace": "ns"}}));
    rig.api.seed(
        json!({"kind": "Secret", "metadata": {"namespace": "ns", "name": "s"}, "data": {"key": "aHVzaA=="}}),
    );
    rig
}

fn take(rig: &Rig) {
    rig.api
        .seed(json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "ns", "name": "s", "uid": "u-s"},
        "spec": {"source": {"persistentVolumeClaimName": "a"}, "volumeSnapshotClassName": "k"}}));
}

/// Names of the driver's snapshots. Asserts that each has a content, and that each content's snapshot exists.
fn held(rig: &Rig) -> Vec<String> {
    let state = rig.double.state();
    let there: BTreeSet<String> = state.snapshots.keys().cloned().collect();
    let contents = rig.api.list(CONTENTS);
    let known = contents.iter().filter_map(|content| content["status"]["snapshotHandle"].as_str());
    assert_eq!(there, known.map(str::to_owned).collect(), "no snapshot is forgotten");
    state.snapshots.values().map(|(name, _)| name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn i6_i9_snapshot_is_taken_despite_failures() {
    let rig = survives(&BOTH, rig, take, held).await;
    assert_eq!(held(&rig), ["snapshot-u-s"]);
    let content = rig.api.get(CONTENTS, MADE).unwrap();
    assert_eq!(
        content["status"],
        json!({"snapshotHandle": "snap-1", "readyToUse": true, "restoreSize": 1 << 30,
            "creationTime": 1_767_225_600_000_000_000_i64})
    );
    assert_eq!(content["metadata"]["annotations"][ANN_SNAPSHOT_BEING_CREATED], Value::Null);
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), true);
    let asked = rig.double.requests::<CreateSnapshotRequest>().remove(0);
    assert_eq!((asked.source_volume_id.as_str(), asked.secrets["key"].as_str()), ("h-a", "hush"));
    assert_eq!(asked.parameters, [("tier".to_owned(), "cold".to_owned())].into());
}

#[tokio::test(start_paused = true)]
async fn i6_i9_snapshot_is_deleted_despite_failures() {
    let make = async || {
        let rig = rig().await;
        take(&rig);
        let running = rig.api.start(&BOTH, Options::default());
        rig.api.settle().await;
        drop(running);
        rig.api.take_writes();
        rig
    };
    let rig = survives(&BOTH, make, |rig| assert!(rig.api.delete(SNAPSHOTS, "ns/s")), held).await;
    assert_eq!((held(&rig), rig.api.list(CONTENTS), rig.api.list(SNAPSHOTS)), (vec![], vec![], vec![]));
    let asked = rig.double.requests::<DeleteSnapshotRequest>().remove(0);
    assert_eq!((asked.snapshot_id.as_str(), asked.secrets["key"].as_str()), ("snap-1", "hush"));
}

/// A content that was created for the same snapshot protects it, until it is gone.
#[tokio::test(start_paused = true)]
async fn i8_snapshot_of_another_content_is_not_deleted() {
    let rig = rig().await;
    take(&rig);
    let running = rig.api.start(&BOTH, Options::default());
    rig.api.settle().await;
    let imported = json!({"kind": "VolumeSnapshotContent", "metadata": {"name": "imported"}, "spec": {"driver": DRIVER,
        "deletionPolicy": "Retain", "source": {"snapshotHandle": "snap-1"},
        "volumeSnapshotRef": {"namespace": "ns", "name": "other"}}});
    rig.api.seed(imported);
    rig.api.settle().await;
    assert!(rig.api.delete(SNAPSHOTS, "ns/s"));
    rig.api.settle().await;
    assert_eq!(rig.double.state().snapshots.len(), 1);
    assert!(rig.api.get(CONTENTS, MADE).is_some());
    let events = rig.api.events();
    for name in [MADE, "imported"] {
        let refused = |event: &&String| event.contains(name) && event.contains("SnapshotDeleteError");
        assert!(events.iter().any(|event| refused(&event)), "{name}: {events:#?}");
    }
    rig.api.delete(CONTENTS, "imported");
    rig.api.settle().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    rig.api.settle().await;
    assert_eq!((rig.double.state().snapshots.len(), rig.api.get(CONTENTS, MADE)), (0, None));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn i9_snapshot_deleted_during_creation_is_not_forgotten() {
    for (name, kind) in [
        ("no answer", Failing::NoAnswer),
        ("answer lost", Failing::AnswerLost),
        ("garbage", Failing::Garbage),
        ("aborted", Failing::RefusesAfter(Code::Aborted, "later")),
    ] {
        for dies in [false, true] {
            let rig = rig().await;
            rig.double.fail("CreateSnapshot", 0, kind.clone());
            let mut running = rig.api.start(&BOTH, Options::default());
            take(&rig);
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(
                rig.field(CONTENTS, MADE, "/metadata/annotations")[ANN_SNAPSHOT_BEING_CREATED],
                "yes",
                "{name}"
            );
            assert_eq!(rig.double.state().snapshots.len(), 1, "{name}: the driver has taken it");
            rig.api.delete(SNAPSHOTS, "ns/s");
            if dies {
                rig.crash(running).await;
                running = rig.api.start(&BOTH, Options::default());
            }
            rig.api.settle().await;
            rig.api.settle().await;
            assert_eq!((held(&rig), rig.api.list(CONTENTS)), (vec![], vec![]), "{name}, dies: {dies}");
            assert_eq!(rig.api.list(SNAPSHOTS), Vec::<Value>::new(), "{name}, dies: {dies}");
            drop(running);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unready_snapshot_is_checked_again() {
    let rig = rig().await;
    rig.double.state().snapshots_ready = false;
    let _running = rig.api.start(&BOTH, Options::default());
    take(&rig);
    rig.api.settle().await;
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), false);
    assert!(rig.field(SNAPSHOTS, "ns/s", "/status/creationTime").is_string());
    let calls = rig.double.calls().len();
    assert!((3..10).contains(&calls), "fewer each time: {calls}");
    rig.double.state().snapshots.values_mut().for_each(|(_, snapshot)| snapshot.ready_to_use = true);
    rig.api.settle().await;
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), true);
}

#[tokio::test(start_paused = true)]
async fn refusal_is_reported_and_retried() {
    let rig = rig().await;
    rig.double.fail("CreateSnapshot", 0, Failing::Refuses(Code::Internal, "no"));
    let _running = rig.api.start(&BOTH, Options::default());
    take(&rig);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let why = "Failed to create snapshot: failed to take snapshot of the volume h-a: \
        \"rpc error: code = Internal desc = no\"";
    assert_eq!(rig.field(CONTENTS, MADE, "/status/error/message"), why);
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/error/message"), why);
    assert_eq!(rig.field(CONTENTS, MADE, "/metadata/annotations")[ANN_SNAPSHOT_BEING_CREATED], Value::Null);
    let events = rig.api.events();
    let said = format!("VolumeSnapshotContent {MADE} Warning SnapshotCreationFailed {why}");
    assert!(events.contains(&said), "{events:?}");
    rig.api.settle().await;
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), true);
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/error"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn i9_refusal_does_not_settle_an_earlier_lost_response() {
    for (name, code, certain) in [
        ("a driver that is broken", Code::Internal, false),
        ("a driver that has no such volume", Code::NotFound, true),
        ("a driver that refuses what it is asked", Code::InvalidArgument, true),
    ] {
        let rig = rig().await;
        rig.double.fail("CreateSnapshot", 0, Failing::AnswerLost);
        rig.double.fail("CreateSnapshot", 1, Failing::Refuses(code, "no"));
        let _running = rig.api.start(&BOTH, Options::default());
        take(&rig);
        let expected = format!("rpc error: code = {code:?} desc = no");
        let error = || rig.field(CONTENTS, MADE, "/status/error/message").to_string();
        for _ in 0..1000 {
            if error().contains(&expected) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(error().contains(&expected), "{name}: {}", error());
        let mark = &rig.field(CONTENTS, MADE, "/metadata/annotations")[ANN_SNAPSHOT_BEING_CREATED];
        assert_eq!(mark.is_null(), certain, "{name}: {mark}");
        assert_eq!(rig.double.state().snapshots.len(), 1, "{name}: the driver has taken it");
    }
}

#[tokio::test(start_paused = true)]
async fn existing_snapshot_is_checked_and_deleted_with_its_content() {
    let rig = rig().await;
    let taken = orlop_csi::v1::Snapshot {
        snapshot_id: "old".to_owned(),
        ready_to_use: true,
        size_bytes: 5,
        ..Default::default()
    };
    rig.double.state().snapshots.insert("old".to_owned(), ("by hand".to_owned(), taken));
    let content = |name: &str, handle: &str| {
        json!({"kind": "VolumeSnapshotContent", "metadata": {"name": name}, "spec": {
            "volumeSnapshotRef": {"namespace": "ns", "name": "s"}, "deletionPolicy": "Delete", "driver": DRIVER,
            "source": {"snapshotHandle": handle}}})
    };
    rig.api.seed(content("p", "old"));
    rig.api.seed(content("q", "nowhere"));
    rig.api.seed(json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "ns", "name": "s"},
        "spec": {"source": {"volumeSnapshotContentName": "p"}}}));
    let _running = rig.api.start(&BOTH, Options::default());
    rig.api.settle().await;
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/restoreSize"), "5");
    assert_eq!(rig.field(CONTENTS, "p", "/metadata/finalizers"), json!([FINALIZER_SNAPSHOT_CONTENT]));
    assert_eq!(
        rig.field(CONTENTS, "q", "/status/error/message"),
        "Failed to check and update snapshot content: failed to list snapshot for content q: \
            \"can not find snapshot for snapshotID nowhere\""
    );
    assert!(rig.double.requests::<ListSnapshotsRequest>().iter().any(|asked| asked.snapshot_id == "old"));
    rig.api.delete(SNAPSHOTS, "ns/s");
    rig.api.settle().await;
    assert_eq!((rig.api.get(CONTENTS, "p"), rig.double.state().snapshots.len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn i9_content_deleted_before_its_check_deletes_its_snapshot() {
    for (policy, left) in [("Delete", 0), ("Retain", 1)] {
        let rig = rig().await;
        let taken = orlop_csi::v1::Snapshot { snapshot_id: "old".to_owned(), ..Default::default() };
        rig.double.state().snapshots.insert("old".to_owned(), ("by hand".to_owned(), taken));
        rig.api.seed(json!({"kind": "VolumeSnapshotContent",
            "metadata": {"name": "p", "finalizers": [FINALIZER_SNAPSHOT_CONTENT]}, "spec": {
                "volumeSnapshotRef": {"namespace": "ns", "name": "s"}, "deletionPolicy": policy, "driver": DRIVER,
                "source": {"snapshotHandle": "old"}}}));
        rig.api.delete(CONTENTS, "p");
        let _running = rig.api.start(&BOTH, Options::default());
        rig.api.settle().await;
        assert_eq!(rig.api.get(CONTENTS, "p"), None, "{policy}");
        assert_eq!(rig.double.state().snapshots.len(), left, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_responses_are_rejected() {
    let rig = rig().await;
    rig.double.state().snapshot_lie =
        Some(Box::new(|snapshot| snapshot.source_volume_id = "other".to_owned()));
    let _running = rig.api.start(&BOTH, Options::default());
    take(&rig);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.field(CONTENTS, MADE, "/status/snapshotHandle"), Value::Null);
    assert_eq!(rig.field(CONTENTS, MADE, "/metadata/annotations")[ANN_SNAPSHOT_BEING_CREATED], "yes");
    rig.double.state().snapshot_lie = None;
    rig.api.settle().await;
    assert_eq!(held(&rig), ["snapshot-u-s"]);
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), true);
}

#[tokio::test(start_paused = true)]
async fn only_contents_of_known_drivers_are_served() {
    let rig = rig().await;
    rig.api.drivers().remove(DRIVER);
    let _running = rig.api.start(&BOTH, Options::default());
    take(&rig);
    rig.api.settle().await;
    assert!(rig.api.get(CONTENTS, MADE).is_some(), "binding is not the driver's");
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    rig.api.drivers().put(rig.double.driver().await);
    rig.api.settle().await;
    assert_eq!(rig.field(SNAPSHOTS, "ns/s", "/status/readyToUse"), true);
}
