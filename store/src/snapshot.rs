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
        let end = end_of_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.max(start)));
        let bounds = (Bound::Included(start), end);
        // The iterators compare positions with the end: the keys of a large collection are rarely in the processor's cache.
        let mut current = self.index.range::<_, str>(bounds).peekable();
        let mut older = self.overlay.range::<str, _>(bounds).peekable();
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

/// The first possible key after all keys that start with a prefix, if there is one.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut chars = prefix.char_indices().rev();
    chars.find_map(|(at, last)| {
        let next = (last..=char::MAX).nth(1)?;
        Some([&prefix[..at], next.encode_utf8(&mut [0; 4])].concat())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;

    use super::*;
    use crate::Stored;

    #[test]
    fn end_of_a_prefix_is_after_its_keys() {
        for (prefix, want) in [
            ("", None),
            ("/registry/pods/", Some("/registry/pods0")),
            ("a\u{7f}", Some("a\u{80}")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(end_of_prefix(prefix).as_deref(), want, "{prefix:?}");
        }
    }

    /// All prefixes and start keys, in states that are large enough for several levels of the tree.
    #[test]
    fn range_has_the_keys_of_the_prefix_from_the_start() {
        let record = |key: &String| {
            Arc::new(Record {
                key: Key::new(key.as_str()),
                value: Bytes::new(),
                stored: Stored::Plain,
                view: (),
                create_revision: Revision(1),
                mod_revision: Revision(1),
                time_ms: 0,
            })
        };
        for groups in [0, 1, 3, 40] {
            let keys: Vec<String> = (0..groups)
                .flat_map(|group| (0..group % 7 * 10 + 1).map(move |nth| format!("/r/{group:02}/{nth:03}")))
                .collect();
            let index: Index<()> = keys.iter().map(|key| (Key::new(key.as_str()), record(key))).collect();
            // Every third key did not exist yet, and each fourth has another value.
            let overlay: BTreeMap<Key, Option<Arc<Record<()>>>> = keys
                .iter()
                .enumerate()
                .filter(|(nth, _)| nth % 3 == 0 || nth % 4 == 0)
                .map(|(nth, key)| (Key::new(key.as_str()), (nth % 3 != 0).then(|| record(key))))
                .collect();
            for overlay in [BTreeMap::new(), overlay] {
                let snapshot = Snapshot::new(Revision(1), index.clone(), overlay);
                let starts = (0..=groups).map(|group| format!("/r/{group:02}/"));
                let prefixes: Vec<String> =
                    ["".to_owned(), "/r/".to_owned(), "/s/".to_owned()].into_iter().chain(starts).collect();
                let froms = keys.iter().step_by(5).chain(&prefixes).map(|from| Some(from.as_str()));
                for from in froms.chain([None]) {
                    for prefix in &prefixes {
                        let found: Vec<&str> =
                            snapshot.range(prefix, from).map(|record| record.key.as_str()).collect();
                        let is_wanted = |key: &&str| {
                            key.starts_with(prefix.as_str()) && from.is_none_or(|from| *key >= from)
                        };
                        let want: Vec<&str> = keys
                            .iter()
                            .map(String::as_str)
                            .filter(is_wanted)
                            .filter(|key| snapshot.get(key).is_some())
                            .collect();
                        assert_eq!(found, want, "{prefix:?} from {from:?}");
                    }
                }
            }
        }
    }
}
