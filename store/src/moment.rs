//! The revision at a given time: a binary search in the log, whose time stamps never decrease.

use crate::{Kv, ReadError, Revision, View};

/// The newest revision written at or before a time (milliseconds since the epoch): the state that was current
/// at the end of that millisecond. `None` when the time is before the retained history.
///
/// # Errors
/// The log cannot be read.
pub async fn revision_at<V: View>(store: &dyn Kv<V>, time_ms: i64) -> Result<Option<Revision>, ReadError> {
    loop {
        match search(store, time_ms).await {
            // Compacted during the search; the remaining history starts later.
            Err(ReadError::Expired { wanted, oldest }) if wanted < store.oldest() => {
                tracing::debug!(%wanted, %oldest, "the log was shortened during a search");
            }
            result => return result,
        }
    }
}

async fn search<V: View>(store: &dyn Kv<V>, time_ms: i64) -> Result<Option<Revision>, ReadError> {
    let (oldest, head) = (store.oldest(), store.head().revision());
    // Invariant: `low` was written by then, `high` later.
    let (mut low, mut high) = (oldest.0, head.0 + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match store.time_of(Revision(middle)).await? {
            Some(time) if time > time_ms => high = middle,
            Some(_) | None => low = middle,
        }
    }
    if low > oldest.0 || oldest == Revision::ZERO {
        return Ok(Some(Revision(low)));
    }
    // The oldest state is the result only if it existed by then.
    match store.time_of(oldest).await? {
        Some(time) if time <= time_ms => Ok(Some(oldest)),
        Some(_) | None => Ok(None),
    }
}
