//! What the controller itself can do with a volume's asset, behind a trait per ability. Everything else is done by
//! external provisioners. The built-in set is small: hostPath (recycle; delete below /tmp; provision behind a flag) and
//! NFS (recycle).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::recycle::PodRunner;

/// A kind of volume that the controller knows.
pub trait VolumePlugin: Send + Sync {
    /// Its name, as in `provisioned-by` and in a class's `provisioner`.
    fn name(&self) -> &str;
    /// Whether the volume is of this kind.
    fn supports(&self, volume: &PersistentVolume) -> bool;
    /// Whether volumes of this kind take mount options.
    fn supports_mount_options(&self) -> bool {
        false
    }
    /// The ability to delete the asset, if it has it.
    fn deleter(&self) -> Option<&dyn Deleter> {
        None
    }
    /// The ability to scrub the asset for the next user, if it has it.
    fn recycler(&self) -> Option<&dyn Recycler> {
        None
    }
    /// The ability to make an asset, if it has it.
    fn provisioner(&self) -> Option<&dyn Provisioner> {
        None
    }
}

/// Why an asset was not deleted. The texts go to the volume's message as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    /// The deletion could not even begin.
    #[error("failed to create deleter for volume {volume:?}: {message}")]
    Create {
        /// The volume.
        volume: String,
        /// What is wrong.
        message: String,
    },
    /// Something uses the asset; later it may work.
    #[error("{0}")]
    InUse(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// Deletes assets. Must succeed when the asset is gone already: it may be called again after a crash.
pub trait Deleter: Send + Sync {
    /// Deletes the asset of a volume.
    fn delete<'a>(&'a self, volume: &'a PersistentVolume) -> BoxFuture<'a, Result<(), DeleteError>>;
}

/// Scrubs assets.
pub trait Recycler: Send + Sync {
    /// Removes all data of a volume. The error is the text after `Recycle failed: `.
    fn recycle<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        pods: &'a PodRunner,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// What a provisioner is asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// The claim to serve.
    pub claim: Arc<PersistentVolumeClaim>,
    /// Its class.
    pub class: Arc<StorageClass>,
    /// The name that the volume will have.
    pub volume_name: String,
    /// The node that the scheduler chose, if it did.
    pub node: Option<Arc<Node>>,
}

impl Order {
    /// The class's parameters.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.class.parameters.as_ref().unwrap_or(&NONE)
    }
}

/// Makes assets.
pub trait Provisioner: Send + Sync {
    /// Whether the order can be taken at all. The error is the text after `Failed to create provisioner: `.
    fn accept(&self, order: &Order) -> Result<(), String>;
    /// Makes the asset and describes it: source, capacity, access modes. Name, reference, class and marks are added by
    /// the controller. The error is the text after `Failed to provision volume with StorageClass …: `.
    fn provision<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<PersistentVolume, String>>;
}

/// Why no plugin was found, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlugin {
    /// Nobody knows this kind of volume.
    #[error("no volume plugin matched")]
    ForVolume,
    /// Nobody has this name.
    #[error("no volume plugin matched name: {0}")]
    OfName(String),
    /// The plugin is there and cannot delete.
    #[error("no deletable volume plugin matched")]
    Deletable,
    /// The plugin is there and cannot recycle.
    #[error("no recyclable volume plugin matched")]
    Recyclable,
    /// The plugin is there and cannot provision.
    #[error("no provisionable volume plugin matched")]
    Provisionable,
}

/// The plugins that the controller has.
#[derive(Clone)]
pub struct Plugins(Vec<Arc<dyn VolumePlugin>>);

impl Plugins {
    /// Exactly these.
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

    /// The plugin that deletes this kind of volume.
    // Tests: PV-8-3, OWN-REC-7, OWN-REC-8
    pub fn deletable(&self, volume: &PersistentVolume) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_volume(volume)
            .and_then(|plugin| if plugin.deleter().is_some() { Ok(plugin) } else { Err(NoPlugin::Deletable) })
    }

    /// The plugin of this name, if it deletes.
    pub fn deletable_by_name(&self, name: &str) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_name(name)
            .and_then(|plugin| if plugin.deleter().is_some() { Ok(plugin) } else { Err(NoPlugin::Deletable) })
    }

    /// The plugin that recycles this kind of volume.
    // Tests: PV-6-3, OWN-REC-11
    pub fn recyclable(&self, volume: &PersistentVolume) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_volume(volume).and_then(|plugin| {
            if plugin.recycler().is_some() { Ok(plugin) } else { Err(NoPlugin::Recyclable) }
        })
    }

    /// The plugin of this name, if it provisions.
    // Tests: PV-11-2, PV-11-25, OWN-PROV-7
    pub fn provisionable_by_name(&self, name: &str) -> Result<Arc<dyn VolumePlugin>, NoPlugin> {
        self.of_name(name).and_then(|plugin| {
            if plugin.provisioner().is_some() { Ok(plugin) } else { Err(NoPlugin::Provisionable) }
        })
    }
}
