//! The objects of one kind and their indexes. Recently changed objects are stored unpacked, the others packed.

use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use super::change::Change;
use crate::api::Object;
use crate::packed_object::PackedObject;
use crate::small_set::Few;
use crate::worker::panic_text;

/// Index values of an object.
pub type IndexFn<K> = fn(&K) -> Vec<String>;

/// The number of recently changed objects that are stored unpacked: they are likely to be read and changed again soon. In a
/// small cluster no object of ordinary size is ever packed.
pub(super) const RECENT: usize = 256;
/// The limit of the JSON of these objects, in bytes. Decoded, an object may need 33 times as much memory.
pub(super) const RECENT_BYTES: usize = 2 << 20;

pub(super) struct Store<K> {
    pub(super) objects: BTreeMap<Arc<str>, Slot<K>>,
    indexes: Vec<Index<K>>,
    /// Objects that are not packed yet, oldest first, and the lengths of their JSON.
    recent: VecDeque<(PackedObject<K>, usize)>,
    /// The sum of these lengths.
    recent_bytes: usize,
}

pub(super) struct Slot<K> {
    pub(super) kept: PackedObject<K>,
    /// Values in the indexes, by index position, so that removing the object does not require decoding it.
    values: Box<[(usize, Box<str>)]>,
}

struct Index<K> {
    name: &'static str,
    values: IndexFn<K>,
    keys: HashMap<Box<str>, Few<Arc<str>>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), indexes: Vec::new(), recent: VecDeque::new(), recent_bytes: 0 }
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

    /// The keys with this value that begin with `prefix`, in order.
    pub(super) fn keys_below<'a>(
        &'a self,
        index: &str,
        value: &str,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let found = self.indexes.iter().find(|known| known.name == index);
        let keys = found.and_then(|index| index.keys.get(value)).into_iter();
        let below = keys.flat_map(move |keys| keys.range::<str>(Bound::Included(prefix)));
        below.take_while(move |key| key.starts_with(prefix))
    }

    /// All values in an index.
    pub(super) fn values(&self, index: &str) -> impl Iterator<Item = &str> {
        let found = self.indexes.iter().find(|known| known.name == index).into_iter();
        found.flat_map(|index| index.keys.keys()).map(AsRef::as_ref)
    }

    /// Adds or replaces an object, whose JSON has `bytes` bytes.
    pub(super) fn put(&mut self, kept: PackedObject<K>, object: Arc<K>, bytes: usize) -> Change<K> {
        let key = Arc::clone(kept.key());
        let values = self.enter(&key, &object);
        let shared = kept.clone();
        self.recent.push_back((kept.clone(), bytes));
        self.recent_bytes += bytes;
        let mut change = match self.objects.insert(Arc::clone(&key), Slot { kept, values }) {
            Some(old) => self.left(&key, old),
            None => Change::of(key, None),
        };
        change.new = Some(object);
        change.kept = Some(shared);
        change
    }

    /// Removes an object. `last` is its final state, if known.
    pub(super) fn take(&mut self, key: &Arc<str>, last: Option<&PackedObject<K>>) -> Option<Change<K>> {
        let old = self.objects.remove(key)?;
        let mut change = self.left(key, old);
        if let Some(last) = last {
            change.old = Some(last.clone());
        }
        Some(change)
    }

    /// Objects that are no longer recent. Some of them may have been removed.
    pub(super) fn cold(&mut self) -> Vec<PackedObject<K>> {
        let mut cold = Vec::new();
        while self.recent.len() > RECENT || self.recent_bytes > RECENT_BYTES {
            let Some((object, bytes)) = self.recent.pop_front() else { break };
            self.recent_bytes = self.recent_bytes.saturating_sub(bytes);
            cold.push(object);
        }
        cold
    }

    /// Adds a key to the indexes and returns its values.
    fn enter(&mut self, key: &Arc<str>, object: &K) -> Box<[(usize, Box<str>)]> {
        let mut entered = Vec::new();
        for (position, index) in self.indexes.iter_mut().enumerate() {
            for value in contained(index.name, key, || (index.values)(object)).unwrap_or_default() {
                let value: Box<str> = value.into();
                index.keys.entry(value.clone()).or_default().insert(Arc::clone(key));
                entered.push((position, value));
            }
        }
        entered.into()
    }

    /// Removes a key from the indexes.
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

    /// The change for an object whose slot was replaced: compares the old index entries with the current object of the key.
    fn left(&mut self, key: &Arc<str>, old: Slot<K>) -> Change<K> {
        let now: &[(usize, Box<str>)] = self.objects.get(key).map_or(&[], |slot| &slot.values);
        // Nearly all changes leave all values as they are. An object may have very many.
        let gone: Vec<_> = if *old.values == *now {
            Vec::new()
        } else {
            let now: HashSet<&(usize, Box<str>)> = now.iter().collect();
            old.values.iter().filter(|value| !now.contains(value)).cloned().collect()
        };
        self.leave(key, &gone);
        let mut change = Change::of(Arc::clone(key), Some(old.kept));
        change.left =
            gone.into_iter().map(|(position, value)| (self.indexes[position].name, value)).collect();
        change
    }
}

/// Runs work for one object. A panic is logged with the object's key and costs only this work, not the cache of all objects of
/// the kind (I12).
pub(super) fn contained<T>(what: &str, key: &str, work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).inspect_err(|panic| log_panic(what, key, &**panic)).ok()
}

/// Apart from [`contained`], so that the compiler translates it once and not for each kind of work.
fn log_panic(what: &str, key: &str, panic: &(dyn Any + Send)) {
    tracing::error!(what, key, panic = panic_text(panic), "work for a cached object panicked");
}
