//! Binding: the four writes that bind a volume and a claim, and the two that unbind them. A write whose result is
//! already in place is skipped, so repeating an interrupted bind completes it (I6).
//!
//! The volume is written first because it is the lock: a controller that loses a race for it fails on its
//! resourceVersion, before the claim was changed. The claim's annotation `bind-completed` is written when only a
//! status write can still fail.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::binder::Binder;
use super::error::SyncError;
use crate::claim_reference::claim_reference;
use crate::csi::provisioner::intent;
use orlop_client::names;
use orlop_volume::object::{
    self, VolumePhase, claim_ref, has_annotation, points_to, remove_annotation, set_annotation, volume_name,
};

/// The volume with a full reference to the claim, or `None` if it already has one. The annotation
/// `bound-by-controller` is set only if the volume did not refer to the claim before: a reservation by a user
/// stays one.
// Tests: PV-1-8, PV-2-4, PV-2-5, PV-14-7, PV-14-10, OWN-FIX-4, OWN-REC-4
pub fn volume_with_claim(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Option<PersistentVolume> {
    let complete = claim_ref(volume).is_some_and(|reference| {
        points_to(volume, claim) && object::reference_uid(reference) == object::uid(&claim.metadata)
    });
    if complete {
        return None;
    }
    let mut changed = volume.clone();
    if !points_to(volume, claim) && !has_annotation(&volume.metadata, names::ANN_BOUND_BY_CONTROLLER) {
        set_annotation(&mut changed.metadata, names::ANN_BOUND_BY_CONTROLLER, names::YES);
    }
    changed.spec.get_or_insert_default().claim_ref = Some(claim_reference(claim));
    Some(changed)
}

/// The claim with the volume's name and `bind-completed`, or `None` if it has both. The annotation
/// `bound-by-controller` is set only if the claim did not name the volume before.
// Tests: PV-1-15, PV-1-8, OWN-FIX-1
pub fn claim_with_name(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<PersistentVolumeClaim> {
    let name = object::name(&volume.metadata);
    let named = volume_name(claim) == name;
    if named && has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED) {
        return None;
    }
    let mut changed = claim.clone();
    if !named {
        changed.spec.get_or_insert_default().volume_name = Some(name.to_owned());
        if !has_annotation(&claim.metadata, names::ANN_BOUND_BY_CONTROLLER) {
            set_annotation(&mut changed.metadata, names::ANN_BOUND_BY_CONTROLLER, names::YES);
        }
    }
    if !has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED) {
        set_annotation(&mut changed.metadata, names::ANN_BIND_COMPLETED, names::YES);
    }
    // The provisioned volume is now saved, so the same write removes the provisioning intent.
    intent::settle(&mut changed, volume);
    Some(changed)
}

/// The volume without its claim: the whole reference is removed if a controller wrote it, only the UID if a user
/// reserved the volume.
// Tests: PV-4-7, PV-10-2, OWN-ASK-9, OWN-ASK-10, PV-6-2, OWN-REC-21
pub fn volume_without_claim(volume: &PersistentVolume) -> Option<PersistentVolume> {
    claim_ref(volume)?;
    let mut changed = volume.clone();
    end_scrub_round(&mut changed);
    let spec = changed.spec.as_mut()?;
    if remove_annotation(&mut changed.metadata, names::ANN_BOUND_BY_CONTROLLER) {
        spec.claim_ref = None;
    } else {
        spec.claim_ref.as_mut()?.uid = None;
    }
    (changed != *volume).then_some(changed)
}

/// Restores the reclaim policy of a volume that was to be recycled once. The write that frees the volume restores
/// it, so the volume is never free with a policy that its owner did not choose.
fn end_scrub_round(volume: &mut PersistentVolume) {
    let before = object::annotation(&volume.metadata, names::ANN_POLICY_AFTER_SCRUB).map(str::to_owned);
    let Some(before) = before else { return };
    remove_annotation(&mut volume.metadata, names::ANN_POLICY_AFTER_SCRUB);
    if object::reclaim_policy(volume) == "Recycle"
        && matches!(before.as_str(), "Retain" | "Delete" | "Recycle")
    {
        volume.spec.get_or_insert_default().persistent_volume_reclaim_policy = Some(before);
    }
}

impl Binder {
    /// Binds a claim to a volume: the four writes in order, each skipped if its result is in place. Stops at the
    /// first error; calling it again continues there.
    pub(super) async fn bind(
        &self,
        volume: &Arc<PersistentVolume>,
        claim: &Arc<PersistentVolumeClaim>,
    ) -> Result<(), SyncError> {
        let volume = match volume_with_claim(volume, claim) {
            Some(changed) => match self.reserve(volume, claim) {
                Some(_until_answered) => self.write_volume(changed).await?,
                // Another claim is being bound to this volume; this claim is queued again afterwards.
                None => return Ok(()),
            },
            None => Arc::clone(volume),
        };
        // Saved: the volume refers to the claim by UID; no other claim can bind it. Not saved: everything else.
        // Completed by: the next sync of the claim (the search returns this volume first, and a claim that names it
        // finds itself in the reference), or the sync of the volume, which queues the claim.
        let volume = self.set_volume_phase(&volume, VolumePhase::Bound, "").await?;
        // Saved: the volume's side. Not saved: the claim. Completed by: as above.
        let claim = match claim_with_name(claim, &volume) {
            Some(changed) => {
                let written = self.write_claim(changed).await?;
                // An earlier bind may have been interrupted with another volume, which is free again now.
                self.wake_volumes_pointing_to(&written);
                written
            }
            None => Arc::clone(claim),
        };
        // Saved: both sides refer to each other and the claim has `bind-completed`; only its status is outdated.
        // Completed by: the next sync of the claim, which takes the bound path and arrives here again.
        self.set_claim_bound(&claim, &volume).await
        // Saved: everything.
    }

    /// Unbinds a volume from its claim and makes it Available.
    pub(super) async fn unbind(&self, volume: &Arc<PersistentVolume>) -> Result<(), SyncError> {
        let volume = match volume_without_claim(volume) {
            Some(changed) => self.write_volume(changed).await?,
            None => Arc::clone(volume),
        };
        // Saved: the volume is free, or reserved by name as the user wrote it. Not saved: the phase is still Bound or
        // Released, so only a claim that names the volume, or for which it is reserved, can bind it. Completed by: the
        // next sync of the volume, which finds no reference or one without UID and makes it Available.
        self.set_volume_phase(&volume, VolumePhase::Available, "").await?;
        // Saved: everything.
        Ok(())
    }
}
