//! Fault injection: every file system operation fails in turn, once or permanently, with an I/O error or for
//! lack of space; then the disk recovers, or the power fails and drops any unsynced pages. Every
//! acknowledged write must be there afterwards, and no revision is used twice.
//!
//! The normal run takes a sample. `ORLOP_FAULT_ROUNDS=N` runs everything N times; `ORLOP_FAULT_SEED` repeats
//! a run.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{events, records, small};
use crate::testing::faulty::{Dice, Fault, Faulty, OPS, Op};
use crate::testing::{Sum, event_line, put};
use crate::{CheckOptions, CommitError, Embedded, Kv, OpenError, Options, Revision, check};

/// The number of cases in a normal run.
const SAMPLE: usize = 60;

/// The panic messages of the store's own threads.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records panics of the store's threads. A panic in the thread that opens sled is expected.
pub(super) fn note_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            if name.starts_with("store-") && name != "store-open" {
                PANICS.lock().push(format!("{name}: {info}"));
            }
            before(info);
        }));
    });
}

pub(super) fn no_panics(name: &str) {
    let panics = PANICS.lock();
    assert!(panics.is_empty(), "{name}: {panics:?}");
}

/// The seed and the rounds of this run.
pub(super) fn seed_and_rounds() -> (u64, Option<u64>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("ORLOP_FAULT_SEED").unwrap_or_else(rand::random);
    println!("ORLOP_FAULT_SEED={seed}");
    (seed, number("ORLOP_FAULT_ROUNDS"))
}

fn on(files: &Faulty) -> Options {
    Options { files: Arc::new(files.clone()), segment_bytes: 1 << 10, snapshot_bytes: 3 << 10, ..small() }
}

/// The results of all reads: later reads must not contradict them.
#[derive(Default)]
struct Seen {
    events: BTreeMap<Revision, String>,
    /// The newest acknowledged state.
    acknowledged: Revision,
}

impl Seen {
    /// Compares a store that was just opened with what readers have seen.
    async fn check(&mut self, store: &Embedded<Sum>, name: &str) {
        let (oldest, head) = (store.oldest(), store.head().revision());
        let wanted = self.acknowledged;
        assert!(head >= wanted, "{name}: {wanted} was acknowledged, the head is {head}");
        let mut at = oldest;
        for event in events(store).await {
            at = at.next();
            let known = self.events.entry(at).or_insert_with(|| event.clone());
            assert_eq!(*known, event, "{name}: revision {at} was something else");
        }
        // The records match the events, including the records before the oldest event.
        let mut newest: BTreeMap<String, String> = BTreeMap::new();
        for event in self.events.range(..=head).map(|(_, event)| event) {
            let left = event.split_once(": ").unwrap().1.split(" <- ").next().unwrap();
            let key = event.split(' ').nth(1).unwrap().trim_end_matches(':');
            newest.insert(key.to_owned(), left.to_owned());
        }
        let wanted: Vec<_> = newest.into_values().filter(|left| left != "-").collect();
        assert_eq!(records(store), wanted, "{name}: the records");
        self.acknowledged = head;
    }
}

/// Opens, writes, compacts and closes, twice. Every failure must be of an expected kind.
async fn work(dir: &Path, files: &Faulty, seen: &mut Seen, name: &str) {
    for session in 0..2 {
        let store = match Embedded::<Sum>::open(dir, on(files)) {
            Ok(store) => store,
            Err(OpenError::Io { .. }) => continue,
            Err(error) => panic!("{name}: {error:?}"),
        };
        seen.check(&store, name).await;
        for n in 0..16 {
            let writes = (0..1 + n % 3)
                .map(|m| put(&store, &format!("/r/p/{}", (n + m) % 5), &format!("{session} {n} {m}")));
            let done = tokio::time::timeout(Duration::from_secs(60), store.commit(writes.collect())).await;
            match done.unwrap_or_else(|_| panic!("{name}: a commit hangs")) {
                Ok(done) => {
                    for event in &done.events {
                        let known = seen.events.insert(event.revision, event_line(event));
                        assert_eq!(known, None, "{name}: revision {} was used before", event.revision);
                    }
                    seen.acknowledged = done.revision();
                }
                // Nothing was written, and the outcome is known.
                Err(CommitError::Full { .. }) => {
                    assert_eq!(store.head().revision(), seen.acknowledged, "{name}");
                    assert_eq!(store.poisoned(), None, "{name}");
                }
                Err(CommitError::Poisoned(_)) => {
                    assert_eq!(
                        store.head().revision(),
                        seen.acknowledged,
                        "{name}: what is unknown is not shown"
                    );
                    files.heal();
                    let again = store.commit(vec![put(&store, "/r/p/9", "x")]).await;
                    assert!(matches!(again, Err(CommitError::Poisoned(_))), "{name}: {again:?}");
                    break;
                }
                Err(error) => panic!("{name}: {error:?}"),
            }
            if n == 10 {
                // May fail when the store is poisoned meanwhile; on a full disk there may be nothing to compact yet.
                let _ = store.compact(Revision(seen.acknowledged.0.saturating_sub(5))).await;
            }
        }
        store.close().await;
    }
}

/// How a case ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Healed,
    PowerCut,
    /// A power failure that also removes the served copy.
    PowerCutAndNoCopy,
}

async fn case(fault: Fault, end: End, seed: u64) {
    let name = format!("{fault:?}, {end:?}, seed {seed}");
    let dir = super::scratch();
    let files = Faulty::with(fault);
    let mut seen = Seen::default();
    work(dir.path(), &files, &mut seen, &name).await;
    match end {
        End::Healed => {}
        End::PowerCut => files.cut_by(seed).unwrap(),
        End::PowerCutAndNoCopy => {
            files.cut_by(seed).unwrap();
            if dir.path().join("sled").exists() {
                std::fs::remove_dir_all(dir.path().join("sled")).unwrap();
            }
        }
    }
    files.heal();
    if seed.is_multiple_of(4) {
        let report = check(dir.path(), &CheckOptions { options: small(), ..CheckOptions::default() });
        assert!(report.verdict.opens(), "{name}: {report}");
    }
    for _ in 0..2 {
        let opened = Embedded::<Sum>::open(dir.path(), small());
        let store = opened.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        seen.check(&store, &name).await;
        let head = store.head().revision();
        let done = store.commit(vec![put(&store, "/r/p/0", "after")]).await.unwrap();
        assert_eq!(done.revision(), head.next(), "{name}");
        seen.events.insert(done.revision(), event_line(&done.events[0]));
        seen.acknowledged = done.revision();
        store.close().await;
    }
    no_panics(&name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_failure_of_every_operation() {
    note_panics();
    let (seed, rounds) = seed_and_rounds();
    let mut dice = Dice::new(seed);
    let dir = super::scratch();
    let whole = Faulty::new(u64::MAX);
    let mut seen = Seen::default();
    work(dir.path(), &whole, &mut seen, "nothing fails").await;
    assert_eq!(seen.acknowledged, Revision(62));
    let mut cases = Vec::new();
    for op in OPS {
        println!("{op:?}: {}", whole.count(op));
        for nth in 0..whole.count(op) {
            for for_good in [false, true] {
                cases.push(Fault { op: Some(op), nth, for_good, is_full: false });
            }
        }
    }
    assert!(cases.len() > 300, "{}", cases.len());
    let mut tried = 0;
    let mut run = async |fault: Fault, roll: u64| {
        let end = [End::Healed, End::PowerCut, End::PowerCutAndNoCopy][(roll >> 8) as usize % 3];
        case(Fault { is_full: roll & 0x80 != 0, ..fault }, end, roll).await;
        tried += 1;
    };
    match rounds {
        None => {
            for _ in 0..SAMPLE {
                let fault = cases[dice.below(cases.len())];
                run(fault, dice.roll()).await;
            }
        }
        Some(rounds) => {
            for _ in 0..rounds {
                for fault in &cases {
                    run(*fault, dice.roll()).await;
                }
            }
        }
    }
    println!("{tried} faults, {} operations in a run", cases.len() / 2);
}

#[tokio::test]
async fn failed_preallocation_is_harmless() {
    for op in [Op::Allocate, Op::Create] {
        let dir = super::scratch();
        let files = Faulty::new(u64::MAX);
        let options = || Options { files: Arc::new(files.clone()), snapshot_bytes: 1 << 30, ..small() };
        let store =
            Embedded::<Sum>::open(dir.path(), Options { segment_bytes: 1 << 30, ..options() }).unwrap();
        files.fail_op_after(op, 0);
        // More than one segment of 1 MiB.
        for n in 0..12 {
            let write = put(&store, &format!("/r/p/{n}"), &"x".repeat(200_000));
            store.commit(vec![write]).await.unwrap();
        }
        assert!(files.count(op) > 1, "{op:?} was tried");
        assert_eq!(store.poisoned(), None);
        store.close().await;
        files.heal();
        let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
        assert_eq!(store.head().revision(), Revision(12), "{op:?}");
        assert!(!super::names(&dir.path().join("journal")).iter().any(|name| name.ends_with(".tmp")));
    }
}

#[tokio::test]
async fn segments_grow_and_a_fresh_store_is_small() {
    let dir = super::scratch();
    let journal = dir.path().join("journal");
    let length = |name: &str| std::fs::metadata(journal.join(name)).unwrap().len() >> 20;
    let store = Embedded::<Sum>::open(dir.path(), Options::default()).unwrap();
    assert_eq!(super::names(&journal).iter().map(|name| length(name)).collect::<Vec<_>>(), [1]);
    for n in 0..60 {
        let write = put(&store, &format!("/r/p/{n}"), &"x".repeat(100_000));
        store.commit(vec![write]).await.unwrap();
        // The next segment is preallocated while this one fills.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    store.close().await;
    let names = super::names(&journal);
    assert!(names.len() > 1, "{names:?}");
    for (name, wanted) in names.iter().zip([1, 2, 4, 8]) {
        assert!(length(name) <= wanted * 2, "{name}");
    }
    drop(Embedded::<Sum>::open(dir.path(), Options::default()).unwrap());
}

/// The next process to open the directory preallocates segments under the same name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_leaves_no_preallocated_segment() {
    let dir = super::scratch();
    let options = || Options { snapshot_bytes: 1 << 30, ..small() };
    for round in 0..100 {
        let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
        for n in 0..1 + round % 5 {
            store.commit(vec![put(&store, &format!("/r/p/{n}"), &"x".repeat(700))]).await.unwrap();
        }
        store.close().await;
        let names = super::names(&dir.path().join("journal"));
        assert!(names.iter().all(|name| name.ends_with(".wal")), "round {round}: {names:?}");
    }
}

#[test]
fn failed_snapshot_leaves_no_file() {
    use crate::embedded::StoreId;
    use crate::embedded::snapshot::{self, ReadBack};
    for op in [Op::Create, Op::Write, Op::Sync, Op::Rename] {
        let dir = super::scratch();
        let files = Faulty::with(Fault { op: Some(op), nth: 0, for_good: false, is_full: true });
        let write = || {
            let at = (Revision(1), 0);
            snapshot::write_file(&files, dir.path(), StoreId::new(), at, 1, ReadBack::Skip, |encoder| {
                encoder.record(Revision(1), Revision(1), 0, "/r/p/a", b"x")
            })
        };
        assert!(write().is_err(), "{op:?}");
        assert_eq!(super::names(dir.path()), Vec::<String>::new(), "{op:?}");
        write().unwrap();
        assert_eq!(super::names(dir.path()), ["00000000000000000001.snap"], "{op:?}");
    }
}
