//! The controller's own stores of volumes and claims. Events and the responses to the controller's own writes
//! feed them, so a sync sees the writes of the previous sync before their events arrive.
//!
//! An object is stored only if its version is not lower than that of the stored copy. An equal version is stored
//! and processed again (a resync); a lower one is stale and dropped. Stored objects are shared and never modified
//! in place: a change is made on a copy and written to the server, and the server's response is stored.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::index::VolumeIndex;
use super::resync_skip::SyncOutcome;
use super::waiting::{OfferPosition, WaitingIndex};
use orlop_client::api::Object;
use orlop_client::packed_object::PackedObject;
use orlop_volume::fit::{self, RequiredLabels};
use orlop_volume::modes::ModeSet;
use orlop_volume::object;

/// A resourceVersion that is not a number. It cannot be compared with others, so the object is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object}: resourceVersion \"{version}\" is not a number, so the event cannot be ordered and is ignored"
)]
pub struct BadVersion {
    /// The object.
    pub object: String,
    /// The resourceVersion.
    pub version: String,
}

/// The result of offering an object to a store.
#[derive(Clone, Debug)]
pub enum Offer<K> {
    /// It was stored; contains the previous copy.
    Stored(Option<Arc<K>>),
    /// It replaced another copy of the same version.
    Same,
    /// The store has a newer version.
    Stale,
}

fn number(meta: &ObjectMeta) -> Result<u64, BadVersion> {
    let text = meta.resource_version.as_deref().unwrap_or("");
    text.parse::<u64>().map_err(|_| BadVersion {
        object: match meta.namespace.as_deref() {
            Some(namespace) => format!("{namespace}/{}", object::name(meta)),
            None => object::name(meta).to_owned(),
        },
        version: text.to_owned(),
    })
}

/// Whether an incoming object may replace the stored one.
// Tests: FN-CACHE-3, FN-CACHE-4, FN-CACHE-5, FN-CACHE-6, NEW-CACHE-EQUAL
pub fn may_replace(cached: &ObjectMeta, incoming: &ObjectMeta) -> Result<bool, BadVersion> {
    Ok(number(incoming)? >= number(cached)?)
}

/// Like `may_replace`, without decoding either object if both versions are numbers.
fn may_replace_kept<K: Object>(
    cached: &PackedObject<K>,
    incoming: &PackedObject<K>,
) -> Result<bool, BadVersion> {
    match (cached.version(), incoming.version()) {
        (Some(cached), Some(incoming)) => Ok(incoming >= cached),
        (Some(_) | None, None) | (None, Some(_)) => may_replace(cached.get().meta(), incoming.get().meta()),
    }
}

/// Volumes with their index.
#[derive(Debug, Default)]
pub struct VolumeStore {
    index: VolumeIndex,
}

impl VolumeStore {
    /// Stores a volume unless a newer version is stored. `volume` is `kept`, decoded.
    pub fn offer(
        &mut self,
        kept: PackedObject<PersistentVolume>,
        volume: &PersistentVolume,
    ) -> Result<Offer<PersistentVolume>, BadVersion> {
        if let Some(cached) = self.index.get_kept(kept.key()) {
            if !may_replace_kept(cached, &kept)? {
                return Ok(Offer::Stale);
            }
            if cached.is_same(&kept) {
                self.index.swap(kept);
                return Ok(Offer::Same);
            }
        }
        Ok(Offer::Stored(self.index.insert(kept, volume)))
    }

    /// Replaces the stored copy with the informer's, which is packed later, if both are the same version.
    pub fn share(&mut self, copy: &PackedObject<PersistentVolume>) {
        if self.index.get_kept(copy.key()).is_some_and(|cached| cached.is_same(copy)) {
            self.index.swap(copy.clone());
        }
    }

    /// Removes a volume that was deleted from the server.
    pub fn remove(&mut self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.remove(name)
    }

    /// The volume with this name.
    pub fn get(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.get_kept(name).map(PackedObject::get)
    }

    /// Like `get`, without decoding.
    pub fn get_kept(&self, name: &str) -> Option<&PackedObject<PersistentVolume>> {
        self.index.get_kept(name)
    }

    /// The names of all volumes.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.index.names()
    }

    /// The result of the last sync of this version of the volume.
    pub fn settled(&self, name: &str) -> SyncOutcome {
        self.index.settled(name)
    }

    /// Records the result of a sync of the volume.
    pub fn settle(&mut self, name: &str, settled: SyncOutcome) {
        self.index.settle(name, settled);
    }

    /// The index for searches.
    pub fn index(&self) -> &VolumeIndex {
        &self.index
    }
}

/// Claims with the index of those that wait for a volume.
#[derive(Debug, Default)]
pub struct ClaimStore {
    claims: HashMap<Arc<str>, StoredClaim>,
    waiting: WaitingIndex,
}

#[derive(Debug)]
struct StoredClaim {
    kept: PackedObject<PersistentVolumeClaim>,
    /// The access modes that a volume must offer; `None` if no volume can.
    modes: Option<ModeSet>,
    settled: SyncOutcome,
}

impl StoredClaim {
    /// Whether the volume fits the claim. Most unsuitable claims are rejected without being decoded.
    fn may_take(&self, offered: ModeSet, volume: &PersistentVolume) -> bool {
        self.modes.is_some_and(|wanted| offered.contains(wanted)) && {
            let claim = self.kept.get();
            fit::search_misfit(volume, &claim, &RequiredLabels::of(&claim), false).is_none()
        }
    }
}

impl ClaimStore {
    /// Stores a claim unless a newer version is stored. `claim` is `kept`, decoded.
    pub fn offer(
        &mut self,
        kept: PackedObject<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
    ) -> Result<Offer<PersistentVolumeClaim>, BadVersion> {
        if let Some(cached) = self.claims.get_mut(kept.key()) {
            if !may_replace_kept(&cached.kept, &kept)? {
                return Ok(Offer::Stale);
            }
            if cached.kept.is_same(&kept) {
                cached.kept = kept;
                return Ok(Offer::Same);
            }
        }
        let key = Arc::clone(kept.key());
        let old = self.claims.get(&key).map(|old| old.kept.get());
        let rested = old.as_ref().is_some_and(|old| self.waiting.remove(&key, old));
        self.waiting.insert(&key, claim);
        if rested {
            self.waiting.rest(&key, claim);
        }
        let modes = ModeSet::requested(fit::requested_modes(claim));
        self.claims.insert(key, StoredClaim { kept, modes, settled: SyncOutcome::No });
        Ok(Offer::Stored(old))
    }

    /// Replaces the stored copy with the informer's, which is packed later, if both are the same version.
    pub fn share(&mut self, copy: &PackedObject<PersistentVolumeClaim>) {
        if let Some(cached) = self.claims.get_mut(copy.key()).filter(|cached| cached.kept.is_same(copy)) {
            cached.kept = copy.clone();
        }
    }

    /// Removes a claim that was deleted from the server.
    pub fn remove(&mut self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let old = self.claims.remove(key)?.kept.get();
        self.waiting.remove(key, &old);
        Some(old)
    }

    /// The claim with this `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.get_kept(key).map(PackedObject::get)
    }

    /// Like `get`, without decoding.
    pub fn get_kept(&self, key: &str) -> Option<&PackedObject<PersistentVolumeClaim>> {
        self.claims.get(key).map(|claim| &claim.kept)
    }

    /// The keys of all claims.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.claims.keys()
    }

    /// The result of the last sync of this version of the claim.
    pub fn settled(&self, key: &str) -> SyncOutcome {
        self.claims.get(key).map_or(SyncOutcome::No, |claim| claim.settled)
    }

    /// Records the result of a sync of the claim.
    pub fn settle(&mut self, key: &str, settled: SyncOutcome) {
        if let Some(claim) = self.claims.get_mut(key) {
            claim.settled = settled;
        }
    }

    /// Marks the claim as synced and waiting. Returns false if it does not search for a volume (any more).
    pub fn rest(&mut self, key: &str) -> bool {
        let Some((key, claim)) = self.claims.get_key_value(key) else { return false };
        self.waiting.rest(key, &claim.kept.get())
    }

    /// Returns a waiting claim that could use this volume, the next one after `after` if that is given.
    pub fn call(&mut self, volume: &PersistentVolume, after: Option<&OfferPosition>) -> Option<String> {
        let offered = ModeSet::offered(fit::offered_modes(volume));
        let fits = |key: &str| self.claims.get(key).is_some_and(|claim| claim.may_take(offered, volume));
        self.waiting.call(volume, after, fits)
    }

    /// The index of waiting claims.
    pub fn waiting(&self) -> &WaitingIndex {
        &self.waiting
    }
}
