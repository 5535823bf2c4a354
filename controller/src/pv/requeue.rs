//! The keys that a change queues. Upstream lets a claim without a volume wait for the resync; here a change that
//! may help a claim queues it immediately: a volume that became free or fits now, a class, a default class, a
//! pod. Pure: the functions return the keys to queue.

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

/// Whether a change of a volume is relevant to waiting claims. Its resourceVersion, its message and its other
/// annotations are not.
fn matters(old: Option<&PersistentVolume>, new: &PersistentVolume) -> bool {
    let Some(old) = old else { return true };
    old.spec != new.spec
        || VolumePhase::of(old) != VolumePhase::of(new)
        || old.metadata.labels != new.metadata.labels
        || class::volume_class(old) != class::volume_class(new)
        || old.metadata.uid != new.metadata.uid
        || object::is_terminating(&old.metadata) != object::is_terminating(&new.metadata)
}

/// Whether this change made a volume free, or made a free volume fit other claims: then it is offered to waiting
/// claims.
// Tests: NEW-WAKE-VOLUME, OWN-FIT-6, OWN-REC-12
pub fn becomes_free(old: Option<&PersistentVolume>, new: &PersistentVolume) -> bool {
    is_free(new) && matters(old, new)
}

/// Whether a volume is available to any claim that searches.
pub fn is_free(volume: &PersistentVolume) -> bool {
    claim_ref(volume).is_none()
        && VolumePhase::of(volume) == VolumePhase::Available
        && !object::is_terminating(&volume.metadata)
}

/// Whether the binding of a claim to the volume it names is complete.
fn is_settled(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let ours =
        claim_ref(volume).is_some_and(|reference| reference_uid(reference) == object::uid(&claim.metadata));
    let modes = claim.status.as_ref().and_then(|status| status.access_modes.as_deref()).unwrap_or_default();
    ours && ClaimPhase::of(claim) == ClaimPhase::Bound
        && has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED)
        && modes == fit::offered_modes(volume)
}

/// The claims to sync after a volume changed from `old` to `new`, in queue order. Claims that name the volume
/// come first: a claim that lost its volume must get it back before another claim binds it.
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
    let reference = claim_ref(new).map(reference_key);
    for key in claims.waiting().naming(object::name(&new.metadata)) {
        // Only the volume's own claim can be settled. Any number of others may name the volume; they are not read here.
        let is_own = reference.as_deref() == Some(&**key);
        if !is_own || claims.get(key).is_some_and(|claim| !is_settled(&claim, new)) {
            wake(key.as_ref());
        }
    }
    if let Some(key) = reference {
        let waits = |claim: &PersistentVolumeClaim| {
            object::points_to(new, claim) && !has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED)
        };
        if claims.get(&key).is_some_and(|claim| waits(&claim)) {
            wake(&key);
        }
    }
    keys
}

/// The claims to sync after a class changed. A class that became, or ceased to be, the default affects the claims
/// that do not specify a class.
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

/// The claims to sync after a pod changed: those of the pod whose class, according to `delayed`, waits for pods.
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

/// The volumes to sync after a pod ended or was deleted: those that wait for their last user before they are
/// scrubbed.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use orlop_client::packed_object::{GETS, PackedObject};
    use serde_json::json;

    use super::*;

    /// Anybody may create claims that name a volume.
    #[test]
    fn claims_of_others_are_queued_and_not_read() {
        let mut claims = ClaimStore::default();
        for n in 0..100 {
            let claim = json!({"metadata": {"namespace": "ns", "name": format!("c{n}"), "uid": format!("u{n}"),
                "resourceVersion": "1", "annotations": {names::ANN_BIND_COMPLETED: "yes"}},
                "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
            let claim: Arc<PersistentVolumeClaim> = Arc::new(serde_json::from_value(claim).unwrap());
            claims.offer(PackedObject::new(Arc::clone(&claim)), &claim).unwrap();
        }
        let volume = json!({"metadata": {"name": "pv"},
            "spec": {"claimRef": {"namespace": "ns", "name": "c7", "uid": "u7"}}, "status": {"phase": "Bound"}});
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        let before = GETS.get();
        let keys = claims_for_volume(&claims, None, &volume);
        assert_eq!(GETS.get() - before, 2, "only its own claim");
        assert_eq!(keys.len(), 99);
        assert!(!keys.iter().any(|key| key == "ns/c7"), "it is settled");
    }
}
