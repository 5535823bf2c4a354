//! Provisioning for a claim that has a class and no fitting volume. Usually an external provisioner creates the
//! volume; two annotations on the claim request it. A plugin of the controller provisions only if the class names
//! it.
//!
//! No asset is leaked: the volume's name is derived from the claim's UID, so a second attempt finds the volume of
//! the first; and an asset that cannot be saved as an object is deleted again (I9).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeStatus};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::PostParams;

use super::binder::Binder;
use super::delete::{Remover, remover};
use super::error::{SyncError, chain};
use super::migration::{MigratedDriver, add_finalizer};
use super::plugin::{DeleteError, NoPlugin, Order, Plugins, VolumePlugin};
use crate::claim_reference::claim_reference;
use orlop_client::client::{is_already_exists, message_of};
use orlop_client::names::{self, reason};
use orlop_client::recorder::EventType;
use orlop_volume::class::claim_class;
use orlop_volume::object::{self, annotation, claim_key, remove_annotation, set_annotation};

/// Attempts to save a volume object, or to delete an asset that could not be saved.
const TRIES: u32 = 5;
/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(10);

/// The component that provisions volumes of a class.
pub enum Maker {
    /// The external provisioner with this name.
    External {
        /// The name to write on the claim.
        provisioner: String,
        /// Whether the class names an in-tree plugin that this CSI driver replaces.
        migrated: bool,
    },
    /// A plugin of the controller.
    Plugin(Arc<dyn VolumePlugin>),
}

/// Why no component provisions; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMaker {
    /// The class does not exist.
    #[error("storageclass.storage.k8s.io {0:?} not found")]
    Class(String),
    /// The class names an in-tree plugin that does not exist or cannot provision.
    #[error("{0}")]
    Plugin(NoPlugin),
}

/// Chooses the component that provisions volumes for a claim of this class.
// Tests: PV-11-2, PV-11-14, PV-11-21, PV-14-5, OWN-PROV-1, OWN-PROV-3, OWN-PROV-7, OWN-WFFC-9
pub fn maker(
    plugins: &Plugins,
    migrated: MigratedDriver,
    class_name: &str,
    class: Option<&StorageClass>,
) -> Result<Maker, NoMaker> {
    let Some(class) = class else { return Err(NoMaker::Class(class_name.to_owned())) };
    let provisioner = class.provisioner.as_str();
    if let Some(driver) = migrated(provisioner) {
        return Ok(Maker::External { provisioner: driver.to_owned(), migrated: true });
    }
    match plugins.provisionable_by_name(provisioner) {
        Ok(plugin) => Ok(Maker::Plugin(plugin)),
        Err(_) if !provisioner.starts_with(names::IN_TREE_PREFIX) => {
            Ok(Maker::External { provisioner: provisioner.to_owned(), migrated: false })
        }
        Err(error) => Err(NoMaker::Plugin(error)),
    }
}

/// The claim with a request to this provisioner, or `None` if the claim already has one.
// Tests: PV-12-3, OWN-PROV-5, PV-11-21
pub fn claim_with_request(
    claim: &PersistentVolumeClaim,
    provisioner: &str,
    migrated: bool,
) -> Option<PersistentVolumeClaim> {
    if annotation(&claim.metadata, names::ANN_STORAGE_PROVISIONER) == Some(provisioner) {
        return None;
    }
    let mut changed = claim.clone();
    set_annotation(&mut changed.metadata, names::ANN_BETA_STORAGE_PROVISIONER, provisioner);
    set_annotation(&mut changed.metadata, names::ANN_STORAGE_PROVISIONER, provisioner);
    if migrated {
        set_annotation(&mut changed.metadata, names::ANN_MIGRATED_TO, provisioner);
    }
    Some(changed)
}

/// The name of the volume that is provisioned for a claim.
pub fn volume_name_for(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", object::uid(&claim.metadata))
}

/// The volume object for an asset that a plugin created for a claim: with a reference to the claim, an annotation
/// that names the provisioner, and a finalizer until the asset is deleted.
// Tests: PV-12-1
pub fn volume_for_asset(asset: PersistentVolume, order: &Order, plugin: &str) -> PersistentVolume {
    let (claim, class) = (&order.claim, &order.class);
    let mut volume = asset;
    let meta = &mut volume.metadata;
    meta.name.get_or_insert_with(|| order.volume_name.clone());
    set_annotation(meta, names::ANN_BOUND_BY_CONTROLLER, names::YES);
    set_annotation(meta, names::ANN_PROVISIONED_BY, plugin);
    let policy = class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned());
    if policy == "Delete" {
        add_finalizer(meta, names::FINALIZER_PV_CONTROLLER);
    }
    let spec = volume.spec.get_or_insert_default();
    spec.claim_ref = Some(claim_reference(claim));
    spec.storage_class_name = Some(claim_class(claim).to_owned());
    spec.persistent_volume_reclaim_policy = Some(policy);
    if spec.mount_options.is_none() {
        spec.mount_options = class.mount_options.clone();
    }
    volume.status =
        Some(PersistentVolumeStatus { phase: Some("Bound".to_owned()), ..PersistentVolumeStatus::default() });
    volume
}

impl Binder {
    /// Provisions a volume for a claim, outside the worker. Problems are reported on the claim; the next sync
    /// retries.
    pub(super) fn provision_claim(&self, claim: &Arc<PersistentVolumeClaim>) {
        // Tests: PV-PROV-OFF
        if !self.options.enable_dynamic_provisioning {
            return;
        }
        let class_name = claim_class(claim);
        let class = self.class(class_name);
        let maker = match maker(&self.plugins, self.migrated, class_name, class.as_deref()) {
            Ok(maker) => maker,
            Err(error) => {
                self.provisioning_failed(claim, &error.to_string());
                return;
            }
        };
        let key = format!("provision-{}[{}]", claim_key(claim), object::uid(&claim.metadata));
        let (binder, claim) = (self.handle(), Arc::clone(claim));
        let operation = async move {
            match (maker, class) {
                (Maker::External { provisioner, migrated }, _) => {
                    binder.request_external(&claim, &provisioner, migrated).await
                }
                (Maker::Plugin(plugin), Some(class)) => {
                    binder.provision_operation(claim, class, plugin).await
                }
                // A plugin is chosen only through a class.
                (Maker::Plugin(_), None) => Ok(()),
            }
        };
        self.operations.start(&key, operation);
    }

    fn provisioning_failed(&self, claim: &PersistentVolumeClaim, message: &str) {
        self.claim_event(claim, EventType::Warning, reason::PROVISIONING_FAILED, message);
    }

    /// Reports a failure on the claim and returns it as an error, so that the next attempt backs off.
    fn provisioning_error(&self, claim: &PersistentVolumeClaim, message: String) -> SyncError {
        self.provisioning_failed(claim, &message);
        SyncError::Provision { claim: claim_key(claim), message }
    }

    /// Writes the annotations that request a provisioner to the claim.
    async fn request(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        provisioner: &str,
        migrated: bool,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        match claim_with_request(claim, provisioner, migrated) {
            Some(changed) => self.write_claim(changed).await,
            None => Ok(Arc::clone(claim)),
        }
    }

    /// Requests an external provisioner, and records an event each time, so that the claim shows what it waits for.
    // Tests: OWN-PROV-1, OWN-PROV-4, OWN-PROV-5, PV-5-8, PV-12-2, PV-12-3
    async fn request_external(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        provisioner: &str,
        migrated: bool,
    ) -> Result<(), SyncError> {
        let claim = match self.request(claim, provisioner, migrated).await {
            Ok(claim) => claim,
            Err(error) => {
                self.provisioning_failed(claim, &format!("Error saving claim: {}", chain(&error)));
                return Err(error);
            }
        };
        // Saved: the request. Continued by: the provisioner; its volume queues the claim.
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        );
        self.claim_event(&claim, EventType::Normal, reason::EXTERNAL_PROVISIONING, &message);
        Ok(())
    }

    /// The provisioning operation of a plugin.
    async fn provision_operation(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        class: Arc<StorageClass>,
        plugin: Arc<dyn VolumePlugin>,
    ) -> Result<(), SyncError> {
        let name = plugin.name();
        let class_name = object::name(&class.metadata).to_owned();
        // Tests: NEW-DATASOURCE
        if claim.spec.as_ref().is_some_and(|spec| spec.data_source.is_some()) {
            let message = format!(
                "plugin \"{name}\" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
            );
            return Err(self.provisioning_error(&claim, message));
        }
        let claim = self.request(&claim, &class.provisioner, false).await?;
        // Saved: the responsible provisioner. Completed by: the next sync of the claim, which starts this operation
        // again.
        let volume_name = volume_name_for(&claim);
        // Tests: PV-11-7
        if self.read_volume(&volume_name).await?.is_some() {
            return Ok(());
        }
        // Tests: NEW-MOUNT-OPTIONS
        let mount_options = class.mount_options.as_deref().unwrap_or_default();
        if !mount_options.is_empty() && !plugin.supports_mount_options() {
            let message = format!(
                "Mount options are not supported by the provisioner but StorageClass \"{class_name}\" has mount \
                 options [{}]",
                mount_options.join(" ")
            );
            return Err(self.provisioning_error(&claim, message));
        }
        let mut order = Order { claim: Arc::clone(&claim), class, volume_name, node: None };
        let Some(provisioner) = plugin.provisioner() else { return Ok(()) };
        // Tests: PV-11-3, OWN-PROV-6
        if let Err(error) = provisioner.accept(&order) {
            let message = format!("Failed to create provisioner: {error}");
            return Err(self.provisioning_error(&claim, message));
        }
        // Tests: NEW-NO-NODE
        if let Some(node) = annotation(&claim.metadata, names::ANN_SELECTED_NODE) {
            order.node = self.node(node);
            if order.node.is_none() {
                let message = format!("Failed to get target node: node \"{node}\" not found");
                return Err(self.provisioning_error(&claim, message));
            }
        }
        // Tests: PV-11-4
        let asset = match provisioner.provision(&order).await {
            Ok(asset) => asset,
            Err(error) => {
                self.choose_node_again(&claim).await;
                let message =
                    format!("Failed to provision volume with StorageClass \"{class_name}\": {error}");
                return Err(self.provisioning_error(&claim, message));
            }
        };
        // Done externally: the asset exists. Not saved: its object. Completed by: the lines below, which save it or
        // delete the asset; after a crash at this point, a plugin with random asset names leaves one behind, as upstream
        // does.
        self.save_asset(&claim, volume_for_asset(asset, &order, name), name).await
    }

    /// Saves the object of a new asset; if that fails, deletes the asset.
    // Tests: PV-11-9, PV-11-10, PV-11-11, PV-11-12, PV-12-1
    async fn save_asset(
        &self,
        claim: &PersistentVolumeClaim,
        volume: PersistentVolume,
        plugin: &str,
    ) -> Result<(), SyncError> {
        let key = claim_key(claim);
        let name = object::name(&volume.metadata).to_owned();
        let mut failure = String::new();
        let lean = volume;
        for attempt in 1..=TRIES {
            match self.volumes_api().create(&PostParams::default(), &lean).await {
                Err(error) if !is_already_exists(&error) => failure = message_of(&error),
                // Saved: the volume refers to the claim by UID. Completed by: the sync of either, which binds the claim.
                Ok(_) | Err(_) => {
                    let message = format!("Successfully provisioned volume {name} using {plugin}");
                    self.claim_event(claim, EventType::Normal, reason::PROVISIONING_SUCCEEDED, &message);
                    return Ok(());
                }
            }
            if attempt < TRIES {
                tokio::time::sleep(PAUSE).await;
            }
        }
        let message =
            format!("Error creating provisioned PV object for claim {key}: {failure}. Deleting the volume.");
        let error = self.provisioning_error(claim, message);
        if let Err(failure) = self.delete_unsaved(&lean).await {
            let message = format!(
                "Error cleaning provisioned volume for claim {key}: {failure}. Please delete manually."
            );
            self.claim_event(claim, EventType::Warning, reason::PROVISIONING_CLEANUP_FAILED, &message);
        }
        Err(error)
    }

    async fn delete_unsaved(&self, volume: &PersistentVolume) -> Result<(), String> {
        let mut failure = String::new();
        for attempt in 1..=TRIES {
            let deleted = match remover(&self.plugins, volume) {
                Ok(Remover::Plugin(plugin)) => self
                    .delete_asset(plugin.as_ref(), volume, Arc::default())
                    .await
                    .map_err(|error: DeleteError| error.to_string()),
                Ok(Remover::External) => return Ok(()),
                Err(error) => Err(error.to_string()),
            };
            match deleted {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
            if attempt < TRIES {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(failure)
    }

    /// Removes the selected node from the claim, so that the scheduler selects again: provisioning failed there.
    // Tests: NEW-RESCHEDULE
    async fn choose_node_again(&self, claim: &PersistentVolumeClaim) {
        let mut changed = claim.clone();
        if !remove_annotation(&mut changed.metadata, names::ANN_SELECTED_NODE) {
            return;
        }
        if changed.metadata.annotations.as_ref().is_some_and(BTreeMap::is_empty) {
            changed.metadata.annotations = None;
        }
        if let Err(error) = self.write_claim(changed).await {
            // The next attempt fails the same way and retries this write.
            tracing::debug!(claim = claim_key(claim), error = %chain(&error), "the node stays chosen");
        }
    }
}
