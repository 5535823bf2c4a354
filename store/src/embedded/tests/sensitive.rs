//! Former versions of sensitive records are hidden after a minute, and erased from all files. Current records survive a failure of every
//! step.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{records, scratch, small};
use crate::embedded::purge;
use crate::testing::faulty::Faulty;
use crate::testing::{Sum, delete_one, put_one};
use crate::{
    Embedded, Key, Kv, ManualClock, Options, ReadError, Redact, Revision, Sensitive, Stored, WatchError,
};

pub(super) const START_MS: i64 = 1_700_000_000_000;
pub(super) const SECRET: &str = "/r/secrets/a";
const DELETED: &str = "/r/secrets/deleted";
pub(super) const MAP: &str = "/r/maps/a";

/// Noise that sled and the compression of snapshots cannot shorten, so that the search finds it.
pub(super) fn marker(name: &str) -> String {
    format!("<marker of {name}: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08>")
}

pub(super) fn options(clock: &Arc<ManualClock>) -> Options {
    let sensitive = Sensitive {
        prefixes: vec!["/r/secrets/".to_owned()],
        age: Duration::from_secs(60),
        erase_every: Duration::ZERO,
        redact: Redact(Arc::new(|_: &Key, value: &Bytes| {
            value.starts_with(b"<marker").then(|| Bytes::from_static(b"rest"))
        })),
    };
    Options { sensitive, retain_every: Duration::ZERO, clock: clock.clone(), ..small() }
}

fn open(dir: &Path, clock: &Arc<ManualClock>) -> Embedded<Sum> {
    Embedded::open(dir, options(clock)).unwrap()
}

/// The files below a directory that contain a text. Fails if a file is removed during the search.
pub(super) fn search(dir: &Path, text: &str) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(search(&path, text)?);
        } else if std::fs::read(&path)?.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

/// The same, of a store that is not open.
pub(super) fn files_with(dir: &Path, text: &str) -> Vec<String> {
    search(dir, text).unwrap()
}

/// Waits until no file contains a text.
pub(super) async fn gone(dir: &Path, text: &str) {
    let start = Instant::now();
    loop {
        let found = search(dir, text);
        if found.as_ref().is_ok_and(Vec::is_empty) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{found:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Writes versions of two Secrets, of which one is deleted, and of another record.
pub(super) async fn write(store: &dyn Kv<Sum>) -> Revision {
    for name in ["first", "second", "current"] {
        put_one(store, SECRET, &marker(name)).await;
        put_one(store, MAP, &marker(&format!("map {name}"))).await;
    }
    put_one(store, DELETED, &marker("deleted")).await;
    delete_one(store, DELETED).await
}

#[tokio::test(flavor = "multi_thread")]
async fn former_versions_are_erased_from_every_file() {
    let dir = scratch();
    let clock = Arc::new(ManualClock::new(START_MS));
    // The history is written by a store without this retention, as by an earlier version.
    let store = Embedded::<Sum>::open(dir.path(), Options { snapshot_bytes: 64, ..small() }).unwrap();
    write(&store).await;
    store.close().await;
    drop(store);
    // Files that recovery has set aside.
    std::fs::create_dir(dir.path().join("sled.broken-1")).unwrap();
    std::fs::write(dir.path().join("sled.broken-1/db"), marker("first")).unwrap();
    std::fs::write(dir.path().join("snapshot/00000000000000000001.snap-broken"), marker("first")).unwrap();
    let former = ["first", "second", "deleted"].map(marker);
    for text in &former {
        assert!(!files_with(dir.path(), text).is_empty(), "{text} is found before");
    }

    let store = open(dir.path(), &clock);
    clock.set(START_MS + 60_000);
    for text in &former {
        gone(dir.path(), text).await;
    }
    // Current records and the history of other records stay.
    for text in ["current", "map first", "map current"].map(marker) {
        assert!(search(dir.path(), &text).is_ok_and(|found| !found.is_empty()), "{text}");
    }
    let wanted = records(&store);
    assert_eq!(store.history(&Key::from(MAP), 10).await.unwrap().len(), 3);
    let history = store.history(&Key::from(SECRET), 10).await.unwrap();
    let left: Vec<_> = history.iter().map(|event| event.record.as_ref().unwrap().value.clone()).collect();
    assert_eq!(left, [&*marker("current"), "rest", "rest"]);
    // Later versions too, while the store is open and idle.
    let put = put_one(&store, SECRET, &marker("newest")).await;
    clock.set(START_MS + 120_000);
    gone(dir.path(), &marker("current")).await;
    let after = records(&store);
    assert_eq!(after.len(), wanted.len());
    store.close().await;
    drop(store);
    let store = open(dir.path(), &clock);
    assert_eq!(records(&store), after);
    assert_eq!(store.head().revision(), put);
    assert_eq!(store.history(&Key::from(MAP), 10).await.unwrap().len(), 3);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn former_versions_are_hidden_after_a_minute() {
    let dir = scratch();
    let clock = Arc::new(ManualClock::new(START_MS));
    let store = open(dir.path(), &clock);
    let first = put_one(&store, SECRET, "first").await;
    put_one(&store, MAP, "map").await;
    let mut running = store.watch("/r/secrets/", first).unwrap();
    put_one(&store, SECRET, "second").await;
    put_one(&store, MAP, "other map").await;
    let deleted = delete_one(&store, SECRET).await;
    super::fed(&store).await;
    // At first, watches and lists in progress read them.
    let seen = running.next().await.unwrap();
    assert_eq!(seen.last().unwrap().prev.as_ref().unwrap().value, "second");
    assert_eq!(store.at(first, "/r/secrets/").await.unwrap().get(SECRET).unwrap().value, "first");
    assert_eq!(store.history(&Key::from(SECRET), 9).await.unwrap().len(), 3);

    clock.set(START_MS + 60_000);
    while store.past.former.floor() < deleted {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let wanted = Some(deleted);
    let expired = |error: ReadError| match error {
        ReadError::Expired { oldest, .. } => Some(oldest),
        _ => None,
    };
    for prefix in ["/r/secrets/", SECRET] {
        assert_eq!(store.at(first, prefix).await.err().and_then(expired), wanted, "{prefix}");
        let late = match store.watch(prefix, first) {
            Ok(mut watch) => watch.next().await.err(),
            Err(error) => Some(error),
        };
        assert!(matches!(late, Some(WatchError::Expired { .. })), "{prefix}");
    }
    // Readers of everything get the events without the values.
    let state = store.at(first, "").await.unwrap();
    assert!(matches!(state.get(SECRET).unwrap().stored, Stored::Erased));
    let texts = |event: &crate::Event<Sum>| {
        let value = |record: &Option<Arc<crate::Record<Sum>>>| {
            record.as_ref().map(|record| String::from_utf8(record.value.to_vec()).unwrap())
        };
        (value(&event.record), value(&event.prev))
    };
    let events = store.events(Revision::ZERO, 10).await.unwrap();
    let history = store.history(&Key::from(SECRET), 9).await.unwrap();
    for event in events.iter().chain(&history).filter(|event| event.key.as_str() == SECRET) {
        let (record, prev) = texts(event);
        assert!(record.is_none_or(|value| value.is_empty()) && prev.is_none_or(|value| value.is_empty()));
    }
    assert_eq!((events.len(), history.len()), (5, 3), "no event is missing");
    assert_eq!(texts(&events[3]), (Some("other map".to_owned()), Some("map".to_owned())));
    // A running watch continues, and so does one that starts now.
    let mut late = store.watch("/r/secrets/", deleted).unwrap();
    let again = put_one(&store, SECRET, "again").await;
    for watch in [&mut running, &mut late] {
        assert_eq!(watch.next().await.unwrap()[0].revision, again);
    }
    // The clock is set back, and the store restarts: nothing reappears.
    store.close().await;
    drop(store);
    clock.set(START_MS);
    let store = open(dir.path(), &clock);
    assert_eq!(store.at(first, SECRET).await.err().and_then(expired), wanted);
    store.close().await;
}

/// The power fails at every operation of an erasure: afterwards, the store contains all records, and no former version is readable.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_erasure_loses_no_record_and_restores_no_former_version() {
    let made = scratch();
    let clock = Arc::new(ManualClock::new(START_MS));
    let store = Embedded::<Sum>::open(made.path(), Options { snapshot_bytes: 64, ..small() }).unwrap();
    write(&store).await;
    let (wanted, head) = (records(&store), store.head().revision());
    store.close().await;
    drop(store);
    let copied = || {
        let dir = scratch();
        super::power::copy(made.path(), dir.path()).unwrap();
        dir
    };
    clock.set(START_MS + 60_000);
    let with = |files: &Faulty| Options { files: Arc::new(files.clone()), ..options(&clock) };
    // The number of operations in a complete run.
    let (dir, whole) = (copied(), Faulty::new(u64::MAX));
    let store = Embedded::<Sum>::open(dir.path(), with(&whole)).unwrap();
    gone(dir.path(), &marker("first")).await;
    let total = whole.done();
    store.close().await;
    drop(store);
    for at in (0..=total).filter(|at| at % 2 == total % 2) {
        let (dir, files) = (copied(), Faulty::new(at));
        if let Ok(store) = Embedded::<Sum>::open(dir.path(), with(&files)) {
            let end = Instant::now() + Duration::from_millis(300);
            while Instant::now() < end
                && files.done() <= at
                && !search(dir.path(), &marker("first")).is_ok_and(|found| found.is_empty())
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            store.close().await;
        }
        files.cut().unwrap();
        let store = open(dir.path(), &clock);
        assert_eq!((records(&store), store.head().revision()), (wanted.clone(), head), "operation {at}");
        assert!(store.at(Revision(1), SECRET).await.is_err(), "operation {at}");
        for event in store.history(&Key::from(SECRET), 9).await.unwrap().iter().skip(1) {
            assert!(event.record.as_ref().is_none_or(|record| record.value == "rest"), "operation {at}");
        }
        for text in ["first", "second", "deleted"].map(marker) {
            gone(dir.path(), &text).await;
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_erases_one_key_from_every_file() {
    let dir = scratch();
    let store = Embedded::<Sum>::open(dir.path(), Options { snapshot_bytes: 64, ..small() }).unwrap();
    write(&store).await;
    let wanted = records(&store);
    store.close().await;
    drop(store);
    assert_eq!(purge(dir.path(), &Key::from(SECRET), &small()).unwrap(), 2);
    for (name, is_gone) in
        [("first", true), ("second", true), ("current", false), ("map first", false), ("deleted", false)]
    {
        assert_eq!(files_with(dir.path(), &marker(name)).is_empty(), is_gone, "{name}");
    }
    assert_eq!(purge(dir.path(), &Key::from(DELETED), &small()).unwrap(), 1);
    assert_eq!(files_with(dir.path(), &marker("deleted")), Vec::<String>::new());
    assert_eq!(purge(dir.path(), &Key::from("/r/secrets/none"), &small()).unwrap(), 0);
    let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
    assert_eq!(records(&store), wanted);
    let history = store.history(&Key::from(SECRET), 9).await.unwrap();
    assert_eq!(history.len(), 3);
    assert!(matches!(history[2].record.as_ref().unwrap().stored, Stored::Erased));
    store.close().await;
}

/// After a purge, only the snapshot knows the time of the last write if the served copy is lost.
#[tokio::test(flavor = "multi_thread")]
async fn time_does_not_jump_back_after_a_purge_with_a_clock_that_did() {
    let (dir, clock) = (scratch(), Arc::new(ManualClock::new(START_MS)));
    let store = open(dir.path(), &clock);
    write(&store).await;
    store.close().await;
    drop(store);
    clock.set(START_MS - 3_600_000);
    purge(dir.path(), &Key::from(SECRET), &options(&clock)).unwrap();
    std::fs::remove_dir_all(dir.path().join("sled")).unwrap();
    let store = open(dir.path(), &clock);
    put_one(&store, MAP, "later").await;
    assert!(store.head().get(MAP).unwrap().time_ms >= START_MS);
    store.close().await;
}
