//! Which claims wait for something, by what they wait for: so that a new volume, a new class or a pod wakes exactly the
//! claims that it may help, at once and not at the next resync. Pure bookkeeping.
//!
//! Upstream has no such index: a claim that found nothing is looked at again after up to 15 s.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::class;
use super::object::{self, VolumeMode};
use crate::names;

/// Claims without a volume by class and mode, and all claims that name a volume by its name.
#[derive(Debug, Default)]
pub struct WaitingIndex {
    /// Claims that search: unbound and naming no volume.
    searching: HashMap<String, HashMap<VolumeMode, BTreeSet<String>>>,
    /// Claims that name a volume, bound ones included: they care for that volume and no other.
    naming: HashMap<String, BTreeSet<String>>,
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
    /// Registers a claim.
    pub fn insert(&mut self, key: &str, claim: &PersistentVolumeClaim) {
        match wish(claim) {
            Wish::Any(class, mode) => {
                let modes = self.searching.entry(class.to_owned()).or_default();
                modes.entry(mode).or_default().insert(key.to_owned());
            }
            Wish::Volume(volume) => {
                self.naming.entry(volume.to_owned()).or_default().insert(key.to_owned());
            }
            Wish::Nothing => {}
        }
    }

    /// Forgets a claim, given as it was registered.
    pub fn remove(&mut self, key: &str, claim: &PersistentVolumeClaim) {
        match wish(claim) {
            Wish::Any(class, mode) => {
                let Some(modes) = self.searching.get_mut(class) else { return };
                if let Some(keys) = modes.get_mut(&mode) {
                    keys.remove(key);
                    if keys.is_empty() {
                        modes.remove(&mode);
                    }
                }
                if modes.is_empty() {
                    self.searching.remove(class);
                }
            }
            Wish::Volume(volume) => {
                let Some(keys) = self.naming.get_mut(volume) else { return };
                keys.remove(key);
                if keys.is_empty() {
                    self.naming.remove(volume);
                }
            }
            Wish::Nothing => {}
        }
    }

    /// Claims that search on the shelf where this volume lies, by key.
    pub fn searching_for(&self, volume: &PersistentVolume) -> impl Iterator<Item = &String> {
        let modes = self.searching.get(class::volume_class(volume));
        modes.and_then(|modes| modes.get(&VolumeMode::of_volume(volume))).into_iter().flatten()
    }

    /// Claims of this class that search, by key within a mode.
    pub fn searching_in_class(&self, class: &str) -> impl Iterator<Item = &String> {
        self.searching.get(class).into_iter().flat_map(|modes| modes.values().flatten())
    }

    /// Claims that name this volume, by key.
    pub fn naming(&self, volume: &str) -> impl Iterator<Item = &String> {
        self.naming.get(volume).into_iter().flatten()
    }
}
