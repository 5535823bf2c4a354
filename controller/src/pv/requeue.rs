//! Whom a change wakes. Upstream lets a claim that found nothing wait for the resync; here a change that may help a claim
//! brings it back at once: a volume that became free or fits now, a class, a default class, a pod. Pure: these functions
//! say which keys to queue.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use super::cache::{ClaimStore, VolumeStore};
use super::reclaim_policy::Policy;
use orlop_client::names;
use orlop_volume::class;
use orlop_volume::fit;
use orlop_volume::object::{
    self, ClaimPhase, VolumePhase, claim_ref, has_annotation, reference_key, reference_uid,
};

/// Whether anything about a volume changed that a claim may have waited for. Its own version, its message or its other
/// annotations are nobody's business.
fn matters(old: Option<&PersistentVolume>, new: &PersistentVolume) -> bool {
    let Some(old) = old else { return true };
    old.spec != new.spec
        || VolumePhase::of(old) != VolumePhase::of(new)
        || old.metadata.labels != new.metadata.labels
        || class::volume_class(old) != class::volume_class(new)
        || old.metadata.uid != new.metadata.uid
        || object::is_terminating(&old.metadata) != object::is_terminating(&new.metadata)
}

/// Whether a volume became free by this change, or is free and fits others now: then it is offered to those who wait.
// Tests: NEW-WAKE-VOLUME, OWN-FIT-6, OWN-REC-12
pub fn becomes_free(old: Option<&PersistentVolume>, new: &PersistentVolume) -> bool {
    is_free(new) && matters(old, new)
}

/// Whether a volume waits for a claim that searches.
pub fn is_free(volume: &PersistentVolume) -> bool {
    claim_ref(volume).is_none()
        && VolumePhase::of(volume) == VolumePhase::Available
        && !object::is_terminating(&volume.metadata)
}

/// Whether a claim that names this volume has nothing more to do with it.
fn is_settled(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let ours =
        claim_ref(volume).is_some_and(|reference| reference_uid(reference) == object::uid(&claim.metadata));
    let modes = claim.status.as_ref().and_then(|status| status.access_modes.as_deref()).unwrap_or_default();
    ours && ClaimPhase::of(claim) == ClaimPhase::Bound
        && has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED)
        && modes == fit::offered_modes(volume)
}

/// The claims to look at after a volume changed from `old` to `new`, in the order in which to look. Those that name it come
/// first: a claim that lost its volume must get it back before a stranger takes it.
// Tests: NEW-WAKE-LOST, OWN-ASK-3, OWN-LOST-3
pub fn claims_for_volume(
    claims: &ClaimStore,
    old: Option<&PersistentVolume>,
    new: &PersistentVolume,
) -> Vec<String> {
    if !matters(old, new) {
        return Vec::new();
    }
    let mut keys = Vec::new();
    let mut seen = BTreeSet::new();
    let mut wake = |key: &str| {
        if seen.insert(key.to_owned()) {
            keys.push(key.to_owned());
        }
    };
    for key in claims.waiting().naming(object::name(&new.metadata)) {
        if claims.get(key).is_some_and(|claim| !is_settled(&claim, new)) {
            wake(key.as_ref());
        }
    }
    if let Some(reference) = claim_ref(new) {
        let key = reference_key(reference);
        let waits = |claim: &PersistentVolumeClaim| {
            object::points_to(new, claim) && !has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED)
        };
        if claims.get(&key).is_some_and(|claim| waits(&claim)) {
            wake(&key);
        }
    }
    keys
}

/// The claims to look at after a class changed. A class that became, or ceases to be, the default concerns those that say
/// nothing about their class.
// Tests: NEW-WAKE-CLASS, NEW-WAKE-DEFAULT, OWN-DEFCLASS-2
pub fn claims_for_class(
    claims: &ClaimStore,
    old: Option<&StorageClass>,
    new: Option<&StorageClass>,
) -> Vec<String> {
    let Some(class) = new.or(old) else { return Vec::new() };
    let mut keys: Vec<String> = claims
        .waiting()
        .searching_in_class(object::name(&class.metadata))
        .map(|key| key.to_string())
        .collect();
    if old.is_some_and(class::is_default) || new.is_some_and(class::is_default) {
        let unclassed = claims.waiting().searching_in_class("");
        keys.extend(
            unclassed
                .filter(|key| claims.get(key).is_some_and(|claim| !class::claim_has_class(&claim)))
                .map(|key| key.to_string()),
        );
    }
    keys
}

/// The claims to look at after a pod changed: those that wait for one of a class that `delayed` says waits for pods.
// Tests: NEW-WAKE-POD
pub fn claims_for_pod(claims: &ClaimStore, pod: &Pod, delayed: impl Fn(&str) -> bool) -> Vec<String> {
    let waits = |key: &String| {
        claims.get(key).is_some_and(|claim| {
            object::volume_name(&claim).is_empty()
                && !has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED)
                && delayed(class::claim_class(&claim))
        })
    };
    orlop_client::pods::claim_keys(pod).into_iter().filter(waits).collect()
}

/// The volumes to look at after a pod ended or went: those that wait for their last user before they are scrubbed.
// Tests: NEW-WAKE-RECYCLE
pub fn volumes_for_pod(volumes: &VolumeStore, pod: &Pod) -> Vec<String> {
    let waits = |volume: &PersistentVolume| {
        VolumePhase::of(volume).is_reclaiming() && Policy::of(volume) == Policy::Recycle
    };
    orlop_client::pods::claim_keys(pod)
        .iter()
        .flat_map(|key| volumes.index().pointing_to(key))
        .filter(|volume| waits(volume))
        .map(|volume| object::name(&volume.metadata).to_owned())
        .collect()
}
