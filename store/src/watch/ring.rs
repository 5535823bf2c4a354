//! The recent events of one topic, bounded by count and by bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Event, Revision};

/// The limits of one ring. The events are shared with the index and with readers, so the bytes are the memory
/// that a ring can retain, not copies.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// The number of events.
    pub events: usize,
    /// Bytes of keys and values, including those of replaced records.
    pub bytes: usize,
    /// Bytes of all rings together.
    pub total: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        RingLimits { events: 4096, bytes: 8 << 20, total: 64 << 20 }
    }
}

/// The result of scanning a ring.
pub(crate) enum Scan<V> {
    /// The ring has dropped events after the cursor.
    Behind,
    /// All matching events after the cursor, or the first `limit` of them.
    Events {
        /// In order.
        events: Vec<Arc<Event<V>>>,
        /// The events were cut off at a limit; more may follow.
        cut: bool,
    },
}

/// Every event of the topic after `floor` is in `events`, in order.
pub(crate) struct Ring<V> {
    floor: Revision,
    events: VecDeque<Arc<Event<V>>>,
    bytes: usize,
}

impl<V> Ring<V> {
    pub(crate) fn new(floor: Revision) -> Self {
        Ring { floor, events: VecDeque::new(), bytes: 0 }
    }

    /// Adds a newer event, and drops old ones to stay within the limits.
    pub(crate) fn push(&mut self, event: Arc<Event<V>>, limits: RingLimits) {
        self.bytes += event.size();
        self.events.push_back(event);
        self.shrink(limits.events, limits.bytes);
    }

    /// The bytes of the events.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops old events to stay within these limits.
    pub(crate) fn shrink(&mut self, events: usize, bytes: usize) {
        while self.events.len() > events || self.bytes > bytes {
            let Some(dropped) = self.events.pop_front() else { return };
            self.bytes -= dropped.size();
            self.floor = dropped.revision;
        }
    }

    /// Drops the events up to a revision.
    pub(crate) fn forget(&mut self, through: Revision) {
        while self.events.front().is_some_and(|event| event.revision <= through) {
            let Some(dropped) = self.events.pop_front() else { return };
            self.bytes -= dropped.size();
            self.floor = dropped.revision;
        }
    }

    /// The matching events after the cursor: at most `limit`, and no more after `bytes` of keys and values.
    pub(crate) fn scan(&self, prefix: &str, after: Revision, limit: usize, bytes: usize) -> Scan<V> {
        if after < self.floor {
            return Scan::Behind;
        }
        let mut events = Vec::new();
        let mut seen = 0;
        let start = self.events.partition_point(|event| event.revision <= after);
        for event in self.events.range(start..) {
            if !event.key.as_str().starts_with(prefix) {
                continue;
            }
            if events.len() == limit || seen > bytes {
                return Scan::Events { events, cut: true };
            }
            seen += event.size();
            events.push(event.clone());
        }
        Scan::Events { events, cut: false }
    }
}
