//! Hides the former versions of sensitive records from readers of the past.
//!
//! `floor` is a revision: versions that an event at or before it has replaced or deleted are hidden, even if the files still contain them.
//! So the state of sensitive records before `floor` is Expired. Readers of all records get the redacted form of hidden versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::sensitive::{FormerMarks, Sensitive};
use crate::commit::Head;
use crate::{Event, Key, ReadError, Record, Revision, View};

/// The rule by which former versions are hidden.
pub(crate) struct FormerVersions {
    pub(crate) sensitive: Sensitive,
    floor: AtomicU64,
    /// The events after `floor` that made versions former ones, from the committer: they are hidden in time even while the served
    /// copy cannot be fed.
    due: Mutex<FormerMarks>,
    /// The versions that cannot be erased because they cannot be read now.
    unread: AtomicU64,
}

impl FormerVersions {
    /// Starts with a floor, and the known events.
    pub(crate) fn new(sensitive: Sensitive, floor: Revision, mut due: FormerMarks) -> Self {
        due.forget(floor);
        FormerVersions {
            sensitive,
            floor: AtomicU64::new(floor.0),
            due: Mutex::new(due),
            unread: AtomicU64::new(0),
        }
    }

    /// The number of versions that cannot be erased because they cannot be read now.
    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::SeqCst)
    }

    /// Notes the number of these versions, and returns the former number.
    pub(crate) fn note_unread(&self, versions: u64) -> u64 {
        self.unread.swap(versions, Ordering::SeqCst)
    }

    pub(crate) fn floor(&self) -> Revision {
        Revision(self.floor.load(Ordering::SeqCst))
    }

    /// The newest event that replaced or deleted a version at least [`CONTINUITY`](super::sensitive::CONTINUITY) ago.
    pub(crate) fn continuity(&self, now_ms: i64) -> Revision {
        let due = self.due.lock();
        due.continuity(now_ms, self.floor())
    }

    /// Notes new events.
    pub(crate) fn note<V>(&self, events: &[Arc<Event<V>>]) {
        if self.sensitive.prefixes.is_empty() {
            return;
        }
        let mut due = self.due.lock();
        for event in events.iter().filter(|event| self.sensitive.makes_former(event)) {
            due.push(event.revision, event.time_ms);
        }
    }

    /// Whether versions will have to be hidden.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.lock().is_empty()
    }

    /// Raises the floor to the newest event that is old enough. Returns the new floor if there is one.
    pub(crate) fn advance(&self, now_ms: i64) -> Option<Revision> {
        let mut due = self.due.lock();
        let floor = due.target(now_ms, self.sensitive.age_ms())?;
        due.forget(floor);
        self.floor.fetch_max(floor.0, Ordering::SeqCst);
        Some(floor)
    }

    /// Whether the state below a prefix at a revision, and the events after it, are readable.
    pub(crate) fn check(&self, prefix: &str, wanted: Revision) -> Result<(), ReadError> {
        let oldest = self.floor();
        if wanted < oldest && self.sensitive.contains(prefix) {
            return Err(ReadError::Expired { wanted, oldest });
        }
        Ok(())
    }

    /// The record that an event at `revision` has replaced or deleted.
    pub(crate) fn replaced<V: View>(&self, revision: Revision, record: Arc<Record<V>>) -> Arc<Record<V>> {
        if self.hides(revision, &record.key) { self.sensitive.erased(&record) } else { record }
    }

    /// An event without its hidden versions.
    pub(crate) fn event<V: View>(&self, head: &Head<V>, event: Arc<Event<V>>) -> Arc<Event<V>> {
        if !self.hides(event.revision, &event.key) {
            return event;
        }
        let is_current = |record: &Record<V>| {
            head.index.get(&record.key).is_some_and(|current| current.mod_revision == record.mod_revision)
        };
        let record = event
            .record
            .as_ref()
            .map(|record| if is_current(record) { record.clone() } else { self.sensitive.erased(record) });
        let prev = event.prev.as_ref().map(|record| self.sensitive.erased(record));
        let (revision, key, time_ms) = (event.revision, event.key.clone(), event.time_ms);
        Arc::new(Event { revision, key, time_ms, record, prev })
    }

    fn hides(&self, revision: Revision, key: &Key) -> bool {
        revision <= self.floor() && self.sensitive.contains(key.as_str())
    }
}
