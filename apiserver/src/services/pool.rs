//! The ranges of addresses and node ports, and those that requests hold before they are written.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::range::AddressRange;

/// What services get their addresses and node ports from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Addresses inside the cluster.
    pub addresses: AddressRange,
    /// Ports of every node.
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

/// What requests have been given and have not yet written: keys of the store.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashSet<String>>);

impl Pool {
    pub(super) fn keys(&self) -> MutexGuard<'_, HashSet<String>> {
        // A set of texts is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one request has been given; it is free again (or written) when the request ends.
#[derive(Default)]
pub(crate) struct HeldAllocations(Mutex<HashMap<String, Arc<Pool>>>);

impl HeldAllocations {
    pub(super) fn add(&self, pool: &Arc<Pool>, key: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, pool.clone());
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }
}

impl Drop for HeldAllocations {
    fn drop(&mut self) {
        for (key, pool) in self.0.get_mut().unwrap_or_else(PoisonError::into_inner).drain() {
            pool.keys().remove(&key);
        }
    }
}
