//! The objects of one kind and their indexes. What changed lately is kept as it is, the rest packed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::change::Change;
use crate::api::Object;
use crate::packed_object::PackedObject;
use crate::small_set::Few;

/// Index values of an object.
pub type IndexFn<K> = fn(&K) -> Vec<String>;

/// Objects that changed last and are kept as they are: they are what is looked at and changed again soon. In a small
/// cluster nothing is ever packed.
pub(super) const RECENT: usize = 256;

pub(super) struct Store<K> {
    pub(super) objects: BTreeMap<Arc<str>, Slot<K>>,
    indexes: Vec<Index<K>>,
    /// Not packed yet, the oldest first.
    pub(super) recent: VecDeque<PackedObject<K>>,
}

pub(super) struct Slot<K> {
    pub(super) kept: PackedObject<K>,
    /// Values in the indexes, by the index's position: so that the object need not be decoded to be taken out.
    values: Box<[(usize, Box<str>)]>,
}

struct Index<K> {
    name: &'static str,
    values: IndexFn<K>,
    keys: HashMap<Box<str>, Few<Arc<str>>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), indexes: Vec::new(), recent: VecDeque::new() }
    }
}

impl<K: Object> Store<K> {
    pub(super) fn add_index(&mut self, name: &'static str, values: IndexFn<K>) {
        if self.indexes.iter().any(|index| index.name == name) {
            return;
        }
        self.indexes.push(Index { name, values, keys: HashMap::new() });
        let mut objects = std::mem::take(&mut self.objects);
        for (key, slot) in &mut objects {
            self.leave(key, &slot.values);
            slot.values = self.enter(key, &slot.kept.get());
        }
        self.objects = objects;
    }

    pub(super) fn keys(&self, index: &str, value: &str) -> impl Iterator<Item = &Arc<str>> {
        self.indexes
            .iter()
            .find(|known| known.name == index)
            .and_then(|index| index.keys.get(value))
            .into_iter()
            .flatten()
    }

    pub(super) fn put(&mut self, kept: PackedObject<K>, object: Arc<K>) -> Change<K> {
        let key = Arc::clone(kept.key());
        let values = self.enter(&key, &object);
        let shared = kept.clone();
        self.recent.push_back(kept.clone());
        let mut change = match self.objects.insert(Arc::clone(&key), Slot { kept, values }) {
            Some(old) => self.left(&key, old),
            None => Change::of(key, None),
        };
        change.new = Some(object);
        change.kept = Some(shared);
        change
    }

    /// Takes an object out. `last` is its final state, if it is known.
    pub(super) fn take(&mut self, key: &Arc<str>, last: Option<&PackedObject<K>>) -> Option<Change<K>> {
        let old = self.objects.remove(key)?;
        let mut change = self.left(key, old);
        if let Some(last) = last {
            change.old = Some(last.clone());
        }
        Some(change)
    }

    /// What is not recent any more. Some of it is nobody's any more.
    pub(super) fn cold(&mut self) -> Vec<PackedObject<K>> {
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus).collect()
    }

    /// Puts a key into the indexes. Answers its values.
    fn enter(&mut self, key: &Arc<str>, object: &K) -> Box<[(usize, Box<str>)]> {
        let mut entered = Vec::new();
        for (position, index) in self.indexes.iter_mut().enumerate() {
            for value in (index.values)(object) {
                let value: Box<str> = value.into();
                index.keys.entry(value.clone()).or_default().insert(Arc::clone(key));
                entered.push((position, value));
            }
        }
        entered.into()
    }

    /// Takes a key out of the indexes.
    fn leave(&mut self, key: &Arc<str>, values: &[(usize, Box<str>)]) {
        for (position, value) in values {
            let keys = &mut self.indexes[*position].keys;
            if let Some(few) = keys.get_mut(value) {
                few.remove(key);
                if few.is_empty() {
                    keys.remove(value);
                }
            }
        }
    }

    /// The change that takes an object's place: what it has in the indexes and what is there of its key now is compared.
    fn left(&mut self, key: &Arc<str>, old: Slot<K>) -> Change<K> {
        let now: &[(usize, Box<str>)] = self.objects.get(key).map_or(&[], |slot| &slot.values);
        let gone: Vec<_> = old.values.iter().filter(|value| !now.contains(value)).cloned().collect();
        self.leave(key, &gone);
        let mut change = Change::of(Arc::clone(key), Some(old.kept));
        change.left =
            gone.into_iter().map(|(position, value)| (self.indexes[position].name, value)).collect();
        change
    }
}
