//! The whole controller with the fake API server, an in-memory driver and the binder. The invariant at every end: the driver's
//! volumes and the API's volumes are the same set (I9).
#![allow(clippy::unwrap_used)]

mod capacity;
mod clones;
mod deleting;
mod faults;
mod notes;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_csi::capabilities::{Rpc, Service};
use orlop_csi::v1::CreateVolumeRequest;
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;
use tonic::Code;

use super::intent::{Noted, noted};
use crate::context::Run;
use crate::options::Options;
use crate::protection;
use crate::pv;
use crate::testing::{Failing, FakeApi, TestDriver};
use orlop_client::names::{ANN_CREATE_REQUEST, FINALIZER_PROVISIONING};

const DRIVER: &str = "d.example";
const THESE: [Run; 3] = [pv::run, super::run, protection::claim::run];

struct Rig {
    api: FakeApi,
    double: TestDriver,
}

impl Rig {
    async fn new(rpcs: &[Rpc], services: &[Service]) -> Self {
        let rig = Rig { api: FakeApi::new(), double: TestDriver::new(DRIVER, rpcs, services) };
        rig.api.drivers().put(rig.double.driver().await);
        rig.api.seed(class("c", json!({})));
        rig
    }

    async fn simple() -> Self {
        Self::new(&[], &[]).await
    }

    fn start(&self) -> DropGuard {
        self.api.start(&THESE, Options::default())
    }

    fn claim(&self, name: &str) -> PersistentVolumeClaim {
        self.api.get_as(&format!("ns/{name}")).expect("the claim is there")
    }

    fn phase(&self, name: &str) -> String {
        self.claim(name).status.unwrap().phase.unwrap()
    }

    fn volumes(&self) -> Vec<PersistentVolume> {
        self.api.list("persistentvolumes").into_iter().map(|v| serde_json::from_value(v).unwrap()).collect()
    }

    /// Events of claims and volumes with this reason.
    fn events(&self, reason: &str) -> Vec<String> {
        let reason = format!(" {reason} ");
        self.api.events().into_iter().filter(|event| event.contains(&reason)).collect()
    }

    /// I9: no volume is forgotten, and none exists twice.
    fn nothing_leaks(&self, when: &str) {
        let handles: Vec<String> =
            self.volumes().into_iter().map(|v| v.spec.unwrap().csi.unwrap().volume_handle).collect();
        let set: BTreeSet<String> = handles.iter().cloned().collect();
        assert_eq!(set.len(), handles.len(), "{when}: two objects for one volume: {handles:?}");
        let of_driver: BTreeSet<String> = self.double.volume_ids().into_iter().collect();
        assert_eq!(set, of_driver, "{when}: volumes of the API and of the driver");
    }

    fn no_notes(&self, when: &str) {
        for claim in self.api.list("persistentvolumeclaims") {
            let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
            assert_eq!(noted(&claim), Noted::None, "{when}");
        }
    }
}

fn class(name: &str, more: Value) -> Value {
    let mut class = json!({"kind": "StorageClass", "metadata": {"name": name}, "provisioner": DRIVER,
        "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    crate::testing::merge_into(&mut class, &more);
    class
}

fn claim(name: &str, more: Value) -> Value {
    // Admission adds the finalizer.
    let mut claim = json!({"kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "ns", "name": name, "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c", "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}}}});
    crate::testing::merge_into(&mut claim, &more);
    claim
}

#[tokio::test(start_paused = true)]
async fn claim_gets_a_volume_that_is_deleted_with_it() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.api.create(claim("a", json!({})));
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    rig.nothing_leaks("bound");
    rig.no_notes("bound");
    let request = rig.double.requests::<CreateVolumeRequest>().remove(0);
    let volume = rig.volumes().remove(0);
    assert_eq!(request.name, volume.metadata.name.unwrap());
    assert_eq!(request.capacity_range.unwrap().required_bytes, 1 << 30);
    assert_eq!(rig.events("ProvisioningSucceeded").len(), 1);
    let written: Vec<String> =
        rig.api.take_writes().iter().map(|w| format!("{} {}", w.verb, w.resource)).collect();
    // The binder's request, the key of notes (only once), the note, the volume, and the binder's three writes: the first one on the
    // claim removes the note.
    assert_eq!(
        written,
        [
            "update persistentvolumeclaims",
            "create secrets",
            "patch persistentvolumeclaims",
            "create persistentvolumes",
            "update persistentvolumes",
            "update persistentvolumeclaims",
            "update persistentvolumeclaims"
        ]
    );
    assert!(rig.api.delete("persistentvolumeclaims", "ns/a"));
    rig.api.settle().await;
    assert_eq!((rig.volumes().len(), rig.double.volume_ids().len()), (0, 0));
    assert_eq!(rig.double.calls(), ["CreateVolume", "DeleteVolume"]);
}

#[tokio::test(start_paused = true)]
async fn driver_without_endpoint_is_left_to_its_sidecar() {
    let rig = Rig::simple().await;
    rig.api.seed(class("other", json!({"provisioner": "other.example"})));
    let _running = rig.start();
    rig.api.create(claim("a", json!({"spec": {"storageClassName": "other"}})));
    rig.api.settle().await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    assert_eq!(noted(&rig.claim("a")), Noted::None);
}

#[tokio::test(start_paused = true)]
async fn driver_that_starts_late_serves_the_waiting_claims() {
    let rig = Rig::simple().await;
    rig.api.seed(class("late", json!({"provisioner": "late.example"})));
    let _running = rig.start();
    rig.api.create(claim("a", json!({"spec": {"storageClassName": "late"}})));
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Pending");
    let late = TestDriver::new("late.example", &[], &[]);
    rig.api.drivers().put(late.driver().await);
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    assert_eq!(late.volume_ids().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn i9_deleted_claim_stays_until_its_volume_is_reclaimed() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.fail_times("CreateVolume", 0, 3, Failing::AnswerLost);
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let Noted::Intent(intent) = noted(&rig.claim("a")) else { panic!("the note is there") };
    assert_eq!(intent.driver, DRIVER);
    assert!(rig.api.delete("persistentvolumeclaims", "ns/a"));
    // The class is replaced in the meantime, and nothing of the new one is used.
    assert!(rig.api.delete("storageclasses", "c"));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let going = rig.claim("a");
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(going.metadata.finalizers.unwrap(), [FINALIZER_PROVISIONING]);
    assert_eq!(rig.double.volume_ids().len(), 1, "the driver has it, whatever it answered");
    rig.api.settle().await;
    assert!(rig.api.get("persistentvolumeclaims", "ns/a").is_none());
    assert_eq!((rig.volumes().len(), rig.double.volume_ids().len()), (0, 0));
    let names: BTreeSet<String> =
        rig.double.requests::<CreateVolumeRequest>().into_iter().map(|request| request.name).collect();
    assert_eq!(
        (names.len(), rig.double.calls().len()),
        (1, 5),
        "the same request every time, then one deletion"
    );
}

#[tokio::test(start_paused = true)]
async fn i9_driver_failure_after_a_lost_response_forgets_no_volume() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.fail("CreateVolume", 0, Failing::AnswerLost);
    rig.double.fail_times("CreateVolume", 1, 2, Failing::Refuses(Code::Internal, "the disk is away"));
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(rig.api.delete("persistentvolumeclaims", "ns/a"));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!((rig.double.calls().len(), rig.double.volume_ids().len()), (2, 1));
    assert!(matches!(noted(&rig.claim("a")), Noted::Intent(_)), "what the first call did is not known");
    rig.api.settle().await;
    assert!(rig.api.get("persistentvolumeclaims", "ns/a").is_none());
    assert_eq!((rig.volumes().len(), rig.double.volume_ids().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn final_error_removes_the_note_and_is_retried_later() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.fail_times("CreateVolume", 0, 3, Failing::Refuses(Code::Internal, "broken"));
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!((noted(&rig.claim("a")), rig.double.calls().len()), (Noted::None, 1));
    tokio::time::sleep(std::time::Duration::from_millis(1000)).await;
    assert_eq!(rig.double.calls().len(), 2, "after 1 s");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(rig.double.calls().len(), 3, "after 2 s more");
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    let failed = rig.events("ProvisioningFailed");
    assert!(
        failed[0].ends_with(
            "failed to provision volume with StorageClass \"c\": rpc error: code = Internal desc = broken"
        ),
        "{failed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn infeasible_request_is_retried_slowly_but_a_changed_one_immediately() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.fail_times("CreateVolume", 0, 2, Failing::Refuses(Code::InvalidArgument, "no such kind"));
    rig.api.create(claim("a", json!({})));
    rig.api.settle().await;
    rig.api.settle().await;
    assert_eq!(rig.double.calls().len(), 1);
    assert!(rig.events("ProvisioningFailed")[0].contains(
        "Volume provisioning failed with infeasible error. Retries will be delayed. rpc error: code = InvalidArgument"
    ));
    // The same name but another class is another request.
    assert!(rig.api.delete("storageclasses", "c"));
    rig.api.create(class("c", json!({})));
    rig.api.settle().await;
    assert_eq!(rig.double.calls().len(), 2);
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    assert_eq!((rig.double.calls().len(), rig.phase("a").as_str()), (3, "Bound"));
}

#[tokio::test(start_paused = true)]
async fn wrong_driver_response_saves_no_duplicate_and_no_empty_handle() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.state().volume_lie = Some(Box::new(|volume| volume.volume_id.clear()));
    rig.api.create(claim("a", json!({})));
    rig.api.settle().await;
    assert_eq!(rig.volumes().len(), 0);
    assert!(rig.events("ProvisioningFailed")[0].contains("the response of the CSI driver has no volume id"));
    assert!(matches!(noted(&rig.claim("a")), Noted::Intent(_)), "what the driver has is not known");
    rig.double.state().volume_lie = None;
    rig.api.settle().await;
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    // From now on every response names the first volume.
    rig.double.state().volume_lie = Some(Box::new(|volume| volume.volume_id = "vol-1".to_owned()));
    rig.api.create(claim("b", json!({})));
    rig.api.create(claim("d", json!({})));
    rig.api.settle().await;
    assert_eq!(rig.volumes().len(), 1);
    assert!(rig.events("ProvisioningFailed").iter().any(|event| event.contains("has already")));
    assert!(rig.api.delete("persistentvolumeclaims", "ns/b"));
    rig.double.state().volume_lie = None;
    rig.api.settle().await;
    rig.api.settle().await;
    rig.nothing_leaks("the driver tells the truth again");
    rig.no_notes("the driver tells the truth again");
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_claims_do_not_share_one_volume_id() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.state().volume_lie = Some(Box::new(|volume| volume.volume_id = "vol-1".to_owned()));
    for name in ["a", "b", "d"] {
        rig.api.create(claim(name, json!({})));
    }
    rig.api.settle().await;
    assert_eq!(rig.volumes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_small_volume_is_deleted_before_the_note_is_removed() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    rig.double.state().volume_lie = Some(Box::new(|volume| volume.capacity_bytes = 5));
    rig.double.fail("DeleteVolume", 0, Failing::Refuses(Code::Internal, "not now"));
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(matches!(noted(&rig.claim("a")), Noted::Intent(_)), "it could not be deleted");
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    assert_eq!((noted(&rig.claim("a")), rig.double.volume_ids().len()), (Noted::None, 0));
    assert!(
        rig.events("ProvisioningFailed")[0].contains("capacity 5 less than requested capacity 1073741824")
    );
    rig.double.state().volume_lie = None;
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    rig.nothing_leaks("at the end");
}

#[tokio::test(start_paused = true)]
async fn i8_volume_saved_with_a_lost_response_is_not_deleted() {
    let rig = Rig::simple().await;
    let api = rig.api.clone();
    let saved = std::sync::atomic::AtomicBool::new(false);
    // The object exists before this response is processed, and no cache has it yet.
    rig.double.state().volume_lie = Some(Box::new(move |volume| {
        volume.capacity_bytes = 5;
        if !saved.swap(true, std::sync::atomic::Ordering::Relaxed) {
            api.seed(json!({"kind": "PersistentVolume", "metadata": {"name": "pvc-u-a"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "c", "volumeMode": "Filesystem",
                "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "a", "uid": "u-a"},
                "csi": {"driver": DRIVER, "volumeHandle": volume.volume_id}}}));
        }
    }));
    rig.api.seed(claim("a", json!({"metadata": {"uid": "u-a"}, "status": {"phase": "Pending"}})));
    let _running = rig.start();
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    assert_eq!(rig.double.volume_ids().len(), 1, "{:?}", rig.double.calls());
    rig.nothing_leaks("at the end");
}

#[tokio::test(start_paused = true)]
async fn exhausted_capacity_on_the_selected_node_reschedules() {
    let rig = Rig::new(&[], &[Service::VolumeAccessibilityConstraints]).await;
    rig.api.seed(class("w", json!({"volumeBindingMode": "WaitForFirstConsumer"})));
    for node in ["n1", "n2"] {
        rig.api.seed(json!({"kind": "Node", "metadata": {"name": node, "labels": {"zone": node}}}));
        let entry = json!({"name": DRIVER, "nodeID": node, "topologyKeys": ["zone"]});
        rig.api.seed(json!({"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [entry]}}));
    }
    let _running = rig.start();
    rig.api.create(claim("a", json!({"spec": {"storageClassName": "w"}})));
    rig.api.settle().await;
    assert_eq!(rig.double.calls().len(), 0, "no node is chosen");
    let choose = |node| {
        let annotations = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
        rig.api.patch("persistentvolumeclaims", "ns/a", "", annotations);
    };
    rig.double.state().room = Some(5);
    rig.api.take_writes();
    choose("n1");
    rig.api.settle().await;
    let given = rig.claim("a").metadata.annotations.unwrap();
    assert!(!given.contains_key("volume.kubernetes.io/selected-node"));
    assert!(!given.contains_key(ANN_CREATE_REQUEST));
    let patches = rig.api.take_writes().into_iter().filter(|write| write.verb == "patch");
    assert_eq!(patches.count(), 2, "the note and the node go in one write");
    rig.double.state().room = None;
    choose("gone");
    rig.api.settle().await;
    assert!(rig.events("ProvisioningFailed").iter().any(|e| e.contains("node \"gone\" not found")));
    choose("n2");
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    let topology =
        rig.double.requests::<CreateVolumeRequest>().pop().unwrap().accessibility_requirements.unwrap();
    assert_eq!((topology.requisite.len(), topology.preferred[0].segments["zone"].as_str()), (2, "n2"));
    let affinity = rig.volumes().remove(0).spec.unwrap().node_affinity.unwrap().required.unwrap();
    let zone = &affinity.node_selector_terms[0].match_expressions.as_ref().unwrap()[0];
    assert_eq!((zone.key.as_str(), zone.values.as_ref().unwrap()[0].as_str()), ("zone", "n2"));
}

#[tokio::test(start_paused = true)]
async fn secrets_are_read_for_every_call_and_never_noted() {
    let rig = Rig::simple().await;
    let prefix = "csi.storage.k8s.io/provisioner-secret-";
    let parameters =
        json!({format!("{prefix}name"): "s", format!("{prefix}namespace"): "ns", "kind": "fast"});
    rig.api.seed(class("s", json!({"parameters": parameters})));
    let _running = rig.start();
    rig.double.fail("CreateVolume", 0, Failing::AnswerLost);
    rig.api.create(claim("a", json!({"spec": {"storageClassName": "s"}})));
    rig.api.settle().await;
    assert_eq!(rig.double.calls().len(), 0, "the secret is missing");
    assert!(rig.events("ProvisioningFailed")[0].contains("error getting secret s in namespace ns"));
    rig.api.create(
        json!({"kind": "Secret", "metadata": {"namespace": "ns", "name": "s"}, "data": {"key": "aHVzaA=="}}),
    );
    rig.api.settle().await;
    assert_eq!(rig.phase("a"), "Bound");
    let requests = rig.double.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.secrets["key"], "hush");
        assert_eq!((request.parameters.len(), request.parameters["kind"].as_str()), (1, "fast"));
    }
    let all = format!("{:?}", (rig.api.take_writes(), rig.api.events()));
    assert!(!all.contains("hush"));
    assert!(rig.api.delete("persistentvolumeclaims", "ns/a"));
    rig.api.settle().await;
    let deletions = rig.double.requests::<orlop_csi::v1::DeleteVolumeRequest>();
    assert_eq!(deletions[0].secrets["key"], "hush");
}

#[tokio::test(start_paused = true)]
async fn i12_hanging_driver_delays_no_other() {
    let rig = Rig::simple().await;
    let slow = TestDriver::new("slow.example", &[], &[]);
    rig.api.drivers().put(slow.driver().await);
    rig.api.seed(class("slow", json!({"provisioner": "slow.example"})));
    let _running = rig.api.start(&THESE, Options { csi_worker_threads: 2, ..Options::default() });
    slow.fail_times("CreateVolume", 0, 5, Failing::NoAnswer);
    for n in 0..5 {
        rig.api.create(claim(&format!("s{n}"), json!({"spec": {"storageClassName": "slow"}})));
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!((rig.phase("a").as_str(), slow.calls().len()), ("Bound", 2));
    rig.api.settle().await;
    rig.api.settle().await;
    assert_eq!(slow.volume_ids().len(), 5);
    assert!((0..5).all(|n| rig.phase(&format!("s{n}")) == "Bound"));
}
