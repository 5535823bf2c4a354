//! How one follows: a watcher is a cursor into the recent events, not a queue.
//!
//! `hub` keeps one `ring` of recent events per topic and wakes the watchers of a topic when it
//! grows. A [`Watcher`] (`cursor`) remembers how far it has got and nothing else, so that one
//! that is slow or dead costs writers and memory nothing. Who falls behind the ring reads the log
//! through `Log`; who falls behind the log ends with `Expired`.

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

/// The most events that one batch of a watcher holds.
pub const BATCH: usize = 256;

/// Some events of the log.
pub(crate) struct Page<V> {
    /// In order.
    pub(crate) events: Vec<Arc<Event<V>>>,
    /// Every matching event after the start of the page and up to here is in `events`.
    pub(crate) scanned: Revision,
}

/// The log behind the rings, as a backend gives it.
pub(crate) trait Log<V>: Send + Sync {
    /// The events below a prefix with revisions in `(after, upto]`, at most `limit`. `Expired`
    /// when events after `after` may be gone.
    fn page<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<V>, ReadError>>;

    /// After this revision nothing is forgotten.
    fn oldest(&self) -> Revision;
}
