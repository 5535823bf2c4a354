#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;

use crate::watch::{BATCH, RingLimits};
use crate::{Expect, Key, Kv, Memory, MemoryOptions, Op, Revision, WatchError, Watcher, Write};

const PODS: &str = "/registry/pods/";

fn store(events: usize, bytes: usize) -> Memory<()> {
    Memory::with(MemoryOptions {
        rings: RingLimits { events, bytes, ..RingLimits::default() },
        ..MemoryOptions::default()
    })
}

async fn put(store: &Memory<()>, key: &str) -> Revision {
    let expect = store.head().get(key).map_or(Expect::Absent, |record| Expect::Revision(record.mod_revision));
    let op = Op::Put { value: Bytes::from(vec![7; 100]), view: () };
    store.commit(vec![Write { key: Key::new(key), expect, op }]).await.unwrap().revision()
}

/// The revisions of the next batch; `None` when there is none yet.
async fn next(watcher: &mut Watcher<()>) -> Option<Vec<u64>> {
    let batch = tokio::time::timeout(Duration::ZERO, watcher.next()).await.ok()?.unwrap();
    Some(batch.iter().map(|event| event.revision.0).collect())
}

#[tokio::test(start_paused = true)]
async fn watcher_delivers_its_prefix_and_progresses_with_other_writes() {
    let store = store(100, 1 << 20);
    let mut watcher = store.watch("/registry/pods/default/", Revision::ZERO).unwrap();
    assert_eq!(next(&mut watcher).await, None);
    assert_eq!(watcher.progress(), Revision(0));
    put(&store, "/registry/pods/default/a").await;
    put(&store, "/registry/pods/kube-system/a").await;
    put(&store, "/registry/nodes/n1").await;
    assert_eq!(watcher.progress(), Revision(0), "revision 1 is not delivered yet");
    assert_eq!(next(&mut watcher).await, Some(vec![1]));
    assert_eq!(watcher.progress(), Revision(3), "nothing else matches");
    put(&store, "/registry/nodes/n2").await;
    assert_eq!(watcher.progress(), Revision(4), "grows while other topics change");
    put(&store, "/registry/pods/default/a").await;
    assert_eq!(watcher.progress(), Revision(4));
    assert_eq!(next(&mut watcher).await, Some(vec![5]));
}

#[tokio::test]
async fn new_event_wakes_a_waiting_watcher() {
    let store = std::sync::Arc::new(store(100, 1 << 20));
    let mut watcher = store.watch(PODS, Revision::ZERO).unwrap();
    let waiting = tokio::spawn(async move { watcher.next().await.unwrap()[0].revision });
    tokio::task::yield_now().await;
    put(&store, "/registry/nodes/n1").await;
    put(&store, "/registry/pods/default/a").await;
    assert_eq!(waiting.await.unwrap(), Revision(2));
}

#[tokio::test(start_paused = true)]
async fn watcher_behind_the_ring_reads_the_log_in_batches() {
    for (name, events, bytes) in [("by count", 3, 1 << 20), ("by bytes", 1000, 700), ("nothing kept", 0, 0)] {
        let store = store(events, bytes);
        let mut watcher = store.watch(PODS, Revision(5)).unwrap();
        let total = BATCH as u64 * 2 + 20;
        for n in 0..total {
            put(&store, &format!("/registry/pods/default/{n}")).await;
            put(&store, "/registry/nodes/n1").await;
        }
        let mut seen = Vec::new();
        while let Some(batch) = next(&mut watcher).await {
            assert!(batch.len() <= BATCH, "{name}");
            seen.extend(batch);
        }
        // Pods have the odd revisions.
        let wanted: Vec<u64> = (0..total).map(|n| n * 2 + 1).filter(|revision| *revision > 5).collect();
        assert_eq!(seen, wanted, "{name}");
        assert_eq!(watcher.progress(), Revision(total * 2), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn watcher_behind_the_log_expires() {
    let store = store(2, 1 << 20);
    let mut slow = store.watch(PODS, Revision(1)).unwrap();
    for n in 0..10 {
        put(&store, &format!("/registry/pods/default/{n}")).await;
    }
    let mut current = store.watch(PODS, Revision(10)).unwrap();
    store.compact(Revision(6)).await.unwrap();
    let error = slow.next().await.unwrap_err();
    assert!(matches!(error, WatchError::Expired { after: Revision(1), oldest: Revision(6) }), "{error:?}");
    let error = store.watch(PODS, Revision(5)).unwrap_err();
    assert!(matches!(error, WatchError::Expired { .. }), "{error:?}");
    let mut exact = store.watch(PODS, Revision(6)).unwrap();
    assert_eq!(next(&mut exact).await, Some(vec![7, 8, 9, 10]));
    assert_eq!(next(&mut current).await, None);
    // A watcher that lags in revisions but has missed no event continues, however far compaction advances.
    let mut quiet = store.watch("/registry/nodes/", Revision(7)).unwrap();
    store.compact(Revision(10)).await.unwrap();
    assert_eq!(next(&mut quiet).await, None);
    put(&store, "/registry/nodes/n1").await;
    assert_eq!(next(&mut quiet).await, Some(vec![11]));
}

#[tokio::test(start_paused = true)]
async fn watcher_at_a_future_revision_is_silent_until_then() {
    let store = store(100, 1 << 20);
    let mut watcher = store.watch(PODS, Revision(3)).unwrap();
    for n in 0..3 {
        put(&store, &format!("/registry/pods/default/{n}")).await;
        assert_eq!(next(&mut watcher).await, None);
        assert_eq!(watcher.progress(), Revision(3));
    }
    put(&store, "/registry/pods/default/9").await;
    assert_eq!(next(&mut watcher).await, Some(vec![4]));
}

#[tokio::test(start_paused = true)]
async fn prefix_wider_than_a_topic_misses_no_event() {
    let store = store(2, 1 << 20);
    for n in 0..5 {
        put(&store, &format!("/registry/pods/default/{n}")).await;
    }
    for prefix in ["/", "/registry/", "/registry/p", "/registry/pods", ""] {
        let mut watcher = store.watch(prefix, Revision::ZERO).unwrap();
        assert_eq!(next(&mut watcher).await, Some(vec![1, 2, 3, 4, 5]), "{prefix:?}");
        assert_eq!(next(&mut watcher).await, None, "{prefix:?}");
    }
    let mut watcher = store.watch("/registry/", Revision(5)).unwrap();
    put(&store, "/registry/nodes/n1").await;
    put(&store, "/other/things/n1").await;
    put(&store, "/registry/pods/default/9").await;
    assert_eq!(next(&mut watcher).await, Some(vec![6, 8]));
}

#[tokio::test(start_paused = true)]
async fn close_ends_watches_after_the_events_in_the_ring() {
    let store = store(100, 1 << 20);
    let mut watcher = store.watch(PODS, Revision::ZERO).unwrap();
    let mut idle = store.watch("/registry/nodes/", Revision::ZERO).unwrap();
    let waiting = tokio::spawn(async move { idle.next().await });
    tokio::task::yield_now().await;
    put(&store, "/registry/pods/default/a").await;
    store.close().await;
    assert_eq!(next(&mut watcher).await, Some(vec![1]));
    assert!(matches!(watcher.next().await, Err(WatchError::Closed)));
    assert!(matches!(waiting.await.unwrap(), Err(WatchError::Closed)));
    assert!(matches!(store.watch(PODS, Revision::ZERO), Err(WatchError::Closed)));
}
