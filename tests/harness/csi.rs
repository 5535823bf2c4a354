//! The lab driver as a separate process, and its calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_csi::driver::{Driver, Line};
use orlop_csi::socket;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use orlop_csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use orlop_csi::v1::{CapacityRange, CreateVolumeRequest, VolumeCapability};
use orlop_csi_hostpath as hostpath;
use serde_json::{Value, json};

use super::process::Process;
use super::wait;

/// A file system volume, written on one node.
pub(crate) fn files() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// A driver that is running, or was. Its data and its socket survive restarts.
pub(crate) struct Hostpath {
    dir: PathBuf,
    name: String,
    flags: Vec<String>,
    process: Option<Process>,
}

impl Hostpath {
    /// Starts a driver below a directory and waits until it answers. It serves node `n1`, and `n2` as a node where
    /// nothing is mounted.
    pub(crate) async fn start(dir: &Path, flags: &[&str]) -> Self {
        Self::named(dir, hostpath::NAME, flags).await
    }

    /// The same with a name; one directory can contain several drivers.
    pub(crate) async fn named(dir: &Path, name: &str, flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut driver = Hostpath { dir: dir.to_owned(), name: name.to_owned(), flags, process: None };
        // The fault script must exist before the driver starts.
        driver.faults(&json!([]));
        driver.start_again().await;
        driver
    }

    /// The server's flag that configures this driver.
    pub(crate) fn flag(&self) -> String {
        format!("--csi-endpoint={}={}", self.name, self.endpoint())
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.path("sock").display())
    }

    fn path(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{}.{what}", self.name))
    }

    /// Sets the faults from now on (docs of `orlop_csi_hostpath`).
    pub(crate) fn faults(&self, rules: &Value) {
        let (file, new) = (self.path("faults"), self.path("faults.new"));
        std::fs::write(&new, rules.to_string()).unwrap();
        // Atomic, so that the driver never reads half of it.
        std::fs::rename(&new, &file).unwrap();
    }

    /// The names of the calls that are currently blocked.
    pub(crate) fn held(&self) -> Vec<String> {
        let list = std::fs::read_to_string(self.path("faults.held")).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// kill -9.
    pub(crate) async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Waits until the driver has crashed as scripted.
    pub(crate) async fn crashed(&mut self) {
        let mut process = self.process.take().expect("it runs");
        assert_eq!(process.exit_code().await, 70, "{}", process.log());
    }

    /// Restarts it on its saved state.
    pub(crate) async fn start_again(&mut self) {
        let shown = |path: PathBuf| path.display().to_string();
        let mut args = vec!["csi-hostpath".to_owned()];
        for (flag, value) in [
            ("--endpoint", self.endpoint()),
            ("--driver-name", self.name.clone()),
            ("--data-dir", shown(self.path("data"))),
            ("--node-id", "n1".to_owned()),
            ("--other-nodes", "n2".to_owned()),
            ("--faults", shown(self.path("faults"))),
        ] {
            args.extend([flag.to_owned(), value]);
        }
        args.extend(self.flags.iter().cloned());
        self.process = Some(Process::start(&self.name, &self.dir, &args));
        self.driver().await;
    }

    /// A client of the driver.
    pub(crate) async fn driver(&self) -> Driver {
        wait::until("the driver answers", async || {
            let line = Line::new(socket::connect(&self.endpoint()).unwrap(), Duration::from_secs(10));
            line.identify().await.map_err(|error| error.to_string())
        })
        .await
    }

    /// Creates a volume behind the API's back; returns its handle.
    pub(crate) async fn make(&self, name: &str, bytes: i64) -> String {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            volume_capabilities: vec![files()],
            ..Default::default()
        };
        self.driver().await.create_volume(request).await.unwrap().volume.unwrap().volume_id
    }

    /// The nodes to which a volume is published; none if it does not exist.
    pub(crate) async fn nodes_of(&self, handle: &str) -> Option<Vec<String>> {
        let all = self.driver().await.all_volumes().await.unwrap();
        let found =
            all.into_iter().find(|entry| entry.volume.as_ref().is_some_and(|v| v.volume_id == handle))?;
        Some(found.status.unwrap_or_default().published_node_ids)
    }

    /// A PersistentVolume for one of its volumes.
    pub(crate) fn persistent_volume(&self, name: &str, handle: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "by-hand",
            "csi": {"driver": self.name, "volumeHandle": handle}}})
    }

    /// A CSINode that lists this driver.
    pub(crate) fn csi_node(&self, node: &str) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node},
            "spec": {"drivers": [{"name": self.name, "nodeID": node, "topologyKeys": null}]}})
    }

    /// An attachment of a PersistentVolume to a node.
    pub(crate) fn attachment(&self, name: &str, volume: &str, node: &str) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name}, "spec": {
            "attacher": self.name, "nodeName": node, "source": {"persistentVolumeName": volume}}})
    }
}
