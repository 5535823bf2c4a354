//! How one follows: a watcher is a cursor into the recent events, not a queue.

use std::sync::Arc;

use crate::{Event, Revision, View, WatchError};

/// Follows the events below one prefix. Dropping it ends the watch.
pub struct Watcher<V: View> {
    _marker: std::marker::PhantomData<V>,
}

impl<V: View> Watcher<V> {
    /// The next events, at least one, in order. Waits for them. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event<V>>>, WatchError> {
        Err(WatchError::Closed)
    }

    /// Every event up to this revision has been delivered: what a bookmark may say. Grows also
    /// while nothing below the prefix changes.
    pub fn progress(&self) -> Revision {
        Revision::ZERO
    }
}
