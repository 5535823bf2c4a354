//! Classification of a volume's state, as the controller observes it. Pure: no I/O, no clock.
//!
//! ==============================================================================================================
//! SPACE SHUTTLE STYLE. A wrong branch here releases a volume that is in use, and a released volume may be
//! scrubbed or deleted. So every branch is written out: each situation has a name and states what was OBSERVED,
//! and `volume_sync.rs` acts on it with a `match` without a wildcard arm. Do not shorten, do not merge arms that
//! look alike, do not add a catch-all. If a new situation turns up, give it a name.
//! ==============================================================================================================

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use orlop_client::names;
use orlop_volume::object::{self, VolumeMode, VolumePhase, reference_uid, volume_name};

/// The state of a volume.
#[derive(Clone, Debug)]
pub enum VolumeSituation {
    /// OBSERVATION: the volume has no claim reference.
    Free,
    /// OBSERVATION: the volume refers to a claim by name only: reserved by a user, and the claim has not been bound.
    ReservedByName,
    /// OBSERVATION: the claim that the volume refers to (name and UID) no longer exists, as confirmed by the server;
    /// the volume is not in phase Released or Failed yet.
    ClaimGone,
    /// OBSERVATION: as `ClaimGone`, but the volume is already Released or Failed: reclaiming is due (again).
    ClaimGoneReclaiming,
    /// OBSERVATION: the claim exists and names no volume yet, but one is a filesystem and the other a block device.
    ClaimModeDiffers(Arc<PersistentVolumeClaim>),
    /// OBSERVATION: the claim exists and names no volume yet: a bind was interrupted, or the scheduler wrote the
    /// reference.
    ClaimUnbound(Arc<PersistentVolumeClaim>),
    /// OBSERVATION: the claim exists and names this volume.
    ClaimBoundHere,
    /// OBSERVATION: the claim exists and names another volume; this one was provisioned for it (`provisioned-by`) and
    /// has policy Delete. It lost a race and was never used.
    SurplusProvisioned,
    /// OBSERVATION: the claim exists and names another volume; a controller wrote the whole reference of this one
    /// (`bound-by-controller`).
    ClaimElsewhereByController,
    /// OBSERVATION: the claim exists and names another volume; a user wrote the name in the reference of this one,
    /// and a controller added only the UID.
    ClaimElsewhereByUser,
}

/// Classifies the state of `volume`. `claim` is the result of the lookup (`volume_sync.rs`): the claim with the
/// UID in the reference, or `None` if it certainly does not exist.
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

/// The next step in the lookup of a volume's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookFor {
    /// The stored claim is the one in the reference.
    Found,
    /// The claim does not exist: the store lacks it and the volume was released earlier.
    Gone,
    /// Check the informer's cache, then the server: the store may lag behind, and that must not release a volume.
    Everywhere,
    /// Check the server: the stored claim has another UID, so either the claim or the reference is outdated.
    OnServer,
}

/// Decides how far the store's result can be relied on.
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

/// Whether a volume certainly has no claim, checked immediately before an irreversible operation: the volume
/// refers to a claim with UID, and the claim in the store is missing, has another UID, or is bound to another
/// volume.
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
