//! Watches: a watcher is a cursor into the recent events, not a queue.
//!
//! `hub` manages one `ring` of recent events per topic and wakes the watchers of a topic when it grows. A
//! [`Watcher`] (`cursor`) stores only its position, so that a slow or dead watcher costs writers and memory
//! nothing. A watcher that falls behind the ring reads the log through `Log`; one that falls behind the log
//! ends with `Expired`.

mod cursor;
mod hub;
mod ring;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::future::BoxFuture;
use crate::{Event, ReadError, Revision};

pub use cursor::Watcher;
pub(crate) use hub::Hub;
pub use ring::RingLimits;
pub(crate) use ring::Scan;

/// The maximum number of events in a batch.
pub const BATCH: usize = 256;
/// The bytes of keys and values, including those of replaced records, after which a batch ends: each slow watcher holds one
/// batch. The last event may exceed it.
pub const BATCH_BYTES: usize = 1 << 20;

/// A page of the log.
pub(crate) struct Page<V> {
    /// In order.
    pub(crate) events: Vec<Arc<Event<V>>>,
    /// Every matching event after the start of the page and up to here is in `events`.
    pub(crate) scanned: Revision,
}

/// The log behind the rings, implemented by a backend.
pub(crate) trait Log<V>: Send + Sync {
    /// The events below a prefix with revisions in `(after, upto]`, at most `limit`. `Expired` when events after
    /// `after` may be compacted.
    fn page<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<V>, ReadError>>;

    /// All events after this revision are retained.
    fn oldest(&self) -> Revision;
}
