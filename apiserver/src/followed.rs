//! Follows the objects of several kinds in the store, for indexes of them.

use futures::FutureExt as _;
use orlop_store::{Kv, Record, Revision, Watcher};

use crate::projection::Projection;
use crate::registry::{self, Kind};

/// A kind of an index: a label of the caller, API group and plural name.
pub(crate) type FollowedKind<T> = (T, &'static str, &'static str);

/// How far an index has read the store.
pub(crate) struct Followed<T> {
    /// The index contains all writes up to this revision.
    revision: Revision,
    watches: Vec<Watch<T>>,
}

struct Watch<T> {
    label: T,
    kind: &'static dyn Kind,
    watcher: Watcher<Projection>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Followed { revision: Revision::default(), watches: Vec::new() }
    }
}

impl<T: Copy> Followed<T> {
    /// Reads all objects of the kinds that are served, and watches them from there. Without a watch, the next call of
    /// [`follow`](Self::follow) fails.
    pub(crate) fn read(
        store: &dyn Kv<Projection>,
        kinds: &[FollowedKind<T>],
        mut set: impl FnMut(T, &'static dyn Kind, &str, Option<&Record<Projection>>),
    ) -> Self {
        let head = store.head();
        let served = kinds.iter().filter_map(|(label, group, plural)| {
            registry::by_resource(group, "v1", plural).map(|kind| (*label, kind))
        });
        let mut watches = Vec::new();
        let mut is_complete = true;
        for (label, kind) in served {
            for record in head.range(kind.storage_prefix(), None) {
                set(label, kind, record.key.as_str(), Some(record));
            }
            match store.watch(kind.storage_prefix(), head.revision()) {
                Ok(watcher) => watches.push(Watch { label, kind, watcher }),
                Err(_) => is_complete = false,
            }
        }
        if !is_complete {
            watches.clear();
        }
        Followed { revision: head.revision(), watches }
    }

    /// Applies the changes up to a revision. False if a watch has ended or would have to read the disk: then the index must be read
    /// again.
    pub(crate) fn follow(
        &mut self,
        head: Revision,
        mut set: impl FnMut(T, &'static dyn Kind, &str, Option<&Record<Projection>>),
    ) -> bool {
        if self.watches.is_empty() {
            return false;
        }
        if self.revision >= head {
            return true;
        }
        let mut reached = None;
        for Watch { label, kind, watcher } in &mut self.watches {
            loop {
                if watcher.is_behind() {
                    return false;
                }
                match watcher.next().now_or_never() {
                    // The watcher fell behind after the check, so the remaining events are only on the disk.
                    None if watcher.is_behind() => return false,
                    None => break,
                    Some(Err(_)) => return false,
                    Some(Ok(events)) => {
                        for event in events {
                            set(*label, *kind, event.key.as_str(), event.record.as_deref());
                        }
                    }
                }
            }
            let progress = watcher.progress();
            reached = Some(reached.map_or(progress, |before: Revision| before.min(progress)));
        }
        self.revision = reached.unwrap_or(self.revision);
        true
    }
}
