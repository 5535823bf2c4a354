//! A destination of events: its queue, and the thread that writes them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::config::{BLOCKING_LIMIT, Delivery, DeliveryMode, Throttle};
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
        tokio::time::timeout(BLOCKING_LIMIT, all).await.unwrap_or(!needs_all)
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
        Ok(Sink { plugin, mode: delivery.mode, queue, metrics, finished: Mutex::new(Some(finished)) })
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
        match self.queue.push(QueueItem { event: event.clone(), done }) {
            Ok(()) => pending.waiting.extend(result),
            Err(_) => {
                self.metrics.dropped(self.plugin);
                pending.failed |= is_strict == Some(true);
            }
        }
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
        let mut warned: Option<Instant> = None;
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
                    if warned.take().is_some() {
                        tracing::info!(plugin = self.plugin, "audit events are written again");
                    }
                }
                Err(WriteFailure { count, error }) => {
                    self.metrics.failed(self.plugin, *count);
                    if warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
                        warned = Some(Instant::now());
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

/// A token bucket.
struct Bucket {
    throttle: Throttle,
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    fn new(throttle: Throttle) -> Self {
        Bucket { throttle, tokens: f64::from(throttle.burst), filled: None }
    }

    /// Takes a token. Returns how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let elapsed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        let tokens = self.tokens + elapsed.as_secs_f64() * self.throttle.qps;
        self.tokens = tokens.min(f64::from(self.throttle.burst)) - 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.throttle.qps).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests;
