//! The attacher with the fake API server and an in-memory driver.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use futures::FutureExt;
use orlop_csi::capabilities::Rpc;
use orlop_csi::v1::ControllerPublishVolumeRequest;
use serde_json::{Value, json};
use tonic::Code;

use super::run;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{DriverVolume, Failing, FakeApi, Fault, FaultKind, TestDriver, survives_faults};

mod taken_back;

const THIS: [Run; 1] = [run];
const DRIVER: &str = "d.example";
const PUBLISH: &str = "ControllerPublishVolume";
const UNPUBLISH: &str = "ControllerUnpublishVolume";

fn volume(name: &str, handle: &str) -> Value {
    json!({"kind": "PersistentVolume", "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": handle}}, "status": {"phase": "Bound"}})
}

fn attachment(name: &str, volume: &str) -> Value {
    json!({"kind": "VolumeAttachment", "metadata": {"name": name}, "spec": {"attacher": DRIVER, "nodeName": "n",
        "source": {"persistentVolumeName": volume}}, "status": {"attached": false}})
}

fn csi_node(driver: &str) -> Value {
    json!({"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": [{"name": driver, "nodeID": "id"}]}})
}

/// A driver with one volume.
fn driver_named(name: &str, rpcs: &[Rpc]) -> TestDriver {
    let double = TestDriver::new(name, &[&[Rpc::PublishUnpublishVolume], rpcs].concat(), &[]);
    double.state().volumes.insert("h".to_owned(), DriverVolume::default());
    double
}

fn put(api: &FakeApi, double: &TestDriver) {
    api.drivers().put(double.driver().now_or_never().expect("it answers without waiting"));
}

/// Volume, node and a reachable driver.
fn ground(rpcs: &[Rpc]) -> (FakeApi, TestDriver) {
    let (api, double) = (FakeApi::new(), driver_named(DRIVER, rpcs));
    api.seed(volume("pv", "h"));
    api.seed(csi_node(DRIVER));
    put(&api, &double);
    (api, double)
}

fn status(api: &FakeApi, name: &str) -> Value {
    api.get("volumeattachments", name).unwrap()["status"].clone()
}

/// Waits long enough for a few requests, but not for a retry.
async fn shortly() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[tokio::test(start_paused = true)]
async fn attach_and_detach_need_few_writes() {
    let (api, double) = ground(&[]);
    let _running = api.start(&THIS, Options::default());
    shortly().await;
    api.create(attachment("va", "pv"));
    shortly().await;
    let object = api.get("volumeattachments", "va").unwrap();
    assert_eq!(object["status"], json!({"attached": true, "attachmentMetadata": {"on": "id"}}));
    assert_eq!(object["metadata"]["finalizers"], json!(["external-attacher/d-example"]));
    assert_eq!(object["metadata"]["annotations"], json!({"csi.alpha.kubernetes.io/node-id": "id"}));
    let pv = api.get("persistentvolumes", "pv").unwrap();
    let both = json!(["kubernetes.io/pv-protection", "external-attacher/d-example"]);
    assert_eq!(pv["metadata"]["finalizers"], both);
    let writes = |api: &FakeApi| -> Vec<String> {
        let writes = api.take_writes();
        writes.iter().map(|w| format!("{} {} {}", w.verb, w.resource, w.subresource)).collect()
    };
    let of_attach =
        ["patch persistentvolumes ", "patch volumeattachments ", "patch volumeattachments status"];
    assert_eq!(writes(&api), of_attach);
    assert_eq!(double.calls(), [PUBLISH]);
    api.delete("volumeattachments", "va");
    shortly().await;
    assert!(api.get("volumeattachments", "va").is_none());
    assert_eq!(writes(&api), ["patch volumeattachments "]);
    assert_eq!(double.calls(), [PUBLISH, UNPUBLISH]);
    assert!(double.state().volumes["h"].published.is_empty());
    // The volume has its finalizer already the second time. The server gets no reads beyond the watches.
    api.create(attachment("va", "pv"));
    shortly().await;
    assert_eq!(writes(&api), &of_attach[1..]);
    let gets = api.requests().iter().filter(|r| r.starts_with("GET") && r.matches('/').count() > 4).count();
    assert_eq!(gets, 0, "{:?}", api.requests());
}

#[tokio::test(start_paused = true)]
async fn i6_i9_any_write_can_fail() {
    let seed = |api: &FakeApi| {
        let double = driver_named(DRIVER, &[]);
        api.seed(volume("pv", "h"));
        api.seed(csi_node(DRIVER));
        api.seed(attachment("va", "pv"));
        put(api, &double);
    };
    let act = |api: &FakeApi| {
        assert_eq!(status(api, "va"), json!({"attached": true, "attachmentMetadata": {"on": "id"}}));
        api.delete("volumeattachments", "va");
        api.patch(
            "persistentvolumes",
            "pv",
            "",
            json!({"metadata": {"finalizers": ["external-attacher/d-example"]}}),
        );
        api.delete("persistentvolumes", "pv");
    };
    let api = survives_faults(&THIS, Options::default(), seed, act).await;
    assert!(api.list("volumeattachments").is_empty() && api.list("persistentvolumes").is_empty());
}

#[tokio::test(start_paused = true)]
async fn driver_errors_are_recorded_and_retried() {
    let table = [
        (Failing::Refuses(Code::Internal, "no"), Code::Internal, "rpc error: code = Internal desc = no"),
        (
            Failing::RefusesAfter(Code::Aborted, "busy"),
            Code::Aborted,
            "rpc error: code = Aborted desc = busy",
        ),
        (Failing::Broken, Code::Unknown, "connection refused"),
        (Failing::AnswerLost, Code::Unknown, "connection reset by peer"),
        (Failing::NoAnswer, Code::DeadlineExceeded, "the driver did not answer within 10 s"),
        (Failing::Garbage, Code::Internal, "failed to decode Protobuf message"),
    ];
    for (kind, code, words) in table {
        let (api, double) = ground(&[]);
        double.fail_times(PUBLISH, 0, 2, kind.clone());
        double.fail_times(UNPUBLISH, 0, 2, kind.clone());
        let took = if matches!(kind, Failing::NoAnswer) { 10_000 } else { 0 };
        let after = |ms: u64| tokio::time::sleep(Duration::from_millis(ms));
        let _running = api.start(&THIS, Options::default());
        api.create(attachment("va", "pv"));
        after(took + 100).await;
        let error = status(&api, "va")["attachError"].clone();
        assert!(error["message"].as_str().unwrap().contains(words), "{kind:?}: {error}");
        assert_eq!(error["errorCode"], json!(code as i32), "{kind:?}");
        assert_eq!(status(&api, "va")["attached"], false);
        assert_eq!(double.calls().len(), 1, "{kind:?}: recording the failure queues nothing");
        after(800).await;
        assert_eq!(double.calls().len(), 1, "{kind:?}: the first wait is 1 s");
        after(200 + took).await;
        assert_eq!(double.calls().len(), 2, "{kind:?}");
        after(1800).await;
        assert_eq!(double.calls().len(), 2, "{kind:?}: the second wait is 2 s");
        after(300).await;
        let well = json!({"attached": true, "attachmentMetadata": {"on": "id"}});
        assert_eq!(status(&api, "va"), well, "{kind:?}: the error is gone");
        api.delete("volumeattachments", "va");
        after(took + 100).await;
        let error = status(&api, "va")["detachError"].clone();
        assert!(error["message"].as_str().unwrap().contains(words), "{kind:?}: {error}");
        assert_eq!(status(&api, "va")["attached"], true, "{kind:?}");
        api.settle().await;
        assert!(api.get("volumeattachments", "va").is_none(), "{kind:?}");
        assert!(double.state().volumes["h"].published.is_empty(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn i12_hanging_driver_does_not_delay_the_others() {
    let (api, hanging) = ground(&[]);
    let well = driver_named("e.example", &[]);
    put(&api, &well);
    hanging.fail_times("*", 0, 1000, Failing::NoAnswer);
    api.patch(
        "csinodes",
        "n",
        "",
        json!({"spec": {"drivers": [
        {"name": DRIVER, "nodeID": "id"}, {"name": "e.example", "nodeID": "id"}]}}),
    );
    for n in 0..20 {
        api.seed(attachment(&format!("hangs-{n}"), "pv"));
    }
    let mut other = volume("pv-e", "h");
    other["spec"]["csi"]["driver"] = json!("e.example");
    api.seed(other);
    let options = Options { csi_worker_threads: 5, ..Options::default() };
    let _running = api.start(&THIS, options);
    shortly().await;
    assert_eq!(hanging.calls().len(), 5, "so many at a time");
    let mut object = attachment("va", "pv-e");
    object["spec"]["attacher"] = json!("e.example");
    api.create(object);
    shortly().await;
    assert_eq!(status(&api, "va")["attached"], true);
}

#[tokio::test(start_paused = true)]
async fn attachment_continues_when_a_missing_object_appears() {
    let (api, double) = (FakeApi::new(), driver_named(DRIVER, &[]));
    let _running = api.start(&THIS, Options::default());
    shortly().await;
    api.create(attachment("va", "pv"));
    api.settle().await;
    assert_eq!(api.take_writes(), [], "no attacher here serves the driver");
    put(&api, &double);
    shortly().await;
    assert_eq!(status(&api, "va")["attachError"]["message"], "persistentvolume \"pv\" not found");
    api.settle().await;
    api.create(volume("pv", "h"));
    shortly().await;
    assert_eq!(status(&api, "va")["attachError"]["message"], "csinode.storage.k8s.io \"n\" not found");
    api.settle().await;
    api.create(csi_node("other"));
    shortly().await;
    let wanted = "CSINode n does not contain driver d.example";
    assert_eq!(status(&api, "va")["attachError"]["message"], wanted);
    let object = api.get("volumeattachments", "va").unwrap();
    assert!(object["metadata"].get("finalizers").is_none(), "nothing was asked, nothing is held: {object}");
    api.settle().await;
    api.patch("csinodes", "n", "", csi_node(DRIVER));
    shortly().await;
    assert_eq!(status(&api, "va")["attached"], true, "at once, without the wait of failures");
}

#[tokio::test(start_paused = true)]
async fn deletion_during_publish_unpublishes() {
    let (api, double) = ground(&[]);
    double.fail(PUBLISH, 0, Failing::NoAnswer);
    let _running = api.start(&THIS, Options::default());
    api.create(attachment("va", "pv"));
    shortly().await;
    assert_eq!(double.calls(), [PUBLISH]);
    api.delete("volumeattachments", "va");
    shortly().await;
    assert_eq!(double.calls(), [PUBLISH], "one call about an attachment at a time");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(double.calls(), [PUBLISH, UNPUBLISH], "the driver has done it, and the response was lost");
    assert!(api.get("volumeattachments", "va").is_none());
    assert!(double.state().volumes["h"].published.is_empty());
}

#[tokio::test(start_paused = true)]
async fn crash_between_write_and_call_repeats_the_call() {
    let (api, double) = ground(&[]);
    let mut object = attachment("va", "pv");
    object["metadata"]["finalizers"] = json!(["external-attacher/d-example"]);
    object["metadata"]["annotations"] = json!({"csi.alpha.kubernetes.io/node-id": "id"});
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.seed(object);
    double.state().volumes.get_mut("h").unwrap().published.insert("id".to_owned(), false);
    let _running = api.start(&THIS, Options::default());
    shortly().await;
    assert!(api.get("volumeattachments", "va").is_none());
    assert!(double.state().volumes["h"].published.is_empty());
}

#[tokio::test(start_paused = true)]
async fn driver_without_attach_is_not_called() {
    let (api, double) = (FakeApi::new(), TestDriver::new(DRIVER, &[], &[]));
    put(&api, &double);
    let _running = api.start(&THIS, Options::default());
    api.create(attachment("va", "pv"));
    shortly().await;
    let object = api.get("volumeattachments", "va").unwrap();
    assert_eq!((&object["status"], object["metadata"].get("finalizers")), (&json!({"attached": true}), None));
    assert!(api.delete("volumeattachments", "va") && api.get("volumeattachments", "va").is_none());
    assert_eq!(double.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn secrets_are_sent_but_not_logged() {
    let (api, double) = ground(&[]);
    let reference =
        json!({"spec": {"csi": {"controllerPublishSecretRef": {"name": "s", "namespace": "ns"}}}});
    api.patch("persistentvolumes", "pv", "", reference);
    let _running = api.start(&THIS, Options::default());
    api.create(attachment("va", "pv"));
    shortly().await;
    let message = status(&api, "va")["attachError"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("error getting secret s in namespace ns: "), "{message}");
    assert!(api.get("volumeattachments", "va").unwrap()["metadata"].get("finalizers").is_none());
    // "aHVzaA==" is "hush" in base64.
    let (name, data) = (json!({"namespace": "ns", "name": "s"}), json!({"key": "aHVzaA=="}));
    api.create(json!({"kind": "Secret", "metadata": name, "data": data}));
    double.fail(PUBLISH, 0, Failing::Refuses(Code::PermissionDenied, "no"));
    api.settle().await;
    assert_eq!(status(&api, "va")["attached"], true);
    let asked = double.requests::<ControllerPublishVolumeRequest>();
    assert_eq!(asked[0].secrets["key"], "hush");
    let writes =
        serde_json::to_string(&api.take_writes().iter().map(|w| &w.body).collect::<Vec<_>>()).unwrap();
    assert!(!writes.contains("hush"));
}

#[tokio::test(start_paused = true)]
async fn driver_list_mismatch_is_corrected() {
    let (api, double) = ground(&[Rpc::ListVolumes, Rpc::ListVolumesPublishedNodes]);
    let period = Duration::from_secs(60);
    let _running = api.start(&THIS, Options { csi_reconcile_sync: period, ..Options::default() });
    api.create(attachment("va", "pv"));
    shortly().await;
    let publishes = || double.calls().iter().filter(|call| *call == PUBLISH).count();
    tokio::time::sleep(period).await;
    assert_eq!((publishes(), double.calls().len()), (1, 2), "it agrees");
    let moved = || {
        let mut state = double.state();
        let published = &mut state.volumes.get_mut("h").unwrap().published;
        published.clear();
        published.insert("elsewhere".to_owned(), false);
    };
    moved();
    tokio::time::sleep(period).await;
    assert_eq!(publishes(), 2, "the driver lost it and is asked again");
    assert_eq!(status(&api, "va").get("attachError"), None);
    moved();
    tokio::time::sleep(period).await;
    let current = status(&api, "va");
    assert_eq!((publishes(), &current["attached"]), (3, &json!(true)));
    let words = "volume h should be on node id, but the list of driver d.example has it on elsewhere";
    assert_eq!(current["attachError"]["message"], words);
    tokio::time::sleep(period).await;
    assert_eq!((publishes(), status(&api, "va").get("attachError")), (4, None), "and now it is well");
    tokio::time::sleep(period).await;
    assert_eq!(publishes(), 4);
}

#[tokio::test(start_paused = true)]
async fn volume_keeps_its_finalizer_until_detached() {
    let (api, double) = ground(&[]);
    let _running = api.start(&THIS, Options::default());
    api.create(attachment("va-1", "pv"));
    api.create(attachment("va-2", "pv"));
    shortly().await;
    api.patch(
        "persistentvolumes",
        "pv",
        "",
        json!({"metadata": {"finalizers": ["external-attacher/d-example"]}}),
    );
    api.delete("persistentvolumes", "pv");
    api.create(attachment("va-3", "pv"));
    shortly().await;
    let refused = "PersistentVolume \"pv\" is marked for deletion";
    assert_eq!(status(&api, "va-3")["attachError"]["message"], refused);
    api.delete("volumeattachments", "va-3");
    for name in ["va-1", "va-2"] {
        assert!(api.get("persistentvolumes", "pv").is_some(), "it is attached");
        api.delete("volumeattachments", name);
        shortly().await;
    }
    assert!(api.get("persistentvolumes", "pv").is_none());
    assert_eq!(double.calls(), [PUBLISH, PUBLISH, UNPUBLISH, UNPUBLISH]);
}

#[tokio::test(start_paused = true)]
async fn unstorable_response_is_recorded_as_an_error() {
    let (api, _double) = ground(&[]);
    let kind = FaultKind::Status(422, "Invalid", "status.attachmentMetadata: Too long");
    api.fail(Fault { verb: "patch", resource: "volumeattachments/status", skip: 0, kind });
    let _running = api.start(&THIS, Options::default());
    api.create(attachment("va", "pv"));
    shortly().await;
    let message = status(&api, "va")["attachError"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "could not save the status: status.attachmentMetadata: Too long");
    api.settle().await;
    assert_eq!(status(&api, "va")["attached"], true);
}

#[tokio::test(start_paused = true)]
async fn attachments_of_other_drivers_are_ignored() {
    let (api, double) = ground(&[]);
    let mut object = attachment("va", "pv");
    object["spec"]["attacher"] = json!("other.example");
    api.create(object);
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!((api.take_writes(), double.calls()), (vec![], Vec::<String>::new()));
}
