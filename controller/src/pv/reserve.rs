//! Volumes that a bind under way is about to take. Several claims are bound at once, and until the server has answered to the
//! first write of a bind nothing in the stores says that its volume is no longer free. So the volume is reserved from the
//! choice to that answer: no second claim chooses it, and whoever wants it by name looks again when the answer is there.
//!
//! This saves lost races and decides nothing: the lock is the volume's version on the server.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::controller::Binder;
use super::object::{claim_key, name};
use super::wake;

/// Reserved volumes by name.
#[derive(Debug, Default)]
pub struct Reserved {
    volumes: HashMap<String, Holder>,
}

#[derive(Debug)]
struct Holder {
    /// Key of the claim that is being bound.
    claim: String,
    /// Keys of claims that wanted the volume meanwhile.
    others: BTreeSet<String>,
}

impl Reserved {
    /// Whether this claim may choose the volume.
    pub fn may_take(&self, volume: &str, claim: &PersistentVolumeClaim) -> bool {
        match self.volumes.get(volume) {
            Some(holder) => holder.claim == claim_key(claim),
            None => true,
        }
    }

    /// Whether a claim is being bound to the volume.
    pub fn is_reserved(&self, volume: &str) -> bool {
        self.volumes.contains_key(volume)
    }

    /// Reserves a volume. False if it is reserved; the claim is noted then.
    pub fn take(&mut self, volume: &str, claim: String) -> bool {
        if let Some(holder) = self.volumes.get_mut(volume) {
            holder.others.insert(claim);
            return false;
        }
        self.volumes.insert(volume.to_owned(), Holder { claim, others: BTreeSet::new() });
        true
    }

    /// Ends a reservation. Answers who wanted the volume meanwhile.
    pub fn give_back(&mut self, volume: &str) -> BTreeSet<String> {
        self.volumes.remove(volume).map(|holder| holder.others).unwrap_or_default()
    }
}

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
        let keys: Vec<String> = {
            let mut stores = self.lock();
            let mut keys: Vec<String> = stores.reserved.give_back(volume).into_iter().collect();
            // The write failed and the volume is still there for everybody: also for those that saw it reserved and found
            // nothing else.
            if let Some(free) = stores.volumes.get(volume).filter(|volume| wake::is_free(volume)) {
                keys.extend(self.offer_volume(&mut stores, &free, None));
            }
            keys
        };
        keys.into_iter().for_each(|key| self.claims.add(key));
    }
}
