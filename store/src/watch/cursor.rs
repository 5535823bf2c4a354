//! Watchers: a cursor, and how it advances.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::hub::{Hub, Topic};
use super::{BATCH, BATCH_BYTES, Log, Scan};
use crate::{Event, ReadError, Revision, View, WatchError};

/// Watches the events below one prefix. Dropping it ends the watch.
///
/// A watcher is always in one of these states, depending on its cursor:
///
/// * **current**: nothing after the cursor matches; it waits for its topic to grow;
/// * **in the ring**: its next events are in memory;
/// * **behind the ring**: its next events are read from the log;
/// * **behind the log**: its next events are compacted; it has ended with `Expired`;
/// * **ahead** of the head: it was started at a future revision, and is silent until then.
pub struct Watcher<V: View> {
    prefix: Box<str>,
    hub: Arc<Hub<V>>,
    topic: Arc<Topic<V>>,
    log: Arc<dyn Log<V>>,
    /// Every matching event up to this revision was delivered. It only grows, also through `&self`.
    cursor: AtomicU64,
}

impl<V: View> Watcher<V> {
    pub(crate) fn start(
        hub: &Arc<Hub<V>>,
        log: Arc<dyn Log<V>>,
        prefix: &str,
        after: Revision,
    ) -> Result<Self, WatchError> {
        if hub.is_closed() {
            return Err(WatchError::Closed);
        }
        let oldest = log.oldest();
        if after < oldest {
            return Err(WatchError::Expired { after, oldest });
        }
        let topic = hub.topic(prefix);
        topic.watchers.fetch_add(1, Ordering::Relaxed);
        Ok(Watcher { prefix: prefix.into(), hub: hub.clone(), topic, log, cursor: AtomicU64::new(after.0) })
    }

    /// Returns the next events, at least one and at most [`BATCH`](super::BATCH), in order. Waits for them.
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event<V>>>, WatchError> {
        loop {
            if let Some(events) = self.next_of_ring().await? {
                return Ok(events);
            }
            if let Some(events) = self.next_of_log().await? {
                return Ok(events);
            }
        }
    }

    /// Like [`next`](Self::next), but `None` if the next events have to be read from the log.
    pub async fn next_of_ring(&mut self) -> Result<Option<Vec<Arc<Event<V>>>>, WatchError> {
        let topic = self.topic.clone();
        loop {
            // The order matters: first subscribe, then read the published revision, then scan the ring. An event published
            // in between is found by the scan or wakes the subscriber.
            let mut grown = pin!(topic.wake.notified());
            grown.as_mut().enable();
            let closed = self.hub.is_closed();
            let head = self.hub.published();
            match topic.scan(&self.prefix, self.cursor(), BATCH, BATCH_BYTES) {
                Scan::Behind if closed => return Err(WatchError::Closed),
                Scan::Behind => return Ok(None),
                Scan::Events { events, cut } => {
                    if let Some(last) = events.last() {
                        self.advance(if cut { last.revision } else { last.revision.max(head) });
                        return Ok(Some(events));
                    }
                    self.advance(head);
                    if closed {
                        return Err(WatchError::Closed);
                    }
                    grown.await;
                }
            }
        }
    }

    /// Reads one page of the log if the next events are there. `None` if it contains no event of this watcher, which may then
    /// still be behind.
    pub async fn next_of_log(&mut self) -> Result<Option<Vec<Arc<Event<V>>>>, WatchError> {
        if !self.is_behind() {
            return Ok(None);
        }
        if self.hub.is_closed() {
            return Err(WatchError::Closed);
        }
        let page = self.log.page(&self.prefix, self.cursor(), self.hub.published(), BATCH).await;
        let page = page.map_err(|error| self.ended(error))?;
        self.advance(page.scanned);
        Ok((!page.events.is_empty()).then_some(page.events))
    }

    /// Every event up to this revision has been delivered; the revision of a bookmark. It also grows while nothing
    /// below the prefix changes. A watcher started at a future revision returns that revision until it is reached.
    pub fn progress(&self) -> Revision {
        let head = self.hub.published();
        match self.topic.scan(&self.prefix, self.cursor(), 1, BATCH_BYTES) {
            Scan::Behind => self.cursor(),
            Scan::Events { events, .. } => {
                let delivered = events.first().map_or(head, |first| Revision(first.revision.0 - 1));
                self.advance(delivered);
                self.cursor()
            }
        }
    }

    /// Like [`progress`](Self::progress) if no object of this kind has changed since the last event that was delivered; otherwise `None`.
    /// Takes a few nanoseconds and no lock.
    pub fn quiet(&self) -> Option<Revision> {
        // The order matters: the events up to the published revision are in the topic before it is published.
        let head = self.hub.published();
        if !self.topic.is_quiet_after(self.cursor()) {
            return None;
        }
        self.advance(head);
        Some(self.cursor())
    }

    /// Whether the next events have to be read from the log.
    pub fn is_behind(&self) -> bool {
        matches!(self.topic.scan(&self.prefix, self.cursor(), 1, BATCH_BYTES), Scan::Behind)
    }

    /// The number of watchers of the same topic, including this one: a server with many may poll less often and
    /// deliver more events at a time.
    pub fn crowd(&self) -> usize {
        self.topic.watchers.load(Ordering::Relaxed)
    }

    fn cursor(&self) -> Revision {
        Revision(self.cursor.load(Ordering::Acquire))
    }

    fn advance(&self, to: Revision) {
        self.cursor.fetch_max(to.0, Ordering::AcqRel);
    }

    fn ended(&self, error: ReadError) -> WatchError {
        match error {
            ReadError::Expired { oldest, .. } => WatchError::Expired { after: self.cursor(), oldest },
            ReadError::Future { .. } => WatchError::Damaged("the log is behind the head".into()),
            // Only reads of old states reserve memory in the store.
            ReadError::OutOfMemory(error) => WatchError::Damaged(error.to_string()),
            ReadError::Damaged(what) if self.hub.is_closed() => {
                tracing::debug!(what, "a watch ended while the store was closing");
                WatchError::Closed
            }
            ReadError::Damaged(what) => WatchError::Damaged(what),
        }
    }
}

impl<V: View> Drop for Watcher<V> {
    fn drop(&mut self) {
        self.topic.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<V: View> std::fmt::Debug for Watcher<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("prefix", &self.prefix).field("cursor", &self.cursor).finish()
    }
}
