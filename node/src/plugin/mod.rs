//! Kinds of volumes, one file or folder each, behind one trait. A plugin knows how its volumes are named, mounted and taken away; it
//! knows nothing of desired and actual state, retries or events. Every call may be repeated at any time, also after a crash in
//! the middle of it: set-up over a finished set-up, and tear-down over a finished tear-down, are good (upstream: pkg/volume/plugins.go).
//!
//! docs/adding-a-volume-plugin.md is the list of what to touch.

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

/// What a plugin can do with a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCapabilities {
    /// The attach/detach controller attaches it; the node waits until its Node says so.
    pub attach: bool,
    /// It is mounted once for the node, and from there for pods.
    pub device: bool,
    /// PersistentVolumes may have mount options.
    pub mount_options: bool,
    /// `volumeMode: Block` is possible.
    pub block: bool,
    /// Containers may only read it, whatever they ask for: the agent writes it.
    pub read_only: bool,
    /// Set-up has to be repeated while the pod lives, because its content changes.
    pub refreshed: bool,
    /// Its content changes without anybody saying so: set-up is repeated about once a minute.
    pub repeated: bool,
    /// `fsGroup` is applied by the agent after the set-up.
    pub owned: bool,
    /// Of several pods that have the volume the first decides about `fsGroup`.
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

/// What is known of a volume of a pod from the disk alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// UID of the pod.
    pub uid: String,
    /// The plugin's name.
    pub plugin: String,
    /// Name of the directory: the PersistentVolume, or the volume in the pod.
    pub dir_name: String,
    /// It is a device, not a file system.
    pub block: bool,
}

/// What a call that failed may have left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more than there was before it.
    Final,
    /// Nobody knows: it is called again while wanted, and undone when not.
    Uncertain,
}

/// A call of a plugin failed. The text tells the person what to do; it becomes an event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PluginError {
    /// In words, with the names of things.
    pub message: String,
    /// What it may have left behind.
    pub outcome: Outcome,
    /// Where it comes from.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl PluginError {
    /// A failure that left nothing behind.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: Outcome::Final, source: None }
    }

    /// A failure that may have left something behind.
    pub fn uncertain(message: impl Into<String>) -> Self {
        Self { message: message.into(), outcome: Outcome::Uncertain, source: None }
    }

    /// What a CSI driver answered, when that is the cause: `FailedPrecondition` of an expansion means that the volume is in use,
    /// `InvalidArgument`, `OutOfRange` and `NotFound` that it will never do (upstream: inUseError, isInfeasibleError).
    pub fn call(&self) -> Option<&CallError> {
        self.source.as_deref()?.downcast_ref()
    }

    /// With its cause.
    pub fn caused(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// What an expansion on the node did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpandOutcome {
    /// The plugin has nothing to do on the node.
    NotNeeded,
    /// The file system (or device) is as large as this, in bytes.
    To(i64),
}

/// A kind of volumes.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// Upstream's name: `kubernetes.io/nfs`.
    fn name(&self) -> &'static str;

    /// Whether it mounts volumes of this source.
    fn can_support(&self, source: &Source) -> bool;

    /// The name of a volume among those of the plugin, the same for every pod that has it: `<server>/<path>`, `<driver>^<handle>`.
    /// With the plugin's name in front it is the unique volume name of node.status.
    ///
    /// # Errors
    /// The source does not say which volume it is.
    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError>;

    /// What it can do with a volume.
    fn abilities(&self, host: &Host, spec: &VolumeSpec) -> VolumeCapabilities;

    /// Where the pod finds its volume: what is bound into its containers.
    fn path(&self, host: &Host, place: &Place) -> PathBuf;

    /// Mounts the volume once for the node. Called only with [`VolumeCapabilities::device`], after the volume is attached.
    async fn mount_device(&self, host: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        let _ = (host, spec);
        Ok(())
    }

    /// The same, for the pod that is its first. Plugins whose drivers are told the pod's group need it.
    async fn mount_device_for(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        self.mount_device(host, &volume.spec).await
    }

    /// Takes the node's mount of a volume away, when no pod has it any more. The volume is known by its name alone: its objects
    /// may be gone.
    async fn unmount_device(&self, host: &Host, volume_name: &str) -> Result<(), PluginError> {
        let _ = (host, volume_name);
        Ok(())
    }

    /// Names of volumes ([`volume_name`](Self::volume_name)) that have a mount for the node, or traces of one, on disk.
    async fn devices(&self, host: &Host) -> Result<Vec<String>, PluginError> {
        let _ = host;
        Ok(Vec::new())
    }

    /// Makes the volume ready for a pod at its [`path`](Self::path).
    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError>;

    /// Takes the pod's volume away. Known from the disk alone: pod and volume may be gone.
    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError>;

    /// The name of the volume that stands in a place ([`volume_name`](Self::volume_name)), from the disk alone, for plugins whose volumes have a
    /// mount for the node. None: the volume is this pod's alone.
    ///
    /// # Errors
    /// What is on disk does not say it.
    async fn found(&self, host: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        let _ = (host, place);
        Ok(None)
    }

    /// Grows what is on the node to the size of the volume.
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

/// The plugins of volumes that need no driver.
pub fn plugins() -> Plugins {
    Plugins::new(vec![
        Arc::new(nfs::NfsPlugin::default()),
        Arc::new(host_path::HostPathPlugin::default()),
        Arc::new(local::LocalPlugin::default()),
        Arc::new(empty_dir::EmptyDirPlugin),
        Arc::new(iscsi::IscsiPlugin::default()),
    ])
}

/// The plugins of an agent. The first that supports a source has it.
#[derive(Clone)]
pub struct Plugins(Arc<[Arc<dyn Plugin>]>);

impl Plugins {
    /// These plugins.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        Self(plugins.into())
    }

    /// The one for a source.
    pub fn for_source(&self, source: &Source) -> Option<&Arc<dyn Plugin>> {
        self.0.iter().find(|plugin| plugin.can_support(source))
    }

    /// The one of a name.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn Plugin>> {
        self.0.iter().find(|plugin| plugin.name() == name)
    }

    /// All.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Plugin>> {
        self.0.iter()
    }
}
