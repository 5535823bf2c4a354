//! The handoff of free volumes to waiting claims. Each volume is offered to one claim at a time, so that many
//! waiting claims and many new volumes do not require a sync of every claim for every volume.
//!
//! Invariant: for every free volume that fits a waiting claim, a claim is called (see [`super::waiting`]) whose
//! sync starts after the volume became free. The claim binds this volume, another one, or none; after its sync,
//! the offered volumes that are still free are offered to the next claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

use super::binder::Binder;
use super::requeue;
use super::stores::Stores;
use super::waiting::OfferPosition;
use orlop_volume::class;
use orlop_volume::object::name;

impl Binder {
    /// Offers a free volume to a resting claim. Returns the claim to queue, if there is one.
    pub(super) fn offer_volume(
        &self,
        stores: &mut Stores,
        volume: &PersistentVolume,
        after: Option<&OfferPosition>,
    ) -> Option<String> {
        stores.offers.made += 1;
        // A claim that waits for a pod cannot use the volume yet.
        if self.is_delayed(class::volume_class(volume)) {
            return None;
        }
        let key = stores.claims.call(volume, after)?;
        stores.offers.by_claim.entry(key.clone()).or_default().push(name(&volume.metadata).to_owned());
        Some(key)
    }

    /// The total number of offers, to be passed to [`Binder::looked`].
    pub(super) fn offers_made(&self) -> u64 {
        self.lock().offers.made
    }

    /// Handles the end of a claim's sync, which started after `made` offers. Volumes that were offered to the claim and are still free
    /// are offered to others. If volumes became free during a successful sync, queues the claim again, because they were not
    /// offered to it. A failed sync needs no such entry, because the queue retries it.
    pub(super) fn looked(&self, key: &str, made: u64, went_well: bool) {
        let mut again = Vec::new();
        {
            let mut stores = self.lock();
            let stores = &mut *stores;
            let searches = stores.claims.rest(key);
            if searches && went_well && stores.offers.made != made {
                again.push(key.to_owned());
            }
            let offered = stores.offers.by_claim.remove(key).unwrap_or_default();
            if !offered.is_empty() {
                let claim = stores.claims.get(key).filter(|_| searches);
                let turn = claim.map(|claim| OfferPosition::of(key, &claim));
                let free = |name: &String| {
                    let volume = stores.volumes.get(name).filter(|volume| requeue::is_free(volume))?;
                    // The end of the reservation makes a new offer if the volume is still free.
                    (!stores.reserved.is_reserved(name)).then_some(volume)
                };
                let left: Vec<Arc<PersistentVolume>> = offered.iter().filter_map(free).collect();
                for volume in left {
                    again.extend(self.offer_volume(stores, &volume, turn.as_ref()));
                }
            }
        }
        again.into_iter().for_each(|key| self.claims.add(key));
    }
}
