//! Tests the queue under paused time: every wait ends when its condition is met, not after a guessed time.
#![allow(clippy::unwrap_used)]

use super::*;

fn unlimited() -> WorkQueue<&'static str> {
    WorkQueue::new(RateLimit { bucket: None, ..RateLimit::default() })
}

#[tokio::test(start_paused = true)]
async fn key_is_queued_once_and_in_order() {
    let q = unlimited();
    for key in ["a", "b", "a"] {
        q.add(key);
    }
    assert_eq!((q.get().await, q.get().await, q.try_get()), (Some("a"), Some("b"), None));
}

#[tokio::test(start_paused = true)]
async fn key_added_while_it_runs_runs_again_after_done() {
    let q = unlimited();
    q.add("a");
    assert_eq!(q.get().await, Some("a"));
    q.add("a");
    q.add("a");
    assert_eq!(q.try_get(), None, "one worker per key");
    q.done(&"a");
    assert_eq!(q.try_get(), Some("a"));
    q.done(&"a");
    assert_eq!(q.try_get(), None);
    assert!(q.is_idle());
}

#[tokio::test(start_paused = true)]
async fn earlier_of_two_delays_applies_and_wakes_a_worker() {
    let q = unlimited();
    let start = Instant::now();
    q.add_after("a", Duration::from_secs(60));
    let worker = tokio::spawn({
        let q = q.clone();
        async move { q.get().await }
    });
    tokio::task::yield_now().await;
    q.add_after("a", Duration::from_secs(5));
    q.add_after("a", Duration::from_secs(90));
    assert_eq!(worker.await.unwrap(), Some("a"));
    assert_eq!(start.elapsed().as_secs(), 5);
    q.done(&"a");
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(q.try_get(), None, "the other requests were the same one");
}

#[tokio::test(start_paused = true)]
async fn failure_delays_double_and_are_reset() {
    let q = unlimited();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let start = Instant::now();
        q.add_rate_limited("a");
        assert_eq!(q.get().await, Some("a"));
        q.done(&"a");
        waits.push(start.elapsed().as_millis());
    }
    assert_eq!(waits, [5, 10, 20, 40]);
    q.forget(&"a");
    assert_eq!(q.failures(&"a"), 0);
}

#[test]
fn item_delays_stop_at_the_limit() {
    let limit = RateLimit::default();
    for (failures, wanted) in [(0, 5), (1, 10), (10, 5_120), (17, 655_360), (18, 1_000_000), (200, 1_000_000)]
    {
        assert_eq!(item_delay(&limit, failures).as_millis(), wanted, "after {failures} failures");
    }
}

#[tokio::test(start_paused = true)]
async fn bucket_delays_all_keys_together() {
    let q = WorkQueue::new(RateLimit {
        first: Duration::from_millis(5),
        max: Duration::from_secs(1000),
        bucket: Some(Bucket { per_second: 10.0, burst: 2 }),
    });
    let start = Instant::now();
    for key in 0..5 {
        q.add_rate_limited(key);
    }
    let mut when = Vec::new();
    for _ in 0..5 {
        let key = q.get().await.unwrap();
        q.done(&key);
        when.push(start.elapsed().as_millis());
    }
    assert_eq!(when, [5, 5, 100, 200, 300]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_workers_and_ignores_later_keys() {
    let q = unlimited();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let q = q.clone();
            tokio::spawn(async move { q.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    q.shutdown();
    q.add("late");
    for worker in workers {
        assert_eq!(worker.await.unwrap(), None);
    }
    assert_eq!(q.get().await, None);
}

#[tokio::test(start_paused = true)]
async fn many_workers_receive_every_key_once() {
    let q: WorkQueue<u32> = WorkQueue::new(RateLimit { bucket: None, ..RateLimit::default() });
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..4 {
        let (q, tx) = (q.clone(), tx.clone());
        tokio::spawn(async move {
            while let Some(key) = q.get().await {
                tokio::time::sleep(Duration::from_millis(3)).await;
                tx.send(key).unwrap();
                q.done(&key);
            }
        });
    }
    for key in 0..200 {
        q.add_after(key, Duration::from_millis(u64::from(key % 7)));
    }
    let mut seen = Vec::new();
    while seen.len() < 200 {
        seen.push(rx.recv().await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    assert!(q.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn endless_delay_is_accepted() {
    let queue = WorkQueue::default();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", Duration::from_secs(1));
    assert_eq!(queue.get().await, Some("soon"));
    // An earlier delay applies.
    queue.add_after("never", Duration::from_secs(1));
    assert_eq!(queue.get().await, Some("never"));
}
