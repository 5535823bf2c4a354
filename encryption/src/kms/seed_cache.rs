//! The decrypted seeds of stored values: a value whose seed is in the cache needs no call to the plugin.
//!
//! Each start of a server and each rotation adds a seed. Upstream's cache has no size limit; this one removes the least recently used
//! seed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::data_key::DataKey;
use super::object::SeedId;

/// The number of seeds in a cache.
const CAPACITY: usize = 4096;

/// A cache of seeds.
pub(crate) struct SeedCache {
    entries: Mutex<Entries>,
    capacity: usize,
}

#[derive(Default)]
struct Entries {
    keys: HashMap<SeedId, Entry>,
    /// The number of uses so far.
    uses: u64,
}

struct Entry {
    key: Arc<DataKey>,
    last_use: u64,
}

impl Default for SeedCache {
    fn default() -> Self {
        SeedCache { entries: Mutex::default(), capacity: CAPACITY }
    }
}

impl SeedCache {
    /// The seed, if it is in the cache.
    pub(crate) fn get(&self, id: &SeedId) -> Option<Arc<DataKey>> {
        let mut entries = self.entries.lock();
        entries.uses += 1;
        let uses = entries.uses;
        let entry = entries.keys.get_mut(id)?;
        entry.last_use = uses;
        Some(entry.key.clone())
    }

    /// Adds a seed.
    pub(crate) fn insert(&self, id: SeedId, key: Arc<DataKey>) {
        let mut entries = self.entries.lock();
        entries.uses += 1;
        let last_use = entries.uses;
        if entries.keys.len() >= self.capacity && !entries.keys.contains_key(&id) {
            let oldest = entries.keys.iter().min_by_key(|(_, entry)| entry.last_use).map(|(id, _)| *id);
            oldest.map(|oldest| entries.keys.remove(&oldest));
        }
        entries.keys.insert(id, Entry { key, last_use });
    }

    /// The number of seeds.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().keys.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::kms::proto::EncryptedDekSourceType;

    #[test]
    fn full_cache_removes_the_seed_that_was_not_used_for_the_longest_time() {
        let cache = SeedCache { capacity: 2, ..SeedCache::default() };
        let key = || Arc::new(DataKey::new(EncryptedDekSourceType::AesGcmKey, &[7; 32]).unwrap());
        let id = |byte| [byte; 32];
        cache.insert(id(1), key());
        cache.insert(id(2), key());
        cache.insert(id(2), key());
        assert!(cache.get(&id(1)).is_some(), "a repeated seed removes none");
        cache.insert(id(3), key());
        let is_cached = [1, 2, 3].map(|byte| cache.get(&id(byte)).is_some());
        assert_eq!((is_cached, cache.len()), ([true, false, true], 2));
    }
}
