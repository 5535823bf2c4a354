//! What state a volume is in, as the controller sees it. Pure: no I/O, no clock.
//!
//! ==================================================================================================================
//! SPACE SHUTTLE STYLE. A wrong turn here releases a volume that is in use, and a released volume may be scrubbed or
//! deleted. So every branch is written out: each situation has a name and says what was OBSERVED, and `volume_sync.rs`
//! acts on it with a `match` without a wildcard arm. Do not shorten, do not merge arms that look alike, do not add a
//! catch-all. If a new situation turns up, give it a name.
//! ==================================================================================================================

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use orlop_client::names;
use orlop_volume::object::{self, VolumeMode, VolumePhase, reference_uid, volume_name};

/// The state of a volume.
#[derive(Clone, Debug)]
pub enum VolumeSituation {
    /// OBSERVATION: the volume points to nobody.
    Free,
    /// OBSERVATION: the volume points to a claim by name only: reserved by a user, and the claim has not been bound.
    ReservedByName,
    /// OBSERVATION: the claim that the volume points to (name and UID) does not exist any more, and the server said so; the
    /// volume is not in phase Released or Failed yet.
    ClaimGone,
    /// OBSERVATION: the same, and the volume is Released or Failed already: reclaiming is due (again).
    ClaimGoneReclaiming,
    /// OBSERVATION: the claim exists and names no volume yet, but one is a file system and the other a block device.
    ClaimModeDiffers(Arc<PersistentVolumeClaim>),
    /// OBSERVATION: the claim exists and names no volume yet: a bind was cut short, or the scheduler wrote the reference.
    ClaimUnbound(Arc<PersistentVolumeClaim>),
    /// OBSERVATION: the claim exists and names this volume.
    ClaimBoundHere,
    /// OBSERVATION: the claim exists and names another volume; this one was made for it (`provisioned-by`) and is to be
    /// deleted when it is not needed. It lost a race, nobody ever used it.
    SurplusProvisioned,
    /// OBSERVATION: the claim exists and names another volume; the whole reference here was written by a controller
    /// (`bound-by-controller`).
    ClaimElsewhereByController,
    /// OBSERVATION: the claim exists and names another volume; the name in the reference here was written by a user, only
    /// the UID was added by a controller.
    ClaimElsewhereByUser,
}

/// Names the state that `volume` is in. `claim` is what the look-up found (`volume_sync.rs`): the claim with the UID in
/// the reference, or nothing when it is certain that there is none.
pub fn classify(volume: &PersistentVolume, claim: Option<&Arc<PersistentVolumeClaim>>) -> VolumeSituation {
    let Some(reference) = object::claim_ref(volume) else { return VolumeSituation::Free };
    if reference_uid(reference).is_empty() {
        return VolumeSituation::ReservedByName;
    }
    let Some(claim) = claim else {
        return match VolumePhase::of(volume) {
            VolumePhase::Released | VolumePhase::Failed => VolumeSituation::ClaimGoneReclaiming,
            VolumePhase::Unset
            | VolumePhase::Pending
            | VolumePhase::Available
            | VolumePhase::Bound
            | VolumePhase::Unknown => VolumeSituation::ClaimGone,
        };
    };
    let named = volume_name(claim);
    if named.is_empty() {
        return match VolumeMode::of_volume(volume) == VolumeMode::of_claim(claim) {
            true => VolumeSituation::ClaimUnbound(Arc::clone(claim)),
            false => VolumeSituation::ClaimModeDiffers(Arc::clone(claim)),
        };
    }
    if named == object::name(&volume.metadata) {
        return VolumeSituation::ClaimBoundHere;
    }
    if object::has_annotation(&volume.metadata, names::ANN_PROVISIONED_BY)
        && object::reclaim_policy(volume) == "Delete"
    {
        return VolumeSituation::SurplusProvisioned;
    }
    match object::has_annotation(&volume.metadata, names::ANN_BOUND_BY_CONTROLLER) {
        true => VolumeSituation::ClaimElsewhereByController,
        false => VolumeSituation::ClaimElsewhereByUser,
    }
}

/// Where to look for the claim of a volume next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookFor {
    /// The one at hand is the one that the reference means.
    Found,
    /// There is none: the own store does not have it and the volume was released long ago.
    Gone,
    /// In the informer's cache, then on the server: the own store may lag behind, and a volume must not be released
    /// because of that.
    Everywhere,
    /// On the server: the one at hand has another UID, so either it or the reference is old.
    OnServer,
}

/// What the own store's answer is worth.
// Tests: PV-4-11, PV-4-4, PV-8-9
pub fn look_for_claim(volume: &PersistentVolume, stored: Option<&PersistentVolumeClaim>) -> LookFor {
    match stored {
        Some(claim) if is_meant(volume, claim) => LookFor::Found,
        Some(_) => LookFor::OnServer,
        None => match VolumePhase::of(volume) {
            VolumePhase::Released | VolumePhase::Failed => LookFor::Gone,
            VolumePhase::Unset
            | VolumePhase::Pending
            | VolumePhase::Available
            | VolumePhase::Bound
            | VolumePhase::Unknown => LookFor::Everywhere,
        },
    }
}

/// Whether the reference of the volume carries this claim's UID.
pub fn is_meant(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    object::claim_ref(volume)
        .is_some_and(|reference| reference_uid(reference) == object::uid(&claim.metadata))
}

/// Whether a volume is without its claim for certain, right before something irreversible is done to it: it points to a
/// claim with UID, and the claim in the store is missing, has another UID, or is bound to another volume.
// Tests: PV-6-7, PV-6-8
pub fn is_released(volume: &PersistentVolume, stored: Option<&PersistentVolumeClaim>) -> bool {
    let Some(reference) = object::claim_ref(volume) else { return false };
    if reference_uid(reference).is_empty() {
        return false;
    }
    match stored {
        None => true,
        Some(claim) if !is_meant(volume, claim) => true,
        Some(claim) => {
            let named = volume_name(claim);
            !named.is_empty() && named != object::name(&volume.metadata)
        }
    }
}
