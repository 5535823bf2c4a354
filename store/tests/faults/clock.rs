//! A wall clock that jumps: only time stamps depend on it, and those never decrease.

use std::sync::Arc;
use std::time::Duration;

use orlop_store::{Embedded, Expect, Key, Kv, ManualClock, Op, Options, Retention, Revision, Write};

use crate::load::{options, value_of};

const DAY: i64 = 24 * 3600 * 1000;
const NOW: i64 = 1_700_000_000_000;

async fn put(store: &Embedded<()>, n: u64) -> (Revision, i64) {
    let key = format!("/r/p/{}", n % 7);
    let there = store.head().get(&key).map(|record| record.mod_revision);
    let expect = there.map_or(Expect::Absent, Expect::Revision);
    let op = Op::Put { value: value_of(&format!("{n}")), view: () };
    let done = store.commit(vec![Write { key: Key::new(key), expect, op }]).await.unwrap();
    (done.revision(), done.events[0].time_ms)
}

/// The clock jumps between writes and between processes, by years.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_stamps_never_decrease() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(NOW));
    let open = || {
        let options = Options { clock: clock.clone(), retention: Retention::default(), ..options() };
        Embedded::<()>::open(dir.path(), options).unwrap()
    };
    let (mut n, mut newest) = (0, 0);
    for jump in [0, -1, -400 * DAY, 3000 * DAY, i64::MIN, 1, 3001 * DAY, -DAY, 2 * DAY] {
        let store = open();
        for step in [0, 1, -DAY, 60_000] {
            let now = if jump == i64::MIN { 0 } else { NOW + jump + step };
            clock.set(now);
            n += 1;
            let (revision, time_ms) = put(&store, n).await;
            assert_eq!(revision, Revision(n), "jump {jump}");
            assert_eq!(time_ms, now.max(newest), "jump {jump} and {step}");
            newest = time_ms;
        }
        store.close().await;
    }
    // All events are still there, in order, with unchanged time stamps.
    let store = open();
    let mut watcher = store.watch("", store.oldest()).unwrap();
    let (mut at, mut time_ms) = (store.oldest(), 0);
    while at < store.head().revision() {
        for event in watcher.next().await.unwrap() {
            assert_eq!(event.revision, at.next());
            assert!(event.time_ms >= time_ms);
            (at, time_ms) = (event.revision, event.time_ms);
        }
    }
    assert_eq!(at, Revision(n));
    store.close().await;
}

/// A clock that jumps ahead makes every event old; the number protected by `revisions` stays, and no record is
/// dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_jump_ahead_compacts_no_more_than_the_retention_allows() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(NOW));
    let retention = Retention { age: Duration::from_secs(3600), revisions: 200, ..Retention::default() };
    let options = Options { clock: clock.clone(), retention, ..options() };
    let store = Embedded::<()>::open(dir.path(), options.clone()).unwrap();
    for n in 1..=1000 {
        put(&store, n).await;
    }
    assert_eq!(store.oldest(), Revision::ZERO, "all is young");
    clock.set(NOW + 1000 * DAY);
    let mut n = 1000;
    // The retention is checked only from time to time, after writes.
    let looked = tokio::time::timeout(Duration::from_secs(60), async {
        while store.oldest() == Revision::ZERO {
            n += 1;
            put(&store, n).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    looked.await.expect("the old is forgotten");
    clock.set(NOW - 1000 * DAY);
    for _ in 0..50 {
        n += 1;
        put(&store, n).await;
    }
    let kept = store.head().revision().0 - store.oldest().0;
    assert!(kept >= 200, "only {kept} revisions are kept");
    assert_eq!(store.head().range("", None).count(), 7);
    store.close().await;
    let store = Embedded::<()>::open(dir.path(), options).unwrap();
    assert_eq!((store.head().revision(), store.head().range("", None).count()), (Revision(n), 7));
    store.close().await;
}
