//! The index of waiting claims, by what they wait for: a new volume, a new class or a pod queues exactly the
//! claims that it may help, immediately instead of at the next resync. Pure.
//!
//! Upstream has no such index: a claim without a volume is synced again after up to 15 s.
//!
//! A searching claim is either called or resting. A called claim is queued or being synced, and its sync sees
//! every volume that is free by then. A volume that becomes free is offered to one resting claim, which is
//! thereby called; so n volumes for n claims need n syncs, not n times n.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;

use orlop_client::names;
use orlop_client::small_set::Few;
use orlop_volume::class;
use orlop_volume::fit;
use orlop_volume::object::{self, VolumeMode};

/// Claims without a volume by class and mode, and all claims that name a volume by its name.
#[derive(Debug, Default)]
pub struct WaitingIndex {
    /// Searching claims: unbound and naming no volume.
    searching: HashMap<String, HashMap<VolumeMode, Searching>>,
    /// Claims that name a volume, including bound ones: they depend on that volume only.
    naming: HashMap<Box<str>, Few<Arc<str>>>,
}

/// Searching claims of one class and mode.
#[derive(Debug, Default)]
struct Searching {
    called: BTreeSet<Arc<str>>,
    /// By requested size.
    resting: BTreeMap<Quantity, Few<Arc<str>>>,
}

impl Searching {
    /// Removes a key. Returns true if the claim was called.
    fn remove(&mut self, size: &Quantity, key: &str) -> bool {
        if let Some(keys) = self.resting.get_mut(size) {
            keys.remove(key);
            if keys.is_empty() {
                self.resting.remove(size);
            }
        }
        self.called.remove(key)
    }

    fn is_empty(&self) -> bool {
        self.called.is_empty() && self.resting.is_empty()
    }
}

/// The position of the claim that was last offered a volume: the next offer goes to the claim after it.
#[derive(Debug)]
pub struct OfferPosition {
    size: Quantity,
    key: String,
}

impl OfferPosition {
    /// The position of this claim.
    pub fn of(key: &str, claim: &PersistentVolumeClaim) -> Self {
        Self { size: size_of(claim), key: key.to_owned() }
    }
}

/// An invalid size fits no volume, so its position does not matter.
fn size_of(claim: &PersistentVolumeClaim) -> Quantity {
    fit::request(claim).unwrap_or(Quantity::ZERO)
}

/// The object that a claim waits for.
enum Wish<'a> {
    Any(&'a str, VolumeMode),
    Volume(&'a str),
    Nothing,
}

fn wish(claim: &PersistentVolumeClaim) -> Wish<'_> {
    match object::volume_name(claim) {
        // Lost permanently: the claim was bound before, and its volume name was removed.
        "" if object::has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED) => Wish::Nothing,
        "" => Wish::Any(class::claim_class(claim), VolumeMode::of_claim(claim)),
        volume => Wish::Volume(volume),
    }
}

impl WaitingIndex {
    /// Registers a claim; a searching claim starts as called.
    pub fn insert(&mut self, key: &Arc<str>, claim: &PersistentVolumeClaim) {
        match wish(claim) {
            Wish::Any(class, mode) => {
                let modes = self.searching.entry(class.to_owned()).or_default();
                modes.entry(mode).or_default().called.insert(Arc::clone(key));
            }
            Wish::Volume(volume) => {
                self.naming.entry(volume.into()).or_default().insert(Arc::clone(key));
            }
            Wish::Nothing => {}
        }
    }

    /// Removes a claim, passed as it was registered. Returns true if it was resting.
    pub fn remove(&mut self, key: &str, claim: &PersistentVolumeClaim) -> bool {
        match wish(claim) {
            Wish::Any(class, mode) => {
                let Some(modes) = self.searching.get_mut(class) else { return false };
                let mut rested = false;
                if let Some(searching) = modes.get_mut(&mode) {
                    rested = !searching.remove(&size_of(claim), key);
                    if searching.is_empty() {
                        modes.remove(&mode);
                    }
                }
                if modes.is_empty() {
                    self.searching.remove(class);
                }
                rested
            }
            Wish::Volume(volume) => {
                if let Some(keys) = self.naming.get_mut(volume) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.naming.remove(volume);
                    }
                }
                false
            }
            Wish::Nothing => false,
        }
    }

    /// Marks a claim as resting after its sync. Returns false if it does not search.
    pub fn rest(&mut self, key: &Arc<str>, claim: &PersistentVolumeClaim) -> bool {
        let Wish::Any(class, mode) = wish(claim) else { return false };
        let modes = self.searching.get_mut(class);
        let Some(searching) = modes.and_then(|modes| modes.get_mut(&mode)) else { return false };
        searching.called.remove(key);
        searching.resting.entry(size_of(claim)).or_default().insert(Arc::clone(key));
        true
    }

    /// Calls a resting claim that `fits` this volume: the largest request within its capacity, among equals the first
    /// by key; with `after`, the next claim after that position.
    pub fn call(
        &mut self,
        volume: &PersistentVolume,
        after: Option<&OfferPosition>,
        fits: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let modes = self.searching.get_mut(class::volume_class(volume))?;
        let searching = modes.get_mut(&VolumeMode::of_volume(volume))?;
        let capacity = fit::capacity(volume)?;
        let room = searching.resting.range(..=capacity).rev();
        let (size, key) = room
            .filter(|(size, _)| after.is_none_or(|turn| **size <= turn.size))
            .flat_map(|(size, keys)| {
                let from = match after {
                    Some(turn) if turn.size == *size => Bound::Excluded(turn.key.as_str()),
                    Some(_) | None => Bound::Unbounded,
                };
                keys.range(from).map(move |key| (size, key))
            })
            .find(|(_, key)| fits(key))
            .map(|(size, key)| (size.clone(), key.clone()))?;
        searching.remove(&size, &key);
        let called = key.to_string();
        searching.called.insert(key);
        Some(called)
    }

    /// Searching claims of this class, by key within a mode; called claims first.
    pub fn searching_in_class(&self, class: &str) -> impl Iterator<Item = &Arc<str>> {
        let modes = self.searching.get(class).into_iter().flat_map(HashMap::values);
        modes.flat_map(|searching| searching.called.iter().chain(searching.resting.values().flatten()))
    }

    /// Claims that name this volume, by key.
    pub fn naming(&self, volume: &str) -> impl Iterator<Item = &Arc<str>> {
        self.naming.get(volume).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn claim(size: &str) -> PersistentVolumeClaim {
        serde_json::from_value(
            json!({"metadata": {}, "spec": {"resources": {"requests": {"storage": size}}}}),
        )
        .unwrap()
    }

    fn volume(size: &str) -> PersistentVolume {
        serde_json::from_value(json!({"metadata": {}, "spec": {"capacity": {"storage": size}}})).unwrap()
    }

    /// An index with these claims resting.
    fn resting(claims: &[(&str, &str)]) -> WaitingIndex {
        let mut index = WaitingIndex::default();
        for (key, size) in claims {
            let key = Arc::from(*key);
            index.insert(&key, &claim(size));
            assert!(index.rest(&key, &claim(size)));
        }
        index
    }

    #[test]
    fn call_selects_the_largest_request_that_fits_then_by_key() {
        let mut index = resting(&[("d", "1Gi"), ("a", "1Gi"), ("c", "2Gi"), ("b", "2Gi"), ("e", "9Gi")]);
        let mut called = Vec::new();
        while let Some(key) = index.call(&volume("2Gi"), None, |_| true) {
            called.push(key);
        }
        assert_eq!(called, ["b", "c", "a", "d"], "each is called once, and larger requests never");
        assert!(index.rest(&"c".into(), &claim("2Gi")));
        assert_eq!(index.call(&volume("2Gi"), None, |_| true).as_deref(), Some("c"), "after a rest again");
    }

    #[test]
    fn next_call_continues_after_the_last_position() {
        let mut index = resting(&[("a", "1Gi"), ("b", "2Gi"), ("c", "2Gi"), ("d", "1Gi")]);
        let mut next = |key: &str, size: &str| {
            let turn = OfferPosition::of(key, &claim(size));
            let found = index.call(&volume("5Gi"), Some(&turn), |key| key != "d")?;
            let size = if ["a", "d"].contains(&found.as_str()) { "1Gi" } else { "2Gi" };
            assert!(index.rest(&found.as_str().into(), &claim(size)));
            Some(found)
        };
        assert_eq!(next("b", "2Gi").as_deref(), Some("c"));
        assert_eq!(next("c", "2Gi").as_deref(), Some("a"));
        assert_eq!(next("a", "1Gi"), None, "the last one does not fit");
    }

    #[test]
    fn new_and_removed_claims_are_not_called() {
        let mut index = resting(&[("gone", "1Gi")]);
        index.insert(&"new".into(), &claim("1Gi"));
        assert!(index.remove("gone", &claim("1Gi")));
        assert_eq!(index.call(&volume("1Gi"), None, |_| true), None);
        assert!(!index.remove("new", &claim("1Gi")));
        assert!(index.searching.is_empty());
        assert!(!index.rest(&"new".into(), &claim("1Gi")), "a removed claim does not rest");
    }
}
