//! Model test: random operations on the embedded store and on the oracle, compared after every step.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{events, records, small};
use crate::testing::{Sum, event_line, record_line, snapshot_lines};
use crate::{
    CommitError, Embedded, Expect, Key, Kv, ManualClock, Memory, MemoryOptions, Op, Options, ReadError,
    Revision, View, WatchError, Write,
};

const STEPS: usize = 250;

/// A write on a random key; its expectation is usually right.
fn random_write(rng: &mut StdRng, oracle: &Memory<Sum>) -> (Key, Expect, Option<String>) {
    let key = Key::from(format!("/r/{}/{}", ["p", "q", "s"][rng.random_range(0..3)], rng.random_range(0..8)));
    let there = oracle.head().get(key.as_str()).map(|record| record.mod_revision);
    let expect = match (there, rng.random_range(0..10)) {
        (_, 0) => Expect::Absent,
        (Some(revision), 1) => Expect::Revision(Revision(revision.0 - 1)),
        (Some(revision), _) => Expect::Revision(revision),
        (None, _) => Expect::Absent,
    };
    let value = match rng.random_range(0..20) {
        0..5 => None,
        5 => Some("long".repeat(rng.random_range(10_000..60_000))),
        n => Some(format!("{n} {}", "v".repeat(rng.random_range(0..400)))),
    };
    (key, expect, value)
}

fn to_write((key, expect, value): &(Key, Expect, Option<String>)) -> Write<Sum> {
    let op = match value {
        Some(value) => {
            let value = bytes::Bytes::copy_from_slice(value.as_bytes());
            Op::Put { view: Sum::of(key, &value), value }
        }
        None => Op::Delete,
    };
    Write { key: key.clone(), expect: *expect, op }
}

async fn commit(
    store: &dyn Kv<Sum>,
    writes: &[(Key, Expect, Option<String>)],
) -> Result<Vec<String>, String> {
    match store.commit(writes.iter().map(to_write).collect()).await {
        Ok(done) => Ok(done.events.iter().map(|event| event_line(event)).collect()),
        Err(CommitError::Conflict { key, actual }) => {
            Err(format!("{key}: {:?}", actual.map(|record| record_line(&record))))
        }
        Err(error) => panic!("{error:?}"),
    }
}

async fn read_at(store: &dyn Kv<Sum>, revision: Revision, prefix: &str) -> Result<Vec<String>, String> {
    match store.at(revision, prefix).await {
        Ok(snapshot) => Ok(snapshot_lines(&snapshot, prefix)),
        Err(error @ (ReadError::Expired { .. } | ReadError::Future { .. })) => Err(error.to_string()),
        Err(error) => panic!("{error:?}"),
    }
}

/// Events below a prefix after a revision, up to the head.
async fn follow(store: &dyn Kv<Sum>, prefix: &str, after: Revision) -> Result<Vec<String>, String> {
    let mut watcher = match store.watch(prefix, after) {
        Ok(watcher) => watcher,
        Err(error @ WatchError::Expired { .. }) => return Err(error.to_string()),
        Err(error) => panic!("{error:?}"),
    };
    let mut lines = Vec::new();
    let head = store.head().revision();
    while watcher.progress() < head {
        let batch = tokio::time::timeout(std::time::Duration::from_millis(50), watcher.next()).await;
        // The ring may contain no matching event: then only the progress has advanced.
        let Ok(batch) = batch else { continue };
        lines.extend(batch.unwrap().iter().map(|event| event_line(event)));
    }
    Ok(lines)
}

async fn history(store: &dyn Kv<Sum>, key: &Key, limit: usize) -> Vec<String> {
    store.history(key, limit).await.unwrap().iter().map(|event| event_line(event)).collect()
}

async fn run(seed: u64) {
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let options = Options { clock: clock.clone(), ..small() };
    let dir = super::scratch();
    let oracle = Memory::with(MemoryOptions { clock: clock.clone(), ..MemoryOptions::default() });
    let mut store = Embedded::<Sum>::open(dir.path(), options.clone()).unwrap();
    for step in 0..STEPS {
        let head = oracle.head().revision();
        match rng.random_range(0..100) {
            0..60 => {
                let count = [0, 1, 1, 1, 2, 5][rng.random_range(0..6)];
                let writes: Vec<_> = (0..count).map(|_| random_write(&mut rng, &oracle)).collect();
                let (wanted, got) = (commit(&oracle, &writes).await, commit(&store, &writes).await);
                assert_eq!(got, wanted, "step {step}: commit");
            }
            60..72 => {
                let revision = Revision(rng.random_range(0..=head.0 + 1));
                let prefix = ["/r/p/", "/r/q/3", "/r/", ""][rng.random_range(0..4)];
                let (wanted, got) =
                    (read_at(&oracle, revision, prefix).await, read_at(&store, revision, prefix).await);
                assert_eq!(got, wanted, "step {step}: at {revision} {prefix}");
            }
            72..82 => {
                let after = Revision(rng.random_range(0..=head.0));
                let prefix = ["/r/p/", "/r/q/", "/r/q/3", "/r/"][rng.random_range(0..4)];
                let (wanted, got) =
                    (follow(&oracle, prefix, after).await, follow(&store, prefix, after).await);
                assert_eq!(got, wanted, "step {step}: watch {prefix} after {after}");
            }
            82..90 => {
                let key = Key::from(format!("/r/p/{}", rng.random_range(0..8)));
                let limit = rng.random_range(0..20);
                let (wanted, got) = (history(&oracle, &key, limit).await, history(&store, &key, limit).await);
                assert_eq!(got, wanted, "step {step}: history of {key}");
            }
            90..95 => {
                let before = Revision(rng.random_range(0..=head.0));
                oracle.compact(before).await.unwrap();
                store.compact(before).await.unwrap();
            }
            95..97 => {
                store.close().await;
                store = Embedded::open(dir.path(), options.clone()).unwrap();
                assert_eq!(store.head().revision(), head, "step {step}: reopened");
            }
            97..98 => {
                drop(store);
                store = Embedded::open(dir.path(), options.clone()).unwrap();
            }
            _ => clock.set(1_700_000_000_000 + rng.random_range(-1000..100_000)),
        }
        assert_eq!(store.oldest(), oracle.oldest(), "step {step}");
        assert_eq!(store.head().revision(), oracle.head().revision(), "step {step}");
        assert_eq!(records(&store), records(&oracle), "step {step}");
    }
    assert_eq!(events(&store).await, events(&oracle).await);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_agree_with_the_oracle() {
    let seeds = match std::env::var("ORLOP_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..6).map(|_| rand::random()).chain([1, 2]).collect(),
    };
    for seed in seeds {
        run(seed).await;
    }
}
