//! A destination of events: its queue, and the thread that writes them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use orlop_apimachinery::warning_pace::WarningPace;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::bucket::Bucket;
use super::budget::{Budget, Fit};
use super::config::{BLOCKING_LIMIT, Delivery, DeliveryMode};
use super::metrics::AuditMetrics;
use super::queue::{QUEUE_BYTES, Queue, QueueItem};
use super::queued::QueuedEvent;

/// How long a stop waits until the queue is written.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// The minimum time between two log lines about failures of a destination.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Writes batches.
pub(super) trait Backend: Send + 'static {
    /// Writes events. `queue` ends the waits of the backend when the server stops.
    ///
    /// # Errors
    /// The number of events that were not written, and why.
    fn write(&mut self, events: &[&QueuedEvent], queue: &Queue) -> Result<(), WriteFailure>;
}

/// Events that were not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WriteFailure {
    pub(super) count: usize,
    pub(super) error: String,
}

/// A destination.
pub(super) struct Sink {
    plugin: &'static str,
    mode: DeliveryMode,
    queue: Arc<Queue>,
    metrics: AuditMetrics,
    /// The limit of events of requests without an authenticated user.
    budget: Option<Mutex<Budget>>,
    /// Ends with the thread.
    finished: Mutex<Option<oneshot::Receiver<()>>>,
}

/// The events of a request that are being written.
#[derive(Default)]
pub(crate) struct Pending {
    /// An event that must be written could not be queued.
    failed: bool,
    /// Whether the event must be written, and the result.
    waiting: Vec<(bool, oneshot::Receiver<bool>)>,
}

impl Pending {
    /// Waits for the destinations in blocking mode. False if the request has to be rejected.
    pub(crate) async fn accepted(self) -> bool {
        if self.waiting.is_empty() {
            return !self.failed;
        }
        let needs_all = self.failed || self.waiting.iter().any(|(is_strict, _)| *is_strict);
        let all = async {
            let mut accepted = !self.failed;
            for (is_strict, result) in self.waiting {
                let written = result.await.unwrap_or(false);
                accepted &= written || !is_strict;
            }
            accepted
        };
        tokio::time::timeout(BLOCKING_LIMIT, all.boxed()).await.unwrap_or(!needs_all)
    }
}

impl Sink {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no threads left.
    pub(super) fn start(
        plugin: &'static str,
        delivery: Delivery,
        metrics: AuditMetrics,
        backend: impl Backend,
    ) -> std::io::Result<Self> {
        metrics.prepare(plugin);
        let queue = Arc::new(Queue::new(delivery.batch.buffer_size, QUEUE_BYTES));
        let (finish, finished) = oneshot::channel();
        let writer = Writer { plugin, delivery, queue: queue.clone(), metrics: metrics.clone(), backend };
        std::thread::Builder::new().name(format!("audit-{plugin}")).spawn(move || {
            writer.run();
            // Without a receiver, no stop waits.
            let _ = finish.send(());
        })?;
        let finished = Mutex::new(Some(finished));
        Ok(Sink { plugin, mode: delivery.mode, queue, metrics, budget: None, finished })
    }

    /// Limits the events of requests without an authenticated user.
    pub(super) fn within(mut self, budget: Option<Budget>) -> Self {
        self.budget = budget.map(Mutex::new);
        self
    }

    /// Whether the budget permits an event. Takes its bytes.
    fn permits(&self, event: &QueuedEvent) -> bool {
        let Some(budget) = self.budget.as_ref().filter(|_| event.event.request.is_unauthenticated()) else {
            return true;
        };
        let bytes = event.line_size();
        let fit = budget.lock().take(bytes, Instant::now());
        match fit {
            Fit::Fits => true,
            Fit::Dropped { logs } => {
                if let Some(count) = logs {
                    tracing::warn!(
                        plugin = self.plugin,
                        count,
                        "audit events of requests without an authenticated user exceed their part of the log, \
                         and are dropped"
                    );
                }
                false
            }
        }
    }

    /// Queues an event.
    pub(super) fn submit(&self, event: &Arc<QueuedEvent>, pending: &mut Pending) {
        let is_strict = match self.mode {
            DeliveryMode::Batch => None,
            DeliveryMode::Blocking => Some(false),
            DeliveryMode::BlockingStrict => Some(true),
        };
        let (done, result) = match is_strict {
            None => (None, None),
            Some(is_strict) => {
                let (done, result) = oneshot::channel();
                (Some(done), Some((is_strict, result)))
            }
        };
        if self.permits(event) && self.queue.push(QueueItem { event: event.clone(), done }).is_ok() {
            pending.waiting.extend(result);
            return;
        }
        self.metrics.dropped(self.plugin);
        pending.failed |= is_strict == Some(true);
    }

    /// Writes the queue, and ends the thread. Further events are dropped.
    pub(super) async fn close(&self) {
        self.queue.close();
        let finished = self.finished.lock().take();
        if let Some(finished) = finished
            && tokio::time::timeout(CLOSE_LIMIT, finished).await.is_err()
        {
            tracing::warn!(
                plugin = self.plugin,
                "audit events are lost: they could not be written before the stop"
            );
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.queue.close();
    }
}

struct Writer<B> {
    plugin: &'static str,
    delivery: Delivery,
    queue: Arc<Queue>,
    metrics: AuditMetrics,
    backend: B,
}

impl<B: Backend> Writer<B> {
    fn run(mut self) {
        let batch = self.delivery.batch;
        let mut bucket = batch.throttle.map(Bucket::new);
        let mut pace = WarningPace::new(WARN_EVERY);
        while let Some(items) = self.queue.take(batch.max_size, batch.max_wait) {
            if let Some(bucket) = &mut bucket {
                let wait = bucket.take(Instant::now());
                // At a stop, the rest is written immediately.
                let _ = wait.is_zero() || self.queue.pause(wait);
            }
            let events: Vec<&QueuedEvent> = items.iter().map(|item| &*item.event).collect();
            let result = self.backend.write(&events, &self.queue);
            match &result {
                Ok(()) => {
                    if pace.succeeds() {
                        tracing::info!(plugin = self.plugin, "audit events are written again");
                    }
                }
                Err(WriteFailure { count, error }) => {
                    self.metrics.failed(self.plugin, *count);
                    if pace.fails(Instant::now()) {
                        tracing::warn!(plugin = self.plugin, count, error, "audit events are lost");
                    }
                }
            }
            let bytes = events.iter().map(|event| event.size).sum();
            for done in items.into_iter().filter_map(|item| item.done) {
                // The request may have ended.
                let _ = done.send(result.is_ok());
            }
            self.queue.release(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_auth::UserInfo;
    use orlop_auth::audit::RequestRecord;
    use orlop_auth::user::{ANONYMOUS, UNAUTHENTICATED};
    use prometheus::Registry;

    use super::*;
    use crate::audit::config::{BatchConfig, Rotation};
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
    async fn only_unauthenticated_requests_have_a_budget() {
        let rotation =
            Rotation { max_bytes: 10_000, max_backups: 1, max_age: Duration::ZERO, compress: false };
        let (sink, permit, metrics) = start(DeliveryMode::Batch, 1000);
        let sink = sink.within(Budget::of(&rotation));
        drop(permit);
        let submit_as = |user: Option<UserInfo>| {
            let mut event = queued();
            event.event.request = Arc::new(RequestRecord { user, ..(*event.event.request).clone() });
            sink.submit(&Arc::new(event), &mut Pending::default());
            metrics.drops("log")
        };
        // The budget is 1,000 bytes: a few events.
        assert_eq!(submit_as(None), 0);
        for _ in 0..99 {
            submit_as(None);
        }
        let dropped = metrics.drops("log");
        assert!((95..100).contains(&dropped), "{dropped}");
        assert_eq!(submit_as(Some(UserInfo::new("ann", []))), dropped, "a user");
        let anonymous = UserInfo::new(ANONYMOUS, [UNAUTHENTICATED.to_owned()]);
        assert_eq!(submit_as(Some(anonymous)), dropped + 1, "no credentials");
        assert_eq!(
            submit_as(Some(UserInfo::new("x", [UNAUTHENTICATED.to_owned()]))),
            dropped + 2,
            "the group"
        );
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
}
