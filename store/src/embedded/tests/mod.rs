//! Tests of the embedded store: against the contract, against the oracle, and against disk failures.

#![allow(clippy::unwrap_used)]

mod conformance;
mod crash;
mod damage;
mod disk_space;
mod erasure;
mod faults;
mod flips;
mod format;
mod mark;
mod model;
mod naming;
mod power;
mod sensitive;
mod shrink;
mod soak;
mod strange;
mod undecryptable;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::testing::{Sum, event_line, record_line};
use crate::{Embedded, Kv, ManualClock, Options, Retention, Revision, RingLimits};

/// Limits so small that every boundary is reached all the time.
fn small() -> Options {
    Options {
        rings: RingLimits { events: 4, bytes: 1 << 20, ..RingLimits::default() },
        segment_bytes: 4 << 10,
        snapshot_bytes: 16 << 10,
        backlog_bytes: 8 << 10,
        ballast_bytes: Some(0),
        lock_wait: Duration::from_secs(10),
        retention: Retention { revisions: u64::MAX / 2, ..Retention::default() },
        clock: Arc::new(ManualClock::new(1_700_000_000_000)),
        ..Options::default()
    }
}

/// A single snapshot, taken at close, however slow the machine is: the journal of 150 revisions is retained
/// completely.
fn one_snapshot() -> Options {
    Options { snapshot_bytes: 128 << 10, ..small() }
}

/// A directory in memory where available: syncs are free there, and the file system layer above it models
/// what a disk loses.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    dir.unwrap()
}

fn open(dir: &Path) -> Embedded<Sum> {
    Embedded::open(dir, small()).unwrap()
}

/// All current records in short form.
fn records(store: &dyn Kv<Sum>) -> Vec<String> {
    store.head().range("", None).map(|record| record_line(record)).collect()
}

/// All events after `oldest`, in short form; panics at a gap.
async fn events(store: &dyn Kv<Sum>) -> Vec<String> {
    let (mut at, head) = (store.oldest(), store.head().revision());
    let mut watcher = store.watch("", at).unwrap();
    let mut lines = Vec::new();
    while at < head {
        for event in watcher.next().await.unwrap() {
            at = at.next();
            assert_eq!(event.revision, at, "the log is dense");
            lines.push(event_line(&event));
        }
    }
    lines
}

/// Waits until all events are in the served copy.
async fn fed(store: &Embedded<Sum>) {
    while store.past.backlog.floor() < store.head().revision() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the versions that were former when the store was opened are erased from all files.
async fn erased(store: &Embedded<Sum>) {
    use super::rows;
    let files = || {
        let row = store.past.served.get().unwrap().get(rows::META_ERASED).unwrap();
        row.map_or(0, |row| rows::decode_meta(store.past.store, rows::META_ERASED, &row).unwrap().1)
    };
    while files() < store.past.former.floor().0.max(1) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    use super::files::{Disk, Files};
    Disk.list(dir).unwrap()
}

/// Flips a bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// Writes a history of `revisions` revisions over a few keys, including deletes.
async fn story(store: &dyn Kv<Sum>, revisions: u64) {
    use crate::testing::{delete_one, put_one};
    let end = store.head().revision().0 + revisions;
    while store.head().revision() < Revision(end) {
        let step = store.head().revision().0;
        let key = format!("/r/{}/{}", if step % 5 == 4 { "q" } else { "p" }, step * 7 % 11);
        match store.head().get(&key) {
            Some(_) if step % 6 == 0 => delete_one(store, &key).await,
            _ => put_one(store, &key, &format!("{step} {}", "x".repeat(100))).await,
        };
    }
}
