//! The resizer with the fake API and an in-memory driver.
#![allow(clippy::unwrap_used)]

mod nodes;

use std::time::Duration;

use orlop_csi::error::Code;
use orlop_csi::v1::ControllerExpandVolumeRequest;
use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::csi::rig::{DRIVER, Rig, survives};
use crate::options::Options;
use crate::testing::{Failing, TestDriver};
use orlop_client::names::ANN_NODE_EXPANSION_NOT_REQUIRED;

const THIS: [Run; 1] = [run];
const CLAIMS: &str = "persistentvolumeclaims";

async fn rig() -> Rig {
    let rig = Rig::with(TestDriver::new(DRIVER, &[Rpc::ExpandVolume], &[])).await;
    rig.bound_claim("a", "1Gi");
    rig
}

fn status(rig: &Rig) -> Value {
    rig.field(CLAIMS, "ns/a", "/status")
}

fn sizes(rig: &Rig) -> Vec<i64> {
    let sizes = rig.double.requests::<ControllerExpandVolumeRequest>();
    sizes.iter().map(|request| request.capacity_range.unwrap().required_bytes >> 30).collect()
}

fn reasons(rig: &Rig) -> Vec<String> {
    rig.api.events().iter().map(|line| line.split(' ').nth(3).unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn i6_i9_claim_is_expanded_despite_failures() {
    let held = |rig: &Rig| rig.double.state().volumes["h-a"].bytes;
    let rig = survives(&THIS, rig, |rig| rig.ask_for("a", "3Gi"), held).await;
    assert_eq!(held(&rig), 3 << 30);
    assert_eq!(rig.field("persistentvolumes", "pv-a", "/spec/capacity/storage"), "3Gi");
    assert_eq!(
        status(&rig),
        json!({"phase": "Bound", "capacity": {"storage": "3Gi"}, "allocatedResources": {"storage": "3Gi"},
            "allocatedResourceStatuses": {}, "conditions": []})
    );
    assert_eq!(
        rig.field(CLAIMS, "ns/a", "/metadata/annotations"),
        json!({ANN_NODE_EXPANSION_NOT_REQUIRED: "true"})
    );
    assert_eq!(
        rig.api.events(),
        [
            "PersistentVolumeClaim ns/a Normal Resizing External resizer is resizing volume pv-a",
            "PersistentVolumeClaim ns/a Normal VolumeResizeSuccessful Resize volume succeeded",
        ]
    );
    assert_eq!(rig.api.list("events")[0]["source"]["component"], "external-resizer d.example");
    let asked = rig.double.requests::<ControllerExpandVolumeRequest>().remove(0);
    assert_eq!(asked.volume_id, "h-a");
    assert!(asked.volume_capability.is_some());
}

#[tokio::test(start_paused = true)]
async fn i6_i9_node_expansion_completes_despite_failures() {
    let make = async || {
        let rig = rig().await;
        rig.double.state().node_expansion = true;
        rig
    };
    let held = |rig: &Rig| rig.double.state().volumes["h-a"].bytes;
    let rig = survives(&THIS, make, |rig| rig.ask_for("a", "2Gi"), held).await;
    let marks = rig.field("persistentvolumes", "pv-a", "/metadata/annotations");
    assert_eq!(marks, json!({ANN_PRE_RESIZE_CAPACITY: "1Gi"}));
    let now = status(&rig);
    assert_eq!(
        (&now["capacity"]["storage"], &now["allocatedResources"]["storage"]),
        (&json!("1Gi"), &json!("2Gi"))
    );
    assert_eq!(now["allocatedResourceStatuses"]["storage"], "NodeResizePending");
    let types: Vec<&str> =
        now["conditions"].as_array().unwrap().iter().filter_map(|c| c["type"].as_str()).collect();
    assert_eq!(types, ["Resizing", "FileSystemResizePending"]);
    assert_eq!(reasons(&rig), ["Resizing", "FileSystemResizeRequired"]);

    // A larger request waits for the node; the node finishes, and the rest follows.
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    rig.ask_for("a", "3Gi");
    rig.api.settle().await;
    assert_eq!(sizes(&rig), [2]);
    rig.double.state().node_expansion = false;
    let done = json!({"status": {"capacity": {"storage": "2Gi"}, "conditions": [],
        "allocatedResourceStatuses": {"storage": null}}});
    rig.api.patch(CLAIMS, "ns/a", "status", done);
    rig.api.settle().await;
    assert_eq!(sizes(&rig), [2, 3]);
    assert_eq!(status(&rig)["capacity"]["storage"], "3Gi");
    assert_eq!(rig.field("persistentvolumes", "pv-a", "/metadata/annotations"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn size_is_recorded_before_the_driver_is_called() {
    let rig = rig().await;
    rig.double.fail("ControllerExpandVolume", 0, Failing::NoAnswer);
    let running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    rig.ask_for("a", "3Gi");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let now = status(&rig);
    assert_eq!(now["allocatedResources"]["storage"], "3Gi");
    assert_eq!(now["allocatedResourceStatuses"]["storage"], "ControllerResizeInProgress");
    assert_eq!(now["conditions"][0]["type"], "Resizing");
    // The process dies, and the user requests less in the meantime: the resize that may be done is finished first.
    rig.crash(running).await;
    rig.ask_for("a", "2Gi");
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    assert_eq!(sizes(&rig), [3, 3]);
    assert_eq!(status(&rig)["capacity"]["storage"], "3Gi");
}

#[tokio::test(start_paused = true)]
async fn infeasible_size_is_delayed_and_a_smaller_one_recovers() {
    let rig = rig().await;
    rig.double.fail_times("ControllerExpandVolume", 0, 2, Failing::Refuses(Code::OutOfRange, "too large"));
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    rig.ask_for("a", "9Gi");
    rig.api.settle().await;
    let now = status(&rig);
    assert_eq!(now["allocatedResourceStatuses"]["storage"], "ControllerResizeInfeasible");
    assert_eq!(now["conditions"][1]["type"], "ControllerResizeError");
    let why = "rpc error: code = OutOfRange desc = too large";
    assert_eq!(now["conditions"][1]["message"], format!("failed to expand pvc with {why}"));
    let failed = format!("resize volume \"pv-a\" by resizer \"d.example\" failed: {why}");
    assert_eq!(
        rig.api.events()[1],
        format!("PersistentVolumeClaim ns/a Warning VolumeResizeFailed {failed}")
    );
    rig.api.settle().await;
    rig.api.settle().await;
    assert_eq!(rig.double.calls().len(), 1, "it rests");
    tokio::time::sleep(crate::csi::retry_state::SLOW).await;
    assert_eq!(rig.double.calls().len(), 2, "and is tried again");
    rig.ask_for("a", "2Gi");
    rig.api.settle().await;
    assert_eq!(sizes(&rig), [2]);
    assert_eq!(
        (&status(&rig)["capacity"]["storage"], &status(&rig)["conditions"]),
        (&json!("2Gi"), &json!([]))
    );
}

#[tokio::test(start_paused = true)]
async fn claim_may_request_less_after_a_final_error() {
    let rig = rig().await;
    rig.double.state().room = Some(2 << 30);
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    rig.ask_for("a", "9Gi");
    rig.api.settle().await;
    assert_eq!(status(&rig)["allocatedResourceStatuses"]["storage"], "ControllerResizeInProgress");
    rig.ask_for("a", "2Gi");
    rig.api.settle().await;
    assert_eq!(status(&rig)["capacity"]["storage"], "2Gi");
    assert_eq!(rig.double.state().volumes["h-a"].bytes, 2 << 30);
}

#[tokio::test(start_paused = true)]
async fn volume_in_use_waits_for_its_pods() {
    let rig = rig().await;
    rig.double.fail("ControllerExpandVolume", 0, Failing::Refuses(Code::FailedPrecondition, "in use"));
    rig.api.seed(json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]},
        "status": {"phase": "Running"}}));
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    rig.ask_for("a", "2Gi");
    rig.api.settle().await;
    rig.api.settle().await;
    assert_eq!(rig.double.calls().len(), 1);
    assert_eq!(
        rig.api.events().last().unwrap(),
        "PersistentVolumeClaim ns/a Warning VolumeResizeFailed Unable to expand ns/a because CSI driver d.example \
            only supports offline expansion and volume is currently in-use"
    );
    rig.api.patch("pods", "ns/p", "status", json!({"status": {"phase": "Succeeded"}}));
    rig.api.settle().await;
    assert_eq!(status(&rig)["capacity"]["storage"], "2Gi");
}

#[tokio::test(start_paused = true)]
async fn late_driver_serves_its_waiting_claims_and_no_others() {
    let double = TestDriver::new(DRIVER, &[Rpc::ExpandVolume], &[]);
    let rig = Rig { api: crate::testing::FakeApi::new(), double };
    rig.bound_claim("a", "1Gi");
    let running = rig.api.start(&THIS, Options::default());
    rig.ask_for("a", "2Gi");
    rig.api.settle().await;
    assert_eq!((rig.api.take_writes(), rig.double.calls()), (vec![], vec![]));
    rig.api.drivers().put(rig.double.driver().await);
    rig.api.settle().await;
    assert_eq!(status(&rig)["capacity"]["storage"], "2Gi");
    // After its removal it is not called any more.
    rig.api.drivers().remove(DRIVER);
    rig.api.settle().await;
    rig.ask_for("a", "3Gi");
    rig.api.settle().await;
    assert_eq!(sizes(&rig), [2]);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_sent_and_a_missing_one_fails_the_resize() {
    let rig = rig().await;
    let reference = json!({"spec": {"csi": {"controllerExpandSecretRef": {"namespace": "ns", "name": "s"}}}});
    rig.api.patch("persistentvolumes", "pv-a", "", reference);
    let _running = rig.api.start(&THIS, Options::default());
    rig.ask_for("a", "2Gi");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    let said = rig.api.events().pop().unwrap();
    assert!(said.contains("error getting secret s in namespace ns"), "{said}");
    assert_eq!(status(&rig)["conditions"].as_array().unwrap().len(), 1, "nothing is known of the driver");
    rig.api.seed(
        json!({"kind": "Secret", "metadata": {"namespace": "ns", "name": "s"}, "data": {"key": "aHVzaA=="}}),
    );
    rig.api.settle().await;
    let asked = rig.double.requests::<ControllerExpandVolumeRequest>().pop().unwrap();
    assert_eq!(asked.secrets["key"], "hush");
    assert!(!rig.api.events().concat().contains("hush"));
}

#[tokio::test(start_paused = true)]
async fn migrated_volume_is_expanded_once_its_claim_names_the_driver() {
    let cinder = "cinder.csi.openstack.org";
    let rig = Rig::with(TestDriver::new(cinder, &[Rpc::ExpandVolume], &[])).await;
    rig.bound_claim("a", "1Gi");
    let source = json!({"spec": {"csi": null, "cinder": {"volumeID": "h-a"}}});
    rig.api.patch("persistentvolumes", "pv-a", "", source);
    let _running = rig.api.start(&THIS, Options::default());
    rig.ask_for("a", "2Gi");
    rig.api.settle().await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    rig.api.patch(CLAIMS, "ns/a", "", json!({"metadata": {"annotations": {ANN_STORAGE_RESIZER: cinder}}}));
    rig.api.settle().await;
    assert_eq!(status(&rig)["capacity"]["storage"], "2Gi");
    assert_eq!(rig.field("persistentvolumes", "pv-a", "/spec/csi"), Value::Null, "it keeps its source");
}
