//! Locks per namespace.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use tokio::sync::Mutex;

/// Number of locks. Namespaces that share a lock only wait for each other.
const PLACES: usize = 64;

/// One lock for each namespace.
pub(crate) struct NamespaceLocks([Mutex<()>; PLACES]);

impl Default for NamespaceLocks {
    fn default() -> Self {
        NamespaceLocks(std::array::from_fn(|_| Mutex::default()))
    }
}

impl NamespaceLocks {
    /// Returns the lock of a namespace.
    pub(crate) fn of(&self, namespace: &str) -> &Mutex<()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(namespace);
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        &self.0[place]
    }
}
