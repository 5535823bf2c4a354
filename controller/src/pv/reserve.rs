//! Volumes that a bind under way is about to take. Several claims are bound at once, and until the server has answered to the
//! first write of a bind nothing in the stores says that its volume is no longer free. So the volume is reserved from the
//! choice to that answer: no second claim chooses it, and whoever wants it by name looks again when the answer is there.
//!
//! This saves lost races and decides nothing: the lock is the volume's version on the server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::binder::Binder;
use super::requeue;
use orlop_volume::object::{claim_key, name};

/// A reservation; it ends when this is dropped.
pub(super) struct Reservation<'a> {
    binder: &'a Binder,
    volume: Arc<PersistentVolume>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.binder.end_reservation(name(&self.volume.metadata));
    }
}

impl Binder {
    /// Reserves a volume for a claim, or nothing when another claim is being bound to it; this one is looked at again
    /// when that has ended.
    pub(super) fn reserve<'a>(
        &'a self,
        volume: &Arc<PersistentVolume>,
        claim: &PersistentVolumeClaim,
    ) -> Option<Reservation<'a>> {
        let taken = self.lock().reserved.take(name(&volume.metadata), claim_key(claim));
        taken.then(|| Reservation { binder: self, volume: Arc::clone(volume) })
    }

    fn end_reservation(&self, volume: &str) {
        let (keys, next) = {
            let mut stores = self.lock();
            let keys = stores.reserved.give_back(volume);
            // The write failed and the volume is still there for everybody: also for those that saw it reserved and found
            // nothing else.
            let free = stores.volumes.get(volume).filter(|volume| requeue::is_free(volume));
            (keys, free.and_then(|free| self.offer_volume(&mut stores, &free, None)))
        };
        keys.into_iter().for_each(|key| self.claims.add(key));
        // What failed for one may fail for all (a full disk): not at once, and later each time.
        next.into_iter().for_each(|key| self.claims.add_rate_limited(key));
    }
}
