//! The controller's own stores of volumes and claims. They are fed by events and by the answers to the controller's own
//! writes, so that a sync sees what the sync before it wrote although the event has not come back yet.
//!
//! The rule: an object goes in only if its version is not lower than that of the one that is there. An equal version
//! goes in and is worked on again (that is what a resync is); a lower one is old news and is dropped. Objects in here are
//! shared and never changed in place: a change is a copy, written to the server, and what the server answers goes in.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::fit::{self, Wanted};
use super::index::VolumeIndex;
use super::object;
use super::waiting::{Turn, WaitingIndex};

/// A version that is not a number. Nothing can be said about what is newer, so the object is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object}: resourceVersion \"{version}\" is not a number, so this event cannot be ordered; it is left out"
)]
pub struct BadVersion {
    /// The object.
    pub object: String,
    /// What it said.
    pub version: String,
}

/// What became of an object that was offered to a store.
#[derive(Clone, Debug)]
pub enum Offer<K> {
    /// It is in the store; what was there before it comes back.
    Stored(Option<Arc<K>>),
    /// A newer one was there.
    Stale,
}

/// Whether an incoming object may take the place of the one in the store.
// Tests: FN-CACHE-3, FN-CACHE-4, FN-CACHE-5, FN-CACHE-6, NEW-CACHE-EQUAL
pub fn may_replace(cached: &ObjectMeta, incoming: &ObjectMeta) -> Result<bool, BadVersion> {
    let version = |meta: &ObjectMeta| {
        let text = meta.resource_version.as_deref().unwrap_or("");
        text.parse::<u64>().map_err(|_| BadVersion {
            object: match meta.namespace.as_deref() {
                Some(namespace) => format!("{namespace}/{}", object::name(meta)),
                None => object::name(meta).to_owned(),
            },
            version: text.to_owned(),
        })
    };
    Ok(version(incoming)? >= version(cached)?)
}

/// One version of one object, read twice: nothing in an index can be different.
fn is_same(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    a.uid == b.uid && a.resource_version.is_some() && a.resource_version == b.resource_version
}

/// Volumes with their index.
#[derive(Debug, Default)]
pub struct VolumeStore {
    index: VolumeIndex,
}

impl VolumeStore {
    /// Puts a volume in unless a newer one is there.
    pub fn offer(&mut self, volume: Arc<PersistentVolume>) -> Result<Offer<PersistentVolume>, BadVersion> {
        if let Some(cached) = self.index.get(object::name(&volume.metadata)) {
            if !may_replace(&cached.metadata, &volume.metadata)? {
                return Ok(Offer::Stale);
            }
            if is_same(&cached.metadata, &volume.metadata) {
                return Ok(Offer::Stored(self.index.swap(volume)));
            }
        }
        Ok(Offer::Stored(self.index.insert(volume)))
    }

    /// Takes a volume out; it is gone from the server.
    pub fn remove(&mut self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.remove(name)
    }

    /// The volume of this name.
    pub fn get(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.get(name).cloned()
    }

    /// The names of all.
    pub fn names(&self) -> Vec<String> {
        self.index.iter().map(|volume| object::name(&volume.metadata).to_owned()).collect()
    }

    /// The search.
    pub fn index(&self) -> &VolumeIndex {
        &self.index
    }
}

/// Claims with the index of those that wait.
#[derive(Debug, Default)]
pub struct ClaimStore {
    claims: HashMap<String, Arc<PersistentVolumeClaim>>,
    waiting: WaitingIndex,
}

impl ClaimStore {
    /// Puts a claim in unless a newer one is there.
    pub fn offer(
        &mut self,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<Offer<PersistentVolumeClaim>, BadVersion> {
        let key = object::claim_key(&claim);
        if let Some(cached) = self.claims.get(&key)
            && !may_replace(&cached.metadata, &claim.metadata)?
        {
            return Ok(Offer::Stale);
        }
        if let Some(cached) = self.claims.get_mut(&key)
            && is_same(&cached.metadata, &claim.metadata)
        {
            return Ok(Offer::Stored(Some(std::mem::replace(cached, claim))));
        }
        let rested = self.claims.get(&key).is_some_and(|old| self.waiting.remove(&key, old));
        self.waiting.insert(&key, &claim);
        if rested {
            self.waiting.rest(&key, &claim);
        }
        Ok(Offer::Stored(self.claims.insert(key, claim)))
    }

    /// Takes a claim out; it is gone from the server.
    pub fn remove(&mut self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let old = self.claims.remove(key)?;
        self.waiting.remove(key, &old);
        Some(old)
    }

    /// The claim with this `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(key).cloned()
    }

    /// The keys of all.
    pub fn keys(&self) -> Vec<String> {
        self.claims.keys().cloned().collect()
    }

    /// The claim has been looked at. False if it does not search for a volume (any more).
    pub fn rest(&mut self, key: &str) -> bool {
        self.claims.get(key).is_some_and(|claim| self.waiting.rest(key, claim))
    }

    /// Calls a claim that rests and could use this volume, after the turn of another one if that is given.
    pub fn call(&mut self, volume: &PersistentVolume, after: Option<&Turn>) -> Option<String> {
        let fits = |key: &str| {
            self.claims
                .get(key)
                .is_some_and(|claim| fit::search_misfit(volume, claim, &Wanted::of(claim), false).is_none())
        };
        self.waiting.call(volume, after, fits)
    }

    /// Who waits for what.
    pub fn waiting(&self) -> &WaitingIndex {
        &self.waiting
    }
}
