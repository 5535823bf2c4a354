//! The sync of a claim: classify its situation, then act on it, one arm per situation.
//!
//! ==============================================================================================================
//! SPACE SHUTTLE STYLE, as in `claim_situation.rs`: every branch is written out and lists the cases that test it.
//! No wildcard arm; after every write that can fail, a comment states what is saved and which sync completes the
//! rest.
//!
//! The deletionTimestamp of a claim is ignored: a claim that is being deleted still owns its volume until the
//! claim is removed, and is treated like any other.
//! ==============================================================================================================

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::binder::Binder;
use super::claim_situation::{ClaimContext, ClaimSituation, classify};
use super::error::SyncError;
use super::migration::{correct_claim_mark, is_provisioned};
use super::pods;
use orlop_client::names::{self, reason};
use orlop_client::recorder::EventType;
use orlop_volume::class;
use orlop_volume::object::{self, ClaimPhase, claim_key, has_annotation, volume_name};

impl Binder {
    /// Moves a claim one or more steps towards its desired state.
    pub(super) async fn sync_claim(&self, claim: Arc<PersistentVolumeClaim>) -> Result<(), SyncError> {
        let claim = self.correct_claim(claim).await?;
        // Saved: the claim's annotations. All steps below start from the server's state.
        let key = claim_key(&claim);
        let situation = self.claim_situation(&claim)?;
        match self.asked_before_lost(&claim, situation).await? {
            // === unbound, the claim names no volume ===

            // OBSERVATION: a volume fits, or is already reserved for this claim.
            // Tests: NEW-TERMINATING-CLAIM, PV-1-8, PV-5-2, PV-5-2-2, PV-10-1, PV-11-6, PV-11-22, OWN-RES-3, OWN-RES-7
            // Tests: OWN-DEFCLASS-1, OWN-WFFC-7, OWN-WFFC-8, PV-12-2, OWN-PROV-4
            ClaimSituation::VolumeFound(volume) => self.bind(&volume, &claim).await,

            // OBSERVATION: nothing fits, the claim does not specify a class, and there is a default class.
            // Tests: PV-15-5, PV-15-2, OWN-DEFCLASS-2, OWN-DEFCLASS-6, OWN-DEFCLASS-7
            ClaimSituation::DefaultClassMissing { class } => {
                let mut changed = PersistentVolumeClaim::clone(&claim);
                changed.spec.get_or_insert_default().storage_class_name = Some(class);
                self.write_claim(changed).await?;
                // Saved: the class. Continued by: the sync that the update's event triggers, with the class in place.
                Ok(())
            }

            // OBSERVATION: nothing fits, the class waits for a pod, no node selected yet.
            // Tests: PV-1-13, OWN-WFFC-1, OWN-WFFC-2, OWN-WFFC-3, OWN-WFFC-4, OWN-WFFC-10, OWN-DEFCLASS-6
            ClaimSituation::WaitsForConsumer => {
                let (reason, message) = pods::what_it_waits_for(self.pods_of_claim(&key));
                self.claim_event(&claim, EventType::Normal, reason, &message);
                self.set_claim_pending(&claim).await
            }

            // OBSERVATION: nothing fits, and the class names a provisioner. The status is not changed.
            // Tests: PV-11-14, PV-12-3, PV-14-5, PV-15-6, PV-15-7, OWN-WFFC-9, OWN-PROV-1, PV-PROV-OFF
            ClaimSituation::WantsProvisioning => {
                self.provision_claim(&claim);
                Ok(())
            }

            // OBSERVATION: nothing fits, and there is no class to provision from.
            // Tests: PV-1-2, PV-1-3, PV-1-17, PV-11-15, PV-14-3, PV-14-4, OWN-RES-2, OWN-CLS-3, OWN-DEFCLASS-5
            ClaimSituation::NothingFits => {
                let message = "no persistent volumes available for this claim and no storage class is set";
                self.claim_event(&claim, EventType::Normal, reason::FAILED_BINDING, message);
                self.set_claim_pending(&claim).await
            }

            // === unbound, the claim names its volume ===

            // OBSERVATION: the controller does not know the named volume. It may still be created.
            // Tests: PV-2-2, OWN-ASK-3
            ClaimSituation::NamedUnknown => self.set_claim_pending(&claim).await,

            // OBSERVATION: the named volume has no claim reference and fits.
            // Tests: PV-1-15, PV-2-8, OWN-ASK-2, OWN-ASK-3, OWN-ASK-11, OWN-VAC-4
            ClaimSituation::NamedFree(volume) => self.bind(&volume, &claim).await,

            // OBSERVATION: the named volume has no claim reference and does not fit.
            // Tests: PV-1-16, PV-2-10, PV-2-11, PV-14-5-2, OWN-ASK-4, OWN-ASK-7
            ClaimSituation::NamedUnfit { volume, misfit } => {
                let volume = object::name(&volume.metadata);
                let message =
                    format!("Cannot bind to requested volume \"{volume}\": {}", misfit.event_text(volume));
                self.claim_event(&claim, EventType::Warning, reason::VOLUME_MISMATCH, &message);
                self.set_claim_pending(&claim).await
            }

            // OBSERVATION: the named volume refers to the claim. Users wrote both sides, or a bind was interrupted. No
            // checks: they have passed already, or the users' choice takes precedence.
            // Tests: PV-2-4, PV-2-5, PV-4-6, OWN-FIX-1
            ClaimSituation::NamedOurs(volume) => self.bind(&volume, &claim).await,

            // OBSERVATION: the volume that a user requests belongs to another claim.
            // Tests: PV-2-6, OWN-ASK-1, OWN-ASK-2
            ClaimSituation::NamedTaken(volume) => {
                let message = already_bound(object::name(&volume.metadata));
                self.claim_event(&claim, EventType::Warning, reason::FAILED_BINDING, &message);
                self.set_claim_pending(&claim).await
            }

            // OBSERVATION: a controller wrote the name, and the volume belongs to another claim. A bind cannot cause this:
            // it writes the volume first. Nothing is changed, to preserve the evidence; the error records the state in the
            // log.
            // Tests: NEW-STOLEN
            ClaimSituation::NamedStolen(volume) => {
                let volume = object::name(&volume.metadata).to_owned();
                let message = already_bound(&volume);
                self.claim_event(&claim, EventType::Warning, reason::FAILED_BINDING, &message);
                Err(SyncError::Stolen { claim: key, volume })
            }

            // === bound once ===

            // OBSERVATION: the volume name has been removed from the claim.
            // Tests: NEW-NAMELESS
            ClaimSituation::BoundNameless => {
                let message =
                    "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
                self.set_claim_lost(&claim, reason::CLAIM_LOST, message).await
            }

            // OBSERVATION: the volume does not exist. Not final: if the volume returns, the claim is Bound again.
            // Tests: PV-3-2, PV-5-4, PV-5-7, OWN-LOST-1
            ClaimSituation::BoundVolumeGone => {
                let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
                self.set_claim_lost(&claim, reason::CLAIM_LOST, message).await
            }

            // OBSERVATION: the volume has no claim reference. The claim is authoritative; no checks.
            // Tests: PV-3-7, OWN-FIX-4, OWN-LOST-3, OWN-LOST-5
            ClaimSituation::BoundUnreferenced(volume) => self.bind(&volume, &claim).await,

            // OBSERVATION: the volume refers to the claim. Usually there is nothing left to write.
            // Tests: PV-1-10, PV-10-2, OWN-FIX-2, OWN-FIX-3, OWN-FIX-6, OWN-AM-9, OWN-MIG-6
            ClaimSituation::BoundHere(volume) => self.bind(&volume, &claim).await,

            // OBSERVATION: the volume refers to another claim.
            // Tests: PV-3-4, PV-3-6, PV-4-4, OWN-LOST-4
            ClaimSituation::BoundElsewhere(_) => {
                let message = "Two claims are bound to the same volume, this one is bound incorrectly";
                self.set_claim_lost(&claim, reason::CLAIM_MISBOUND, message).await
            }
        }
    }

    /// Collects the input of the classifier and classifies the claim.
    fn claim_situation(&self, claim: &PersistentVolumeClaim) -> Result<ClaimSituation, SyncError> {
        let searches =
            volume_name(claim).is_empty() && !has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED);
        if !searches {
            let named = self.stored_volume(volume_name(claim));
            let around =
                ClaimContext { named: named.as_ref(), found: None, delayed: false, default_class: None };
            return Ok(classify(claim, around));
        }
        let class = self.class(class::claim_class(claim));
        let delayed = class::delays_binding(class.as_deref())
            .map_err(|source| SyncError::BindingMode { claim: claim_key(claim), source })?;
        let found = self.find_volume(claim, delayed);
        let default_class = match (&found, class::claim_has_class(claim)) {
            (None, false) => self.default_class(),
            (None, true) | (Some(_), _) => None,
        };
        let around = ClaimContext {
            named: None,
            found: found.as_ref(),
            delayed,
            default_class: default_class.as_deref(),
        };
        Ok(classify(claim, around))
    }

    /// Confirms a situation that would make the claim Lost with a read from the server: volumes and claims arrive
    /// over two watches, and a claim may be ahead of the volume that was written with it (one commit, or one restored
    /// backup). If the read fails, the claim does not become Lost now. A claim that is already Lost is not confirmed
    /// again; the volume's own event ends that state.
    // Held by safety.rs: a claim that is ahead of its volume does not become Lost, nor does any claim whose volume
    // cannot be read.
    async fn asked_before_lost(
        &self,
        claim: &PersistentVolumeClaim,
        situation: ClaimSituation,
    ) -> Result<ClaimSituation, SyncError> {
        if !situation.accuses_volume() || ClaimPhase::of(claim) == ClaimPhase::Lost {
            return Ok(situation);
        }
        let live = self.read_volume(volume_name(claim)).await?.map(Arc::new);
        let around = ClaimContext { named: live.as_ref(), found: None, delayed: false, default_class: None };
        Ok(classify(claim, around))
    }

    /// Corrects the migration annotation of a claim before anything else.
    // Tests: OWN-MIG-6, OWN-PROV-3
    async fn correct_claim(
        &self,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        if !is_provisioned(&claim.metadata) {
            return Ok(claim);
        }
        let mut changed = PersistentVolumeClaim::clone(&claim);
        if !correct_claim_mark(&mut changed, self.migrated) {
            return Ok(claim);
        }
        self.write_claim(changed).await
    }
}

fn already_bound(volume: &str) -> String {
    format!("volume \"{volume}\" already bound to a different claim.")
}
