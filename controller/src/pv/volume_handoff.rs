//! Volumes that become free are offered to claims that wait for one, each to one claim at a time: many claims that wait and
//! many volumes that come must not mean a look at every claim for every volume.
//!
//! What holds: for every free volume that a waiting claim fits, a claim is called (see [`super::waiting`]) that will look
//! after the volume came. It takes this one or another one, or none; when it has looked, the volumes that were offered to it
//! and are still free go to the next in line.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

use super::binder::Binder;
use super::requeue;
use super::stores::Stores;
use super::waiting::Turn;
use orlop_volume::class;
use orlop_volume::object::name;

impl Binder {
    /// Offers a free volume to a claim that rests. Answers the claim to look at, if there is one.
    pub(super) fn offer_volume(
        &self,
        stores: &mut Stores,
        volume: &PersistentVolume,
        after: Option<&Turn>,
    ) -> Option<String> {
        stores.offers.made += 1;
        // Who waits for a pod is not helped by a volume.
        if self.is_delayed(class::volume_class(volume)) {
            return None;
        }
        let key = stores.claims.call(volume, after)?;
        stores.offers.by_claim.entry(key.clone()).or_default().push(name(&volume.metadata).to_owned());
        Some(key)
    }

    /// How many offers there were; to be given to [`Binder::looked`].
    pub(super) fn offers_made(&self) -> u64 {
        self.lock().offers.made
    }

    /// A claim has been looked at, and the look began when there had been `made` offers: it rests, and what it left goes
    /// to others. A volume that came meanwhile was not offered to it, so it looks again then; unless the look failed, for
    /// then it comes again by itself, later each time.
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
                let turn = claim.map(|claim| Turn::of(key, &claim));
                let free = |name: &String| {
                    let volume = stores.volumes.get(name).filter(|volume| requeue::is_free(volume))?;
                    // The end of a reservation makes a new offer if the volume is still free.
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
