//! Annotations of CSI migration, and the finalizers that keep a volume object until its asset is deleted. Every
//! sync starts by correcting both. Pure: the functions change a copy and return whether anything changed.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use orlop_client::names;
use orlop_volume::object::{annotation, reclaim_policy, remove_annotation, set_annotation};

/// Maps an in-tree plugin to the CSI driver that replaces it. A function, so that tests can substitute it.
pub type MigratedDriver = fn(&str) -> Option<&'static str>;

/// Whether a volume or claim records its provisioner. Without one there is nothing to correct; this is the common
/// case and needs no copy.
pub fn is_provisioned(meta: &ObjectMeta) -> bool {
    [names::ANN_PROVISIONED_BY, names::ANN_STORAGE_PROVISIONER, names::ANN_BETA_STORAGE_PROVISIONER]
        .iter()
        .any(|key| annotation(meta, key).is_some())
}

/// Corrects `migrated-to` on a volume. True if something changed.
// Tests: FN-MIGANN-ON, FN-MIGANN-OFF, FN-MIGANN-ROLLBACK, OWN-MIG-2
pub fn correct_volume_mark(volume: &mut PersistentVolume, migrated: MigratedDriver) -> bool {
    let provisioner = annotation(&volume.metadata, names::ANN_PROVISIONED_BY).map(str::to_owned);
    correct_mark(&mut volume.metadata, provisioner.as_deref(), migrated)
}

/// Corrects `migrated-to` on a claim. True if something changed.
// Tests: FN-MIGANN-ON-BETA, FN-MIGANN-ROLLBACK-BETA, OWN-MIG-6, OWN-PROV-3
pub fn correct_claim_mark(claim: &mut PersistentVolumeClaim, migrated: MigratedDriver) -> bool {
    let provisioner = annotation(&claim.metadata, names::ANN_STORAGE_PROVISIONER)
        .or_else(|| annotation(&claim.metadata, names::ANN_BETA_STORAGE_PROVISIONER))
        .map(str::to_owned);
    correct_mark(&mut claim.metadata, provisioner.as_deref(), migrated)
}

fn correct_mark(meta: &mut ObjectMeta, provisioner: Option<&str>, migrated: MigratedDriver) -> bool {
    // Not provisioned, so not migrated either; an existing annotation belongs to another component.
    let Some(provisioner) = provisioner else { return false };
    match migrated(provisioner) {
        Some(driver) => set_annotation(meta, names::ANN_MIGRATED_TO, driver),
        None if annotation(meta, names::ANN_MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) => {
            remove_annotation(meta, names::ANN_MIGRATED_TO)
        }
        None => false,
    }
}

/// Corrects the two finalizers that mean "the asset is not deleted yet". True if something changed. Finalizers of
/// statically created volumes and of volumes of external provisioners stay unchanged.
// Tests: FN-FINAL-13-1, FN-FINAL-13-3, FN-FINAL-13-8, FN-FINAL-13-9, FN-FINAL-13-10, FN-FINAL-13-11, FN-FINAL-13-12
// Tests: FN-FINAL-13-14, FN-FINAL-13-15, NEW-FINAL-MIGRATED, OWN-MIG-5, PV-5-9
pub fn correct_deletion_finalizers(volume: &mut PersistentVolume, migrated: MigratedDriver) -> bool {
    let Some(provisioner) = annotation(&volume.metadata, names::ANN_PROVISIONED_BY) else { return false };
    let (own, external) = (names::FINALIZER_PV_CONTROLLER, names::FINALIZER_EXTERNAL_PROVISIONER);
    if migrated(provisioner).is_some() {
        // The CSI driver deletes the asset and has its own finalizer.
        return remove_finalizer(&mut volume.metadata, own);
    }
    if !provisioner.starts_with(names::IN_TREE_PREFIX) {
        return false;
    }
    let own_changed = match reclaim_policy(volume) {
        "Delete" => add_finalizer(&mut volume.metadata, own),
        _ => remove_finalizer(&mut volume.metadata, own),
    };
    let external_changed = remove_finalizer(&mut volume.metadata, external);
    own_changed || external_changed
}

/// Adds a finalizer at the end. True if it was missing.
pub fn add_finalizer(meta: &mut ObjectMeta, finalizer: &str) -> bool {
    let finalizers = meta.finalizers.get_or_insert_default();
    if finalizers.iter().any(|one| one == finalizer) {
        return false;
    }
    finalizers.push(finalizer.to_owned());
    true
}

/// Removes a finalizer. True if it was present.
pub fn remove_finalizer(meta: &mut ObjectMeta, finalizer: &str) -> bool {
    let Some(finalizers) = meta.finalizers.as_mut() else { return false };
    let before = finalizers.len();
    finalizers.retain(|one| one != finalizer);
    finalizers.len() != before
}
