//! Which claims wait for something, by what they wait for: so that a new volume, a new class or a pod wakes exactly the
//! claims that it may help, at once and not at the next resync. Pure bookkeeping.
//!
//! Upstream has no such index: a claim that found nothing is looked at again after up to 15 s.
//!
//! A claim that searches is either called or rests. Called is who will be looked at or is being looked at: it sees every
//! volume that is free by then. A volume that becomes free is offered to one claim that rests, and that is called by it;
//! so n volumes for n claims are n looks, not n times n.

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
    /// Claims that search: unbound and naming no volume.
    searching: HashMap<String, HashMap<VolumeMode, Searching>>,
    /// Claims that name a volume, bound ones included: they care for that volume and no other.
    naming: HashMap<Box<str>, Few<Arc<str>>>,
}

/// Claims that search in one class and mode.
#[derive(Debug, Default)]
struct Searching {
    called: BTreeSet<Arc<str>>,
    /// By the size that is asked for.
    resting: BTreeMap<Quantity, Few<Arc<str>>>,
}

impl Searching {
    /// Takes a key out. True if it was called.
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

/// Whose turn it was when a volume was offered: the next offer goes to the next in line.
#[derive(Debug)]
pub struct Turn {
    size: Quantity,
    key: String,
}

impl Turn {
    /// The turn of this claim.
    pub fn of(key: &str, claim: &PersistentVolumeClaim) -> Self {
        Self { size: size_of(claim), key: key.to_owned() }
    }
}

/// A size that cannot be read fits nothing, so it may stand anywhere.
fn size_of(claim: &PersistentVolumeClaim) -> Quantity {
    fit::request(claim).unwrap_or(Quantity::ZERO)
}

/// What a claim is registered for.
enum Wish<'a> {
    Any(&'a str, VolumeMode),
    Volume(&'a str),
    Nothing,
}

fn wish(claim: &PersistentVolumeClaim) -> Wish<'_> {
    match object::volume_name(claim) {
        // Lost for good: bound once, and the name of its volume is gone.
        "" if object::has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED) => Wish::Nothing,
        "" => Wish::Any(class::claim_class(claim), VolumeMode::of_claim(claim)),
        volume => Wish::Volume(volume),
    }
}

impl WaitingIndex {
    /// Registers a claim; one that searches as called.
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

    /// Forgets a claim, given as it was registered. True if it rested.
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

    /// The claim has been looked at. False if it does not search.
    pub fn rest(&mut self, key: &Arc<str>, claim: &PersistentVolumeClaim) -> bool {
        let Wish::Any(class, mode) = wish(claim) else { return false };
        let modes = self.searching.get_mut(class);
        let Some(searching) = modes.and_then(|modes| modes.get_mut(&mode)) else { return false };
        searching.called.remove(key);
        searching.resting.entry(size_of(claim)).or_default().insert(Arc::clone(key));
        true
    }

    /// Calls a claim that rests and that `fits` this volume: the largest that it has room for, among equals the first by
    /// key; with `after` the next in line.
    pub fn call(
        &mut self,
        volume: &PersistentVolume,
        after: Option<&Turn>,
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

    /// Claims of this class that search, by key within a mode; those that are called first.
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

    /// Claims that rest.
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
    fn a_call_goes_to_the_largest_that_has_room_and_then_by_key() {
        let mut index = resting(&[("d", "1Gi"), ("a", "1Gi"), ("c", "2Gi"), ("b", "2Gi"), ("e", "9Gi")]);
        let mut called = Vec::new();
        while let Some(key) = index.call(&volume("2Gi"), None, |_| true) {
            called.push(key);
        }
        assert_eq!(called, ["b", "c", "a", "d"], "each is called once, and who needs more never");
        assert!(index.rest(&"c".into(), &claim("2Gi")));
        assert_eq!(index.call(&volume("2Gi"), None, |_| true).as_deref(), Some("c"), "after a rest again");
    }

    #[test]
    fn the_next_in_line_comes_after_the_turn() {
        let mut index = resting(&[("a", "1Gi"), ("b", "2Gi"), ("c", "2Gi"), ("d", "1Gi")]);
        let mut next = |key: &str, size: &str| {
            let turn = Turn::of(key, &claim(size));
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
    fn who_is_new_or_gone_is_not_called() {
        let mut index = resting(&[("gone", "1Gi")]);
        index.insert(&"new".into(), &claim("1Gi"));
        assert!(index.remove("gone", &claim("1Gi")));
        assert_eq!(index.call(&volume("1Gi"), None, |_| true), None);
        assert!(!index.remove("new", &claim("1Gi")));
        assert!(index.searching.is_empty());
        assert!(!index.rest(&"new".into(), &claim("1Gi")), "who is gone does not rest");
    }
}
