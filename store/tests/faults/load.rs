//! The load of the killed processes: open the store, report its contents, then write, watch and compact until
//! killed. Every fact is reported immediately (`ledger` describes the lines).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orlop_store::{
    Embedded, Expect, Key, Kv, Op, Options, Retention, Revision, RingLimits, WatchError, Write,
};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};

use crate::ledger::{Records, Should, digest};

/// The prefixes that are written to, each with a topic of its own.
pub(crate) const TOPICS: [&str; 2] = ["/r/p/", "/r/q/"];
const KEYS: usize = 6;
/// The number of revisions that compaction spares.
const KEPT: u64 = 400;

/// Small limits, so that rotation, snapshots, compaction and the removal of segments are frequent.
pub(crate) fn options() -> Options {
    Options {
        retention: Retention { age: Duration::ZERO, revisions: KEPT, ..Retention::default() },
        retain_every: Duration::from_millis(20),
        rings: RingLimits { events: 64, bytes: 1 << 20, ..RingLimits::default() },
        segment_bytes: 64 << 10,
        snapshot_bytes: 192 << 10,
        backlog_bytes: 512 << 10,
        lock_wait: Duration::from_secs(30),
        ..Options::default()
    }
}

/// The value of a tag. Most are small, a few are larger than a chunk of the served copy.
pub(crate) fn value_of(tag: &str) -> Bytes {
    let sum = crc32c::crc32c(tag.as_bytes());
    let size = match sum % 100 {
        0..80 => sum / 100 % 700,
        80..98 => sum / 100 % 8000,
        _ => sum / 100 % 150_000,
    };
    // The block size divides no page size, so that moved or mixed pages are detected.
    let mut block = [0; 61];
    StdRng::seed_from_u64(u64::from(sum)).fill_bytes(&mut block);
    let mut value = format!("{tag} ").into_bytes();
    let size = value.len() + size as usize;
    value.extend(block.repeat(size / block.len() + 1));
    value.truncate(size);
    value.into()
}

/// The tag of a value; an error when it is not that tag's value.
pub(crate) fn tag_of(value: &Bytes) -> Result<String, String> {
    let tag = value.split(|byte| *byte == b' ').next().unwrap_or_default();
    let tag = String::from_utf8_lossy(tag).into_owned();
    if value_of(&tag) == *value {
        return Ok(tag);
    }
    Err(format!("a value of {} bytes begins with {tag:?}, but is not what was written so", value.len()))
}

/// The output for a process's reports.
pub(crate) struct Tell(File);

impl Tell {
    pub(crate) fn new(file: File) -> Self {
        Tell(file)
    }

    /// Writes one line, in one write.
    pub(crate) fn line(&self, text: &str) {
        let mut file = &self.0;
        file.write_all(format!("{text}\n").as_bytes()).expect("the listener exists");
    }
}

/// The behavior of one process.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) seed: u64,
    /// The prefix of the tags: no two processes write the same value.
    pub(crate) session: u64,
    /// The listener knows everything up to this revision.
    pub(crate) from: u64,
    pub(crate) writers: usize,
    /// The number of commits after which the process closes cleanly.
    pub(crate) commits: u64,
}

/// Opens the store and works until the process is killed, or until enough was written.
pub(crate) async fn run(dir: &Path, load: &Load, tell: Tell) {
    let store = match Embedded::<()>::open(dir, options()) {
        Ok(store) => Arc::new(store),
        Err(error) => {
            use std::error::Error as _;
            let source = error.source().map_or(String::new(), |source| format!(": {source}"));
            return tell.line(&format!("F {error}{source}"));
        }
    };
    let tell = Arc::new(tell);
    tell_state(&store, load.from, &tell).await;
    let left = Arc::new(AtomicU64::new(load.commits));
    let mut tasks = Vec::new();
    for prefix in TOPICS {
        tasks.push(tokio::spawn(watch(store.clone(), prefix, tell.clone())));
    }
    tasks.push(tokio::spawn(compact(store.clone())));
    let writers = (0..load.writers)
        .map(|writer| tokio::spawn(write(store.clone(), load.clone(), writer, left.clone(), tell.clone())));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer does not panic");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    store.close().await;
}

async fn tell_state(store: &Embedded<()>, from: u64, tell: &Tell) {
    let head = store.head();
    tell.line(&format!("O {} {}", head.revision(), store.oldest()));
    let mut at = from.max(store.oldest().0);
    // Of the history before that, only the records are known.
    for record in store.at(Revision(at), "").await.expect("the oldest revision can be read").range("", None) {
        if record.mod_revision.0 > from {
            let tag = tag_of(&record.value).unwrap_or_else(|error| error);
            tell.line(&format!("E {} {}={tag}", record.mod_revision, record.key));
        }
    }
    let mut watcher = store.watch("", Revision(at)).expect("the oldest revision can be watched");
    while at < head.revision().0 {
        for event in watcher.next().await.expect("the events are there") {
            let tag = event.record.as_ref().map(|record| tag_of(&record.value));
            let tag = tag.transpose().unwrap_or_else(Some);
            at = event.revision.0;
            tell.line(&format!("E {at} {}={}", event.key, tag.as_deref().unwrap_or("-")));
        }
    }
    let records: Records = head
        .range("", None)
        .map(|record| {
            let tag = tag_of(&record.value).unwrap_or_else(|error| error);
            let (create, modified) = (record.create_revision.0, record.mod_revision.0);
            (record.key.to_string(), Should { tag, create, modified })
        })
        .collect();
    tell.line(&format!("R {} {} {}", head.revision(), records.len(), digest(&records)));
}

/// Each writer has its own keys, and one commit at a time.
async fn write(store: Arc<Embedded<()>>, load: Load, writer: usize, left: Arc<AtomicU64>, tell: Arc<Tell>) {
    let mut random = StdRng::seed_from_u64(load.seed ^ (load.session << 8) ^ writer as u64);
    let mut n = 0;
    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
        n += 1;
        let count = [1, 1, 1, 2, 3][random.random_range(0..5)];
        let first = random.random_range(0..KEYS);
        let (mut writes, mut line) = (Vec::new(), format!("T {writer} {n}"));
        let head = store.head();
        for place in 0..count {
            let key = (first + place) % KEYS;
            let key = format!("{}{writer}-{key}", TOPICS[key % 2]);
            let there = head.get(&key).map(|record| record.mod_revision);
            let (op, tag) = match there {
                Some(_) if random.random_ratio(1, 6) => (Op::Delete, "-".to_owned()),
                _ => {
                    let tag = format!("{}.{writer}.{n}.{place}", load.session);
                    (Op::Put { value: value_of(&tag), view: () }, tag)
                }
            };
            line = format!("{line} {key}={tag}");
            writes.push(Write {
                key: Key::new(key),
                expect: there.map_or(Expect::Absent, Expect::Revision),
                op,
            });
        }
        tell.line(&line);
        match store.commit(writes).await {
            Ok(done) => tell.line(&format!("A {writer} {n} {}", done.revision())),
            Err(error) => return tell.line(&format!("F {error}")),
        }
    }
}

/// Watches a topic, and restarts at another revision from time to time.
async fn watch(store: Arc<Embedded<()>>, prefix: &'static str, tell: Arc<Tell>) {
    let mut after = store.head().revision();
    loop {
        let mut watcher = match store.watch(prefix, after) {
            Ok(watcher) => watcher,
            Err(WatchError::Expired { oldest, .. }) => {
                after = oldest;
                continue;
            }
            Err(WatchError::Closed) => return,
            Err(error @ WatchError::Damaged(_)) => return tell.line(&format!("F {error}")),
        };
        for _ in 0..50 {
            let Ok(events) = watcher.next().await else { break };
            let mut last = BTreeMap::new();
            for event in events {
                assert!(event.revision > after, "{} after {after}", event.revision);
                after = event.revision;
                let before = last.insert(event.key.clone(), after);
                let prev = event.prev.as_ref().map(|prev| prev.mod_revision);
                assert!(before.is_none_or(|before| prev.is_none_or(|prev| prev == before)), "{event:?}");
            }
            tell.line(&format!("W {after}"));
        }
        after = Revision(after.0.saturating_sub(100)).max(store.oldest());
    }
}

/// Compacts more often than the store does by itself.
async fn compact(store: Arc<Embedded<()>>) {
    loop {
        tokio::time::sleep(Duration::from_millis(7)).await;
        let before = store.head().revision().0.saturating_sub(KEPT / 2);
        // The task ends with the store.
        let _ = store.compact(Revision(before)).await;
    }
}
