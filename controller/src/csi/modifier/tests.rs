//! The modifier with the fake API and an in-memory driver.
#![allow(clippy::unwrap_used)]

use orlop_csi::error::Code;
use orlop_csi::v1::ControllerModifyVolumeRequest;
use serde_json::{Value, json};
use std::time::Duration;

use super::*;
use crate::context::Run;
use crate::csi::rig::{DRIVER, Rig, survives};
use crate::options::Options;
use crate::testing::{Failing, TestDriver};

const THIS: [Run; 1] = [run];
const CLAIMS: &str = "persistentvolumeclaims";

fn class(name: &str) -> Value {
    json!({"kind": "VolumeAttributesClass", "metadata": {"name": name}, "driverName": DRIVER,
        "parameters": {"iops": name}})
}

async fn rig() -> Rig {
    let rig = Rig::with(TestDriver::new(DRIVER, &[Rpc::ModifyVolume], &[])).await;
    rig.bound_claim("a", "1Gi");
    rig.api.seed(class("gold"));
    rig
}

fn wish(rig: &Rig, class: Option<&str>) {
    rig.api.patch(CLAIMS, "ns/a", "", json!({"spec": {"volumeAttributesClassName": class}}));
}

fn iops(rig: &Rig) -> Option<String> {
    rig.double.state().volumes["h-a"].mutable.get("iops").cloned()
}

fn asked(rig: &Rig) -> Vec<String> {
    let all = rig.double.requests::<ControllerModifyVolumeRequest>();
    all.iter().map(|request| request.mutable_parameters["iops"].clone()).collect()
}

fn status(rig: &Rig) -> Value {
    rig.field(CLAIMS, "ns/a", "/status")
}

#[tokio::test(start_paused = true)]
async fn i6_i9_volume_is_modified_despite_failures() {
    let rig = survives(&THIS, rig, |rig| wish(rig, Some("gold")), iops).await;
    assert_eq!(iops(&rig).as_deref(), Some("gold"));
    assert_eq!(rig.field("persistentvolumes", "pv-a", "/spec/volumeAttributesClassName"), "gold");
    let now = status(&rig);
    assert_eq!(now["currentVolumeAttributesClassName"], "gold");
    assert_eq!((&now["modifyVolumeStatus"], &now["conditions"]), (&Value::Null, &json!([])));
    assert_eq!(
        rig.api.events(),
        [
            "PersistentVolumeClaim ns/a Normal VolumeModify external resizer is modifying volume a with vac gold",
            "PersistentVolumeClaim ns/a Normal VolumeModifySuccessful external resizer modified volume a with vac \
                gold successfully",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn claim_is_modified_when_its_class_appears() {
    let rig = rig().await;
    let _running = rig.api.start(&THIS, Options::default());
    wish(&rig, Some("silver"));
    rig.api.settle().await;
    assert_eq!(status(&rig)["modifyVolumeStatus"], json!({"status": "Pending"}));
    assert_eq!(
        rig.api.events(),
        ["PersistentVolumeClaim ns/a Warning VolumeModifyFailed VAC \"silver\" does not exist."]
    );
    rig.api.create(class("silver"));
    rig.api.settle().await;
    assert_eq!(status(&rig)["currentVolumeAttributesClassName"], "silver");
}

#[tokio::test(start_paused = true)]
async fn uncertain_modification_is_finished_first_even_after_a_crash() {
    let rig = rig().await;
    rig.api.seed(class("silver"));
    rig.double.fail("ControllerModifyVolume", 0, Failing::NoAnswer);
    let running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    wish(&rig, Some("gold"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let record = json!({"status": "InProgress", "targetVolumeAttributesClassName": "gold"});
    assert_eq!(status(&rig)["modifyVolumeStatus"], record, "on record before the driver answers");
    rig.crash(running).await;
    wish(&rig, Some("silver"));
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    assert_eq!(asked(&rig), ["gold", "gold", "silver"]);
    assert_eq!(status(&rig)["currentVolumeAttributesClassName"], "silver");
}

#[tokio::test(start_paused = true)]
async fn infeasible_modification_is_reported_delayed_and_replaceable() {
    let rig = rig().await;
    rig.api.seed(class("silver"));
    rig.double.fail("ControllerModifyVolume", 0, Failing::Refuses(Code::InvalidArgument, "no such tier"));
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    wish(&rig, Some("gold"));
    rig.api.settle().await;
    rig.api.settle().await;
    let now = status(&rig);
    assert_eq!(now["modifyVolumeStatus"]["status"], "Infeasible");
    let said = |at: usize, field: &str| now["conditions"][at][field].clone();
    assert_eq!(said(0, "message"), "Modifying volume to \"gold\" failed. Waiting for retry.");
    assert_eq!((said(1, "reason"), said(1, "message")), (json!("InvalidArgument"), json!("no such tier")));
    assert_eq!(rig.double.calls().len(), 1, "it rests");
    wish(&rig, Some("silver"));
    rig.api.settle().await;
    assert_eq!(asked(&rig), ["silver"]);
    assert_eq!(status(&rig)["currentVolumeAttributesClassName"], "silver");
}

#[tokio::test(start_paused = true)]
async fn withdrawn_class_is_rolled_back_after_a_refusal() {
    let rig = rig().await;
    rig.double.fail("ControllerModifyVolume", 0, Failing::Refuses(Code::InvalidArgument, "no"));
    let _running = rig.api.start(&THIS, Options::default());
    rig.api.settle().await;
    wish(&rig, Some("gold"));
    rig.api.settle().await;
    wish(&rig, None);
    rig.api.settle().await;
    let left: Vec<Value> =
        status(&rig)["conditions"].as_array().unwrap().iter().map(|c| c["type"].clone()).collect();
    assert_eq!(left, ["ModifyVolumeError"]);
    assert_eq!(
        rig.api.events().last().unwrap(),
        "PersistentVolumeClaim ns/a Normal VolumeModifyCanceled Cancelled modify."
    );
    assert_eq!(rig.double.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn secret_of_the_volume_is_sent() {
    let rig = rig().await;
    rig.api.seed(
        json!({"kind": "Secret", "metadata": {"namespace": "ns", "name": "s"}, "data": {"key": "aHVzaA=="}}),
    );
    let marks = json!({"metadata": {"annotations": {
        "volume.kubernetes.io/controller-modify-secret-name": "s",
        "volume.kubernetes.io/controller-modify-secret-namespace": "ns"}}});
    rig.api.patch("persistentvolumes", "pv-a", "", marks);
    let _running = rig.api.start(&THIS, Options::default());
    wish(&rig, Some("gold"));
    rig.api.settle().await;
    assert_eq!(rig.double.requests::<ControllerModifyVolumeRequest>()[0].secrets["key"], "hush");
}
