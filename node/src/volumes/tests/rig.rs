//! A machine that outlives agents, plugins that fail as they are told, and somebody who writes the Node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Pod};
use orlop_controller::options::Options;
use orlop_controller::testing::FakeApi;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::NodeConfig;
use crate::host::Host;
use crate::mount::{Force, Mount, MountError, MountPoint, Mounter, Mounts};
use crate::paths::Paths;
use crate::plugin::{Abilities, Expanded, Outcome, Place, Plugin, PluginError, Plugins, PodVolume};
use crate::volume::{Source, VolumeSpec};
use crate::volumes::{Owned, Ownership, PodVolumes, Volumes};

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is done.
    Final,
    /// Nothing is done, and that takes five seconds.
    Late,
    /// Nothing is done, and nobody says so.
    Lost,
    /// It is done, and nobody says so.
    Done,
    /// Nothing is done, and it panics.
    Panics,
    /// It never begins, and never ends.
    HangsBefore,
    /// It is done, and never ends.
    HangsAfter,
    /// It is done, and the answer is that nothing was.
    Denied,
}

/// The calls that are to go wrong: those that begin with a text, after so many of them, once or always.
pub(super) struct Plan {
    pub(super) call: &'static str,
    pub(super) skip: usize,
    pub(super) fault: Fault,
    pub(super) always: bool,
}

#[derive(Default)]
pub(super) struct State {
    /// Every call, in order.
    pub(super) calls: Vec<String>,
    pub(super) devices: BTreeSet<String>,
    pub(super) places: BTreeMap<Place, String>,
    /// What the controller has attached.
    pub(super) attached: BTreeSet<String>,
    /// What must never be.
    pub(super) wrong: Vec<String>,
    pub(super) plans: Vec<Plan>,
    busy: BTreeSet<String>,
    pub(super) expand_error: Option<fn() -> PluginError>,
    pub(super) owned: Vec<String>,
    pub(super) own_for: Option<Duration>,
    pub(super) own_fails: usize,
    pub(super) read_only: Vec<bool>,
    /// UIDs of the pods for which a device was mounted.
    pub(super) staged_for: Vec<String>,
    /// When a directory is renamed into this one, something is mounted in it as if that had been done right before.
    pub(super) mounts_late: Option<PathBuf>,
    /// Records that cannot be read, by the UID of their pod.
    pub(super) unreadable: BTreeSet<String>,
    /// It is not known yet what drivers want.
    pub(super) unsynced: bool,
    /// The groups that volumes were staged for.
    pub(super) groups: Vec<Option<i64>>,
    points: Vec<PathBuf>,
    /// How often the table of mounts was read.
    pub(super) readings: usize,
}

/// The machine.
#[derive(Clone, Default)]
pub(super) struct Machine(Arc<Mutex<State>>);

/// Takes its volume out of those with a call under way, also when the call is dropped.
struct Busy(Machine, String);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.state().busy.remove(&self.1);
    }
}

impl Machine {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }

    pub(super) fn plan(&self, call: &'static str, skip: usize, fault: Fault) {
        self.state().plans.push(Plan { call, skip, fault, always: false });
    }

    pub(super) fn always(&self, call: &'static str, fault: Fault) {
        self.state().plans.push(Plan { call, skip: 0, fault, always: true });
    }

    /// The controller attaches these, and detaches all others.
    fn attach(&self, names: BTreeSet<String>) {
        let mut state = self.state();
        let staged = state.devices.iter().filter(|name| *name != "loose" && !name.contains('^'));
        let lost: Vec<String> =
            staged.filter(|name| !names.contains(&format!("test/disk/{name}"))).cloned().collect();
        state.wrong.extend(lost.iter().map(|name| format!("{name} is detached while it is mounted")));
        state.attached = names;
    }

    pub(super) fn mount_at(&self, path: &Path) {
        self.state().points.push(path.to_owned());
    }

    async fn call(
        &self,
        volume: &str,
        call: String,
        effect: impl FnOnce(&mut State),
    ) -> Result<(), PluginError> {
        let fault = {
            let mut state = self.state();
            if !state.busy.insert(volume.to_owned()) {
                state.wrong.push(format!("{call}: another call of {volume} is under way"));
            }
            state.calls.push(call.clone());
            let mut hit = None;
            let plans = std::mem::take(&mut state.plans);
            for mut plan in plans {
                if hit.is_none() && call.starts_with(plan.call) {
                    if plan.skip == 0 {
                        hit = Some(plan.fault);
                        if !plan.always {
                            continue;
                        }
                    } else {
                        plan.skip -= 1;
                    }
                }
                state.plans.push(plan);
            }
            hit
        };
        let _busy = Busy(self.clone(), volume.to_owned());
        tokio::task::yield_now().await;
        match fault {
            Some(Fault::HangsBefore) => std::future::pending().await,
            Some(Fault::Late) => {
                tokio::time::sleep(Duration::from_secs(5)).await;
                return Err(PluginError::plain(format!("{call}: no")));
            }
            Some(Fault::Final) => return Err(PluginError::plain(format!("{call}: no"))),
            Some(Fault::Lost) => return Err(PluginError::uncertain(format!("{call}: no answer"))),
            Some(Fault::Panics) => panic!("on purpose"),
            Some(Fault::Done | Fault::HangsAfter | Fault::Denied) | None => effect(&mut self.state()),
        }
        match fault {
            Some(Fault::Done) => Err(PluginError::uncertain(format!("{call}: no answer"))),
            Some(Fault::HangsAfter) => std::future::pending().await,
            Some(Fault::Denied) => Err(PluginError::plain(format!("{call}: no"))),
            Some(_) | None => Ok(()),
        }
    }
}

impl Mounter for Machine {
    fn mount(&self, _: &Mount) -> Result<(), MountError> {
        Ok(())
    }

    fn unmount(&self, target: &Path, _: Force) -> Result<(), MountError> {
        let mut state = self.state();
        state.calls.push(format!("unmount {}", target.display()));
        state.points.retain(|point| point != target);
        Ok(())
    }

    fn renamed(&self) {
        let mut state = self.state();
        if let Some(room) = state.mounts_late.take() {
            let moved = std::fs::read_dir(room).unwrap().next().unwrap().unwrap().path();
            state.points.push(moved.join("late"));
        } else {
            state.points.retain(|point| point.exists());
        }
    }

    fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        let point = |target: &PathBuf| MountPoint {
            target: target.clone(),
            root: PathBuf::from("/"),
            fs_type: "tmpfs".to_owned(),
            source: "tmpfs".to_owned(),
            options: Vec::new(),
            device: (0, 1),
        };
        let mut state = self.state();
        state.readings += 1;
        Ok(state.points.iter().map(point).collect())
    }
}

/// A plugin: `disk` is attached and mounted for the node, `own` is a directory of the pod.
struct Fake {
    name: &'static str,
    machine: Machine,
}

impl Fake {
    fn is_disk(&self) -> bool {
        self.name != "test/own"
    }

    /// The plugin whose volumes have VolumeAttachments.
    fn is_real(&self) -> bool {
        self.name == "kubernetes.io/csi"
    }
}

#[async_trait]
impl Plugin for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn can_support(&self, source: &Source) -> bool {
        match source {
            Source::Inline(volume) => !self.is_disk() && volume.empty_dir.is_some(),
            Source::Persistent(volume) => {
                let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
                self.is_disk() && csi.is_some_and(|csi| (csi.driver == "real") == self.is_real())
            }
        }
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        match &spec.source {
            Source::Inline(volume) => Ok(volume.name.clone()),
            Source::Persistent(volume) => {
                let handle = &volume.spec.as_ref().unwrap().csi.as_ref().unwrap().volume_handle;
                Ok(if self.is_real() { format!("real^{handle}") } else { handle.clone() })
            }
        }
    }

    fn abilities(&self, _: &Host, spec: &VolumeSpec) -> Abilities {
        let disk = self.is_disk();
        let known = !self.machine.state().unsynced;
        let csi = match &spec.source {
            Source::Persistent(volume) => volume.spec.as_ref().unwrap().csi.as_ref().unwrap().driver.clone(),
            Source::Inline(_) => String::new(),
        };
        Abilities {
            attach: disk && !(known && csi == "unattached"),
            device: disk,
            mount_options: false,
            block: disk,
            refreshed: !disk,
            repeated: known && csi == "again",
            // One that sets the group itself says so when it was asked once; of another it is known when its object was read.
            owned: !(known && csi == "grouped")
                && (csi != "group" || self.machine.state().devices.is_empty()),
            owned_once: csi == "once",
            read_only: spec.name == "shown",
        }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name)
    }

    async fn mount_device(&self, _: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        let name = self.volume_name(spec)?;
        let unique = format!("{}/{name}", self.name);
        let attach = name != "loose";
        let call = format!("stage {name}");
        self.machine
            .call(&unique, call, |state| {
                if attach && !state.attached.contains(&unique) {
                    state.wrong.push(format!("{name} is mounted and not attached"));
                }
                state.devices.insert(name.clone());
            })
            .await
    }

    async fn mount_device_for(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        self.machine.state().staged_for.push(volume.pod.metadata.uid.clone().unwrap());
        let context = volume.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        self.machine.state().groups.push(context.and_then(|context| context.fs_group));
        self.mount_device(host, &volume.spec).await
    }

    async fn unmount_device(&self, _: &Host, name: &str) -> Result<(), PluginError> {
        let call = format!("unstage {name}");
        self.machine
            .call(&format!("{}/{name}", self.name), call, |state| {
                if state.places.values().any(|of| of == name) {
                    state.wrong.push(format!("{name} is unstaged and a pod has it"));
                }
                state.devices.remove(name);
            })
            .await
    }

    async fn devices(&self, _: &Host) -> Result<Vec<String>, PluginError> {
        let devices: Vec<String> = self.machine.state().devices.iter().cloned().collect();
        let ours = |name: &String| self.is_disk() && name.starts_with("real^") == self.is_real();
        Ok(devices.into_iter().filter(ours).collect())
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let name = self.volume_name(&volume.spec)?;
        let place = Place {
            uid: volume.pod.metadata.uid.clone().unwrap(),
            plugin: self.name.to_owned(),
            dir_name: volume.spec.dir_name().to_owned(),
            block: volume.spec.block,
        };
        let (path, disk) = (self.path(host, &place), self.is_disk());
        let lane = if disk { format!("{}/{name}", self.name) } else { path.display().to_string() };
        let call = format!("publish {name} {}", place.uid);
        let read_only = volume.spec.read_only;
        self.machine
            .call(&lane, call, |state| {
                if disk && !state.devices.contains(&name) {
                    state.wrong.push(format!("{name} is published and not staged"));
                }
                std::fs::create_dir_all(&path).unwrap();
                state.read_only.push(read_only);
                state.places.insert(place, name);
            })
            .await
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let name = self.machine.state().places.get(place).cloned().unwrap_or_else(|| place.dir_name.clone());
        let path = self.path(host, place);
        let lane = if self.is_disk() { format!("{}/{name}", self.name) } else { path.display().to_string() };
        let call = format!("unpublish {name} {}", place.uid);
        self.machine
            .call(&lane, call, |state| {
                state.places.remove(place);
                let _ = std::fs::remove_dir(&path);
            })
            .await
    }

    async fn found(&self, _: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        let state = self.machine.state();
        let name = state.places.get(place).filter(|_| !state.unreadable.contains(&place.uid));
        match (self.is_disk(), name) {
            (false, _) => Ok(None),
            (true, Some(name)) => Ok(Some(name.clone())),
            (true, None) => Err(PluginError::plain("it has no record")),
        }
    }

    async fn expand(&self, _: &Host, volume: &PodVolume, bytes: i64) -> Result<Expanded, PluginError> {
        let name = self.volume_name(&volume.spec)?;
        let error = self.machine.state().expand_error;
        self.machine.call(&format!("{}/{name}", self.name), format!("expand {name} {bytes}"), |_| ()).await?;
        match error {
            Some(error) => Err(error()),
            None => Ok(Expanded::To(bytes)),
        }
    }
}

struct Group(Machine);

#[async_trait]
impl Ownership for Group {
    async fn apply(&self, _: &Host, owned: Owned) -> Result<(), PluginError> {
        let (took, fails) = {
            let mut state = self.0.state();
            let fails = state.own_fails > 0;
            state.own_fails = state.own_fails.saturating_sub(1);
            state.owned.push(format!("{} {}", owned.lane, owned.fs_group));
            (state.own_for, fails)
        };
        if let Some(took) = took {
            owned.files.store(77, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(took).await;
        }
        if fails {
            return Err(PluginError { message: "chown: no".into(), outcome: Outcome::Final, source: None });
        }
        Ok(())
    }
}

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
