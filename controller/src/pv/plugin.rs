//! In-tree volume plugins, with one trait per operation on a volume's asset. External provisioners handle all
//! other volumes. The built-in set is small: hostPath (recycle; delete below /tmp; provision behind a flag) and
//! NFS (recycle).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::recycle::PodRunner;
use orlop_volume::file_location::FileIds;

/// A volume plugin of the controller.
pub trait VolumePlugin: Send + Sync {
    /// Its name, as in `provisioned-by` and in a class's `provisioner`.
    fn name(&self) -> &str;
    /// Whether the plugin supports this volume.
    fn supports(&self, volume: &PersistentVolume) -> bool;
    /// Whether volumes of this plugin support mount options.
    fn supports_mount_options(&self) -> bool {
        false
    }
    /// The plugin's deleter, if it can delete assets.
    fn deleter(&self) -> Option<&dyn Deleter> {
        None
    }
    /// The plugin's recycler, if it can scrub assets for reuse.
    fn recycler(&self) -> Option<&dyn Recycler> {
        None
    }
    /// The plugin's provisioner, if it can create assets.
    fn provisioner(&self) -> Option<&dyn Provisioner> {
        None
    }
}

/// Why an asset was not deleted. The texts are copied into the volume's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// The deletion could not start.
    #[error("failed to create deleter for volume {volume:?}: {message}")]
    Create {
        /// The volume.
        volume: String,
        /// The cause.
        message: String,
    },
    /// The asset is in use; a later attempt may succeed.
    #[error("{0}")]
    InUse(String),
    /// The deletion failed.
    #[error("{0}")]
    Failed(String),
}

/// Deletes assets. Must succeed when the asset is already deleted: it may be called again after a crash.
pub trait Deleter: Send + Sync {
    /// Deletes the asset of a volume. `others`: the directories and files of other volumes on this machine, which it must not
    /// touch.
    fn delete<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        others: Arc<FileIds>,
    ) -> BoxFuture<'a, Result<(), DeleteError>>;
}

/// Scrubs assets for reuse.
pub trait Recycler: Send + Sync {
    /// Removes all data of a volume. The error is the text after `Recycle failed: `.
    fn recycle<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        pods: &'a PodRunner,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// A provisioning request.
#[derive(Clone, Debug)]
pub struct Order {
    /// The claim to provision for.
    pub claim: Arc<PersistentVolumeClaim>,
    /// Its class.
    pub class: Arc<StorageClass>,
    /// The name of the new volume.
    pub volume_name: String,
    /// The node that the scheduler selected, if any.
    pub node: Option<Arc<Node>>,
}

impl Order {
    /// The class's parameters.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.class.parameters.as_ref().unwrap_or(&NONE)
    }
}

/// Creates assets.
pub trait Provisioner: Send + Sync {
    /// Whether the order can be provisioned. The error is the text after `Failed to create provisioner: `.
    fn accept(&self, order: &Order) -> Result<(), String>;
    /// Creates the asset and describes it: source, capacity, access modes. The controller adds name, reference, class
    /// and annotations. The error is the text after `Failed to provision volume with StorageClass …: `.
    fn provision<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<PersistentVolume, String>>;
}

/// Why no plugin was found, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlugin {
    /// No plugin supports this volume.
    #[error("no volume plugin matched")]
    ForVolume,
    /// No plugin has this name.
    #[error("no volume plugin matched name: {0}")]
    OfName(String),
    /// The plugin cannot delete.
    #[error("no deletable volume plugin matched")]
    Deletable,
    /// The plugin cannot recycle.
    #[error("no recyclable volume plugin matched")]
    Recyclable,
    /// The plugin cannot provision.
    #[error("no provisionable volume plugin matched")]
    Provisionable,
}

/// The plugins of the controller.
#[derive(Clone)]
pub struct Plugins(Vec<Arc<dyn VolumePlugin>>);

impl Plugins {
    /// Creates the set with exactly these plugins.
    pub fn new(plugins: Vec<Arc<dyn VolumePlugin>>) -> Self {
        Self(plugins)
    }

    fn of_volume(&self, volume: &PersistentVolume) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.0.iter().find(|plugin| plugin.supports(volume)).cloned().ok_or(NoPlugin::ForVolume)
    }

    fn of_name(&self, name: &str) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        let found = self.0.iter().find(|plugin| plugin.name() == name);
        found.cloned().ok_or_else(|| NoPlugin::OfName(name.to_owned()))
    }

    /// The plugin that deletes volumes of this kind.
    // Tests: PV-8-3, OWN-REC-7, OWN-REC-8
    pub fn deletable(&self, volume: &PersistentVolume) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_volume(volume)
            .and_then(|plugin| if plugin.deleter().is_some() { Ok(plugin) } else { Err(NoPlugin::Deletable) })
    }

    /// The plugin with this name, if it can delete.
    pub fn deletable_by_name(&self, name: &str) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_name(name)
            .and_then(|plugin| if plugin.deleter().is_some() { Ok(plugin) } else { Err(NoPlugin::Deletable) })
    }

    /// The plugin that recycles volumes of this kind.
    // Tests: PV-6-3, OWN-REC-11
    pub fn recyclable(&self, volume: &PersistentVolume) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_volume(volume).and_then(|plugin| {
            if plugin.recycler().is_some() { Ok(plugin) } else { Err(NoPlugin::Recyclable) }
        })
    }

    /// The plugin with this name, if it can provision.
    // Tests: PV-11-2, PV-11-25, OWN-PROV-7
    pub fn provisionable_by_name(&self, name: &str) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_name(name).and_then(|plugin| {
            if plugin.provisioner().is_some() { Ok(plugin) } else { Err(NoPlugin::Provisionable) }
        })
    }
}
