//! A server, a machine that outlives agents (`machine`), plugins that fail as they are told (`fake`), and somebody who writes the Node.

mod fake;
mod machine;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use orlop_controller::options::Options;
use orlop_controller::testing::FakeApi;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::fake::{Fake, Group};
pub(super) use self::machine::{Fault, Machine};
use crate::config::NodeConfig;
use crate::host::Host;
use crate::mount::Mounts;
use crate::paths::Paths;
use crate::plugin::{Plugin, Plugins};
use crate::volumes::{PodVolumes, Volumes};

/// A server, a machine, and its Node.
pub(super) struct Bench {
    pub(super) api: FakeApi,
    pub(super) machine: Machine,
    pub(super) root: TempDir,
    _events: CancellationToken,
    host: Host,
}

/// An agent, with somebody who writes its Node and attaches what is in use.
pub(super) struct Agent {
    pub(super) volumes: Volumes,
    shutdown: CancellationToken,
    _end: DropGuard,
}

impl Agent {
    /// Ends it in the midst of what it does.
    pub(super) async fn crash(self) {
        self.shutdown.cancel();
        self.volumes.ended().await;
    }

    pub(super) fn state(&self, uid: &str) -> PodVolumes {
        self.volumes.state(uid).borrow().clone()
    }

    pub(super) fn is_ready(&self, uid: &str) -> bool {
        matches!(self.state(uid), PodVolumes::Ready(_))
    }

    pub(super) fn in_use(&self) -> Vec<String> {
        self.volumes.in_use().borrow().iter().cloned().collect()
    }

    /// What a pod waits for, in words.
    pub(super) fn waits(&self, uid: &str) -> String {
        match self.state(uid) {
            PodVolumes::Waiting(waiting) => waiting.to_string(),
            other => format!("{other:?}"),
        }
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        let (api, machine, root) = (FakeApi::new(), Machine::default(), TempDir::new().unwrap());
        api.seed(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a"}}}),
        );
        let token = CancellationToken::new();
        let context = api.context(Options::default(), &token);
        let config = NodeConfig::new("n", root.path());
        let host = Host {
            mounts: Mounts::new(Arc::new(machine.clone()), config.mount_timeout),
            paths: Paths::new(root.path()),
            client: api.client(),
            drivers: api.drivers(),
            events: context.recorder("kubelet"),
            clock: context.clock,
            config: Arc::new(config),
        };
        Self { api, machine, root, _events: token, host }
    }

    pub(super) fn paths(&self) -> Paths {
        self.host.paths.clone()
    }

    pub(super) fn host(&self) -> Host {
        self.host.clone()
    }

    pub(super) fn plugins(&self) -> Plugins {
        let fake = |name| -> Arc<dyn Plugin> { Arc::new(Fake { name, machine: self.machine.clone() }) };
        Plugins::new(vec![fake("test/disk"), fake("kubernetes.io/csi"), fake("test/own")])
    }

    pub(super) async fn quiet_agent(&self) -> Agent {
        let shutdown = CancellationToken::new();
        let ownership = Arc::new(Group(self.machine.clone()));
        let started = Volumes::start(self.host(), self.plugins(), ownership, shutdown.clone()).await;
        Agent { volumes: started.unwrap(), _end: shutdown.clone().drop_guard(), shutdown }
    }

    /// An agent whose Node is written, and whose pods are known.
    pub(super) async fn agent(&self) -> Agent {
        let agent = self.quiet_agent().await;
        self.register(&agent);
        agent.volumes.synced();
        agent
    }

    /// Writes what is in use to the Node, some time later, and attaches it some time after that.
    pub(super) fn register(&self, agent: &Agent) {
        let (api, machine, volumes) = (self.api.clone(), self.machine.clone(), agent.volumes.clone());
        let shutdown = agent.shutdown.clone();
        let work = async move {
            let mut in_use = volumes.in_use();
            loop {
                tell(&api, &volumes);
                let names = in_use.borrow_and_update().clone();
                tokio::time::sleep(Duration::from_millis(30)).await;
                api.patch("nodes", "n", "status", json!({"status": {"volumesInUse": names}}));
                tell(&api, &volumes);
                tokio::time::sleep(Duration::from_millis(50)).await;
                // Not in use: it is detached, after it was taken from the list.
                let attached: Vec<Value> =
                    names.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
                api.patch("nodes", "n", "status", json!({"status": {"volumesAttached": attached}}));
                machine.attach(names);
                tell(&api, &volumes);
                if in_use.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = shutdown.cancelled() => {}
            }
        });
    }

    pub(super) async fn settle(&self) {
        self.api.settle().await;
    }

    /// Longer than all delays.
    pub(super) async fn rest(&self) {
        for _ in 0..8 {
            self.settle().await;
        }
    }

    /// A claim `ns/NAME`, bound to a volume `pv-NAME` of a driver.
    pub(super) fn disk(&self, name: &str, mode: &str, driver: &str) {
        self.api.seed(volume(name, mode, driver));
        self.api.seed(claim(name));
    }

    /// What must never be has not been.
    pub(super) fn nothing_wrong(&self) {
        assert_eq!(self.machine.state().wrong, Vec::<String>::new());
    }

    pub(super) fn events(&self, reason: &str) -> Vec<String> {
        let all = self.api.events().into_iter();
        all.filter(|event| event.contains(&format!(" {reason} "))).collect()
    }
}

/// What a watch of the Node says.
pub(super) fn tell(api: &FakeApi, volumes: &Volumes) {
    let node: Node = api.get_as("n").unwrap();
    let reported = node.status.iter().flat_map(|status| status.volumes_in_use.iter().flatten());
    let reported: BTreeSet<String> = reported.cloned().collect();
    volumes.node_seen(&node, &reported);
}

pub(super) fn volume(name: &str, mode: &str, driver: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": [mode], "csi": {"driver": driver, "volumeHandle": name},
        "claimRef": {"namespace": "ns", "name": name, "uid": format!("claim-{name}")}}, "status": {"phase": "Bound"}})
}

pub(super) fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "ns", "name": name, "uid": format!("claim-{name}")},
        "spec": {"volumeName": format!("pv-{name}"), "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
}

/// A pod `ns/NAME` with a container that mounts all of its volumes: claims, and with a `+` directories of its own.
pub(super) fn pod(name: &str, uid: &str, volumes: &[&str]) -> Arc<Pod> {
    Arc::new(serde_json::from_value(pod_json(name, uid, volumes)).unwrap())
}

pub(super) fn pod_json(name: &str, uid: &str, volumes: &[&str]) -> Value {
    let source = |name: &&str| match name.strip_prefix('+') {
        Some(own) => json!({"name": own, "emptyDir": {}}),
        None => json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
    };
    let list: Vec<Value> = volumes.iter().map(source).collect();
    let mounts: Vec<Value> =
        list.iter().map(|volume| json!({"name": volume["name"], "mountPath": "/m"})).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": name, "uid": uid},
        "spec": {"nodeName": "n", "volumes": list, "containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]}})
}
