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

use super::index::VolumeIndex;
use super::resync_skip::Settled;
use super::waiting::{Turn, WaitingIndex};
use orlop_client::api::Object;
use orlop_client::packed_object::Kept;
use orlop_volume::fit::{self, Wanted};
use orlop_volume::modes::ModeSet;
use orlop_volume::object;

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
    /// It is in the store in place of another copy of the same version.
    Same,
    /// A newer one was there.
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

/// Whether an incoming object may take the place of the one in the store.
// Tests: FN-CACHE-3, FN-CACHE-4, FN-CACHE-5, FN-CACHE-6, NEW-CACHE-EQUAL
pub fn may_replace(cached: &ObjectMeta, incoming: &ObjectMeta) -> Result<bool, BadVersion> {
    Ok(number(incoming)? >= number(cached)?)
}

/// The same without decoding either, as far as both versions are numbers.
fn may_replace_kept<K: Object>(cached: &Kept<K>, incoming: &Kept<K>) -> Result<bool, BadVersion> {
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
    /// Puts a volume in unless a newer one is there. `volume` is the same, decoded.
    pub fn offer(
        &mut self,
        kept: Kept<PersistentVolume>,
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

    /// Takes over the informer's copy, which is packed in time, if it is the version that is here.
    pub fn share(&mut self, copy: &Kept<PersistentVolume>) {
        if self.index.get_kept(copy.key()).is_some_and(|cached| cached.is_same(copy)) {
            self.index.swap(copy.clone());
        }
    }

    /// Takes a volume out; it is gone from the server.
    pub fn remove(&mut self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.remove(name)
    }

    /// The volume of this name.
    pub fn get(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.get_kept(name).map(Kept::get)
    }

    /// The same as it is kept.
    pub fn get_kept(&self, name: &str) -> Option<&Kept<PersistentVolume>> {
        self.index.get_kept(name)
    }

    /// The names of all.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.index.names()
    }

    /// What the last look at this version of the volume said.
    pub fn settled(&self, name: &str) -> Settled {
        self.index.settled(name)
    }

    /// Notes what a look at the volume said.
    pub fn settle(&mut self, name: &str, settled: Settled) {
        self.index.settle(name, settled);
    }

    /// The search.
    pub fn index(&self) -> &VolumeIndex {
        &self.index
    }
}

/// Claims with the index of those that wait.
#[derive(Debug, Default)]
pub struct ClaimStore {
    claims: HashMap<Arc<str>, StoredClaim>,
    waiting: WaitingIndex,
}

#[derive(Debug)]
struct StoredClaim {
    kept: Kept<PersistentVolumeClaim>,
    /// What every volume for it has to offer; none when no volume can.
    modes: Option<ModeSet>,
    settled: Settled,
}

impl StoredClaim {
    /// Most of those that a volume does not fit are told apart without being decoded.
    fn may_take(&self, offered: ModeSet, volume: &PersistentVolume) -> bool {
        self.modes.is_some_and(|wanted| offered.contains(wanted)) && {
            let claim = self.kept.get();
            fit::search_misfit(volume, &claim, &Wanted::of(&claim), false).is_none()
        }
    }
}

impl ClaimStore {
    /// Puts a claim in unless a newer one is there. `claim` is the same, decoded.
    pub fn offer(
        &mut self,
        kept: Kept<PersistentVolumeClaim>,
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
        self.claims.insert(key, StoredClaim { kept, modes, settled: Settled::No });
        Ok(Offer::Stored(old))
    }

    /// Takes over the informer's copy, which is packed in time, if it is the version that is here.
    pub fn share(&mut self, copy: &Kept<PersistentVolumeClaim>) {
        if let Some(cached) = self.claims.get_mut(copy.key()).filter(|cached| cached.kept.is_same(copy)) {
            cached.kept = copy.clone();
        }
    }

    /// Takes a claim out; it is gone from the server.
    pub fn remove(&mut self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let old = self.claims.remove(key)?.kept.get();
        self.waiting.remove(key, &old);
        Some(old)
    }

    /// The claim with this `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.get_kept(key).map(Kept::get)
    }

    /// The same as it is kept.
    pub fn get_kept(&self, key: &str) -> Option<&Kept<PersistentVolumeClaim>> {
        self.claims.get(key).map(|claim| &claim.kept)
    }

    /// The keys of all.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.claims.keys()
    }

    /// What the last look at this version of the claim said.
    pub fn settled(&self, key: &str) -> Settled {
        self.claims.get(key).map_or(Settled::No, |claim| claim.settled)
    }

    /// Notes what a look at the claim said.
    pub fn settle(&mut self, key: &str, settled: Settled) {
        if let Some(claim) = self.claims.get_mut(key) {
            claim.settled = settled;
        }
    }

    /// The claim has been looked at. False if it does not search for a volume (any more).
    pub fn rest(&mut self, key: &str) -> bool {
        let Some((key, claim)) = self.claims.get_key_value(key) else { return false };
        self.waiting.rest(key, &claim.kept.get())
    }

    /// Calls a claim that rests and could use this volume, after the turn of another one if that is given.
    pub fn call(&mut self, volume: &PersistentVolume, after: Option<&Turn>) -> Option<String> {
        let offered = ModeSet::offered(fit::offered_modes(volume));
        let fits = |key: &str| self.claims.get(key).is_some_and(|claim| claim.may_take(offered, volume));
        self.waiting.call(volume, after, fits)
    }

    /// Who waits for what.
    pub fn waiting(&self) -> &WaitingIndex {
        &self.waiting
    }
}
