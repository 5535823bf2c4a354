//! Measures durable writes per second and the latency of their acknowledgement.
//!
//! `cargo run --release -p orlop-store --example bench [seconds] [directory]`
//!
//! 1, 64 and 256 writers put values of 1.5 KB to 5000 keys. Each write expects the key's last known
//! revision. The program prints, per number of writers, the writes per second and percentiles of the
//! time from the call to the acknowledgement.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use orlop_store::{Embedded, Expect, Key, Kv, Op, Options, Retention, Write};

const KEYS: usize = 5000;
const VALUE: usize = 1500;

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    println!("writers  writes/s   p50 ms   p99 ms  p99.9 ms   max ms   on disk");
    for writers in [1, 64, 256] {
        let dir = parent.join(format!("orlop-bench-{}-{writers}", std::process::id()));
        runtime.block_on(run(&dir, writers, Duration::from_secs(seconds)));
        if let Err(error) = std::fs::remove_dir_all(&dir) {
            eprintln!("cannot remove {}: {error}", dir.display());
        }
    }
}

async fn run(dir: &std::path::Path, writers: usize, time: Duration) {
    let retention = Retention { age: Duration::ZERO, ..Retention::default() };
    let options = Options { retention, ..Options::default() };
    let store = match Embedded::<()>::open(dir, options) {
        Ok(store) => Arc::new(store),
        Err(error) => return eprintln!("cannot open: {error}"),
    };
    let start = Instant::now();
    let mut tasks = Vec::new();
    for writer in 0..writers {
        tasks.push(tokio::spawn(write(store.clone(), writer, writers, start + time)));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap_or_default());
    }
    let elapsed = start.elapsed();
    took.sort_unstable();
    let at = |part: f64| {
        let place = (took.len() as f64 * part) as usize;
        took.get(place.min(took.len().saturating_sub(1))).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
    };
    println!(
        "{writers:>7}  {:>8.0}  {:>7.2}  {:>7.2}  {:>8.2}  {:>7.1}  {:>4} MB",
        took.len() as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        store.size_on_disk() >> 20
    );
    store.close().await;
}

/// Writes its share of the keys in a loop and returns the duration of each write.
async fn write(store: Arc<Embedded<()>>, writer: usize, writers: usize, until: Instant) -> Vec<Duration> {
    let value = Bytes::from(vec![b'x'; VALUE]);
    let mut keys: Vec<_> = (writer..KEYS)
        .step_by(writers)
        .map(|n| (Key::from(format!("/registry/pods/default/{n}")), Expect::Absent))
        .collect();
    let mut took = Vec::new();
    'all: loop {
        for (key, expect) in &mut keys {
            let start = Instant::now();
            if start >= until {
                break 'all;
            }
            let op = Op::Put { value: value.clone(), view: () };
            match store.commit(vec![Write { key: key.clone(), expect: *expect, op }]).await {
                Ok(done) => *expect = Expect::Revision(done.revision()),
                Err(error) => {
                    eprintln!("{error}");
                    break 'all;
                }
            }
            took.push(start.elapsed());
        }
    }
    took
}
