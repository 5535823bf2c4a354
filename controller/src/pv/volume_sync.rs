//! The sync of a volume: find its claim, classify the situation, act on it, one arm per situation.
//!
//! ==============================================================================================================
//! SPACE SHUTTLE STYLE, as in `volume_situation.rs`: every branch is written out and lists the cases that test
//! it. No wildcard arm; after every write that can fail, a comment states what is saved and which sync completes
//! the rest.
//! ==============================================================================================================

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::binder::Binder;
use super::error::SyncError;
use super::migration::{correct_deletion_finalizers, correct_volume_mark, is_provisioned};
use super::volume_situation::{LookFor, VolumeSituation, classify, is_meant, look_for_claim};
use orlop_client::names::reason;
use orlop_client::recorder::EventType;
use orlop_volume::object::{self, VolumePhase, claim_key, claim_ref, reference_key, reference_uid};

impl Binder {
    /// Moves a volume one or more steps towards its desired state.
    pub(super) async fn sync_volume(&self, volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        let volume = self.correct_volume(volume).await?;
        // Saved: the volume's annotations and finalizers. All steps below start from the server's state.
        let claim = self.claim_of(&volume).await?;
        match classify(&volume, claim.as_ref()) {
            // OBSERVATION: the volume has no claim reference.
            // Tests: PV-10-1, PV-1-17, OWN-FIX-4, OWN-MIG-2, OWN-MIG-5, PV-5-9
            VolumeSituation::Free => {
                self.set_volume_phase(&volume, VolumePhase::Available, "").await?;
                Ok(())
            }

            // OBSERVATION: reserved by name; its claim does not exist or is not bound yet.
            // Tests: PV-4-2, OWN-RES-8, OWN-REC-4
            VolumeSituation::ReservedByName => {
                self.set_volume_phase(&volume, VolumePhase::Available, "").await?;
                Ok(())
            }

            // OBSERVATION: the claim no longer exists, as confirmed by the server, and the volume's phase does not show it
            // yet.
            // Tests: PV-2-6, PV-4-4, PV-5-6, PV-8-1, PV-8-2, PV-8-9, OWN-REC-5, OWN-REC-9, OWN-LOST-4
            VolumeSituation::ClaimGone => {
                let volume = self.set_volume_phase(&volume, VolumePhase::Released, "").await?;
                // Saved: the phase shows that the data has no owner. Not done: reclaiming. Completed by: the next
                // sync of the volume, which finds it Released without a claim and takes the next arm.
                self.reclaim(&volume).await
            }

            // OBSERVATION: released before; reclaiming is due, or failed and is due again.
            // Tests: PV-9-1, OWN-REC-13, OWN-REC-19
            VolumeSituation::ClaimGoneReclaiming => self.reclaim(&volume).await,

            // OBSERVATION: the volume refers to this claim, but one is a filesystem and the other a block device. The
            // reference was not written by this controller; nothing is changed until a user decides.
            // Tests: PV-14-13, PV-14-13-1
            VolumeSituation::ClaimModeDiffers(claim) => {
                let message = format!(
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{}\" due to incompatible \
                     volumeMode.",
                    object::name(&claim.metadata)
                );
                self.volume_event(&volume, EventType::Warning, reason::VOLUME_MISMATCH, &message);
                let message = format!(
                    "Cannot bind PersistentVolume \"{}\" to requested PersistentVolumeClaim due to incompatible \
                     volumeMode.",
                    object::name(&volume.metadata)
                );
                self.claim_event(&claim, EventType::Warning, reason::VOLUME_MISMATCH, &message);
                Ok(())
            }

            // OBSERVATION: the volume's reference is complete and the claim does not name the volume yet. The claim's sync
            // completes the bind.
            // Tests: PV-14-14-1
            VolumeSituation::ClaimUnbound(claim) => {
                self.claims.add(claim_key(&claim));
                Ok(())
            }

            // OBSERVATION: both sides refer to each other.
            // Tests: PV-4-6, PV-4-11, OWN-FIX-2
            VolumeSituation::ClaimBoundHere => {
                self.set_volume_phase(&volume, VolumePhase::Bound, "").await?;
                Ok(())
            }

            // OBSERVATION: provisioned for a claim that is bound to another volume, with policy Delete. It was never used,
            // so it is reclaimed like a released volume.
            // Tests: OWN-REC-20
            VolumeSituation::SurplusProvisioned => {
                let volume = match VolumePhase::of(&volume).is_reclaiming() {
                    true => volume,
                    false => self.set_volume_phase(&volume, VolumePhase::Released, "").await?,
                };
                // Saved: phase Released. Completed by: the next sync of the volume, which takes this arm again.
                self.reclaim(&volume).await
            }

            // OBSERVATION: a controller wrote the reference, and the claim is bound to another volume. The reference is
            // removed.
            // Tests: PV-4-7, PV-10-2, OWN-ASK-10
            VolumeSituation::ClaimElsewhereByController => self.unbind(&volume).await,

            // OBSERVATION: a user reserved the volume by name, and the claim is bound to another volume. The reservation
            // stays, the UID is removed.
            // Tests: OWN-ASK-9, OWN-REC-21
            VolumeSituation::ClaimElsewhereByUser => self.unbind(&volume).await,
        }
    }

    /// The claim with the UID in the volume's reference, or `None` if it certainly does not exist. Before a volume is
    /// released, the claim is read from the server: caches lag, and a released volume may lose its data.
    // Tests: PV-4-11, PV-4-4, PV-8-9
    async fn claim_of(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, SyncError> {
        let Some(reference) = claim_ref(volume) else { return Ok(None) };
        if reference_uid(reference).is_empty() {
            return Ok(None);
        }
        let key = reference_key(reference);
        let stored = self.stored_claim(&key);
        let at_hand = match look_for_claim(volume, stored.as_deref()) {
            LookFor::Found => return Ok(stored),
            LookFor::Gone => return Ok(None),
            LookFor::OnServer => None,
            LookFor::Everywhere => self.cached_claim(&key),
        };
        if let Some(claim) = at_hand
            && is_meant(volume, &claim)
        {
            return Ok(Some(claim));
        }
        let live = self.read_claim(&key).await?;
        Ok(live.filter(|claim| is_meant(volume, claim)).map(Arc::new))
    }

    /// Corrects the migration annotation and the deletion finalizers of a volume before anything else, in one write.
    // Tests: PV-5-9, OWN-MIG-2, OWN-MIG-5
    async fn correct_volume(
        &self,
        volume: Arc<PersistentVolume>,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        if !is_provisioned(&volume.metadata) {
            return Ok(volume);
        }
        let mut changed = PersistentVolume::clone(&volume);
        let mark = correct_volume_mark(&mut changed, self.migrated);
        let finalizers = correct_deletion_finalizers(&mut changed, self.migrated);
        match mark || finalizers {
            true => self.write_volume(changed).await,
            false => Ok(volume),
        }
    }
}
