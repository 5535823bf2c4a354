//! Tests of delivery: nothing waits in batch mode, and a request waits for a bounded time in the blocking modes.

#![allow(clippy::unwrap_used)]

use prometheus::Registry;

use super::*;
use crate::audit::config::BatchConfig;
use crate::audit::queued::testing::queued;

/// A destination that waits for a permission for each batch, and fails.
struct Slow {
    permissions: std::sync::mpsc::Receiver<bool>,
}

impl Backend for Slow {
    fn write(&mut self, events: &[&QueuedEvent], _queue: &Queue) -> Result<(), WriteFailure> {
        match self.permissions.recv() {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(WriteFailure { count: events.len(), error: "no".to_owned() }),
        }
    }
}

fn delivery(mode: DeliveryMode, buffer_size: usize) -> Delivery {
    let batch = BatchConfig { buffer_size, max_size: 1, max_wait: Duration::ZERO, throttle: None };
    Delivery { mode, batch }
}

fn start(mode: DeliveryMode, buffer_size: usize) -> (Sink, std::sync::mpsc::Sender<bool>, AuditMetrics) {
    let (permit, permissions) = std::sync::mpsc::channel();
    let metrics = AuditMetrics::new(&Registry::new()).unwrap();
    let sink = Sink::start("log", delivery(mode, buffer_size), metrics.clone(), Slow { permissions });
    (sink.unwrap(), permit, metrics)
}

fn submit(sink: &Sink) -> Pending {
    let mut pending = Pending::default();
    sink.submit(&Arc::new(queued()), &mut pending);
    pending
}

#[tokio::test]
async fn batch_mode_never_waits_and_drops_what_does_not_fit() {
    let (sink, permit, metrics) = start(DeliveryMode::Batch, 2);
    for _ in 0..10 {
        assert!(submit(&sink).accepted().await);
    }
    // Two are in the queue, and perhaps one is being written.
    let dropped = metrics.drops("log");
    assert!((7..=8).contains(&dropped), "{dropped}");
    for _ in 0..3 {
        // Fewer may be waiting.
        let _ = permit.send(true);
    }
    sink.close().await;
    assert_eq!(metrics.drops("log"), dropped);
    assert!(submit(&sink).accepted().await);
    assert_eq!(metrics.drops("log"), dropped + 1, "closed");
}

#[tokio::test]
async fn blocking_modes_wait_for_the_result() {
    for (case, mode, written, want) in [
        ("1 written", DeliveryMode::Blocking, true, true),
        ("2 not written", DeliveryMode::Blocking, false, true),
        ("3 strict, written", DeliveryMode::BlockingStrict, true, true),
        ("4 strict, not written", DeliveryMode::BlockingStrict, false, false),
    ] {
        let (sink, permit, _) = start(mode, 10);
        permit.send(written).unwrap();
        assert_eq!(submit(&sink).accepted().await, want, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn blocking_modes_wait_for_a_bounded_time() {
    for (mode, want) in [(DeliveryMode::Blocking, true), (DeliveryMode::BlockingStrict, false)] {
        let (sink, _permit, _) = start(mode, 10);
        let begin = tokio::time::Instant::now();
        assert_eq!(submit(&sink).accepted().await, want, "{mode:?}");
        assert_eq!(begin.elapsed().as_secs(), BLOCKING_LIMIT.as_secs());
    }
}

#[tokio::test]
async fn full_queue_rejects_requests_only_in_strict_mode() {
    for (mode, want) in [(DeliveryMode::Blocking, true), (DeliveryMode::BlockingStrict, false)] {
        let (sink, permit, metrics) = start(mode, 1);
        let waiting: Vec<Pending> = (0..3).map(|_| submit(&sink)).collect();
        assert!(metrics.drops("log") >= 1);
        let last = waiting.into_iter().last().unwrap();
        assert_eq!(last.accepted().await, want, "{mode:?}");
        drop(permit);
    }
}

#[test]
fn tokens_limit_the_rate_of_batches() {
    let mut bucket = Bucket::new(Throttle { qps: 10.0, burst: 2 });
    let start = Instant::now();
    let waits: Vec<u128> = (0..4).map(|_| bucket.take(start).as_millis()).collect();
    assert_eq!(waits, [0, 0, 100, 200]);
    assert_eq!(bucket.take(start + Duration::from_secs(60)), Duration::ZERO, "full again");
    assert_eq!(bucket.take(start + Duration::from_secs(60)), Duration::ZERO);
    assert_eq!(bucket.take(start + Duration::from_secs(60)).as_millis(), 100, "and no more");
}
