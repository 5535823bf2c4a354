//! A process is killed under load repeatedly, and every acknowledged write is there afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;

use super::{events, small};
use crate::testing::{Sum, put};
use crate::{Embedded, Key, Kv, Options, Redact, Retention, Revision, Sensitive, SystemClock};

const DIR: &str = "ORLOP_STORE_CRASH_DIR";
const WRITERS: usize = 8;
/// The number of kills in a run; `ORLOP_KILLS` overrides it.
const KILLS: usize = 12;

/// Set if the records are sensitive.
const SENSITIVE: &str = "ORLOP_STORE_CRASH_SENSITIVE";

/// What remains of a former version is the count.
fn count_of(_: &Key, value: &Bytes) -> Option<Bytes> {
    value.split(|byte| *byte == b' ').next().map(Bytes::copy_from_slice)
}

fn options(is_sensitive: bool) -> Options {
    if is_sensitive {
        let sensitive = Sensitive {
            prefixes: vec!["/r/p/".to_owned()],
            age: Duration::ZERO,
            erase_every: Duration::ZERO,
            redact: Redact(Arc::new(count_of)),
        };
        let clock = Arc::new(SystemClock::default());
        return Options { sensitive, clock, ..options(false) };
    }
    Options {
        // Small limits, so that compaction, snapshots and rotation run frequently.
        retention: Retention { age: Duration::ZERO, revisions: 3000, ..Retention::default() },
        retain_every: Duration::from_millis(10),
        segment_bytes: 256 << 10,
        snapshot_bytes: 512 << 10,
        backlog_bytes: 1 << 20,
        ..small()
    }
}

/// The process to kill: every writer increments its key and prints every acknowledgement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started and killed by `survive_kills`"]
async fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let is_sensitive = std::env::var_os(SENSITIVE).is_some();
    let store = Arc::new(Embedded::<Sum>::open(dir, options(is_sensitive)).unwrap());
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            let key = format!("/r/p/{writer}");
            let text = |value: &[u8]| {
                String::from_utf8_lossy(value).split(' ').next().unwrap().parse::<u64>().unwrap()
            };
            let mut count = store.head().get(&key).map_or(0, |record| text(&record.value));
            while count < u64::MAX {
                count += 1;
                let value = format!("{count} {}", "x".repeat(count as usize % 700));
                let write = put(&*store, &key, &value);
                let revision = store.commit(vec![write]).await.unwrap().revision();
                let line = format!("ack {key} {count} {revision}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Runs a child until it is killed, and returns the last acknowledgement of each key.
fn run_child(dir: &Path, after: Duration, is_sensitive: bool) -> BTreeMap<String, (u64, u64)> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if is_sensitive {
        command.env(SENSITIVE, "1");
    }
    let mut child = command
        .args(["--exact", "embedded::tests::crash::child", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let mut acknowledged = BTreeMap::new();
    for line in BufReader::new(output).lines() {
        let line = line.unwrap();
        // The test harness prints the test's name in front of the first line.
        let Some(at) = line.find("ack ") else { continue };
        let words: Vec<_> = line[at..].split(' ').collect();
        if let [_, key, count, revision] = words[..] {
            acknowledged.insert(key.to_owned(), (count.parse().unwrap(), revision.parse().unwrap()));
        }
    }
    killer.join().unwrap();
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kills_under_load() {
    survive_kills(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kills_during_erasures() {
    survive_kills(true).await;
}

async fn survive_kills(is_sensitive: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut newest: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let kills = std::env::var("ORLOP_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    for kill in 0..kills {
        let after = Duration::from_millis(rand::rng().random_range(20..450));
        let acknowledged = run_child(dir.path(), after, is_sensitive);
        println!("kill {kill} after {after:?}: {:?}", acknowledged.values().map(|(_, r)| r).max());
        newest.extend(acknowledged);
        // Nothing is compacted while the log is read.
        let options = Options { retention: small().retention, ..options(is_sensitive) };
        let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
        for (key, (count, revision)) in &newest {
            let head = store.head();
            let record = head.get(key).unwrap();
            let there: u64 =
                String::from_utf8_lossy(&record.value).split(' ').next().unwrap().parse().unwrap();
            assert!(there >= *count, "{key}: {count} was acknowledged, {there} is there");
            assert!(record.mod_revision >= Revision(*revision));
            assert!(there > *count || record.mod_revision == Revision(*revision), "{key}");
        }
        // The log is dense, and each key is incremented by one.
        let mut counts = BTreeMap::new();
        for event in events(&store).await {
            let (name, value) = event.split(" <- ").next().unwrap().split_once('=').unwrap();
            let count: u64 = value.split(' ').next().unwrap().parse().unwrap();
            let key = name.rsplit(' ').next().unwrap().to_owned();
            let before = counts.insert(key, count);
            assert!(before.is_none_or(|before| before + 1 == count), "{event}");
        }
        store.close().await;
    }
    assert!(!newest.is_empty());
    assert!(
        !super::names(dir.path()).iter().any(|name| name.contains("broken")),
        "{:?}",
        super::names(dir.path())
    );
}
