//! The binder's state besides the informers' caches: its own stores, the reservations and the offers.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::cache::{ClaimStore, VolumeStore};
use orlop_client::packed_object::WrittenObjects;
use orlop_volume::object::claim_key;

/// The controller's view of volumes and claims.
#[derive(Debug, Default)]
pub struct Stores {
    /// Volumes.
    pub volumes: VolumeStore,
    /// Claims.
    pub claims: ClaimStore,
    /// Responses to the controller's own writes.
    pub written: Written,
    /// Volumes that are being bound.
    pub reserved: Reserved,
    /// Volumes that were offered to waiting claims, by claim, until the claims are synced.
    pub offers: Offers,
}

/// The newest objects that the controller has written.
#[derive(Debug, Default)]
pub struct Written {
    /// Volumes.
    pub volumes: WrittenObjects<PersistentVolume>,
    /// Claims.
    pub claims: WrittenObjects<PersistentVolumeClaim>,
}

/// Offers to claims that have not been synced since.
#[derive(Debug, Default)]
pub struct Offers {
    /// Names of volumes by the key of the claim.
    pub(super) by_claim: HashMap<String, Vec<String>>,
    /// The total number of offers.
    pub(super) made: u64,
}

/// Reserved volumes by name.
#[derive(Debug, Default)]
pub struct Reserved {
    volumes: HashMap<String, Holder>,
}

#[derive(Debug)]
struct Holder {
    /// Key of the claim that is being bound.
    claim: String,
    /// Keys of claims that requested the volume meanwhile.
    others: BTreeSet<String>,
}

impl Reserved {
    /// Whether this claim may use the volume.
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

    /// Reserves a volume. Returns false, and records the claim, if the volume is already reserved.
    pub fn take(&mut self, volume: &str, claim: String) -> bool {
        if let Some(holder) = self.volumes.get_mut(volume) {
            holder.others.insert(claim);
            return false;
        }
        self.volumes.insert(volume.to_owned(), Holder { claim, others: BTreeSet::new() });
        true
    }

    /// Ends a reservation. Returns the claims that requested the volume meanwhile.
    pub fn give_back(&mut self, volume: &str) -> BTreeSet<String> {
        self.volumes.remove(volume).map(|holder| holder.others).unwrap_or_default()
    }
}
