//! The ranges of addresses and node ports, and the allocations that are not committed yet.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::range::AddressRange;

/// The ranges of cluster IPs and node ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Cluster IPs.
    pub addresses: AddressRange,
    /// Node ports.
    pub node_ports: RangeInclusive<u16>,
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges {
            addresses: "10.0.0.0/24".parse().expect("the default is a range"),
            node_ports: 30000..=32767,
        }
    }
}

/// Store keys of the allocations that requests have not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashSet<String>>);

impl Pool {
    pub(super) fn keys(&self) -> MutexGuard<'_, HashSet<String>> {
        // A set of strings is consistent after any panic.
        self.0.lock()
    }
}

/// The allocations of one request, released when the request ends.
#[derive(Default)]
pub(crate) struct HeldAllocations(Mutex<HashMap<String, Arc<Pool>>>);

impl HeldAllocations {
    pub(super) fn add(&self, pool: &Arc<Pool>, key: String) {
        self.0.lock().insert(key, pool.clone());
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.lock().contains_key(key)
    }
}

impl Drop for HeldAllocations {
    fn drop(&mut self) {
        for (key, pool) in self.0.get_mut().drain() {
            pool.keys().remove(&key);
        }
    }
}
