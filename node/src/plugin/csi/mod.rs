//! The CSI volume plugin: the calls to a driver on this node, their order, and the state on disk before each call
//! (upstream: pkg/volume/csi). Every call is recorded on disk first (I9), and the record is removed after
//! everything else; a crash may therefore happen at any step, and [`Plugin::unmount_device`] and
//! [`Plugin::tear_down`] can clean up what it leaves.
//!
//! * [`source`], [`layout`], [`vol_data`]: the fields of a volume, its paths, its record. Pure.
//! * [`driver`]: the driver and the outcome of its errors. [`context`]: the volume context. [`disk`]: the effects
//!   on this machine.
//! * `stage`: once per node. `publish`: per pod. `block`: the same for devices. `expand`: growth. `reconstruct`:
//!   recovery after a crash.

mod block;
mod cleanup;
mod context;
mod disk;
mod driver;
mod expand;
mod layout;
mod publish;
mod reconstruct;
mod source;
mod stage;
#[cfg(test)]
mod tests;
mod vol_data;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use orlop_csi::capabilities::NodeRpc;

use super::{ExpandOutcome, Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::volume::{Source, VolumeSpec};
use context::TokenCache;
pub use driver::DriverRegistry;
use layout::{BlockPaths, PublishPaths};
use source::{CsiSource, SEPARATOR, VolumeLifecycle};

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/csi";
/// The time limit of a driver call on a node, for the construction of [`Host::drivers`] (upstream: csiTimeout).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The CSI volume plugin.
pub struct CsiPlugin {
    known: DriverRegistry,
    tokens: TokenCache,
}

impl CsiPlugin {
    /// Uses this registry of drivers. Its informer must run, and must have synced before decisions about volumes.
    pub fn new(known: DriverRegistry) -> Self {
        Self { known, tokens: TokenCache::default() }
    }
}

#[async_trait]
impl Plugin for CsiPlugin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_support(&self, source: &Source) -> bool {
        match source {
            Source::Inline(volume) => volume.csi.is_some(),
            Source::Persistent(volume) => volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some()),
        }
    }

    /// An inline volume has a handle of its own per pod; this identifies it by its name in the pod.
    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        let source = CsiSource::of(spec)?;
        let name = match source.life {
            VolumeLifecycle::Persistent => source.persistent_handle()?,
            VolumeLifecycle::Ephemeral => &spec.name,
        };
        Ok(format!("{}{SEPARATOR}{name}", source.driver))
    }

    /// Whether the driver applies the fsGroup itself is known only after its first call:
    /// [`VolumeCapabilities::owned`] is valid after the set-up.
    fn abilities(&self, _: &Host, spec: &VolumeSpec) -> VolumeCapabilities {
        let Ok(source) = CsiSource::of(spec) else { return VolumeCapabilities::default() };
        let object = self.known.object(&source.driver);
        let object = object.as_deref();
        let is_persistent = source.life == VolumeLifecycle::Persistent;
        let modes = match &spec.source {
            Source::Persistent(volume) => {
                let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref());
                Some(modes.unwrap_or_default())
            }
            Source::Inline(_) => None,
        };
        let can = self.known.node(&source.driver);
        let sets_group = can.is_some_and(|can| can.can(NodeRpc::VolumeMountGroup));
        let is_owned = driver::is_owned(object, spec.read_only, source.fs_type(), modes);
        VolumeCapabilities {
            attach: is_persistent && driver::is_attached(object),
            device: is_persistent,
            mount_options: is_persistent,
            block: is_persistent,
            refreshed: driver::is_refreshed(object),
            repeated: driver::is_refreshed(object),
            owned: !spec.block && !sets_group && is_owned,
            ..VolumeCapabilities::default()
        }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        match place.block {
            true => BlockPaths::of(&host.paths, place).link,
            false => PublishPaths::of(&host.paths, place).target,
        }
    }

    async fn mount_device(&self, host: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        self.stage(host, spec, None).await
    }

    async fn mount_device_for(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        self.stage(host, &volume.spec, group_of(&volume.pod)).await
    }

    async fn unmount_device(&self, host: &Host, volume_name: &str) -> Result<(), PluginError> {
        self.unstage(host, volume_name).await
    }

    async fn devices(&self, host: &Host) -> Result<Vec<String>, PluginError> {
        reconstruct::devices(host).await
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        match volume.spec.block {
            true => self.publish_block(host, volume).await,
            false => self.publish(host, volume).await,
        }
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        match place.block {
            true => self.unpublish_block(host, place).await,
            false => self.unpublish(host, place).await,
        }
    }

    async fn found(&self, host: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        reconstruct::found(host, place).await
    }

    async fn expand(
        &self,
        host: &Host,
        volume: &PodVolume,
        bytes: i64,
    ) -> Result<ExpandOutcome, PluginError> {
        self.grow(host, volume, bytes).await
    }
}

/// The pod's fsGroup.
fn group_of(pod: &Pod) -> Option<i64> {
    pod.spec.as_ref()?.security_context.as_ref()?.fs_group
}

/// The place of a pod's volume.
fn place_of(volume: &PodVolume) -> Place {
    Place {
        uid: volume.pod.metadata.uid.clone().unwrap_or_default(),
        plugin: NAME.to_owned(),
        dir_name: volume.spec.dir_name().to_owned(),
        block: volume.spec.block,
    }
}
