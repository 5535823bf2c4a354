//! Binding: four writes that tie a volume and a claim together, and the two that untie them. Each is skipped if it is in
//! place, so a bind that was cut short is finished by doing it again (I6).
//!
//! The volume is written first because it is the lock: whoever loses a race for it loses on its resourceVersion, before
//! anything on the claim's side was promised. The claim's mark `bind-completed` is written when nothing can fail any more
//! but a status.

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

/// The volume with a full reference to the claim, or nothing if it has one. The mark `bound-by-controller` is set only if
/// the volume did not point to the claim before: a reservation that a user wrote stays the user's.
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

/// The claim with the volume's name and the mark that binding is complete, or nothing if it has both. The mark
/// `bound-by-controller` is set only if the name was not there.
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
    // What a driver was asked for is saved as this volume, so the note of it can go with the same write.
    intent::settle(&mut changed, volume);
    Some(changed)
}

/// The volume without its claim: all of the reference if a controller wrote it, only the UID if a user reserved it.
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

/// A volume that was to be scrubbed once has its policy back with the write that frees it, so that it is never free under
/// a policy that nobody chose for it.
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
    /// Binds a claim to a volume: the four writes in their order, each skipped if it is in place. Stops at the first
    /// error; doing it again goes on where it stopped.
    pub(super) async fn bind(
        &self,
        volume: &Arc<PersistentVolume>,
        claim: &Arc<PersistentVolumeClaim>,
    ) -> Result<(), SyncError> {
        let volume = match volume_with_claim(volume, claim) {
            Some(changed) => match self.reserve(volume, claim) {
                Some(_until_answered) => self.write_volume(changed).await?,
                // Another claim is being bound to it right now; this one is queued again when that has ended.
                None => return Ok(()),
            },
            None => Arc::clone(volume),
        };
        // Saved: the volume points to the claim by UID, nobody else can take it. Not saved: everything else. Who finishes:
        // the next sync of the claim (the search returns this volume at once, and a claim that names it finds itself in
        // the reference), or the sync of the volume, which wakes the claim.
        let volume = self.set_volume_phase(&volume, VolumePhase::Bound, "").await?;
        // Saved: the volume's side is done. Not saved: the claim does not know. Who finishes: as above.
        let claim = match claim_with_name(claim, &volume) {
            Some(changed) => {
                let written = self.write_claim(changed).await?;
                // An earlier bind may have been cut short with another volume, which is free again now.
                self.wake_volumes_pointing_to(&written);
                written
            }
            None => Arc::clone(claim),
        };
        // Saved: both sides point at each other and the claim says that binding is complete; only its status is old. Who
        // finishes: the next sync of the claim, which now takes the bound path and comes here again.
        self.set_claim_bound(&claim, &volume).await
        // Saved: everything.
    }

    /// Unties a volume from its claim and makes it Available.
    pub(super) async fn unbind(&self, volume: &Arc<PersistentVolume>) -> Result<(), SyncError> {
        let volume = match volume_without_claim(volume) {
            Some(changed) => self.write_volume(changed).await?,
            None => Arc::clone(volume),
        };
        // Saved: the volume is nobody's, or reserved by name as a user wanted it. Not saved: the phase still says Bound or
        // Released, so nobody takes it. Who finishes: the next sync of the volume, which sees a reference without UID or
        // none and makes it Available.
        self.set_volume_phase(&volume, VolumePhase::Available, "").await?;
        // Saved: everything.
        Ok(())
    }
}
