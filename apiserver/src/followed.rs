//! Follows the objects of several kinds in the store, for indexes of them.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt as _;
use orlop_store::{Event, Kv, Record, Revision, Watcher};

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
    /// Events that the watcher has returned and the index does not contain yet.
    unread: VecDeque<Arc<Event<Projection>>>,
}

/// How far an index was brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Reached {
    /// It contains all writes up to the head.
    Head,
    /// The next objects are too large for the caller's thread.
    Large,
    /// A watch has ended or would have to read the disk: the index must be read again.
    Lost,
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
                Ok(watcher) => watches.push(Watch { label, kind, watcher, unread: VecDeque::new() }),
                Err(_) => is_complete = false,
            }
        }
        if !is_complete {
            watches.clear();
        }
        Followed { revision: head.revision(), watches }
    }

    /// Whether the index certainly contains all acknowledged writes. Takes some nanoseconds.
    pub(crate) fn is_current(&self) -> bool {
        let is_quiet = |watch: &Watch<T>| watch.unread.is_empty() && watch.watcher.quiet().is_some();
        !self.watches.is_empty() && self.watches.iter().all(is_quiet)
    }

    /// Applies the changes up to a revision, as long as the new objects have at most `most` bytes together.
    pub(crate) fn follow(
        &mut self,
        head: Revision,
        most: usize,
        mut set: impl FnMut(T, &'static dyn Kind, &str, Option<&Record<Projection>>),
    ) -> Reached {
        if self.watches.is_empty() {
            return Reached::Lost;
        }
        if self.revision >= head {
            return Reached::Head;
        }
        let mut left = most;
        let mut reached = None;
        for Watch { label, kind, watcher, unread } in &mut self.watches {
            if let (Some(quiet), true) = (watcher.quiet(), unread.is_empty()) {
                reached = Some(reached.map_or(quiet, |before: Revision| before.min(quiet)));
                continue;
            }
            loop {
                while let Some(event) = unread.front() {
                    let bytes = event.record.as_ref().map_or(0, |record| record.value.len());
                    let Some(rest) = left.checked_sub(bytes) else { return Reached::Large };
                    left = rest;
                    set(*label, *kind, event.key.as_str(), event.record.as_deref());
                    unread.pop_front();
                }
                if watcher.is_behind() {
                    return Reached::Lost;
                }
                match watcher.next().now_or_never() {
                    // The watcher fell behind after the check, so the remaining events are only on the disk.
                    None if watcher.is_behind() => return Reached::Lost,
                    None => break,
                    Some(Err(_)) => return Reached::Lost,
                    Some(Ok(events)) => unread.extend(events),
                }
            }
            let progress = watcher.progress();
            reached = Some(reached.map_or(progress, |before: Revision| before.min(progress)));
        }
        self.revision = reached.unwrap_or(self.revision);
        Reached::Head
    }
}
