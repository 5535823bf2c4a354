//! The recent events of one topic, bounded by count and by bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Event, Revision};

/// The limits of one ring. The events are shared with the index and with readers, so the bytes are what a
/// ring can keep alive, not what it copies.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// The number of events.
    pub events: usize,
    /// Bytes of keys and values, including those of replaced records.
    pub bytes: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        RingLimits { events: 4096, bytes: 8 << 20 }
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
        /// The events were cut off at `limit`; more may follow.
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
        self.bytes += size(&event);
        self.events.push_back(event);
        while self.events.len() > limits.events || self.bytes > limits.bytes {
            let Some(dropped) = self.events.pop_front() else { return };
            self.bytes -= size(&dropped);
            self.floor = dropped.revision;
        }
    }

    /// The matching events after the cursor.
    pub(crate) fn scan(&self, prefix: &str, after: Revision, limit: usize) -> Scan<V> {
        if after < self.floor {
            return Scan::Behind;
        }
        let mut events = Vec::new();
        let start = self.events.partition_point(|event| event.revision <= after);
        for event in self.events.range(start..) {
            if !event.key.as_str().starts_with(prefix) {
                continue;
            }
            if events.len() == limit {
                return Scan::Events { events, cut: true };
            }
            events.push(event.clone());
        }
        Scan::Events { events, cut: false }
    }
}

fn size<V>(event: &Event<V>) -> usize {
    let of = |record: &Option<Arc<crate::Record<V>>>| record.as_ref().map_or(0, |record| record.size());
    event.key.as_str().len() + of(&event.record) + of(&event.prev)
}
