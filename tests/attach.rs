//! Attaching without pods: each VolumeAttachment causes calls to a driver in another process, which fails and
//! restarts.

use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::csi::Hostpath;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// A control plane that runs only the attach controllers, and the driver that they call.
async fn ground(dir: &std::path::Path, timeout: &str) -> (Plane, Hostpath) {
    let driver = Hostpath::start(dir, &[]).await;
    let timeout = format!("--csi-timeout={timeout}");
    let flags = ["--controllers=csi-attacher-controller,pv-protection", &driver.flag(), &timeout];
    let plane = Plane::of(Layout::OneProcess).controller_flags(&flags).start().await;
    plane.http().create(NODES, &driver.csi_node("n1")).await;
    (plane, driver)
}

fn path_of(attachment: &str) -> String {
    format!("{ATTACHMENTS}/{attachment}")
}

async fn attached(http: &Http, attachment: &str) -> Value {
    http.until(&path_of(attachment), "attached", |it| it["status"]["attached"] == true).await
}

#[tokio::test]
async fn attachments_survive_restarts_until_detached() {
    let dir = tempfile::tempdir().unwrap();
    let (mut plane, mut driver) = ground(dir.path(), "15s").await;
    let http = plane.http();
    let handle = driver.make("a", 1 << 20).await;
    http.create(VOLUMES, &driver.persistent_volume("pv", &handle)).await;
    http.create(ATTACHMENTS, &driver.attachment("va", "pv", "n1")).await;
    let object = attached(&http, "va").await;
    assert_eq!(object["status"]["attachmentMetadata"], json!({"hostpath.csi.orlop.dev/node": "n1"}));
    assert_eq!(object["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"], "n1");
    let finalizers = json!(["external-attacher/hostpath-csi-orlop-dev"]);
    assert_eq!(object["metadata"]["finalizers"], finalizers);
    assert_eq!(driver.nodes_of(&handle).await.unwrap(), ["n1"]);

    // The attachment survives a restart of the driver and of the control plane.
    driver.kill().await;
    driver.start_again().await;
    plane.kill_and_restart().await;
    let http = plane.http();
    assert_eq!(
        attached(&http, "va").await["metadata"]["resourceVersion"],
        object["metadata"]["resourceVersion"]
    );
    // An attached volume is not deleted.
    http.delete(&format!("{VOLUMES}/pv")).await.expect(200);
    http.delete(&path_of("va")).await.expect(200);
    http.until_gone(&path_of("va")).await;
    assert_eq!(driver.nodes_of(&handle).await.unwrap(), Vec::<String>::new());
    http.until_gone(&format!("{VOLUMES}/pv")).await;
}

#[tokio::test]
async fn driver_errors_are_reported_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let (plane, mut driver) = ground(dir.path(), "1s").await;
    let http = plane.http();
    let (handle, other) = (driver.make("a", 1 << 20).await, driver.make("b", 1 << 20).await);
    for (name, handle) in [("pv-a", &handle), ("pv-b", &other)] {
        http.create(VOLUMES, &driver.persistent_volume(name, handle)).await;
    }
    driver.faults(&json!([
        {"rpc": "ControllerPublishVolume", "times": 1, "fault": "error", "code": "RESOURCE_EXHAUSTED",
            "message": "the node is full", "delay_ms": 50},
        {"rpc": "ControllerPublishVolume", "after": 1, "times": 1, "fault": "crash-after"}
    ]));
    http.create(ATTACHMENTS, &driver.attachment("va-a", "pv-a", "n1")).await;
    let full =
        http.until(&path_of("va-a"), "refused", |it| it["status"]["attachError"]["errorCode"] == 8).await;
    let words = "rpc error: code = ResourceExhausted desc = the node is full";
    assert_eq!(full["status"]["attachError"]["message"], words);
    // The rule lets one call pass: that of another attachment, which the failure of the first one does not affect.
    http.create(ATTACHMENTS, &driver.attachment("va-b", "pv-b", "n1")).await;
    driver.crashed().await;
    driver.faults(&json!([{"rpc": "ControllerUnpublishVolume", "times": 1, "fault": "no-answer"}]));
    driver.start_again().await;
    for (name, handle) in [("va-a", &handle), ("va-b", &other)] {
        let object = attached(&http, name).await;
        assert_eq!(object["status"].get("attachError"), None, "{object:#}");
        assert_eq!(driver.nodes_of(handle).await.unwrap(), ["n1"], "{name}");
    }
    http.delete(&path_of("va-a")).await.expect(200);
    let late =
        http.until(&path_of("va-a"), "not answered", |it| it["status"]["detachError"].is_object()).await;
    let words = late["status"]["detachError"]["message"].as_str().unwrap();
    assert!(words.ends_with("the driver did not answer within 1 s"), "{words}");
    http.until_gone(&path_of("va-a")).await;
    assert_eq!(driver.nodes_of(&handle).await.unwrap(), Vec::<String>::new());
}

/// `ORLOP_TEST_ATTACHMENTS` sets the number of attachments; the test prints the rate.
#[tokio::test]
async fn concurrent_attachments_are_all_attached_and_detached() {
    let many: usize = std::env::var("ORLOP_TEST_ATTACHMENTS").map_or(50, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (plane, driver) = ground(dir.path(), "15s").await;
    let http = &plane.http();
    let (driver, numbers) = (&driver, || stream::iter(0..many));
    let in_flight = 50;
    numbers()
        .for_each_concurrent(in_flight, async |n| {
            let handle = driver.make(&format!("v-{n}"), 1 << 20).await;
            http.create(VOLUMES, &driver.persistent_volume(&format!("pv-{n}"), &handle)).await;
        })
        .await;
    let began = Instant::now();
    let mut watch = http.watch(&format!("{ATTACHMENTS}?watch=true")).await;
    let create = numbers().for_each_concurrent(in_flight, async |n| {
        let object = driver.attachment(&format!("va-{n}"), &format!("pv-{n}"), "n1");
        http.create(ATTACHMENTS, &object).await;
    });
    // Each is deleted as soon as it is attached.
    let (mut going, mut gone) = (std::collections::BTreeSet::new(), 0);
    let follow = async {
        let deleting = futures::stream::FuturesUnordered::new();
        tokio::pin!(deleting);
        while gone < many {
            tokio::select! {
                event = watch.next() => {
                    let event = event.expect("the watch continues");
                    let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
                    if event["type"] == "DELETED" {
                        gone += 1;
                    } else if event["object"]["status"]["attached"] == true && going.insert(name.clone()) {
                        deleting.push(async move { http.delete(&path_of(&name)).await.expect(200) });
                    }
                }
                Some(_) = futures::StreamExt::next(&mut deleting) => {}
            }
        }
    };
    wait::in_time("all are attached and detached", async { tokio::join!(create, follow) }).await;
    let took = began.elapsed().as_secs_f64();
    println!("{many} attachments in {took:.2} s: {:.0} per second", many as f64 / took);
    let left = driver.driver().await.all_volumes().await.unwrap();
    assert_eq!(left.len(), many);
    let is_on_a_node =
        |status: &orlop_csi::v1::list_volumes_response::VolumeStatus| !status.published_node_ids.is_empty();
    assert!(!left.iter().filter_map(|entry| entry.status.as_ref()).any(is_on_a_node));
}
