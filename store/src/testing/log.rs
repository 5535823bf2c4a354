//! The log as a whole: the events of all keys in order, and the revision at a given time.

use super::*;
use crate::watch::BATCH;
use crate::{ReadError, revision_at};

pub(super) const CASES: Theme = &[
    ("all keys in order, page by page", |b| Box::pin(pages(b))),
    ("pages are bounded", |b| Box::pin(bounded(b))),
    ("pages after compaction", |b| Box::pin(compacted(b))),
    ("pages while writers continue", |b| Box::pin(meanwhile(b))),
    ("history before a revision", |b| Box::pin(before(b))),
    ("which revision it was", |b| Box::pin(times(b))),
    ("which revision it was, after compaction", |b| Box::pin(times_compacted(b))),
    ("a clock that jumps back", |b| Box::pin(back(b))),
];

/// All events after a revision, read in pages of up to `limit`. A page may be shorter, but is empty only at
/// the end.
async fn page(store: &dyn Kv<Sum>, mut after: u64, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let left = limit - lines.len();
        let events = store.events(Revision(after), left).await.unwrap();
        assert!(events.len() <= left.min(BATCH), "after {after}, limit {left}: {}", events.len());
        let Some(last) = events.last() else { return lines };
        after = last.revision.0;
        lines.extend(events.iter().map(|event| event_line(event)));
    }
}

/// Six revisions of keys in three topics; the last two are one commit.
async fn story(store: &dyn Kv<Sum>) -> Vec<&'static str> {
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/q/b", "2").await;
    put_one(store, "/r/p/a", "3").await;
    delete_one(store, "/r/q/b").await;
    let writes = vec![put(store, "/s/x/c", "5"), put(store, "/r/q/b", "6")];
    commit(store, writes).await;
    vec![
        "@1 /r/p/a: /r/p/a=1 1..1 <- -",
        "@2 /r/q/b: /r/q/b=2 2..2 <- -",
        "@3 /r/p/a: /r/p/a=3 1..3 <- /r/p/a=1 1..1",
        "@4 /r/q/b: - <- /r/q/b=2 2..2",
        "@5 /s/x/c: /s/x/c=5 5..5 <- -",
        "@6 /r/q/b: /r/q/b=6 6..6 <- -",
    ]
}

async fn pages(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(2));
    assert_eq!(page(store, 0, 10).await, Vec::<String>::new());
    let wanted = story(store).await;
    for after in 0..=6 {
        for limit in [0, 1, 2, 6, 100] {
            let rest = &wanted[after..];
            let got = page(store, after as u64, limit).await;
            assert_eq!(got, rest[..limit.min(rest.len())], "after {after}, limit {limit}");
        }
    }
    let error = store.events(Revision(7), 1).await.unwrap_err();
    assert!(matches!(error, ReadError::Future { wanted: Revision(7), head: Revision(6) }), "{error:?}");
}

async fn bounded(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    for n in 0..BATCH + 10 {
        put_one(store, &format!("/r/{}/x", n % 5), "v").await;
    }
    let mut after = Revision::ZERO;
    let mut sizes = Vec::new();
    loop {
        let events = store.events(after, usize::MAX).await.unwrap();
        let Some(last) = events.last() else { break };
        for event in &events {
            assert_eq!(event.revision, after.next());
            after = event.revision;
        }
        assert_eq!(last.revision, after);
        sizes.push(events.len());
    }
    assert!(sizes.iter().all(|size| *size <= BATCH), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), BATCH + 10, "{sizes:?}");
}

async fn compacted(backend: &dyn Backend) {
    let store = &*backend.open(Setup::rings(1));
    let wanted = story(store).await;
    store.compact(Revision(3)).await.unwrap();
    assert_eq!(page(store, 3, 10).await, wanted[3..]);
    let error = store.events(Revision(2), 10).await.unwrap_err();
    assert!(matches!(error, ReadError::Expired { wanted: Revision(2), oldest: Revision(3) }), "{error:?}");
    store.compact(Revision(6)).await.unwrap();
    assert_eq!(page(store, 6, 10).await, Vec::<String>::new());
    store.events(Revision(5), 0).await.unwrap_err();
}

async fn meanwhile(backend: &dyn Backend) {
    let store = backend.open(Setup::rings(8));
    let writing = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..300 {
                put_one(&*store, &format!("/r/{}/k", n % 7), "v").await;
            }
        })
    };
    let mut after = Revision::ZERO;
    while after < Revision(300) {
        store.reached(after.next()).await;
        for event in store.events(after, 50).await.unwrap() {
            assert_eq!(event.revision, after.next());
            after = event.revision;
        }
    }
    writing.await.unwrap();
}

async fn before(backend: &dyn Backend) {
    let store = &*backend.open(Setup::default());
    story(store).await;
    let key = Key::new("/r/q/b");
    for (before, limit, wanted) in [
        (u64::MAX, 10, vec![6, 4, 2]),
        (7, 2, vec![6, 4]),
        (6, 10, vec![4, 2]),
        (5, 1, vec![4]),
        (4, 10, vec![2]),
        (2, 10, vec![]),
        (0, 10, vec![]),
    ] {
        let events = store.history_before(&key, Revision(before), limit).await.unwrap();
        let got: Vec<u64> = events.iter().map(|event| event.revision.0).collect();
        assert_eq!(got, wanted, "before {before}, limit {limit}");
    }
}

fn clocked() -> (Arc<ManualClock>, Setup) {
    let clock = Arc::new(ManualClock::new(1_000));
    (clock.clone(), Setup { clock, ..Setup::default() })
}

/// Revisions 1 and 2 at 1000, 3 at 2000, 4 (a deletion) at 3000, 5 at 4000.
async fn timed(store: &dyn Kv<Sum>, clock: &ManualClock) {
    put_one(store, "/r/p/a", "1").await;
    put_one(store, "/r/q/b", "2").await;
    clock.set(2_000);
    put_one(store, "/r/p/a", "3").await;
    clock.set(3_000);
    delete_one(store, "/r/q/b").await;
    clock.set(4_000);
    put_one(store, "/r/p/a", "5").await;
}

async fn times(backend: &dyn Backend) {
    let (clock, setup) = clocked();
    let store = &*backend.open(setup);
    assert_eq!(revision_at(store, 5_000).await.unwrap(), Some(Revision::ZERO));
    timed(store, &clock).await;
    for (time, wanted) in [
        (i64::MIN, 0),
        (999, 0),
        (1_000, 2),
        (1_999, 2),
        (2_000, 3),
        (2_999, 3),
        (3_000, 4),
        (4_000, 5),
        (i64::MAX, 5),
    ] {
        assert_eq!(revision_at(store, time).await.unwrap(), Some(Revision(wanted)), "at {time}");
    }
    let mut times = Vec::new();
    for revision in 0..=5 {
        times.push(store.time_of(Revision(revision)).await.unwrap());
    }
    assert_eq!(times, [None, Some(1_000), Some(1_000), Some(2_000), Some(3_000), Some(4_000)]);
    let error = store.time_of(Revision(6)).await.unwrap_err();
    assert!(matches!(error, ReadError::Future { .. }), "{error:?}");
}

async fn times_compacted(backend: &dyn Backend) {
    for (oldest, of_oldest, asked) in [
        (3, Some(2_000), vec![(1_999, None), (2_000, Some(3)), (3_000, Some(4)), (9_000, Some(5))]),
        // The deletion is not retained, and neither is its time.
        (4, None, vec![(3_000, None), (3_999, None), (4_000, Some(5))]),
        (5, Some(4_000), vec![(3_999, None), (4_000, Some(5))]),
    ] {
        let (clock, setup) = clocked();
        let store = &*backend.open(setup);
        timed(store, &clock).await;
        store.compact(Revision(oldest)).await.unwrap();
        assert_eq!(store.time_of(Revision(oldest)).await.unwrap(), of_oldest, "oldest {oldest}");
        let error = store.time_of(Revision(oldest - 1)).await.unwrap_err();
        assert!(matches!(error, ReadError::Expired { .. }), "{error:?}");
        for (time, wanted) in asked {
            let got = revision_at(store, time).await.unwrap();
            assert_eq!(got, wanted.map(Revision), "oldest {oldest}, at {time}");
        }
    }
}

async fn back(backend: &dyn Backend) {
    let (clock, setup) = clocked();
    let store = &*backend.open(setup);
    put_one(store, "/r/p/a", "1").await;
    clock.set(500);
    put_one(store, "/r/p/a", "2").await;
    assert_eq!(store.time_of(Revision(2)).await.unwrap(), Some(1_000));
    assert_eq!(revision_at(store, 999).await.unwrap(), Some(Revision::ZERO));
    assert_eq!(revision_at(store, 1_000).await.unwrap(), Some(Revision(2)));
}
