//! Reservations of volumes for binds in progress. Several claims are bound concurrently, and until the server has
//! answered the first write of a bind, the stores still show its volume as free. So the volume is reserved from
//! its selection until that answer: no second claim selects it, and a claim that names it is queued again after
//! the answer.
//!
//! Reservations avoid conflicts and decide nothing: the lock is the volume's version on the server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::binder::Binder;
use super::requeue;
use orlop_volume::object::{claim_key, name};

/// A reservation; dropping it ends the reservation.
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
    /// Reserves a volume for a claim, or returns `None` if another claim is being bound to it; this claim is queued
    /// again afterwards.
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
            // The write failed and the volume is still available to all claims, including those that skipped it while it was
            // reserved and found no other.
            let free = stores.volumes.get(volume).filter(|volume| requeue::is_free(volume));
            (keys, free.and_then(|free| self.offer_volume(&mut stores, &free, None)))
        };
        keys.into_iter().for_each(|key| self.claims.add(key));
        // A failure for one claim may be a failure for all (a full disk): queue with increasing delays.
        next.into_iter().for_each(|key| self.claims.add_rate_limited(key));
    }
}
