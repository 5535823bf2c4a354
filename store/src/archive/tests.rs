//! Tests of snapshot files: a restored store has the saved records and a new history, and damaged files
//! are refused with a description of the damage.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::format::{HEADER, TRAILER};
use super::*;
use crate::testing::{Sum, delete_one, put, put_one, record_line};
use crate::{Embedded, Kv, Memory, Options, ReadError, Revision, WatchError};

fn options() -> Options {
    Options { ballast_bytes: Some(0), ..Options::default() }
}

fn records(store: &dyn Kv<Sum>) -> Vec<String> {
    store.head().range("", None).map(|record| record_line(record)).collect()
}

/// Key, value and revisions of each record, with the revisions moved back by `bump`.
fn plain(store: &dyn Kv<Sum>, bump: u64) -> Vec<(String, Vec<u8>, u64, u64)> {
    let head = store.head();
    let of = |record: &Arc<crate::Record<Sum>>| {
        let (create, revision) = (record.create_revision.0 - bump, record.mod_revision.0 - bump);
        (record.key.to_string(), record.value.to_vec(), create, revision)
    };
    head.range("", None).map(of).collect()
}

fn save_to(path: &Path, store: &dyn Kv<Sum>, time_ms: i64) -> Header {
    let head = store.head();
    save(path, |out| write(out, store.id(), time_ms, &head, &[])).unwrap()
}

#[tokio::test]
async fn restored_store_has_the_saved_records_and_a_new_history() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("it.snapshot");
    let store = Embedded::<Sum>::open(dir.path().join("old"), options()).unwrap();
    for n in 0..300 {
        put_one(&store, &format!("/registry/pods/{}", n % 70), &"v".repeat(n * 10)).await;
    }
    delete_one(&store, "/registry/pods/3").await;
    put_one(&store, "/registry/nodes/a", "x").await;
    let header = save_to(&file, &store, 1_700_000_000_123);
    assert_eq!((header.revision.0, header.records), (302, 70));
    let summary = check(&file).unwrap();
    assert_eq!(summary.header, header);
    let topics: Vec<_> = summary.topics.iter().map(|(name, count)| format!("{name} {count}")).collect();
    assert_eq!(topics, ["/registry/nodes/ 1", "/registry/pods/ 69"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "Secrets may be in it");

    let new = dir.path().join("new");
    std::fs::create_dir(&new).unwrap();
    let restored = restore(&file, &new, BUMP, &[], &options()).unwrap();
    assert_eq!((restored.from, restored.revision.0), (header, BUMP + 302));
    assert_ne!(restored.store, header.store, "it is another store");
    let again = Embedded::<Sum>::open(&new, options()).unwrap();
    assert_eq!(again.id(), restored.store);
    assert_eq!(plain(&again, BUMP), plain(&store, 0));
    // I11: the restored store's revisions are newer than any that a client of the old store has seen, and the
    // revisions from which such a client would continue are Expired.
    assert_eq!(again.oldest(), restored.revision);
    for old in [1, 302, 5000] {
        let old = Revision(old);
        let watch = again.watch("/registry/pods/", old).map(drop);
        let ended = match watch {
            Ok(()) => again.watch("/registry/pods/", old).unwrap().next().await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(ended, Err(WatchError::Expired { .. })), "{old}: {ended:?}");
        assert!(matches!(again.at(old, "").await, Err(ReadError::Expired { .. })), "{old}");
    }
    // A list followed by a watch works, as after every relist.
    let mut watcher = again.watch("/registry/pods/", again.head().revision()).unwrap();
    let next = put_one(&again, "/registry/pods/new", "x").await;
    assert_eq!(next.0, BUMP + 303);
    assert_eq!(watcher.next().await.unwrap()[0].revision, next);
    again.close().await;
    drop(again);
    let again = Embedded::<Sum>::open(&new, options()).unwrap();
    assert_eq!(again.head().revision(), next);

    for taken in [&new, &dir.path().join("old")] {
        assert!(matches!(restore(&file, taken, BUMP, &[], &options()), Err(ArchiveError::NotEmpty { .. })));
    }
    let far = restore(&file, &dir.path().join("far"), u64::MAX, &[], &options());
    assert!(matches!(far, Err(ArchiveError::Bump { .. })));
    assert!(!dir.path().join("far").exists() && !dir.path().join("far.restoring").exists());
}

#[tokio::test]
async fn omitted_records_are_in_neither_the_file_nor_the_restored_store() {
    let dir = tempfile::tempdir().unwrap();
    let (all, part) = (dir.path().join("all.snapshot"), dir.path().join("part.snapshot"));
    let store = Memory::<Sum>::new();
    for key in ["/r/keys/a", "/r/pods/a", "/r/secrets/x/token-1", "/r/secrets/x/other"] {
        put_one(&store, key, "x").await;
    }
    let omitted = ["/r/keys/", "/r/secrets/x/token-"];
    save_to(&all, &store, 5);
    save(&part, |out| write(out, store.id(), 5, &store.head(), &omitted)).unwrap();
    assert_eq!(check(&part).unwrap().header.records, 2);
    for (name, file, count) in [("all", &all, 2), ("part", &part, 0)] {
        let new = dir.path().join(name);
        assert_eq!(restore(file, &new, BUMP, &omitted, &options()).unwrap().omitted, count, "{name}");
        let restored = Embedded::<Sum>::open(&new, options()).unwrap();
        let keys: Vec<_> = restored.head().range("", None).map(|record| record.key.to_string()).collect();
        assert_eq!(keys, ["/r/pods/a", "/r/secrets/x/other"], "{name}");
    }
}

#[tokio::test]
async fn empty_and_in_memory_stores_can_be_saved() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("it.snapshot");
    let memory = Memory::<Sum>::new();
    for (name, count) in [("empty", 0), ("one", 1)] {
        if count > 0 {
            put_one(&memory, "/r/p/a", "x").await;
        }
        save_to(&file, &memory, 5);
        assert_eq!(check(&file).unwrap().header.records, count, "{name}");
        let new = dir.path().join(name);
        restore(&file, &new, 0, &[], &options()).unwrap();
        let store = Embedded::<Sum>::open(&new, options()).unwrap();
        assert_eq!(plain(&store, 0), plain(&memory, 0), "{name}");
        assert_eq!(put_one(&store, "/r/p/b", "x").await.0, count + 1, "{name}");
    }
}

/// A snapshot taken during writes contains every write acknowledged before it, and no part of a later
/// commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn snapshot_taken_during_writes_is_consistent() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::<Sum>::open(dir.path().join("old"), options()).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    // The last acknowledged number of each writer, which writes one number to two keys in one commit.
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..4).map(|_| AtomicU64::new(0)).collect());
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, stop, acknowledged) = (store.clone(), stop.clone(), acknowledged.clone());
            tokio::spawn(async move {
                for n in 1_u64.. {
                    let writes = ["a", "b"].map(|part| {
                        put(&*store, &format!("/r/p/{writer}{part}"), &format!("{n} {}", "x".repeat(500)))
                    });
                    store.commit(writes.into()).await.unwrap();
                    acknowledged[writer].store(n, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
        })
        .collect();
    while acknowledged.iter().any(|count| count.load(Ordering::SeqCst) < 3) {
        tokio::task::yield_now().await;
    }
    for round in 0..5 {
        let file = dir.path().join(format!("{round}.snapshot"));
        let before: Vec<_> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        let saving = {
            let (store, file) = (store.clone(), file.clone());
            tokio::task::spawn_blocking(move || save_to(&file, &*store, 1))
        };
        saving.await.unwrap();
        let new = dir.path().join(format!("new{round}"));
        restore(&file, &new, BUMP, &[], &options()).unwrap();
        let restored = Embedded::<Sum>::open(&new, options()).unwrap();
        let values: BTreeMap<_, _> = plain(&restored, BUMP)
            .into_iter()
            .map(|(key, value, ..)| {
                let text = String::from_utf8(value).unwrap();
                (key, text.split(' ').next().unwrap().parse::<u64>().unwrap())
            })
            .collect();
        for (writer, before) in before.iter().enumerate() {
            let [a, b] = ["a", "b"].map(|part| values[&format!("/r/p/{writer}{part}")]);
            assert_eq!(a, b, "round {round}: a commit is in it as a whole or not at all");
            assert!(a >= *before, "round {round}: {before} was acknowledged, the snapshot has {a}");
        }
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn damaged_files_are_refused_with_a_description() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("it.snapshot");
    let store = Memory::<Sum>::new();
    let mut random = StdRng::seed_from_u64(7);
    for n in 0..40 {
        let noise: String = (0..400).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
        put_one(&store, &format!("/r/p/{n}"), &noise).await;
    }
    save_to(&path, &store, 1);
    let good = std::fs::read(&path).unwrap();
    let before = records(&store);
    let refused = |bytes: &[u8], name: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = check(&path).expect_err(name).to_string();
        assert!(error.contains("it.snapshot"), "{name}: {error}");
        let new = dir.path().join("new");
        assert!(restore(&path, &new, BUMP, &[], &options()).is_err(), "{name}");
        assert!(!new.exists() && !dir.path().join("new.restoring").exists(), "{name}: nothing is left");
        error
    };
    for at in 0..good.len() {
        let near_an_end = at < HEADER + 100 || at + TRAILER + 100 > good.len();
        if !near_an_end && at % 97 != 0 {
            continue;
        }
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        refused(&bad, &format!("byte {at}"));
    }
    for cut in [0, 1, 7, HEADER - 1, HEADER, HEADER + 1, HEADER + TRAILER, good.len() / 2, good.len() - 1] {
        refused(&good[..cut], &format!("cut at {cut}"));
    }
    refused(&[&good[..], b"x"].concat(), "more behind it");
    refused(&[&good[..HEADER], &good[good.len() - TRAILER..]].concat(), "no body");
    // A complete file of another format.
    for format in [0_u32, 2] {
        let mut other = good.clone();
        other[8..12].copy_from_slice(&format.to_le_bytes());
        let crc = crc32c::crc32c(&other[..HEADER - 4]).to_le_bytes();
        other[HEADER - 4..HEADER].copy_from_slice(&crc);
        let error = refused(&other, "another format");
        assert!(
            error.contains(&format!("has format {format}")) && error.contains("reads format 1"),
            "{error}"
        );
    }
    assert!(
        refused(b"SQLite format 3\0 and much more of it, so that it is long enough", "foreign")
            .contains("is no snapshot")
    );
    std::fs::write(&path, &good).unwrap();
    check(&path).unwrap();
    assert_eq!(records(&store), before);
}

#[test]
fn temporary_file_is_new_and_private() {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (file, precious) = (dir.path().join("file"), dir.path().join("precious"));
    std::fs::write(&precious, "dear").unwrap();
    symlink(&precious, dir.path().join("file.tmp")).unwrap();
    super::save(&file, |out| out.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(&precious).unwrap(), b"dear");
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
    assert_eq!(std::fs::symlink_metadata(&file).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn failed_save_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("it.snapshot");
    std::fs::write(&path, "what was there").unwrap();
    let failed = save(&path, |out| {
        std::io::Write::write_all(out, b"half")?;
        Err::<(), _>(std::io::Error::other("no"))
    });
    assert!(matches!(failed, Err(ArchiveError::Io { action: "write", .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
