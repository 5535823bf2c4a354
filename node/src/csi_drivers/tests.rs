#![allow(clippy::unwrap_used)]

use std::path::Path;

use orlop_apimachinery::clock::Clock;
use orlop_client::informer::Informer;
use orlop_client::names::{ANN_CSI_NODE_IDS, ANN_MIGRATED_PLUGINS};
use orlop_csi::drivers::Drivers;
use orlop_csi::v1::{NodeGetInfoResponse, Topology};
use orlop_test_support::{Failing, FakeApi, Fault, FaultKind, TestDriver};
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::*;
use crate::config::NodeConfig;
use crate::mount::{Force, Mount, MountError, MountPoint, Mounter, Mounts};
use crate::paths::Paths;

struct NoMounts;

impl Mounter for NoMounts {
    fn mount(&self, _: &Mount) -> Result<(), MountError> {
        Ok(())
    }

    fn unmount(&self, _: &Path, _: Force) -> Result<(), MountError> {
        Ok(())
    }

    fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        Ok(Vec::new())
    }
}

struct Rig {
    api: FakeApi,
    drivers: Drivers,
    known: DriverRegistry,
    _end: DropGuard,
}

impl Rig {
    fn new() -> Self {
        let (api, end) = (FakeApi::new(), CancellationToken::new());
        let drivers = Drivers::new(Duration::from_secs(120));
        let known = DriverRegistry::new(Informer::new());
        let host = Host {
            config: Arc::new(NodeConfig::new("n1", "/nowhere")),
            paths: Paths::new("/nowhere"),
            mounts: Mounts::new(Arc::new(NoMounts), Duration::from_secs(60)),
            client: api.client(),
            drivers: drivers.clone(),
            events: api.event_sink(&end).recorder("kubelet"),
            clock: Clock::Wall,
        };
        let (telling, until) = (known.clone(), end.clone());
        tokio::spawn(async move { tell(&host, &telling, &until).await });
        Self { api, drivers, known, _end: end.drop_guard() }
    }

    fn with_node(labels: Value) -> Self {
        let rig = Self::new();
        rig.seed_node(labels);
        rig
    }

    fn seed_node(&self, labels: Value) {
        let meta = json!({"name": "n1", "uid": "node-uid", "labels": labels});
        self.api.seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": meta}));
    }

    async fn settle(&self) {
        self.api.settle().await;
    }

    fn entries(&self) -> Value {
        self.api.get("csinodes", "n1").map_or(Value::Null, |node| node["spec"]["drivers"].clone())
    }

    fn meta(&self) -> Value {
        self.api.get("nodes", "n1").unwrap()["metadata"].clone()
    }
}

fn info(id: &str, max: i64, zone: Option<&str>) -> NodeGetInfoResponse {
    let topology = zone.map(|zone| Topology { segments: [("zone".to_owned(), zone.to_owned())].into() });
    NodeGetInfoResponse { node_id: id.to_owned(), max_volumes_per_node: max, accessible_topology: topology }
}

fn driver(name: &str, info: NodeGetInfoResponse) -> TestDriver {
    let double = TestDriver::new(name, &[], &[]);
    double.state().node_info = info;
    double
}

#[tokio::test(start_paused = true)]
async fn csi_node_follows_drivers_that_appear_change_and_disappear() {
    let rig = Rig::with_node(json!({}));
    rig.settle().await;
    let csi_node = rig.api.get("csinodes", "n1").unwrap();
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid"}]);
    assert_eq!(csi_node["metadata"]["ownerReferences"], owner);
    assert!(csi_node["metadata"]["annotations"][ANN_MIGRATED_PLUGINS].is_string());
    let (first, second) =
        (driver("a.example", info("id-a", 3, Some("z1"))), driver("b.example", info("id-b", 0, None)));
    rig.drivers.put(first.driver().await);
    rig.drivers.put(second.driver().await);
    rig.settle().await;
    let entry = |id: &str, count: i64| json!({"name": "a.example", "nodeID": id, "topologyKeys": ["zone"], "allocatable": {"count": count}});
    let other = json!({"name": "b.example", "nodeID": "id-b", "topologyKeys": []});
    assert_eq!(rig.entries(), json!([entry("id-a", 3), other]));
    assert_eq!(rig.meta()["labels"], json!({"zone": "z1"}));
    assert_eq!(rig.meta()["annotations"][ANN_CSI_NODE_IDS], r#"{"a.example":"id-a","b.example":"id-b"}"#);
    // No change, no write.
    rig.api.take_writes();
    rig.settle().await;
    assert_eq!(rig.api.take_writes(), []);
    // The driver returns with another id, and the id of an entry is immutable.
    first.state().node_info = info("id-new", 4, Some("z1"));
    rig.drivers.remove("a.example");
    rig.drivers.put(first.driver().await);
    rig.settle().await;
    assert_eq!(rig.entries(), json!([other, entry("id-new", 4)]));
    rig.drivers.remove("a.example");
    rig.settle().await;
    assert_eq!(rig.entries(), json!([other]));
    assert_eq!(rig.meta()["annotations"][ANN_CSI_NODE_IDS], r#"{"b.example":"id-b"}"#);
    assert_eq!(rig.meta()["labels"], json!({"zone": "z1"}), "volumes there may need it");
    rig.drivers.remove("b.example");
    rig.settle().await;
    assert_eq!((rig.entries(), &rig.meta()["annotations"][ANN_CSI_NODE_IDS]), (json!([]), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn limit_is_queried_at_the_period_of_the_csi_driver_object() {
    let rig = Rig::with_node(json!({}));
    let double = driver("a.example", info("id", 3, None));
    rig.drivers.put(double.driver().await);
    rig.settle().await;
    double.state().node_info.max_volumes_per_node = 2;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(rig.entries()[0]["allocatable"]["count"], 3, "no further request");
    rig.known.doubt();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.entries()[0]["allocatable"]["count"], 2, "it had no room for a volume");
    double.state().node_info.max_volumes_per_node = 4;
    let object =
        json!({"metadata": {"name": "a.example"}, "spec": {"nodeAllocatableUpdatePeriodSeconds": 30}});
    rig.known.objects().apply(serde_json::from_value(object).unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.entries()[0]["allocatable"]["count"], 4);
    double.state().node_info.max_volumes_per_node = 1;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(rig.entries()[0]["allocatable"]["count"], 1);
    assert!(rig.known.node("a.example").is_some(), "what it can do is known before the first volume");
}

#[tokio::test(start_paused = true)]
async fn conflicting_topology_label_is_reported() {
    let rig = Rig::with_node(json!({"zone": "z2"}));
    let double = driver("a.example", info("id", 0, Some("z1")));
    rig.drivers.put(double.driver().await);
    rig.settle().await;
    assert_eq!(rig.entries(), json!([]));
    assert_eq!(
        rig.api.events(),
        ["Node n1 Warning CSIDriverNotRegistered CSI driver a.example cannot be used on this node: \
         error updating Node object with CSI driver node info: \
         detected topology value collision: driver reported \"zone\":\"z1\" but existing label is \"zone\":\"z2\""]
    );
    rig.api.patch("nodes", "n1", "", json!({"metadata": {"labels": {"zone": null}}}));
    rig.settle().await;
    assert_eq!(rig.entries()[0]["nodeID"], "id");
    assert_eq!(rig.meta()["labels"], json!({"zone": "z1"}));
}

#[tokio::test(start_paused = true)]
async fn hung_driver_does_not_block_other_drivers() {
    let rig = Rig::with_node(json!({}));
    let (hangs, good) = (driver("a.example", info("id", 0, None)), driver("b.example", info("id", 0, None)));
    hangs.fail_times("NodeGetInfo", 0, 100, Failing::NoAnswer);
    rig.drivers.put(hangs.driver().await);
    rig.drivers.put(good.driver().await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.entries().as_array().unwrap().len(), 1);
    rig.drivers.remove("a.example");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.entries()[0]["name"], "b.example");
}

#[tokio::test(start_paused = true)]
async fn csi_node_is_created_once_the_node_exists() {
    let rig = Rig::new();
    let nameless = driver("a.example", info("", 0, None));
    rig.drivers.put(nameless.driver().await);
    rig.settle().await;
    assert_eq!(rig.entries(), Value::Null);
    rig.seed_node(json!({}));
    rig.settle().await;
    assert_eq!(rig.entries(), json!([]), "a driver that has no name for the node is of no use");
    nameless.state().node_info = info("id", 0, None);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(rig.entries()[0]["nodeID"], "id");
}

#[tokio::test(start_paused = true)]
async fn any_failed_write_is_retried_to_the_same_result() {
    let mut expected = None;
    for kind in [
        FaultKind::AnswerLost,
        FaultKind::Broken,
        FaultKind::Status(409, "Conflict", "another writer was faster"),
        FaultKind::Status(500, "InternalError", "no"),
    ] {
        for n in 0..8 {
            let rig = Rig::with_node(json!({}));
            rig.api.fail_nth_write(n, kind.clone());
            rig.api.fail(Fault { verb: "get", resource: "csinodes", skip: n, kind: kind.clone() });
            let (first, second) = (
                driver("a.example", info("id-a", 3, Some("z1"))),
                driver("b.example", info("id-b", 0, None)),
            );
            for double in [&first, &second] {
                rig.drivers.put(double.driver().await);
                rig.settle().await;
            }
            rig.drivers.remove("a.example");
            rig.settle().await;
            let end = (rig.entries(), rig.meta()["annotations"].clone(), rig.meta()["labels"].clone());
            assert_eq!(end.0.as_array().unwrap().len(), 1, "{kind:?} {n}");
            assert_eq!(expected.get_or_insert(end.clone()), &end, "{kind:?} {n}");
        }
    }
}
