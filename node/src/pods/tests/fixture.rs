//! A node with fake volumes and a fake runtime.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use orlop_apimachinery::clock::Clock;
use orlop_client::recorder::EventSink;
use orlop_csi::drivers::Drivers;
use orlop_test_support::FakeApi;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::{Inputs, VolumeManager, run};
use crate::config::NodeConfig;
use crate::host::Host;
use crate::mount::{Mounts, RecordingMounter};
use crate::paths::Paths;
use crate::runtime::{PodPath, PodState, Runtime, RuntimeError};
use crate::volumes::{Finding, Pending, PodVolumes, Waiting};

/// The calls, in order.
pub(super) type Log = Arc<Mutex<Vec<String>>>;

/// Mounts and releases immediately, except for the pods named in it.
pub(super) struct FakeVolumes {
    log: Log,
    pods: Mutex<BTreeMap<String, watch::Sender<PodVolumes>>>,
    /// Pods whose volumes do not get mounted or released.
    pub(super) stuck: Mutex<BTreeSet<String>>,
    /// Whether the release of a stuck volume is in progress, and has not failed.
    pub(super) is_slow: AtomicBool,
    /// Pods whose volumes exceed the attachment limit of the node.
    pub(super) full: Mutex<BTreeSet<String>>,
}

impl FakeVolumes {
    fn set(&self, uid: &str, state: PodVolumes) {
        let mut pods = self.pods.lock();
        pods.entry(uid.to_owned())
            .or_insert_with(|| watch::Sender::new(PodVolumes::Released))
            .send_if_modified(|known| std::mem::replace(known, state.clone()) != state);
    }

    fn is_stuck(&self, uid: &str) -> bool {
        self.stuck.lock().contains(uid)
    }

    /// Unblocks the volumes of a pod.
    pub(super) fn go_on(&self, uid: &str) {
        self.stuck.lock().remove(uid);
        let state = self.pods.lock()[uid].borrow().clone();
        match state {
            PodVolumes::Waiting(_) => self.set(uid, ready()),
            PodVolumes::Releasing(_) => self.set(uid, PodVolumes::Released),
            PodVolumes::Ready(_) | PodVolumes::Released => {}
        }
    }
}

fn ready() -> PodVolumes {
    let path = PodPath { volume: "v".to_owned(), path: PathBuf::from("/v"), read_only: false, block: false };
    PodVolumes::Ready(vec![path])
}

#[async_trait]
impl VolumeManager for FakeVolumes {
    fn want(&self, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap();
        if self.full.lock().contains(&uid) {
            let pending = || {
                vec![Pending { volume: "v".to_owned(), cause: Some("no room".to_owned()), is_running: false }]
            };
            let limit = Some("no room".to_owned());
            let (unmounted, unattached) = (pending(), pending());
            self.set(
                &uid,
                PodVolumes::Waiting(Waiting { unmounted, unattached, limit, ..Waiting::default() }),
            );
        } else if self.is_stuck(&uid) {
            let pending = Pending { volume: "v".to_owned(), cause: None, is_running: false };
            self.set(&uid, PodVolumes::Waiting(Waiting { unmounted: vec![pending], ..Waiting::default() }));
        } else {
            self.set(&uid, ready());
        }
    }

    fn hold(&self, uid: &str) {
        self.log.lock().push(format!("hold {uid}"));
        self.set(uid, PodVolumes::Releasing(Vec::new()));
    }

    fn release(&self, uid: &str) {
        self.log.lock().push(format!("release {uid}"));
        let stuck = self.is_stuck(uid);
        let is_running = self.is_slow.load(Ordering::SeqCst);
        let busy = Pending { volume: "v".to_owned(), cause: Some("it is busy".to_owned()), is_running };
        self.set(uid, if stuck { PodVolumes::Releasing(vec![busy]) } else { PodVolumes::Released });
    }

    fn state(&self, uid: &str) -> watch::Receiver<PodVolumes> {
        let mut pods = self.pods.lock();
        pods.entry(uid.to_owned()).or_insert_with(|| watch::Sender::new(PodVolumes::Released)).subscribe()
    }

    fn synced(&self) {
        self.log.lock().push("synced".to_owned());
    }

    async fn tidy(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// Runs nothing, and reports the states that a test sets.
pub(super) struct Containers {
    log: Log,
    pods: Mutex<BTreeMap<String, watch::Sender<PodState>>>,
    /// Pods that do not stop.
    pub(super) stubborn: Mutex<BTreeSet<String>>,
    /// The number of starts that fail.
    pub(super) failures: Mutex<u32>,
}

pub(super) fn state(kind: &str) -> PodState {
    let (ready, value) = match kind {
        "running" => (true, json!({"running": {"startedAt": "2026-01-01T00:00:00.5Z"}})),
        "well" => (false, json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
        _ => (false, json!({"terminated": {"exitCode": 1, "reason": "Error"}})),
    };
    let status =
        json!({"name": "c", "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": value});
    PodState {
        containers: vec![serde_json::from_value(status).unwrap()],
        ended: kind != "running",
        ..PodState::default()
    }
}

impl Containers {
    pub(super) fn say(&self, uid: &str, state: PodState) {
        let mut pods = self.pods.lock();
        pods.entry(uid.to_owned())
            .or_insert_with(|| watch::Sender::new(PodState::default()))
            .send_replace(state);
    }
}

#[async_trait]
impl Runtime for Containers {
    async fn start(&self, pod: Arc<Pod>, _: Vec<PodPath>) -> Result<(), RuntimeError> {
        let uid = pod.metadata.uid.clone().unwrap();
        let fails = {
            let mut failures = self.failures.lock();
            let fails = *failures > 0;
            *failures = failures.saturating_sub(1);
            fails
        };
        if fails {
            return Err(RuntimeError::Start { pod: uid, why: "no room".to_owned() });
        }
        if !self.pods.lock().contains_key(&uid) {
            self.log.lock().push(format!("start {uid}"));
            self.say(&uid, state("running"));
        }
        Ok(())
    }

    fn state(&self, uid: &str) -> Option<watch::Receiver<PodState>> {
        self.pods.lock().get(uid).map(watch::Sender::subscribe)
    }

    async fn stop(&self, uid: &str, grace: Duration) -> Result<(), RuntimeError> {
        self.log.lock().push(format!("stop {uid} {}", grace.as_secs()));
        if self.stubborn.lock().contains(uid) {
            tokio::time::sleep(grace).await;
        }
        let known = self.pods.lock().get(uid).is_some_and(|state| !state.borrow().ended);
        if known {
            self.say(uid, state("well"));
        }
        Ok(())
    }

    async fn known(&self) -> Vec<String> {
        self.pods.lock().keys().cloned().collect()
    }

    async fn forget(&self, uid: &str) {
        self.log.lock().push(format!("forget {uid}"));
        self.pods.lock().remove(uid);
    }
}

pub(super) struct Fixture {
    pub(super) api: FakeApi,
    pub(super) room: Arc<FakeVolumes>,
    pub(super) containers: Arc<Containers>,
    log: Log,
    stop: CancellationToken,
    /// Continues across restarts of the agent.
    clock: Clock,
    _dir: TempDir,
}

impl Fixture {
    /// A node whose agent is not started.
    pub(super) fn new() -> Self {
        let log = Log::default();
        let room = FakeVolumes {
            log: Arc::clone(&log),
            pods: Mutex::default(),
            stuck: Mutex::default(),
            is_slow: AtomicBool::default(),
            full: Mutex::default(),
        };
        let containers = Containers {
            log: Arc::clone(&log),
            pods: Mutex::default(),
            stubborn: Mutex::default(),
            failures: Mutex::default(),
        };
        let stop = CancellationToken::new();
        let (room, containers) = (Arc::new(room), Arc::new(containers));
        let clock = Clock::following_tokio(1_767_225_600);
        Self { api: FakeApi::new(), room, containers, log, stop, clock, _dir: tempfile::tempdir().unwrap() }
    }

    /// Starts the agent; an earlier one ends.
    pub(super) fn start(&mut self) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        let clock = self.clock;
        let (sink, _) = EventSink::start(self.api.client(), clock, self.stop.clone());
        let config = Arc::new(NodeConfig { max_pods: 3, ..NodeConfig::new("n", self._dir.path()) });
        let root = self._dir.path().to_owned();
        let mounter = RecordingMounter::new(root.clone()).unwrap();
        let host = Host {
            paths: Paths::new(root),
            mounts: Mounts::new(Arc::new(mounter), config.mount_timeout),
            client: self.api.client(),
            drivers: Drivers::new(Duration::from_secs(1)),
            events: sink.recorder("kubelet"),
            clock,
            config,
        };
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.1.2.3"}]}}))
        .unwrap();
        let (sender, node) = watch::channel(Some(Arc::new(node)));
        let (volumes, runtime) = (Arc::clone(&self.room), Arc::clone(&self.containers));
        let inputs = Inputs { host, volumes, runtime, node };
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let _node = sender;
            run(inputs, stop).await;
        });
    }

    pub(super) async fn started() -> Self {
        let mut rig = Self::new();
        rig.start();
        rig.settle().await;
        rig
    }

    pub(super) async fn settle(&self) {
        self.api.settle().await;
    }

    /// Creates a pod that is bound to this node, and returns its UID.
    pub(super) fn pod(&self, name: &str, more: Value) -> String {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": {"nodeName": "n", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Pending", "qosClass": "BestEffort"}});
        orlop_test_support::merge_into(&mut pod, &more);
        let made = self.api.seed(pod);
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        self.api.get("pods", &format!("d/{name}"))
    }

    pub(super) fn status(&self, name: &str) -> Value {
        self.get(name).unwrap()["status"].clone()
    }

    /// The calls since the last time.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines())
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.log.lock()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Status and reason of the condition of a type.
pub(super) fn condition(status: &Value, type_: &str) -> (String, String) {
    let list = status["conditions"].as_array().unwrap();
    let found = list.iter().find(|condition| condition["type"] == type_).unwrap();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
