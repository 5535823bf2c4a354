//! A test machine for volume plugins: a directory with recorded or real mounts. Real mounts are unmounted even
//! when a test fails.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Volume};
use orlop_apimachinery::clock::Clock;
use orlop_csi::drivers::Drivers;
use orlop_test_support::FakeApi;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Place, Plugin, PluginError, PodVolume};
use crate::config::NodeConfig;
use crate::host::Host;
use crate::mount::{LinuxMounter, MountError, MountPoint, Mounter, Mounts, Programs, RecordingMounter};
use crate::paths::Paths;
use crate::volume::{Source, VolumeSpec};

/// UID of the pod in all tests.
pub(super) const UID: &str = "uid-1";

/// When a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Before it changes anything.
    Before,
    /// After it has changed everything.
    After,
}

thread_local! {
    /// The step that fails: the number of steps before it.
    static FAULT: Cell<Option<(u32, Side)>> = const { Cell::new(None) };
}

/// Returns an error when this is the step that fails.
pub(super) fn fault(what: &str, side: Side) -> Result<(), MountError> {
    match FAULT.get() {
        Some((0, at)) if at == side => {
            FAULT.set(None);
            Err(MountError::Refused {
                what: what.to_owned(),
                why: format!("it fails {side:?}"),
                source: None,
            })
        }
        Some((number, at)) if at == side => {
            FAULT.set(Some((number - 1, at)));
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}

/// A test machine.
pub(super) struct Fixture {
    pub(super) host: Host,
    pub(super) api: FakeApi,
    /// Its directory, which contains the agent's `root` and other files of a test.
    pub(super) base: PathBuf,
    pub(super) mounter: Arc<dyn Mounter>,
    /// None for real mounts.
    pub(super) record: Option<Arc<RecordingMounter>>,
    _dir: TempDir,
    _end: DropGuard,
}

impl Fixture {
    /// With recorded mounts.
    pub(super) fn recorded() -> Self {
        Self::new(|root| {
            let record = Arc::new(RecordingMounter::new(root).unwrap());
            (Arc::clone(&record) as Arc<dyn Mounter>, Some(record))
        })
    }

    /// With real mounts; none where mounting is not possible.
    pub(super) fn real() -> Option<Self> {
        Self::with_programs(|_| Programs::default())
    }

    /// The same, with other program paths.
    pub(super) fn with_programs(programs: impl FnOnce(&Path) -> Programs) -> Option<Self> {
        if !orlop_test_support::privileges::has_root("real mounts of a plugin") {
            return None;
        }
        Some(Self::new(|root| {
            let programs = programs(root.parent().unwrap());
            (Arc::new(LinuxMounter::with_programs(root, programs)), None)
        }))
    }

    fn new(mounter: impl FnOnce(PathBuf) -> (Arc<dyn Mounter>, Option<Arc<RecordingMounter>>)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let root = base.join("root");
        fs::create_dir(&root).unwrap();
        let (mounter, record) = mounter(root.clone());
        let (api, end) = (FakeApi::new(), CancellationToken::new());
        let host = Host {
            config: Arc::new(NodeConfig::new("n1", &root)),
            paths: Paths::new(&root),
            mounts: Mounts::new(Arc::clone(&mounter), Duration::from_secs(60)),
            client: api.client(),
            drivers: Drivers::new(Duration::from_secs(2)),
            events: api.event_sink(&end).recorder("kubelet"),
            clock: Clock::Wall,
        };
        Self { host, api, base, mounter, record, _dir: dir, _end: end.drop_guard() }
    }

    /// Sets the time after which a call counts as hung.
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.host.mounts = Mounts::new(Arc::clone(&self.mounter), deadline);
    }

    /// Runs the full life cycle: mount for the node, set-up for the pod, tear-down and unmount.
    pub(super) async fn whole_way(
        &self,
        plugin: &dyn Plugin,
        volume: &PodVolume,
        check: &(dyn Fn(&Self) + Sync),
    ) {
        self.there(plugin, volume, false).await.unwrap();
        check(self);
        self.back(plugin, volume, false).await.unwrap();
        self.is_clean(plugin).await;
    }

    /// Fails each step of the life cycle once, before or after its change; then the call is repeated, or the pod is
    /// deleted instead. Afterwards the volume works (`check`), and nothing is left after its removal.
    pub(super) async fn every_step(
        &self,
        plugin: &dyn Plugin,
        volume: &PodVolume,
        check: &(dyn Fn(&Self) + Sync),
    ) {
        for side in [Side::Before, Side::After] {
            self.every_step_fails(side, plugin, volume, check).await;
        }
    }

    /// The same, on one side only.
    pub(super) async fn every_step_fails(
        &self,
        side: Side,
        plugin: &dyn Plugin,
        volume: &PodVolume,
        check: &(dyn Fn(&Self) + Sync),
    ) {
        for gives_up in [false, true] {
            for number in 0.. {
                FAULT.set(Some((number, side)));
                let there = self.there(plugin, volume, !gives_up).await;
                if there.is_ok() {
                    check(self);
                }
                self.back(plugin, volume, true).await.unwrap();
                self.is_clean(plugin).await;
                if FAULT.take().is_some() {
                    assert!(number > 1, "there are steps");
                    break;
                }
            }
        }
    }

    async fn there(&self, plugin: &dyn Plugin, volume: &PodVolume, again: bool) -> Result<(), PluginError> {
        let has_device = plugin.abilities(&self.host, &volume.spec).device;
        // Every call is made twice.
        for _ in 0..2 {
            if has_device {
                tried(again, async || plugin.mount_device_for(&self.host, volume).await).await?;
            }
        }
        for _ in 0..2 {
            tried(again, async || plugin.set_up(&self.host, volume).await).await?;
        }
        Ok(())
    }

    async fn back(&self, plugin: &dyn Plugin, volume: &PodVolume, again: bool) -> Result<(), PluginError> {
        let place = Place { block: volume.spec.block, ..place(plugin, volume.spec.dir_name()) };
        let name = plugin.volume_name(&volume.spec)?;
        for _ in 0..2 {
            tried(again, async || plugin.tear_down(&self.host, &place).await).await?;
        }
        for _ in 0..2 {
            if plugin.abilities(&self.host, &volume.spec).device {
                tried(again, async || plugin.unmount_device(&self.host, &name).await).await?;
            }
        }
        Ok(())
    }

    async fn is_clean(&self, plugin: &dyn Plugin) {
        assert_eq!(self.points(), []);
        assert_eq!(self.left(), Vec::<String>::new());
        let fault = FAULT.take();
        assert_eq!(plugin.devices(&self.host).await.unwrap(), Vec::<String>::new());
        FAULT.set(fault);
    }

    pub(super) fn record(&self) -> &RecordingMounter {
        self.record.as_deref().unwrap()
    }

    /// Mount points of the test.
    pub(super) fn points(&self) -> Vec<MountPoint> {
        let points = self.host.mounts.points().unwrap();
        points.into_iter().filter(|point| point.target.starts_with(&self.base)).collect()
    }

    /// The path of the pod's volume of a plugin.
    pub(super) fn target(&self, plugin: &dyn Plugin, dir_name: &str) -> PathBuf {
        plugin.path(&self.host, &place(plugin, dir_name))
    }

    /// Files, links and directories left below the directories of pods and plugins, except for intermediate
    /// directories.
    pub(super) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        leaves(self.host.paths.root(), Path::new(""), &mut left);
        left.retain(|name| name != "mounts.json" && name != "mounting");
        left
    }
}

/// A call that is repeated after a failure if `again` is set.
async fn tried(again: bool, call: impl AsyncFn() -> Result<(), PluginError>) -> Result<(), PluginError> {
    match call().await {
        Err(_) if again => call().await,
        other => other,
    }
}

fn leaves(root: &Path, at: &Path, left: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(at)).unwrap() {
        let entry = entry.unwrap();
        let there = at.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            // The directories of plugins and pods are removed by the owner of the pod's directory.
            let is_volume = there.parent().is_some_and(|parent| {
                parent.file_name().is_some_and(|name| {
                    let name = name.to_string_lossy();
                    name.starts_with("kubernetes.io~") || name.starts_with("iface-") || name == "mounts"
                })
            });
            if is_volume {
                left.push(there.display().to_string());
            }
            leaves(root, &there, left);
        } else {
            left.push(there.display().to_string());
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if self.record.is_some() {
            return;
        }
        for point in self.points().iter().rev() {
            let _ = unmount(&point.target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

/// The pod of all tests.
pub(super) fn pod() -> Arc<Pod> {
    let value = json!({"metadata": {"namespace": "ns", "name": "p", "uid": UID}, "spec": {"containers": []}});
    Arc::new(serde_json::from_value(value).unwrap())
}

/// An inline volume of the pod.
pub(super) fn inline(value: Value) -> PodVolume {
    let volume: Volume = serde_json::from_value(value).unwrap();
    let spec = VolumeSpec {
        name: volume.name.clone(),
        source: Source::Inline(Arc::new(volume)),
        claim: None,
        read_only: false,
        block: false,
    };
    PodVolume { pod: pod(), spec: Arc::new(spec) }
}

/// A PersistentVolume bound to a claim of the pod.
pub(super) fn persistent(name: &str, spec: Value) -> PodVolume {
    let volume: PersistentVolume =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    let spec = VolumeSpec {
        name: "data".to_owned(),
        source: Source::Persistent(Arc::new(volume)),
        claim: None,
        read_only: false,
        block: false,
    };
    PodVolume { pod: pod(), spec: Arc::new(spec) }
}

/// A changed copy of a volume.
pub(super) fn with(volume: &PodVolume, change: impl FnOnce(&mut VolumeSpec)) -> PodVolume {
    let mut spec = (*volume.spec).clone();
    change(&mut spec);
    PodVolume { pod: Arc::clone(&volume.pod), spec: Arc::new(spec) }
}

/// The place of a volume of the pod.
pub(super) fn place(plugin: &dyn Plugin, dir_name: &str) -> Place {
    Place {
        uid: UID.to_owned(),
        plugin: plugin.name().to_owned(),
        dir_name: dir_name.to_owned(),
        block: false,
    }
}

/// Writes a program for a test. A child process writes it: a file that this process has open for writing while
/// another thread starts a child is busy.
pub(super) fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
        .arg(format!("#!/bin/sh\n{script}\n"))
        .arg(path)
        .status()
        .unwrap();
    assert!(status.success());
}
