//! Volume plugins, one file or folder each, behind one trait. A plugin names, mounts and unmounts its volumes; it
//! does not handle desired and actual state, retries or events. Every call may be repeated at any time, also
//! after a crash in the middle of it: set-up and tear-down are idempotent (upstream: pkg/volume/plugins.go).
//!
//! docs/adding-a-volume-plugin.md lists the places to change for a new plugin.

pub mod files;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use orlop_csi::error::CallError;

pub mod csi;

pub mod empty_dir;
pub mod host_path;
pub mod iscsi;
pub mod local;
pub mod nfs;
#[cfg(test)]
mod testing;
mod volume_queue;

use crate::host::Host;
use crate::volume::{Source, VolumeSpec};

/// The capabilities of a plugin for a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCapabilities {
    /// The attach/detach controller attaches it; the node waits until its Node lists it as attached.
    pub attach: bool,
    /// It is mounted once per node, and bound into pods from there.
    pub device: bool,
    /// PersistentVolumes may have mount options.
    pub mount_options: bool,
    /// `volumeMode: Block` is supported.
    pub block: bool,
    /// Containers can only read it, regardless of their spec: the agent writes it.
    pub read_only: bool,
    /// Set-up must be repeated while the pod lives, because its content changes.
    pub refreshed: bool,
    /// Its content changes without notification: set-up is repeated about once a minute.
    pub repeated: bool,
    /// `fsGroup` is applied by the agent after the set-up.
    pub owned: bool,
    /// If several pods use the volume, the first determines its `fsGroup`.
    pub owned_once: bool,
}

/// A volume and the pod that it is set up for.
#[derive(Clone, Debug)]
pub struct PodVolume {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The volume.
    pub spec: Arc<VolumeSpec>,
}

/// A volume of a pod, as identified by its directory on disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// UID of the pod.
    pub uid: String,
    /// The plugin's name.
    pub plugin: String,
    /// Name of the directory: the PersistentVolume, or the volume in the pod.
    pub dir_name: String,
    /// Whether it is a block volume.
    pub block: bool,
}

/// The state after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The same state as before the call.
    Final,
    /// Unknown: the agent repeats the call while a pod requests the volume, and otherwise undoes it.
    Uncertain,
}

/// A call of a plugin failed. The text includes the remedy; it becomes an event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PluginError {
    /// The text, with the names of the objects.
    pub message: String,
    /// The state after the call.
    pub outcome: Outcome,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl PluginError {
    /// A failure that changed nothing.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: Outcome::Final, source: None }
    }

    /// A failure that may have left state behind.
    pub fn uncertain(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: Outcome::Uncertain, source: None }
    }

    /// The error of a CSI driver, if it is the cause: `FailedPrecondition` of an expansion means that the volume is
    /// in use, `InvalidArgument`, `OutOfRange` and `NotFound` that the expansion can never succeed (upstream:
    /// inUseError, isInfeasibleError).
    pub fn call(&self) -> Option<&CallError> {
        self.source.as_deref()?.downcast_ref()
    }

    /// Adds a cause.
    pub fn caused(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// The result of an expansion on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpandOutcome {
    /// The plugin has nothing to do on the node.
    NotNeeded,
    /// The file system (or device) now has this size, in bytes.
    To(i64),
}

/// A volume plugin.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// Upstream's name: `kubernetes.io/nfs`.
    fn name(&self) -> &'static str;

    /// Whether it supports this source.
    fn can_support(&self, source: &Source) -> bool;

    /// The name of a volume within the plugin, the same for every pod that uses it: `<server>/<path>`,
    /// `<driver>^<handle>`. With the plugin's name as prefix it is the unique volume name in node.status.
    ///
    /// # Errors
    /// The source does not identify a volume.
    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError>;

    /// The capabilities for a volume.
    fn abilities(&self, host: &Host, spec: &VolumeSpec) -> VolumeCapabilities;

    /// The path of the pod's volume, which is bound into its containers.
    fn path(&self, host: &Host, place: &Place) -> PathBuf;

    /// The directory of this machine, outside of the agent's, whose files the volume consists of. The agent changes their owner only
    /// where the operator allows it ([`HostPathRoots`](orlop_volume::host_path_roots::HostPathRoots)).
    async fn machine_dir(&self, host: &Host, spec: &VolumeSpec) -> Result<Option<PathBuf>, PluginError> {
        let _ = (host, spec);
        Ok(None)
    }

    /// Mounts the volume once for the node. Called only with [`VolumeCapabilities::device`], after the volume is attached.
    async fn mount_device(&self, host: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        let _ = (host, spec);
        Ok(())
    }

    /// The same, for the first pod of the volume. For plugins that pass the pod's group to a driver.
    async fn mount_device_for(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        self.mount_device(host, &volume.spec).await
    }

    /// Unmounts the node's mount of a volume when no pod uses it any more. The volume is identified by its name
    /// alone: its objects may have been deleted.
    async fn unmount_device(&self, host: &Host, volume_name: &str) -> Result<(), PluginError> {
        let _ = (host, volume_name);
        Ok(())
    }

    /// Names of volumes ([`volume_name`](Self::volume_name)) that have a mount for the node, or traces of one, on disk.
    async fn devices(&self, host: &Host) -> Result<Vec<String>, PluginError> {
        let _ = host;
        Ok(Vec::new())
    }

    /// Sets up the volume for a pod at its [`path`](Self::path).
    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError>;

    /// Tears down the pod's volume, using only the state on disk: pod and volume may have been deleted.
    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError>;

    /// The name of the volume at a place ([`volume_name`](Self::volume_name)), using only the state on disk, for
    /// plugins whose volumes have a mount for the node. None: the volume belongs to this pod alone.
    ///
    /// # Errors
    /// The state on disk does not identify the volume.
    async fn found(&self, host: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        let _ = (host, place);
        Ok(None)
    }

    /// Grows the file system or device on the node to the size of the volume.
    async fn expand(
        &self,
        host: &Host,
        volume: &PodVolume,
        bytes: i64,
    ) -> Result<ExpandOutcome, PluginError> {
        let _ = (host, volume, bytes);
        Ok(ExpandOutcome::NotNeeded)
    }
}

/// The plugins that need no CSI driver.
pub fn plugins() -> Plugins {
    Plugins::new(vec![
        Arc::new(nfs::NfsPlugin::default()),
        Arc::new(host_path::HostPathPlugin::default()),
        Arc::new(local::LocalPlugin::default()),
        Arc::new(empty_dir::EmptyDirPlugin),
        Arc::new(iscsi::IscsiPlugin::default()),
    ])
}

/// The plugins of an agent. The first plugin that supports a source handles it.
#[derive(Clone)]
pub struct Plugins(Arc<[Arc<dyn Plugin>]>);

impl Plugins {
    /// Uses these plugins.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        Self(plugins.into())
    }

    /// The plugin for a source.
    pub fn for_source(&self, source: &Source) -> Option<&Arc<dyn Plugin>> {
        self.0.iter().find(|plugin| plugin.can_support(source))
    }

    /// The plugin with a name.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn Plugin>> {
        self.0.iter().find(|plugin| plugin.name() == name)
    }

    /// All plugins.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Plugin>> {
        self.0.iter()
    }
}
