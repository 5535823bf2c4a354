//! The resync: queues every claim and volume again, except those whose present versions a sync would not change
//! (see [`super::resync_skip`]).

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::binder::Binder;
use super::resync_skip::SyncOutcome;
use super::stores::Stores;
use orlop_client::api::Object;
use orlop_client::names;
use orlop_client::packed_object::PackedObject;
use orlop_volume::object::{
    self, ClaimPhase, VolumePhase, claim_ref, has_annotation, reference_key, volume_name,
};

/// The version of a volume's claim.
pub(super) fn claim_version(stores: &Stores, volume: &PersistentVolume) -> Option<u64> {
    stores.claims.get_kept(&reference_key(claim_ref(volume)?))?.version()
}

/// The version of the volume that a claim names.
pub(super) fn volume_version(stores: &Stores, claim: &PersistentVolumeClaim) -> Option<u64> {
    stores.volumes.get_kept(volume_name(claim))?.version()
}

/// The result of a sync of this volume that wrote nothing. `claim` is the version of its claim before and after
/// the sync.
fn of_volume(stores: &Stores, volume: &PersistentVolume, claim: Option<u64>) -> SyncOutcome {
    match (VolumePhase::of(volume), claim_ref(volume), claim) {
        (VolumePhase::Available, None, _) if !object::is_terminating(&volume.metadata) => SyncOutcome::Alone,
        (VolumePhase::Bound, Some(reference), Some(version)) => {
            let key = reference_key(reference);
            let names_it =
                stores.claims.waiting().naming(object::name(&volume.metadata)).any(|by| **by == *key);
            if names_it { SyncOutcome::With(version) } else { SyncOutcome::No }
        }
        (_, _, _) => SyncOutcome::No,
    }
}

/// The result of a sync of this claim that wrote nothing. `volume` is the version of its volume before and after
/// the sync.
fn of_claim(stores: &Stores, claim: &PersistentVolumeClaim, volume: Option<u64>) -> SyncOutcome {
    let is_bound = ClaimPhase::of(claim) == ClaimPhase::Bound
        && has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED);
    let key = object::claim_key(claim);
    let points_back =
        || stores.volumes.index().names_pointing_to(&key).any(|name| **name == *volume_name(claim));
    match volume {
        Some(version) if is_bound && points_back() => SyncOutcome::With(version),
        Some(_) | None => SyncOutcome::No,
    }
}

impl Stores {
    fn is_volume_settled(&self, name: &str) -> bool {
        match self.volumes.settled(name) {
            SyncOutcome::No => false,
            SyncOutcome::Alone => true,
            SyncOutcome::With(version) => {
                let mut claims = self.claims.waiting().naming(name);
                claims.any(|key| {
                    self.claims.get_kept(key).is_some_and(|claim| claim.version() == Some(version))
                })
            }
        }
    }

    fn is_claim_settled(&self, key: &str) -> bool {
        match self.claims.settled(key) {
            SyncOutcome::No => false,
            SyncOutcome::Alone => true,
            SyncOutcome::With(version) => {
                let mut names = self.volumes.index().names_pointing_to(key);
                names.any(|name| {
                    self.volumes.get_kept(name).is_some_and(|volume| volume.version() == Some(version))
                })
            }
        }
    }
}

impl Binder {
    /// Records a successful sync of a volume. `claim` is the version of its claim before the sync.
    pub(super) fn volume_was_looked_at(
        &self,
        kept: &PackedObject<PersistentVolume>,
        volume: &PersistentVolume,
        claim: Option<u64>,
    ) {
        let mut stores = self.lock();
        if !stores.volumes.get_kept(kept.key()).is_some_and(|stored| stored.is_same(kept)) {
            return;
        }
        if claim_version(&stores, volume) == claim {
            let settled = of_volume(&stores, volume, claim);
            stores.volumes.settle(kept.key(), settled);
        }
    }

    /// Records a successful sync of a claim. `volume` is the version of its volume before the sync.
    pub(super) fn claim_was_looked_at(
        &self,
        kept: &PackedObject<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
        volume: Option<u64>,
    ) {
        let mut stores = self.lock();
        if !stores.claims.get_kept(kept.key()).is_some_and(|stored| stored.is_same(kept)) {
            return;
        }
        if volume_version(&stores, claim) == volume {
            let settled = of_claim(&stores, claim, volume);
            stores.claims.settle(kept.key(), settled);
        }
    }

    /// Queues all claims, then all volumes, except the settled ones.
    pub(super) fn resync(&self) {
        let (claims, volumes) = (self.claim_cache.kept(), self.volume_cache.kept());
        let (claims, volumes) = {
            let stores = self.lock();
            let claims = to_look_at(
                &claims,
                |key| stores.claims.get_kept(key),
                stores.claims.keys(),
                |key| stores.is_claim_settled(key),
            );
            let volumes = to_look_at(
                &volumes,
                |name| stores.volumes.get_kept(name),
                stores.volumes.names(),
                |name| stores.is_volume_settled(name),
            );
            (claims, volumes)
        };
        claims.into_iter().for_each(|key| self.claims.add(key.to_string()));
        volumes.into_iter().for_each(|name| self.volumes.add(name.to_string()));
    }
}

/// The keys to sync: their stored and cached versions differ, one of the two is missing, or the object is not settled.
fn to_look_at<'a, K: Object>(
    cached: &[PackedObject<K>],
    stored: impl Fn(&str) -> Option<&'a PackedObject<K>>,
    keys: impl ExactSizeIterator<Item = &'a Arc<str>>,
    is_settled: impl Fn(&str) -> bool,
) -> Vec<Arc<str>> {
    let mut found = Vec::new();
    let mut both = 0;
    for kept in cached {
        let stored = stored(kept.key());
        both += usize::from(stored.is_some());
        if !(stored.is_some_and(|stored| stored.is_same(kept)) && is_settled(kept.key())) {
            found.push(Arc::clone(kept.key()));
        }
    }
    if keys.len() > both {
        let cached: HashSet<&Arc<str>> = cached.iter().map(PackedObject::key).collect();
        found.extend(keys.filter(|key| !cached.contains(key)).cloned());
    }
    found
}
