//! The conformance suite of the contract, by theme. Every backend runs all of it.
//!
//! A case gets a [`Backend`] and opens stores from it as needed. A failing case panics with its name in the
//! runner's message.

#![allow(clippy::unwrap_used)]

mod close;
mod commit;
mod compaction;
pub mod faulty;
mod history;
mod image;
mod log;
mod range;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::future::BoxFuture;
use crate::{
    Clock, CommitError, Event, Expect, Guard, Key, Kv, ManualClock, Op, Record, Revision, RingLimits,
    Snapshot, View, Watcher, Write,
};

/// A view that proves which value it was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum(pub u32);

impl View for Sum {
    fn of(key: &Key, value: &Bytes) -> Self {
        Sum(crc32c::crc32c_append(crc32c::crc32c(key.as_str().as_bytes()), value))
    }
}

/// The options of a store in the suite.
#[derive(Clone)]
pub struct Setup {
    /// The maximum size of a value in bytes.
    pub max_value: usize,
    /// The limits of the watch rings.
    pub rings: RingLimits,
    /// The clock that stamps the records.
    pub clock: Arc<dyn Clock>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            max_value: 2 << 20,
            rings: RingLimits::default(),
            clock: Arc::new(ManualClock::new(1_700_000_000_000)),
        }
    }
}

impl Setup {
    /// Limits the rings to this many events.
    pub fn rings(events: usize) -> Self {
        Setup { rings: RingLimits { events, bytes: 1 << 20, ..RingLimits::default() }, ..Setup::default() }
    }
}

/// Opens stores of one implementation.
pub trait Backend: Sync {
    /// Opens a new, empty store.
    fn open(&self, setup: Setup) -> Arc<dyn Kv<Sum>>;
}

/// A test case of a theme.
pub type Case = for<'a> fn(&'a dyn Backend) -> BoxFuture<'a, ()>;

/// The cases of a theme, by name.
pub type Theme = &'static [(&'static str, Case)];

/// All themes.
pub const THEMES: &[(&str, Theme)] = &[
    ("commit", commit::CASES),
    ("range", range::CASES),
    ("watch", watch::CASES),
    ("history", history::CASES),
    ("log", log::CASES),
    ("compaction", compaction::CASES),
    ("close", close::CASES),
];

/// Runs every case of every theme.
pub async fn run_all(backend: &dyn Backend) {
    for (theme, cases) in THEMES {
        for (name, case) in *cases {
            println!("{theme}: {name}");
            let done = tokio::time::timeout(Duration::from_secs(60), case(backend)).await;
            assert!(done.is_ok(), "{theme}: {name}: hangs");
        }
    }
}

// Helpers for the cases.

/// A put that expects the current record.
pub fn put(store: &dyn Kv<Sum>, key: &str, value: &str) -> Write<Sum> {
    let key = Key::new(key);
    let there = store.head().get(key.as_str()).map(|record| record.mod_revision);
    let value = Bytes::copy_from_slice(value.as_bytes());
    let view = Sum::of(&key, &value);
    Write { key, expect: there.map_or(Expect::Absent, Expect::Revision), op: Op::Put { value, view } }
}

/// A delete that expects the current record.
pub fn delete(store: &dyn Kv<Sum>, key: &str) -> Write<Sum> {
    let there = store.head().get(key).map(|record| record.mod_revision);
    Write { key: Key::new(key), expect: there.map_or(Expect::Absent, Expect::Revision), op: Op::Delete }
}

/// Commits, and returns the revision of the last write.
pub async fn commit(store: &dyn Kv<Sum>, writes: Vec<Write<Sum>>) -> Revision {
    store.commit(writes).await.unwrap().revision()
}

/// Puts one value.
pub async fn put_one(store: &dyn Kv<Sum>, key: &str, value: &str) -> Revision {
    let write = put(store, key, value);
    commit(store, vec![write]).await
}

/// Deletes one key.
pub async fn delete_one(store: &dyn Kv<Sum>, key: &str) -> Revision {
    let write = delete(store, key);
    commit(store, vec![write]).await
}

/// A record in short form: key, value, created at, written at. It also checks the view.
pub fn record_line(record: &Record<Sum>) -> String {
    assert_eq!(record.view, Sum::of(&record.key, &record.value), "the view of {}", record.key);
    let value = String::from_utf8_lossy(&record.value);
    format!("{}={} {}..{}", record.key, value, record.create_revision, record.mod_revision)
}

/// An event in short form: its revision and key, the new record, the previous record.
pub fn event_line(event: &Event<Sum>) -> String {
    let line =
        |record: &Option<Arc<Record<Sum>>>| record.as_ref().map_or("-".into(), |record| record_line(record));
    format!("@{} {}: {} <- {}", event.revision, event.key, line(&event.record), line(&event.prev))
}

/// All records below a prefix, in short form.
pub fn snapshot_lines(snapshot: &Snapshot<Sum>, prefix: &str) -> Vec<String> {
    snapshot.range(prefix, None).map(|record| record_line(record)).collect()
}

/// The next `count` events of a watch, in short form.
pub async fn take(watcher: &mut Watcher<Sum>, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(watcher.next().await.unwrap().iter().map(|event| event_line(event)));
    }
    events
}

/// Whether a watcher has no events. Events are published before their commit is answered, but a read of the log
/// takes real time, so the check waits for it.
pub async fn is_silent(watcher: &mut Watcher<Sum>) -> bool {
    tokio::time::timeout(Duration::from_millis(30), watcher.next()).await.is_err()
}

/// The key of a conflict, and its current record.
pub fn conflict(error: CommitError<Sum>) -> (String, Option<String>) {
    match error {
        CommitError::Conflict { key, actual } => (key.to_string(), actual.map(|record| record_line(&record))),
        other => panic!("not a conflict: {other:?}"),
    }
}
