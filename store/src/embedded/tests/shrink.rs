//! Replacing the served copy while the store is in use: no reader misses an event, and nothing is lost
//! whenever the power fails.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{events, records, small, story};
use crate::testing::{Sum, put_one};
use crate::{Embedded, Kv, Options, Retention, Revision};

fn options() -> Options {
    Options {
        // A small limit would make writers wait for the copy, which is not under test here.
        backlog_bytes: 1 << 20,
        renew_every: Duration::ZERO,
        ..small()
    }
}

/// Waits until a new copy is in use.
async fn renewed(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let inode = || std::fs::metadata(dir.join("sled/db")).map_or(0, |data| data.ino());
    let (before, start) = (inode(), Instant::now());
    while [before, 0].contains(&inode()) || dir.join("sled.next").exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "no fresh copy came");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    inode()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_copy_has_the_contents_of_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::<Sum>::open(dir.path(), options()).unwrap());
    story(&*store, 300).await;
    store.compact(Revision(120)).await.unwrap();
    let reader = {
        let store = store.clone();
        tokio::spawn(async move {
            let snapshot = store.at(Revision(150), "").await.unwrap();
            let expected: Vec<_> =
                snapshot.range("", None).map(|record| crate::testing::record_line(record)).collect();
            let mut reads = 0;
            while store.head().get("/r/end").is_none() {
                let again = store.at(Revision(150), "").await.unwrap();
                assert!(
                    again
                        .range("", None)
                        .map(|record| crate::testing::record_line(record))
                        .eq(expected.iter().cloned())
                );
                reads += 1;
            }
            reads
        })
    };
    for round in 0..3 {
        story(&*store, 50).await;
        renewed(dir.path()).await;
        let state = (records(&*store), events(&*store).await, store.oldest());
        assert_eq!(state.2, Revision(120), "round {round}");
    }
    put_one(&*store, "/r/end", "x").await;
    assert!(reader.await.unwrap() > 0);
    let before = (records(&*store), events(&*store).await, store.oldest());
    store.close().await;
    drop(store);
    let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
    assert_eq!((records(&store), events(&store).await, store.oldest()), before);
    assert!(!super::names(dir.path()).iter().any(|name| name.starts_with("sled.")), "nothing is set aside");
}

/// Copies the directory file by file, as a kill at that time would leave it.
fn frozen(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            frozen(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn unfinished_copy_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
    story(&store, 200).await;
    let before = (records(&store), events(&store).await);
    store.close().await;
    drop(store);
    // Each state in which the power may fail. `sled` is renamed last and atomically.
    for (name, states) in [
        ("half copied", &[("sled", "sled.next", true)][..]),
        ("exchanged, the old one still there", &[("sled", "sled.next", false)]),
        ("two steps: the first one done", &[("sled", "sled.next", false), ("sled", "sled.past", false)]),
    ] {
        let copy = tempfile::tempdir().unwrap();
        frozen(dir.path(), copy.path()).unwrap();
        for (from, to, cut) in states {
            frozen(&copy.path().join(from), &copy.path().join(to)).unwrap();
            if *cut {
                std::fs::remove_file(copy.path().join(to).join("conf")).unwrap();
                let db =
                    std::fs::OpenOptions::new().write(true).open(copy.path().join(to).join("db")).unwrap();
                db.set_len(1000).unwrap();
            }
        }
        if states.len() == 2 {
            std::fs::remove_dir_all(copy.path().join("sled")).unwrap();
        }
        let store = Embedded::<Sum>::open(copy.path(), small()).unwrap();
        assert_eq!((records(&store), events(&store).await), before, "{name}");
        assert!(!super::names(copy.path()).iter().any(|name| name.starts_with("sled.")), "{name}");
    }
}

#[tokio::test]
async fn closed_directory_is_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        retention: Retention { age: Duration::ZERO, revisions: 50, bytes: 1 << 30 },
        retain_every: Duration::from_secs(3600),
        ..small()
    };
    let store = Embedded::<Sum>::open(dir.path(), options.clone()).unwrap();
    for n in 0..400 {
        put_one(&store, &format!("/r/p/{}", n % 20), &format!("{n} {}", "x".repeat(20_000))).await;
    }
    let before = records(&store);
    let refused =
        crate::embedded::compact(dir.path(), &Options { lock_wait: Duration::ZERO, ..options.clone() });
    assert!(matches!(refused, Err(crate::OpenError::Locked { .. })), "{refused:?}");
    store.close().await;
    drop(store);
    let options = Options { clock: Arc::new(crate::ManualClock::new(1_700_000_100_000)), ..options };
    let first = crate::embedded::compact(dir.path(), &options).unwrap();
    assert!(first.after < first.before / 2, "{first:?}");
    let again = crate::embedded::compact(dir.path(), &options).unwrap();
    assert!(again.after <= first.after + (1 << 20), "{again:?}");
    let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
    assert_eq!(records(&store), before);
    assert!(store.oldest().0 >= 300 && store.head().revision() == Revision(400));
    assert!(!events(&store).await.is_empty());
    let empty = tempfile::tempdir().unwrap();
    assert!(
        crate::embedded::compact(empty.path(), &small()).is_err(),
        "no store is made where there is none"
    );
    assert_eq!(super::names(empty.path()), Vec::<String>::new());
}
