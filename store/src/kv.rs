//! The store contract as a trait. The crate's documentation describes its guarantees.

use std::sync::Arc;

use crate::data_size::DataBytes;
pub use crate::future::BoxFuture;
use crate::watch::Watcher;
use crate::{
    CommitError, Committed, Event, Guard, Key, ReadError, Record, Revision, Snapshot, View, WatchError, Write,
};

/// The disk usage of a store, and the free space of its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The bytes used by the store; 0 when it has no disk.
    pub size: u64,
    /// The free bytes; `None` when there is no disk or its free space is unknown.
    pub free: Option<u64>,
    /// The free bytes below which writes that grow the store are refused.
    pub least: u64,
    /// Whether such writes are refused now.
    pub full: bool,
    /// The bytes of the keys and values of all current records.
    pub data: u64,
    /// The limit of `data`; 0 when there is none.
    pub max_data: u64,
    /// The former versions of sensitive records that the last erasure left, because they could not be read, for example without their
    /// KMS plugin. They are hidden, and their files contain them in their stored form.
    pub unread_former_versions: u64,
}

/// A revisioned key-value store.
pub trait Kv<V: View>: Send + Sync {
    /// Applies all writes or none, and returns when they are durable.
    ///
    /// Once called, the commit is carried out even if the future is dropped; the caller then does not know the
    /// outcome, which a later read shows.
    fn commit(&self, writes: Vec<Write<V>>) -> BoxFuture<'_, Result<Committed<V>, CommitError<V>>> {
        self.commit_if(Vec::new(), writes)
    }

    /// Like [`commit`](Kv::commit), if all guards are met as well: no record that the writes depend on has changed.
    /// Without writes, it only checks the guards.
    fn commit_if(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<V>>,
    ) -> BoxFuture<'_, Result<Committed<V>, CommitError<V>>>;

    /// The newest state, with every acknowledged write. Cheap, and never blocks a writer.
    fn head(&self) -> Snapshot<V>;

    /// The state of the keys below a prefix at a revision, exactly.
    fn at<'a>(&'a self, revision: Revision, prefix: &'a str)
    -> BoxFuture<'a, Result<Snapshot<V>, ReadError>>;

    /// Watches the events below a prefix (within one topic) after a revision. A future revision is accepted: the
    /// watcher stays silent until then.
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher<V>, WatchError>;

    /// The retained events of one key, newest first: at most `limit`, and possibly fewer than there are if their values are
    /// large. Empty only when there is no earlier one.
    fn history<'a>(
        &'a self,
        key: &'a Key,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<V>>>, ReadError>> {
        self.history_before(key, Revision(u64::MAX), limit)
    }

    /// The retained events of one key before a revision (which may lie in the future), newest first, at most
    /// `limit`. A deletion at or before [`oldest`](Kv::oldest) is not retained.
    fn history_before<'a>(
        &'a self,
        key: &'a Key,
        before: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<V>>>, ReadError>>;

    /// The events of all keys after a revision, in order: at most `limit`, never more than
    /// [`BATCH`](crate::watch::BATCH), and possibly fewer than there are. Empty only when there is no later
    /// event; for the next page, call again with the revision of the last event.
    fn events(&self, after: Revision, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Event<V>>>, ReadError>>;

    /// When a revision was written, in milliseconds since the epoch. `None` for the state before the first write,
    /// and for [`oldest`](Kv::oldest) when that was a deletion, which is not retained.
    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>>;

    /// The current time by the clock that stamps the records, in milliseconds since the epoch. Compare time stamps with
    /// this time: the system's clock may have been set back.
    fn now_ms(&self) -> i64;

    /// Waits until the head is at least at this revision. Never fails; pair it with a timeout.
    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()>;

    /// Compacts the history: drops versions replaced or deleted at or before this revision (at most the head).
    fn compact(&self, before: Revision) -> BoxFuture<'_, Result<(), ReadError>>;

    /// The oldest revision that can be read exactly, and after which a watch can start.
    fn oldest(&self) -> Revision;

    /// The newest revision that replaced or deleted a version of a sensitive record at least [`CONTINUITY`](crate::CONTINUITY) ago.
    /// Watches and lists in progress need no state before it, even if the store retains the versions for longer.
    fn former_floor(&self) -> Revision;

    /// Why the store accepts no more writes; `None` while it does.
    fn poisoned(&self) -> Option<String>;

    /// The bytes that the store uses on disk; 0 when it has no disk.
    fn size_on_disk(&self) -> u64;

    /// The size of the records in memory. Inexpensive.
    fn data(&self) -> DataBytes;

    /// The disk usage of the store, and the free space of its disk.
    fn usage(&self) -> Usage {
        Usage { size: self.size_on_disk(), ..Usage::default() }
    }

    /// The id of the history that the revisions belong to; zero when the history ends with the process.
    fn id(&self) -> [u8; 16] {
        [0; 16]
    }

    /// Whether a write would store the value of a record in another form, for example encrypted with another key.
    fn is_stale(&self, _record: &Record<V>) -> bool {
        false
    }

    /// Ends the watches, drains the committer, and writes everything to disk. Idempotent.
    fn close(&self) -> BoxFuture<'_, ()>;
}

impl<V> Event<V> {
    /// The size of the key and of both values in memory, in bytes.
    pub fn size(&self) -> usize {
        let of = |record: &Option<Arc<Record<V>>>| record.as_ref().map_or(0, |record| record.size());
        self.key.as_str().len() + of(&self.record) + of(&self.prev)
    }
}

impl<V> Record<V> {
    /// The size of key and value in memory, in bytes. With encryption, the stored form is in memory beside the value and counts too.
    pub fn size(&self) -> usize {
        self.key.as_str().len() + self.value.len() + self.stored_apart()
    }
}
