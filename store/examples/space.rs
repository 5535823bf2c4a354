//! Compares the disk space of a store with the size of its data.
//!
//! `cargo run --release -p orlop-store --example space [updates] [keys] [bytes] [directory]`
//!
//! 64 writers put values of `bytes` bytes (default 1300, the size of a volume) to the keys, with a history of 10,000 revisions.
//! The program prints the sizes of the journal, the snapshots and the served copy during the writes, right after them,
//! and later. The ballast file, a reserve for a full disk, is listed but not counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use orlop_store::{Embedded, Expect, Key, Kv, Op, Options, Retention, Write};

const WRITERS: usize = 64;
const REVISIONS: u64 = 10_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let updates = args.next().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let keys = args.next().and_then(|text| text.parse().ok()).unwrap_or(5000);
    let value = args.next().and_then(|text| text.parse().ok()).unwrap_or(1300);
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("orlop-space-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(run(&dir, updates, keys, value));
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        eprintln!("cannot remove {}: {error}", dir.display());
    }
}

async fn run(dir: &Path, updates: usize, keys: usize, value: usize) {
    let held = (keys as u64 + REVISIONS) * (value as u64 + 40);
    println!("data: {:.1} MB (live and history)", held as f64 / 1e6);
    println!("when            total MB  x data   journal  snapshot    served   ballast");
    let store = open(dir);
    let start = Instant::now();
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            tokio::spawn(write(store.clone(), writer, keys, value, updates / WRITERS, done.clone()))
        })
        .collect();
    let mut peak = 0;
    while done.load(Ordering::Relaxed) < WRITERS {
        tokio::time::sleep(Duration::from_millis(100)).await;
        peak = peak.max(bytes(dir));
    }
    for task in tasks {
        let _ = task.await;
    }
    let took = start.elapsed().as_secs_f64();
    println!("peak            {:>8.1}  {:>6.2}", peak as f64 / 1e6, peak as f64 / held as f64);
    report("at the end", dir, held);
    for seconds in [3, 10] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        report(&format!("{seconds} s later"), dir, held);
    }
    store.close().await;
    drop(store);
    report("closed", dir, held);
    let again = Instant::now();
    let store = open(dir);
    println!("opened in {:.2} s; {:.0} writes/s", again.elapsed().as_secs_f64(), updates as f64 / took);
    store.close().await;
}

fn open(dir: &Path) -> Arc<Embedded<()>> {
    let retention = Retention { age: Duration::ZERO, revisions: REVISIONS, ..Retention::default() };
    Arc::new(Embedded::open(dir, Options { retention, ..Options::default() }).expect("the store opens"))
}

fn report(when: &str, dir: &Path, held: u64) {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let [journal, snapshot] = ["journal", "snapshot"].map(|name| bytes(&dir.join(name)));
    let ballast = std::fs::metadata(dir.join("BALLAST")).map_or(0, |data| data.len());
    // The ballast contains no data and does not count.
    let total = bytes(dir) - ballast;
    let served = total - journal - snapshot;
    println!(
        "{when:<14}  {:>8.1}  {:>6.2}  {:>8.1}  {:>8.1}  {:>8.1}  {:>8.1}",
        mb(total),
        total as f64 / held as f64,
        mb(journal),
        mb(snapshot),
        mb(served),
        mb(ballast)
    );
}

/// Returns the bytes allocated below a directory.
fn bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let entry = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(entry).sum()
}

/// Writes its share of the keys in a loop.
async fn write(
    store: Arc<Embedded<()>>,
    writer: usize,
    keys: usize,
    value: usize,
    updates: usize,
    done: Arc<AtomicUsize>,
) {
    let mut keys: Vec<_> = (writer..keys)
        .step_by(WRITERS)
        .map(|n| (Key::from(format!("/registry/pods/default/{n}")), Expect::Absent))
        .collect();
    let count = keys.len().max(1);
    for n in 0..updates {
        let Some((key, expect)) = keys.get_mut(n % count) else { break };
        let mut bytes = vec![b'x'; value.max(8)];
        bytes[..8].copy_from_slice(&(n as u64).to_le_bytes());
        let op = Op::Put { value: Bytes::from(bytes), view: () };
        match store.commit(vec![Write { key: key.clone(), expect: *expect, op }]).await {
            Ok(committed) => *expect = Expect::Revision(committed.revision()),
            Err(error) => {
                eprintln!("{error}");
                break;
            }
        }
    }
    done.fetch_add(1, Ordering::Relaxed);
}
