//! The CSI plugin with two drivers: an in-memory driver that fails in every way, and the hostpath driver with
//! real mounts.

#![allow(clippy::unwrap_used)]

mod crashes;
mod failures;
mod lab;
mod requests;

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_apimachinery::clock::Clock;
use orlop_client::informer::Informer;
use orlop_csi::capabilities::NodeRpc;
use orlop_csi::drivers::Drivers;
use orlop_test_support::{FakeApi, TestDriver};
use orlop_volume::attachment;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::config::NodeConfig;
use crate::mount::{Force, Mount, MountError, MountPoint, Mounter, Mounts};
use crate::paths::Paths;

const DRIVER: &str = "d.example";

/// A mounter that only records mounts.
#[derive(Default)]
struct Remembered(Mutex<BTreeSet<PathBuf>>);

impl Mounter for Remembered {
    fn mount(&self, mount: &Mount) -> Result<(), MountError> {
        self.0.lock().insert(mount.target.clone());
        Ok(())
    }

    fn unmount(&self, target: &Path, _: Force) -> Result<(), MountError> {
        self.0.lock().remove(target);
        Ok(())
    }

    fn points(&self) -> Result<Vec<MountPoint>, MountError> {
        let point = |target: &PathBuf| MountPoint {
            target: target.clone(),
            root: PathBuf::from("/"),
            fs_type: "none".to_owned(),
            source: "none".to_owned(),
            options: Vec::new(),
            device: (0, 1),
        };
        Ok(self.0.lock().iter().map(point).collect())
    }
}

/// A machine with an in-memory driver.
struct Fixture {
    _dir: TempDir,
    api: FakeApi,
    double: TestDriver,
    mounts: Arc<Remembered>,
    host: Host,
    known: DriverRegistry,
    plugin: CsiPlugin,
    _end: DropGuard,
}

fn host(
    dir: &Path,
    api: &FakeApi,
    drivers: Drivers,
    mounter: Arc<dyn Mounter>,
    end: &CancellationToken,
) -> Host {
    Host {
        config: Arc::new(NodeConfig::new("n1", dir)),
        paths: Paths::new(dir),
        mounts: Mounts::new(mounter, Duration::from_secs(60)),
        client: api.client(),
        drivers,
        events: api.event_sink(end).recorder("kubelet"),
        // The start time of the fake API server.
        clock: Clock::following_tokio(1_767_225_600),
    }
}

/// A cluster with one CSIDriver object.
fn known(spec: Value) -> DriverRegistry {
    let object = json!({"metadata": {"name": DRIVER}, "spec": spec});
    let objects = Informer::new();
    objects.replace(vec![serde_json::from_value(object).unwrap()]);
    DriverRegistry::new(objects)
}

/// A temporary directory, in memory if possible: every record is synced, and disks are slow.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Fixture {
    async fn new(spec: Value) -> Self {
        let end = CancellationToken::new();
        let (dir, api) = (scratch(), FakeApi::new());
        let double = TestDriver::new(DRIVER, &[], &[]);
        double.state().node_rpcs = vec![NodeRpc::StageUnstageVolume, NodeRpc::ExpandVolume];
        let drivers = Drivers::new(Duration::from_secs(2));
        drivers.put(double.driver_within(Duration::from_secs(2)).await);
        let mounts = Arc::new(Remembered::default());
        let host = host(dir.path(), &api, drivers, Arc::clone(&mounts) as Arc<dyn Mounter>, &end);
        let known = known(spec);
        let plugin = CsiPlugin::new(known.clone());
        for handle in ["h", "b"] {
            let name = attachment::name(DRIVER, handle, "n1");
            api.seed(json!({"kind": "VolumeAttachment", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name},
                "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
                "status": {"attached": true, "attachmentMetadata": {"disk": "sdx"}}}));
        }
        Self { _dir: dir, api, double, mounts, host, known, plugin, _end: end.drop_guard() }
    }

    /// Everything below the agent's directory that is not a directory, and the directories of volumes.
    fn left(&self) -> Vec<PathBuf> {
        let paths = &self.host.paths;
        let mut left = Vec::new();
        walk(paths.root(), &mut left);
        let roots = [paths.plugin(NAME), paths.csi_devices()];
        let is_volume = |path: &PathBuf| {
            path.parent().is_some_and(|dir| {
                dir.ends_with("kubernetes.io~csi")
                    || dir.starts_with(&roots[0])
                        && !roots.contains(path)
                        && dir != roots[0]
                        && !path.ends_with("staging")
                        && !path.ends_with("publish")
            })
        };
        left.retain(|path| !path.is_dir() || path.is_symlink() || is_volume(path));
        left
    }

    /// Checks that a record describes everything that the driver has published or staged (I9).
    fn check_records(&self, when: &str) {
        let state = self.double.state();
        for (id, path) in &state.staged {
            let block = self.host.paths.csi_devices();
            let at = match Path::new(path).strip_prefix(block.join("staging")) {
                Ok(volume) => block.join(volume).join("data"),
                Err(_) => Path::new(path).parent().unwrap().to_owned(),
            };
            assert!(at.join("vol_data.json").is_file(), "{when}: {id} is staged at {path} without a record");
        }
        for (id, path) in &state.targets {
            let publish = self.host.paths.csi_devices().join("publish");
            let at = match Path::new(path).strip_prefix(publish) {
                Ok(place) => {
                    let (volume, pod) =
                        (place.parent().unwrap(), place.file_name().unwrap().to_str().unwrap());
                    self.host.paths.pod_device(pod, NAME, volume.to_str().unwrap())
                }
                Err(_) => Path::new(path).parent().unwrap().join("vol_data.json"),
            };
            assert!(
                at.symlink_metadata().is_ok(),
                "{when}: {id} is published at {path} without a trace at {at:?}"
            );
        }
    }
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found);
        }
        found.push(path);
    }
}

fn pod() -> Arc<Pod> {
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {"containers": [], "serviceAccountName": "robot", "securityContext": {"fsGroup": 7}}});
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// The three forms of CSI volumes in a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Files,
    Block,
    Inline,
}

const FORMS: [Form; 3] = [Form::Files, Form::Block, Form::Inline];

fn persistent(name: &str, spec: Value, block: bool) -> PodVolume {
    let volume = json!({"metadata": {"name": name}, "spec": spec});
    let source = Source::Persistent(Arc::new(serde_json::from_value(volume).unwrap()));
    let spec = VolumeSpec { name: "v".to_owned(), source, claim: None, read_only: false, block };
    PodVolume { pod: pod(), spec: Arc::new(spec) }
}

fn inline(spec: Value) -> PodVolume {
    let volume = json!({"name": "v", "csi": spec});
    let source = Source::Inline(Arc::new(serde_json::from_value(volume).unwrap()));
    let spec = VolumeSpec { name: "v".to_owned(), source, claim: None, read_only: false, block: false };
    PodVolume { pod: pod(), spec: Arc::new(spec) }
}

fn volume(form: Form) -> PodVolume {
    let csi = |handle: &str| {
        json!({"accessModes": ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": handle, "volumeAttributes": {"a": "b"}}})
    };
    match form {
        Form::Files => persistent("pv", csi("h"), false),
        Form::Block => persistent("pvb", csi("b"), true),
        Form::Inline => inline(json!({"driver": DRIVER, "volumeAttributes": {"a": "b"}})),
    }
}

fn both_lives() -> Value {
    json!({"volumeLifecycleModes": ["Persistent", "Ephemeral"]})
}

/// A call of the plugin.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    MountDevice,
    SetUp,
    Expand,
    TearDown,
    UnmountDevice,
}

fn steps(form: Form) -> Vec<Step> {
    let all = [Step::MountDevice, Step::SetUp, Step::Expand, Step::TearDown, Step::UnmountDevice];
    match form {
        Form::Files | Form::Block => all.into(),
        Form::Inline => vec![Step::SetUp, Step::TearDown],
    }
}

async fn take(plugin: &CsiPlugin, host: &Host, volume: &PodVolume, step: Step) -> Result<(), PluginError> {
    match step {
        Step::MountDevice => plugin.mount_device_for(host, volume).await,
        Step::SetUp => plugin.set_up(host, volume).await,
        Step::Expand => {
            plugin.expand(host, volume, 5).await.map(|grown| assert_eq!(grown, ExpandOutcome::To(5)))
        }
        Step::TearDown => plugin.tear_down(host, &place_of(volume)).await,
        Step::UnmountDevice => {
            let name = plugin.volume_name(&volume.spec).unwrap();
            plugin.unmount_device(host, &name).await
        }
    }
}

/// The places that a restarted agent finds in the pods' directories.
fn places(host: &Host) -> Vec<Place> {
    let mut found = Vec::new();
    let names = |dir: PathBuf| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for uid in names(host.paths.pods()) {
        for (kind, block) in [("volumes", false), ("volumeDevices", true)] {
            for dir_name in names(host.paths.pod(&uid).join(kind).join("kubernetes.io~csi")) {
                found.push(Place { uid: uid.clone(), plugin: NAME.to_owned(), dir_name, block });
            }
        }
    }
    found
}
