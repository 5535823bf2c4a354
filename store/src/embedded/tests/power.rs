//! Power failures at every file system operation. Every acknowledged write must be there afterwards, and no
//! write may be half done.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{events, records, small, story};
use crate::testing::faulty::Faulty;
use crate::testing::{Sum, put, put_one, record_line};
use crate::{CommitError, Embedded, Kv, Options, Revision};

fn on(files: &Faulty) -> Options {
    Options { files: Arc::new(files.clone()), segment_bytes: 1 << 10, snapshot_bytes: 3 << 10, ..small() }
}

/// Opens and writes until an operation fails. Returns the last acknowledged state and its revision.
async fn write_until_failure(dir: &Path, files: &Faulty, limit: usize) -> Option<(Vec<String>, Revision)> {
    let store = Embedded::<Sum>::open(dir, on(files)).ok()?;
    let mut acknowledged = (records(&store), store.head().revision());
    for n in 0..limit {
        let writes =
            (0..1 + n % 3).map(|m| put(&store, &format!("/r/p/{}", (n + m) % 5), &format!("{n} {m}")));
        let result = store.commit(writes.collect()).await;
        match result {
            Ok(done) => acknowledged = (records(&store), done.revision()),
            Err(CommitError::Poisoned(_)) => {
                assert!(store.poisoned().is_some());
                assert_eq!(records(&store), acknowledged.0, "what is unknown is not shown");
                break;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    store.close().await;
    Some(acknowledged)
}

#[tokio::test]
async fn acknowledged_writes_survive_a_power_failure_at_every_operation() {
    // The number of operations in a complete run.
    let whole = Faulty::new(u64::MAX);
    let dir = super::scratch();
    write_until_failure(dir.path(), &whole, 40).await;
    let total = whole.done();
    assert!(total > 100, "{total}");
    for at in (0..total).filter(|at| *at < 30 || at % 5 == total % 5) {
        let dir = super::scratch();
        let files = Faulty::new(at);
        let acknowledged = write_until_failure(dir.path(), &files, 40).await;
        files.cut().unwrap();
        let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
        let (wanted, revision) = acknowledged.unwrap_or_default();
        let head = store.head().revision();
        assert!(head >= revision, "operation {at}: {revision} was acknowledged, the head is {head}");
        if head == revision {
            assert_eq!(records(&store), wanted, "operation {at}");
        }
        let past = store.at(revision, "").await.unwrap();
        let past: Vec<_> = past.range("", None).map(|record| record_line(record)).collect();
        assert_eq!(past, wanted, "operation {at}");
        events(&store).await;
        assert_eq!(put_one(&store, "/r/p/new", "1").await, head.next());
        store.close().await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_power_failure_during_recovery() {
    let made = super::scratch();
    let store = super::open(made.path());
    story(&store, 60).await;
    let wanted = records(&store);
    store.close().await;
    for at in 0..14 {
        let dir = super::scratch();
        copy(made.path(), dir.path()).unwrap();
        std::fs::remove_dir_all(dir.path().join("sled")).unwrap();
        std::fs::create_dir(dir.path().join("sled")).unwrap();
        let files = Faulty::new(at);
        match Embedded::<Sum>::open(dir.path(), on(&files)) {
            Ok(store) => store.close().await,
            Err(error) => println!("operation {at}: {error}"),
        }
        files.cut().unwrap();
        let store = super::open(dir.path());
        assert_eq!(records(&store), wanted, "operation {at}");
    }
}

#[tokio::test]
async fn failed_sync_poisons_the_store() {
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let store =
        Embedded::<Sum>::open(dir.path(), Options { files: Arc::new(files.clone()), ..small() }).unwrap();
    put_one(&store, "/r/p/a", "1").await;
    let mut watcher = store.watch("/r/p/", Revision(1)).unwrap();
    // The append succeeds, its sync fails.
    files.fail_after(1);
    let error = store.commit(vec![put(&store, "/r/p/a", "2")]).await.unwrap_err();
    assert!(matches!(&error, CommitError::Poisoned(why) if why.contains("cannot sync")), "{error:?}");
    assert!(store.poisoned().unwrap().contains("cannot sync"));
    let error = store.commit(vec![put(&store, "/r/p/b", "2")]).await.unwrap_err();
    assert!(matches!(error, CommitError::Poisoned(_)), "{error:?}");
    // Reads continue, and show only what was acknowledged.
    assert_eq!(records(&store), ["/r/p/a=1 1..1"]);
    assert_eq!(store.history(&"/r/p/a".into(), 9).await.unwrap().len(), 1);
    let silent = tokio::time::timeout(Duration::from_millis(20), watcher.next()).await;
    assert!(silent.is_err());
    store.close().await;
    // The outcome was unknown and is known now: here, the bytes had reached the file.
    let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
    assert_eq!(records(&store), ["/r/p/a=2 1..2"]);
    assert_eq!(put_one(&store, "/r/p/a", "3").await, Revision(3));
}

#[tokio::test]
async fn data_dropped_by_a_failed_sync_is_written_again() {
    let dir = super::scratch();
    let files = Faulty::new(u64::MAX);
    let options = || Options { files: Arc::new(files.clone()), ..small() };
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    put_one(&store, "/r/p/a", "1").await;
    files.fail_after(1);
    assert!(store.commit(vec![put(&store, "/r/p/a", "2")]).await.is_err());
    store.close().await;
    files.heal();
    // The entry is read from the page cache, and counts from then on.
    let store = Embedded::<Sum>::open(dir.path(), options()).unwrap();
    assert_eq!(put_one(&store, "/r/p/b", "3").await, Revision(3));
    store.close().await;
    files.cut().unwrap();
    // Without the served copy, which could restore the entry.
    std::fs::remove_dir_all(dir.path().join("sled")).unwrap();
    let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
    assert_eq!(records(&store), ["/r/p/a=2 1..2", "/r/p/b=3 3..3"]);
}

pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
