//! The operation behind policy Delete: deletes the asset of a released volume and then the volume object. The
//! object is deleted last: while it exists, the asset is not forgotten.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{DeleteParams, Preconditions};

use super::binder::Binder;
use super::error::{SyncError, chain};
use super::migration::remove_finalizer;
use super::plugin::{DeleteError, NoPlugin, Plugins, VolumePlugin};
use super::shared_storage::SharedStorage;
use orlop_client::client::is_not_found;
use orlop_client::names::{self, reason};
use orlop_client::recorder::EventType;
use orlop_volume::file_location::FileIds;
use orlop_volume::object::{self, annotation};

/// The component that deletes the asset of a volume.
pub enum Remover {
    /// A plugin of the controller.
    Plugin(Arc<dyn VolumePlugin>),
    /// An external provisioner; the controller does nothing.
    External,
}

/// Why no component deletes an asset; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRemover {
    /// The plugin that provisioned the volume does not exist, or cannot delete.
    #[error("{0}")]
    Provisioner(NoPlugin),
    /// No plugin deletes volumes of this kind.
    #[error("error getting deleter volume plugin for volume {volume:?}: {cause}")]
    Kind {
        /// The volume.
        volume: String,
        /// The plugin that was not found.
        cause: NoPlugin,
    },
}

/// Chooses the component that deletes the asset: the provisioner if one is recorded, else a plugin for this kind
/// of volume.
// Tests: PV-5-6, PV-8-3, OWN-REC-7, OWN-REC-8, OWN-REC-9, OWN-REC-20
pub fn remover(plugins: &Plugins, volume: &PersistentVolume) -> Result<Remover, NoRemover> {
    let provisioner = annotation(&volume.metadata, names::ANN_PROVISIONED_BY).filter(|name| !name.is_empty());
    if let Some(provisioner) = provisioner {
        return match plugins.deletable_by_name(provisioner) {
            Ok(plugin) => Ok(Remover::Plugin(plugin)),
            Err(_) if !provisioner.starts_with(names::IN_TREE_PREFIX) => Ok(Remover::External),
            Err(error) => Err(NoRemover::Provisioner(error)),
        };
    }
    let is_csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    if is_csi || object::has_annotation(&volume.metadata, names::ANN_MIGRATED_TO) {
        return Ok(Remover::External);
    }
    match plugins.deletable(volume) {
        Ok(plugin) => Ok(Remover::Plugin(plugin)),
        Err(cause) => Err(NoRemover::Kind { volume: object::name(&volume.metadata).to_owned(), cause }),
    }
}

impl Binder {
    /// The operation behind policy Delete.
    pub(super) async fn delete_operation(&self, volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        let plugin = match remover(&self.plugins, &volume) {
            Ok(Remover::Plugin(plugin)) => plugin,
            Ok(Remover::External) => return Ok(()),
            Err(error) => {
                // No back-off: this is not a failed attempt, and the next resync finds it again at no cost.
                self.fail_volume(&volume, reason::VOLUME_FAILED_DELETE, &error.to_string()).await?;
                return Ok(());
            }
        };
        let Some(volume) = self.still_released(&volume).await? else { return Ok(()) };
        if let Some(reference) = object::claim_ref(&volume) {
            let users = self.last_users(&object::reference_key(reference)).await?;
            if !users.is_empty() {
                let message = format!("Volume is used by pods: {}", users.join(","));
                return self.delete_failed(&volume, DeleteError::InUse(message)).await;
            }
        }
        let others = match self.shared_storage(&volume, reason::VOLUME_FAILED_DELETE).await? {
            SharedStorage::No { others } => others,
            SharedStorage::Yes { message } => {
                return self.delete_failed(&volume, DeleteError::InUse(message)).await;
            }
        };
        if let Err(error) = self.delete_asset(plugin.as_ref(), &volume, others).await {
            return self.delete_failed(&volume, error).await;
        }
        // Done externally: the asset is deleted. Not saved: anything. Completed by: the next delete operation; deleters
        // succeed when the asset is already deleted.
        self.delete_object(&volume).await
    }

    /// Deletes the asset, without touching the files `others`.
    pub(super) async fn delete_asset(
        &self,
        plugin: &dyn VolumePlugin,
        volume: &PersistentVolume,
        others: Arc<FileIds>,
    ) -> Result<(), DeleteError> {
        match plugin.deleter() {
            Some(deleter) => deleter.delete(volume, others).await,
            None => Err(DeleteError::Create {
                volume: object::name(&volume.metadata).to_owned(),
                message: NoPlugin::Deletable.to_string(),
            }),
        }
    }

    /// Reports a failed deletion. Always returns an error, so that the next attempt backs off.
    // Tests: PV-8-4, PV-8-5, PV-9-1, NEW-IN-USE
    async fn delete_failed(
        &self,
        volume: &Arc<PersistentVolume>,
        error: DeleteError,
    ) -> Result<(), SyncError> {
        let message = error.to_string();
        match error {
            DeleteError::InUse(_) => {
                self.volume_event(volume, EventType::Normal, reason::VOLUME_DELETE, &message);
            }
            DeleteError::Create { .. } | DeleteError::Failed(_) => {
                self.fail_volume(volume, reason::VOLUME_FAILED_DELETE, &message).await?;
            }
        }
        Err(SyncError::Reclaim { volume: object::name(&volume.metadata).to_owned(), message })
    }

    /// Removes the finalizer and deletes the volume object after its asset was deleted.
    async fn delete_object(&self, volume: &PersistentVolume) -> Result<(), SyncError> {
        let name = object::name(&volume.metadata);
        let Some(live) = self.read_volume(name).await? else { return Ok(()) };
        if live.metadata.uid != volume.metadata.uid {
            return Ok(());
        }
        let mut changed = live.clone();
        let live = match remove_finalizer(&mut changed.metadata, names::FINALIZER_PV_CONTROLLER) {
            true => self.write_volume(changed).await?,
            false => Arc::new(live),
        };
        // Saved: the finalizer for the asset is removed. A terminating object is deleted by this; any other still has to
        // be deleted. Completed by: the next sync restores the finalizer, finds the claim deleted, and arrives here
        // again.
        let preconditions = Preconditions { uid: live.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.volumes_api().delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(source) => {
                // As upstream, this does not delay the next attempt.
                let error = SyncError::DeleteVolume { volume: name.to_owned(), source };
                tracing::debug!(volume = name, error = %chain(&error), "the volume object is still there");
                Ok(())
            }
        }
    }
}
