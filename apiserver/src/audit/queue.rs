//! The bounded queue of events between requests and the thread that writes them. Adding an event never waits.
//!
//! Upstream: apiserver `plugin/pkg/audit/buffered`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::queued::QueuedEvent;

/// Maximum size of the events in a queue and in the batch that is being written, bytes.
pub(super) const QUEUE_BYTES: usize = 32 << 20;

/// The queue of one destination.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    max_events: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<QueueItem>,
    /// Of `waiting`, those whose request waits.
    urgent: usize,
    /// The events in `waiting` and in the current batch.
    bytes: usize,
    closed: bool,
    reader: Reader,
}

/// The condition that ends the wait of the writer thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reader {
    /// Nothing: it writes.
    #[default]
    Busy,
    /// Any event.
    Event,
    /// A complete batch, or the end of its time.
    Batch { size: usize },
}

/// An event, and the request that waits for it.
pub(super) struct QueueItem {
    pub(super) event: Arc<QueuedEvent>,
    /// Receives whether the event was written.
    pub(super) done: Option<oneshot::Sender<bool>>,
}

/// The queue is full or closed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

impl Queue {
    pub(super) fn new(max_events: usize, max_bytes: usize) -> Self {
        Queue { state: Mutex::default(), changed: Condvar::new(), max_events, max_bytes }
    }

    /// Adds an event.
    pub(super) fn push(&self, item: QueueItem) -> Result<(), QueueFull> {
        let mut state = self.state.lock();
        let bytes = state.bytes.saturating_add(item.event.size);
        if state.closed || state.waiting.len() >= self.max_events || bytes > self.max_bytes {
            return Err(QueueFull);
        }
        state.bytes = bytes;
        state.urgent += usize::from(item.done.is_some());
        state.waiting.push_back(item);
        // A thread that collects a batch is not woken for each event.
        let wakes = match state.reader {
            Reader::Busy => false,
            Reader::Event => true,
            Reader::Batch { size } => state.urgent > 0 || state.waiting.len() >= size,
        };
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for the next batch: `size` events, or those that arrive within `wait` after the first. `None` if the queue is closed
    /// and empty. The events count until [`Queue::release`].
    pub(super) fn take(&self, size: usize, wait: Duration) -> Option<Vec<QueueItem>> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state.reader = Reader::Event;
            self.changed.wait(&mut state);
        }
        let deadline = Instant::now() + wait;
        while state.waiting.len() < size && state.urgent == 0 && !state.closed {
            state.reader = Reader::Batch { size };
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.reader = Reader::Busy;
        let count = state.waiting.len().min(size);
        let batch: Vec<QueueItem> = state.waiting.drain(..count).collect();
        state.urgent -= batch.iter().filter(|item| item.done.is_some()).count();
        Some(batch)
    }

    /// Frees the memory of written events.
    pub(super) fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// Rejects further events, and ends pauses.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits, at most until the queue is closed. False if it is.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.closed && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        !state.closed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::audit::queued::testing::queued;

    fn item(size: usize) -> QueueItem {
        QueueItem { event: Arc::new(QueuedEvent { size, ..queued() }), done: None }
    }

    #[test]
    fn queue_is_bounded_in_events_and_bytes() {
        let queue = Queue::new(3, 1000);
        for _ in 0..3 {
            queue.push(item(10)).unwrap();
        }
        assert_eq!(queue.push(item(10)), Err(QueueFull), "too many");
        let batch = queue.take(10, Duration::ZERO).unwrap();
        assert_eq!(batch.len(), 3);
        assert_eq!(queue.push(item(971)), Err(QueueFull), "the batch that is being written counts");
        queue.release(30);
        queue.push(item(1000)).unwrap();
        assert_eq!(queue.push(item(1)), Err(QueueFull), "too large");
    }

    #[test]
    fn batch_is_taken_when_it_is_complete_or_urgent() {
        let long = Duration::from_secs(600);
        let queue = Arc::new(Queue::new(100, 1000));
        let reader = queue.clone();
        let thread = std::thread::spawn(move || {
            let first = reader.take(2, long).unwrap().len();
            let second = reader.take(2, long).unwrap().len();
            let third = reader.take(2, long).unwrap().len();
            (first, second, third, reader.take(2, long).is_none())
        });
        queue.push(item(1)).unwrap();
        queue.push(item(1)).unwrap();
        let (done, _waiting) = oneshot::channel();
        while !queue.state.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        queue.push(QueueItem { done: Some(done), ..item(1) }).unwrap();
        while !queue.state.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        queue.push(item(1)).unwrap();
        queue.close();
        assert_eq!(thread.join().unwrap(), (2, 1, 1, true));
        assert_eq!(queue.push(item(1)), Err(QueueFull), "closed");
        assert!(!queue.pause(long), "closed");
    }
}
