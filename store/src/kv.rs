//! The contract as a trait. What it promises is told in the crate's documentation.

use std::sync::Arc;

pub use crate::future::BoxFuture;
use crate::watch::Watcher;
use crate::{
    CommitError, Committed, Event, Guard, Key, ReadError, Record, Revision, Snapshot, View, WatchError, Write,
};

/// What a store takes on its disk, and what is left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that the store takes; 0 when it has no disk.
    pub size: u64,
    /// Bytes that are free beside it; `None` when there is no disk or it does not tell.
    pub free: Option<u64>,
    /// Free bytes below which nothing is taken that grows.
    pub least: u64,
    /// Whether that is so now.
    pub full: bool,
}

/// A revisioned key-value store.
pub trait Kv<V: View>: Send + Sync {
    /// Carries out all writes or none, and returns when they are durable.
    ///
    /// Once called it is carried out even when the future is dropped; a caller that goes away does
    /// not know the outcome, and a later read tells it.
    fn commit(&self, writes: Vec<Write<V>>) -> BoxFuture<'_, Result<Committed<V>, CommitError<V>>> {
        self.commit_if(Vec::new(), writes)
    }

    /// The same, if all guards hold as well: nothing of what the writes were made from has changed. Without writes
    /// it only tells whether they hold.
    fn commit_if(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<V>>,
    ) -> BoxFuture<'_, Result<Committed<V>, CommitError<V>>>;

    /// The newest state: every acknowledged write is in it. Cheap, and never blocks a writer.
    fn head(&self) -> Snapshot<V>;

    /// The state of the keys below a prefix at a revision, exactly.
    fn at<'a>(&'a self, revision: Revision, prefix: &'a str)
    -> BoxFuture<'a, Result<Snapshot<V>, ReadError>>;

    /// Follows the events below a prefix (within one topic) after a revision. A revision in the
    /// future is taken: its watcher stays silent until then.
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher<V>, WatchError>;

    /// The events of one key that are still known, newest first, at most `limit`.
    fn history<'a>(
        &'a self,
        key: &'a Key,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<V>>>, ReadError>> {
        self.history_before(key, Revision(u64::MAX), limit)
    }

    /// The events of one key before a revision (which may lie in the future) that are still known,
    /// newest first, at most `limit`. Of a deletion at or before [`oldest`](Kv::oldest) nothing is known.
    fn history_before<'a>(
        &'a self,
        key: &'a Key,
        before: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<V>>>, ReadError>>;

    /// The events of all keys after a revision, in order: at most `limit`, and never more than
    /// [`BATCH`](crate::watch::BATCH), but it may be fewer than there are. None only when nothing has happened
    /// since; whoever wants more asks again with the revision of the last one.
    fn events(&self, after: Revision, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Event<V>>>, ReadError>>;

    /// When a revision was written, milliseconds since the epoch. `None` for the state before the first
    /// write, and for [`oldest`](Kv::oldest) when that was a deletion: it is forgotten by then.
    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>>;

    /// Waits until the head is at least at this revision. Never errs; pair it with a timeout.
    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()>;

    /// Forgets what was overwritten or deleted at or before this revision (at most the head).
    fn compact(&self, before: Revision) -> BoxFuture<'_, Result<(), ReadError>>;

    /// The oldest revision that can be read exactly, and after which a watch can start.
    fn oldest(&self) -> Revision;

    /// Why the store takes no more writes, when it does not.
    fn poisoned(&self) -> Option<String>;

    /// Bytes that the store takes on its disk; 0 when it has none.
    fn size_on_disk(&self) -> u64;

    /// What the store takes on its disk, and what is left there.
    fn usage(&self) -> Usage {
        Usage { size: self.size_on_disk(), ..Usage::default() }
    }

    /// Whose history the revisions are part of; zero when it ends with the process.
    fn id(&self) -> [u8; 16] {
        [0; 16]
    }

    /// Ends the watches, drains the committer, and brings everything to the disk. Idempotent.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The value of the record, for callers that need no more.
impl<V> Record<V> {
    /// Bytes of key and value together.
    pub fn size(&self) -> usize {
        self.key.as_str().len() + self.value.len()
    }
}
