//! Snapshots: an immutable view of the records at one revision.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::{Key, Record, ReservedMemory, Revision};

/// The ordered map of current records. Cloning it is cheap, and writers never affect a clone.
pub type Index<V> = OrdMap<Key, Arc<Record<V>>>;

/// The records at one revision. The newest state is the index itself; an older one is the index overlaid with
/// the changes since, from the log.
#[derive(Debug)]
pub struct Snapshot<V> {
    revision: Revision,
    index: Index<V>,
    /// The records at `revision` of the keys that changed after it.
    overlay: Arc<BTreeMap<Key, Option<Arc<Record<V>>>>>,
    /// The memory of the overlay.
    reserved: Option<Arc<ReservedMemory>>,
}

impl<V> Clone for Snapshot<V> {
    fn clone(&self) -> Self {
        Snapshot {
            revision: self.revision,
            index: self.index.clone(),
            overlay: self.overlay.clone(),
            reserved: self.reserved.clone(),
        }
    }
}

impl<V> Snapshot<V> {
    /// Creates a snapshot from the index at a revision; `overlay` contains the keys that differ.
    pub fn new(revision: Revision, index: Index<V>, overlay: BTreeMap<Key, Option<Arc<Record<V>>>>) -> Self {
        Snapshot { revision, index, overlay: Arc::new(overlay), reserved: None }
    }

    /// Holds the memory of the overlay as long as the snapshot or a clone exists.
    pub(crate) fn with_reserved(mut self, reserved: ReservedMemory) -> Self {
        self.reserved = Some(Arc::new(reserved));
        self
    }

    /// The revision of the snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The record of a key.
    pub fn get(&self, key: &str) -> Option<&Arc<Record<V>>> {
        match self.overlay.get(key) {
            Some(record) => record.as_ref(),
            None => self.index.get(key),
        }
    }

    /// The records whose keys start with a prefix, in key order, starting at `from` (inclusive) if given.
    pub fn range<'a>(
        &'a self,
        prefix: &'a str,
        from: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Record<V>>> {
        let start = from.filter(|from| *from > prefix).unwrap_or(prefix);
        let bounds = (Bound::Included(start), Bound::Unbounded);
        let mut current = self
            .index
            .range::<_, str>(bounds)
            .take_while(move |(key, _)| key.as_str().starts_with(prefix))
            .peekable();
        let mut older = self
            .overlay
            .range::<str, _>(bounds)
            .take_while(move |(key, _)| key.as_str().starts_with(prefix))
            .peekable();
        std::iter::from_fn(move || {
            loop {
                let Some((key, record)) = older.peek() else {
                    return current.next().map(|(_, record)| record);
                };
                match current.peek() {
                    Some((head_key, _)) if *head_key < *key => {
                        return current.next().map(|(_, record)| record);
                    }
                    Some((head_key, _)) if head_key == key => {
                        current.next();
                    }
                    Some(_) | None => {}
                }
                let record = record.as_ref();
                older.next();
                if record.is_some() {
                    return record;
                }
            }
        })
    }
}
