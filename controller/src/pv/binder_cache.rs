//! Access to the binder's cache: its own stores of volumes and claims, and the informers' caches of everything else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use super::binder::{Binder, INDEX_DEFAULT};
use super::cache::Offer;
use super::error::SyncError;
use super::requeue;
use orlop_client::packed_object::PackedObject;
use orlop_client::pods::INDEX_CLAIM;
use orlop_client::uid::Uid;
use orlop_volume::class;
use orlop_volume::object;

impl Binder {
    // === storing objects ===

    /// Stores a volume and queues the claims that it may affect. Returns false if the store has a newer version.
    pub(super) fn store_volume(
        &self,
        kept: &PackedObject<PersistentVolume>,
        volume: &PersistentVolume,
    ) -> Result<bool, SyncError> {
        self.store_volume_if(kept, volume, |_| true)
    }

    /// Like `store_volume`, if `shall` accepts the stored copy.
    fn store_volume_if(
        &self,
        kept: &PackedObject<PersistentVolume>,
        volume: &PersistentVolume,
        shall: impl FnOnce(Option<&PackedObject<PersistentVolume>>) -> bool,
    ) -> Result<bool, SyncError> {
        let keys = {
            let mut stores = self.lock();
            if !shall(stores.volumes.get_kept(kept.key())) {
                return Ok(false);
            }
            match stores.volumes.offer(kept.clone(), volume)? {
                Offer::Stale => return Ok(false),
                Offer::Same => return Ok(true),
                Offer::Stored(old) => {
                    let mut keys = requeue::claims_for_volume(&stores.claims, old.as_deref(), volume);
                    if requeue::becomes_free(old.as_deref(), volume) {
                        keys.extend(self.offer_volume(&mut stores, volume, None));
                    }
                    keys
                }
            }
        };
        keys.into_iter().for_each(|key| self.claims.add(key));
        Ok(true)
    }

    /// Stores a claim. Returns false if the store has a newer version.
    pub(super) fn store_claim(
        &self,
        kept: &PackedObject<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, SyncError> {
        self.store_claim_if(kept, claim, |_| true)
    }

    /// Like `store_claim`, if `shall` accepts the stored copy.
    fn store_claim_if(
        &self,
        kept: &PackedObject<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
        shall: impl FnOnce(Option<&PackedObject<PersistentVolumeClaim>>) -> bool,
    ) -> Result<bool, SyncError> {
        let stored = {
            let mut stores = self.lock();
            if !shall(stores.claims.get_kept(kept.key())) {
                return Ok(false);
            }
            stores.claims.offer(kept.clone(), claim)?
        };
        match stored {
            Offer::Stale => Ok(false),
            Offer::Same => Ok(true),
            Offer::Stored(old) => {
                // The claim was deleted and recreated between two events: queue the volume of the old claim.
                if let Some(old) = old.filter(|old| Uid::from(object::uid(&old.metadata)) != *kept.uid()) {
                    self.wake_volume_of(&old);
                }
                Ok(true)
            }
        }
    }

    /// Stores the server's response to the controller's own write, unless the object has left the store meanwhile: a
    /// deleted object must not reappear this way.
    pub(super) fn store_written_volume(
        &self,
        written: PersistentVolume,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        let written = Arc::new(written);
        let gone = object::is_terminating(&written.metadata)
            && written.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        let kept = PackedObject::new(Arc::clone(&written));
        if !gone {
            self.store_volume_if(&kept, &written, |known| known.is_some_and(|known| is_news(known, &kept)))?;
            let old = self.lock().written.volumes.push(&kept);
            if let Some(old) = old {
                old.pack();
            }
        }
        Ok(written)
    }

    /// Like `store_written_volume`, for a claim.
    pub(super) fn store_written_claim(
        &self,
        written: PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        let written = Arc::new(written);
        let kept = PackedObject::new(Arc::clone(&written));
        self.store_claim_if(&kept, &written, |known| known.is_some_and(|known| is_news(known, &kept)))?;
        let old = self.lock().written.claims.push(&kept);
        if let Some(old) = old {
            old.pack();
        }
        Ok(written)
    }

    // === reading objects ===

    /// The volume in the controller's own store.
    pub(super) fn stored_volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        let kept = self.lock().volumes.get_kept(name).cloned();
        kept.map(|kept| kept.get())
    }

    /// The claim in the controller's own store.
    pub(super) fn stored_claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let kept = self.lock().claims.get_kept(key).cloned();
        kept.map(|kept| kept.get())
    }

    /// The claim in the informer's cache, which may be ahead of the controller's own store.
    pub(super) fn cached_claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claim_cache.get(key)
    }

    /// Finds a volume for a claim, among those that no other claim is being bound to.
    pub(super) fn find_volume(
        &self,
        claim: &PersistentVolumeClaim,
        delayed: bool,
    ) -> Option<Arc<PersistentVolume>> {
        let stores = self.lock();
        stores.volumes.index().find_among(claim, delayed, |volume| stores.reserved.may_take(volume, claim))
    }

    /// The class with this name; `None` for the empty name.
    pub(super) fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        if name.is_empty() { None } else { self.class_cache.get(name) }
    }

    pub(super) fn is_delayed(&self, class_name: &str) -> bool {
        class::delays_binding(self.class(class_name).as_deref()).unwrap_or(false)
    }

    /// The name of the default class.
    pub(super) fn default_class(&self) -> Option<String> {
        let marked = self.class_cache.each_by_index(INDEX_DEFAULT, "");
        class::default_class(marked).map(|class| object::name(&class.metadata).to_owned())
    }

    /// The node with this name.
    pub(super) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.node_cache.get(name)
    }

    /// The pods that use a claim, decoded one after the other.
    pub(super) fn pods_of_claim(&self, key: &str) -> impl Iterator<Item = Arc<Pod>> + use<> {
        self.pod_cache.each_by_index(INDEX_CLAIM, key)
    }
}

/// Whether the response to a write belongs to the object in the store and is newer: if the event arrived first,
/// the store shares the informer's copy, which is packed later.
fn is_news<K>(known: &PackedObject<K>, written: &PackedObject<K>) -> bool {
    known.uid() == written.uid() && !known.is_same(written)
}
