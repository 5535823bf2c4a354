//! Applies a list to the cache: additions as they arrive, deletions and changes when the list is complete.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::store::contained;
use super::{Informer, key_of};
use crate::api::Object;
use crate::packed_object::PackedObject;

/// The number of changes of a list after which the informer yields to other tasks.
pub(super) const TURN: usize = 256;

/// A change that a list shows.
pub(super) enum ListedChange<K> {
    /// No longer there.
    Gone(Arc<str>),
    /// New, or another version.
    Changed(PackedObject<K>),
}

/// The objects of a list that is being read.
pub(super) struct Listed<K> {
    /// Keys of the objects that are cached in the listed version.
    same: HashSet<Arc<str>>,
    /// Keys of the objects that cannot be decoded.
    set_aside: HashSet<Arc<str>>,
    /// New or changed objects.
    changed: BTreeMap<Arc<str>, PackedObject<K>>,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Self { same: HashSet::new(), set_aside: HashSet::new(), changed: BTreeMap::new() }
    }
}

impl<K> Listed<K> {
    /// Adds an object that cannot be decoded.
    pub(super) fn set_aside(&mut self, key: Arc<str>) {
        self.set_aside.insert(key);
    }
}

impl<K: Object> Informer<K> {
    /// Adds one object of a list that is being read. A first list is applied immediately; the new objects of later lists are stored
    /// packed until the end, because missed deletions come first.
    pub(super) fn collect(&self, listed: &mut Listed<K>, object: K, bytes: usize) {
        let key: Arc<str> = key_of(&object).into();
        let collected = contained("list", &key, || self.collect_one(listed, object, bytes));
        // The last known state stays: the object exists.
        if collected.is_none() {
            listed.same.insert(key);
        }
    }

    fn collect_one(&self, listed: &mut Listed<K>, object: K, bytes: usize) {
        let kept = self.keep(object);
        let known = self.get_kept(kept.key());
        if known.as_ref().is_some_and(|known| known.is_same(&kept)) {
            self.take_back(kept.key());
            listed.same.insert(Arc::clone(kept.key()));
            return;
        }
        if known.is_none() && !self.has_synced() {
            listed.same.insert(Arc::clone(kept.key()));
            let object = kept.get();
            return self.apply_kept(kept, object, bytes);
        }
        kept.pack();
        listed.changed.insert(Arc::clone(kept.key()), kept);
    }

    /// Completes a list: delivers the deletions, then the packed changes, and marks the informer as synced. Yields in between,
    /// because all objects may have changed.
    pub(super) async fn complete(&self, listed: Listed<K>) {
        for (number, change) in self.changes(listed).enumerate() {
            if number % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            self.settle(change);
        }
        self.shared.synced.send_replace(true);
    }

    /// The changes that a list found: deletions first.
    pub(super) fn changes(&self, listed: Listed<K>) -> impl Iterator<Item = ListedChange<K>> + use<K> {
        let is_listed = |key: &Arc<str>| {
            listed.same.contains(key) || listed.set_aside.contains(key) || listed.changed.contains_key(key)
        };
        self.forget_unlisted(is_listed);
        let gone: Vec<Arc<str>> = self.read().objects.keys().filter(|key| !is_listed(key)).cloned().collect();
        let changed = listed.changed.into_values().map(ListedChange::Changed);
        gone.into_iter().map(ListedChange::Gone).chain(changed)
    }

    /// Applies and delivers one change of a list.
    pub(super) fn settle(&self, change: ListedChange<K>) {
        match change {
            ListedChange::Gone(key) => self.delete(&key),
            ListedChange::Changed(kept) => {
                let key = Arc::clone(kept.key());
                contained("change", &key, || {
                    let object = kept.get();
                    // It is already packed.
                    self.apply_kept(kept, object, 0);
                });
            }
        }
    }
}
