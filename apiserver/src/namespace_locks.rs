//! Locks per namespace.

use std::hash::{BuildHasher as _, RandomState};

use tokio::sync::Mutex;

/// Number of locks. Namespaces that share a lock only wait for each other.
const PLACES: usize = 64;

/// One lock for each namespace.
pub(crate) struct NamespaceLocks {
    locks: [Mutex<()>; PLACES],
    /// With a random key: a client cannot choose a namespace that shares the lock of another.
    hasher: RandomState,
}

impl Default for NamespaceLocks {
    fn default() -> Self {
        NamespaceLocks { locks: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl NamespaceLocks {
    /// Returns the lock of a namespace.
    pub(crate) fn of(&self, namespace: &str) -> &Mutex<()> {
        &self.locks[self.place(namespace)]
    }

    fn place(&self, namespace: &str) -> usize {
        let hash = self.hasher.hash_one(namespace);
        usize::try_from(hash % PLACES as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_that_share_a_lock_differ_between_servers() {
        let places = |locks: &NamespaceLocks| -> Vec<usize> {
            (0..64).map(|n| locks.place(&format!("team-{n}"))).collect()
        };
        let (one, other) = (NamespaceLocks::default(), NamespaceLocks::default());
        assert_eq!(places(&one), places(&one));
        assert_ne!(places(&one), places(&other));
    }
}
