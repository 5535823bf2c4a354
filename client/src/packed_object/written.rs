//! Bounds the decoded objects of a controller that writes faster than it receives the events of its writes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use super::{Inner, PackedObject};

/// The newest written objects, oldest first. They stay decoded until the informer's copies replace them; older ones must be packed.
pub struct WrittenObjects<K> {
    newest: VecDeque<Weak<Inner<K>>>,
}

impl<K> Default for WrittenObjects<K> {
    fn default() -> Self {
        Self { newest: VecDeque::new() }
    }
}

impl<K> fmt::Debug for WrittenObjects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} written objects", self.newest.len())
    }
}

impl<K> WrittenObjects<K> {
    /// The number of objects that stay decoded.
    const DECODED: usize = 1024;

    /// Adds an object. Returns the oldest one if there are too many and it is still in use: pack it, outside of locks.
    pub fn push(&mut self, written: &PackedObject<K>) -> Option<PackedObject<K>> {
        self.newest.push_back(Arc::downgrade(&written.0));
        let surplus = self.newest.len() > Self::DECODED;
        let oldest = surplus.then(|| self.newest.pop_front()).flatten()?;
        oldest.upgrade().map(PackedObject)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn objects_in_use_leave_as_they_become_old() {
        let object = || PackedObject::new(Arc::new(ConfigMap::default()));
        let mut written = WrittenObjects::default();
        let used = object();
        assert!(written.push(&used).is_none());
        // The informer's copy has replaced this one.
        assert!(written.push(&object()).is_none());
        for _ in 2..WrittenObjects::<ConfigMap>::DECODED {
            assert!(written.push(&object()).is_none());
        }
        let oldest = written.push(&object()).expect("the oldest object is in use");
        oldest.pack();
        assert!(used.is_packed(), "the same object");
        assert!(written.push(&object()).is_none(), "the next one is not in use");
    }
}
