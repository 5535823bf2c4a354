//! The stream of a watch: initial events, the bookmark that ends them, then what happens, until
//! its time is up, its revision is lost or the server closes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use orlop_store::{Event, Kv, Record, Revision, WatchError, Watcher};
use prometheus::IntCounter;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::event::{Type, Writer, seen};
use super::too_old;
use crate::projection::Projection;
use crate::status::ApiError;
use crate::verbs::filter::Filter;

/// Where a stream begins.
pub(super) enum Start {
    /// With what there is at a revision.
    Initial { records: Vec<Arc<Record<Projection>>>, at: Revision },
    /// With what happens after a revision.
    After(Revision),
    /// Nowhere: the error is all it says.
    Failed(ApiError),
}

/// What a stream needs while it lives.
pub(super) struct Live {
    pub(super) store: Arc<dyn Kv<Projection>>,
    pub(super) prefix: String,
    pub(super) filter: Filter,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
    /// The server is closing: end cleanly.
    pub(super) closing: CancellationToken,
    pub(super) counter: IntCounter,
}

/// The state of a stream.
enum State {
    /// Initial events from this position on; then the bookmark; then `Following`.
    Initial { records: Vec<Arc<Record<Projection>>>, next: usize, at: Revision },
    /// Nothing sent yet; opens the watcher.
    Opening { after: Revision },
    /// Waiting for events.
    Following { watcher: Watcher<Projection> },
    /// Events that have come, from this position on; then back to `Following`. Until they are all
    /// sent no bookmark may be: it would promise them.
    Sending { watcher: Watcher<Projection>, events: Vec<Arc<Event<Projection>>>, next: usize },
    /// The error is all that is left to say.
    Failing(ApiError),
    /// Nothing more comes.
    Ended,
}

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark is sent this long before the time is up.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events are put together up to this many bytes.
const PIECE: usize = 64 * 1024;

struct Running {
    live: Live,
    writer: Writer,
    state: State,
    end: Instant,
    next_bookmark: Instant,
}

/// The pieces of the stream's body.
pub(super) fn stream(
    start: Start,
    live: Live,
    writer: Writer,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let now = Instant::now();
    let end = now + live.timeout;
    let state = match start {
        Start::Initial { records, at } => State::Initial { records, next: 0, at },
        Start::After(after) => State::Opening { after },
        Start::Failed(error) => State::Failing(error),
    };
    let next_bookmark = bookmark_time(now, end);
    let running = Running { live, writer, state, end, next_bookmark };
    let pieces = stream::unfold(running, |mut running| async move {
        running.piece().await.map(|piece| (Ok(Bytes::from(piece)), running))
    });
    // Fused, so that who asks once more behind the end gets an answer.
    pieces.fuse()
}

/// The next time for a bookmark: once a minute, and a last one shortly before the end.
fn bookmark_time(now: Instant, end: Instant) -> Instant {
    let last = end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
    let next = now + BOOKMARK_EVERY;
    if now < last && last < next { last } else { next }
}

impl Running {
    /// The next piece of the body; `None` at its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        while out.is_empty() {
            let state = std::mem::replace(&mut self.state, State::Ended);
            self.state = match state {
                State::Initial { records, next, at } => self.initial(&mut out, records, next, at),
                State::Opening { after } => self.open(after),
                State::Following { watcher } => self.follow(&mut out, watcher).await,
                State::Sending { watcher, events, next } => {
                    let state = self.send(&mut out, watcher, events, next);
                    if out.is_empty() {
                        // Nothing for this watcher; others want to run before the next lot.
                        tokio::task::yield_now().await;
                    }
                    state
                }
                State::Failing(error) => {
                    self.writer.error(&mut out, &error);
                    State::Ended
                }
                State::Ended => return None,
            };
        }
        Some(out)
    }

    fn initial(
        &mut self,
        out: &mut Vec<u8>,
        records: Vec<Arc<Record<Projection>>>,
        mut next: usize,
        at: Revision,
    ) -> State {
        while let Some(record) = records.get(next) {
            self.writer.record(out, Type::Added, record, record.mod_revision);
            self.live.counter.inc();
            next += 1;
            if out.len() >= PIECE {
                return State::Initial { records, next, at };
            }
        }
        if self.live.bookmarks {
            self.writer.bookmark(out, at, true);
        }
        self.open(at)
    }

    fn open(&self, after: Revision) -> State {
        match self.live.store.watch(&self.live.prefix, after) {
            Ok(watcher) => State::Following { watcher },
            Err(error) => ended(error),
        }
    }

    async fn follow(&mut self, out: &mut Vec<u8>, mut watcher: Watcher<Projection>) -> State {
        let events = tokio::select! {
            biased;
            () = self.live.closing.cancelled() => return State::Ended,
            // The times come before the events: in a steady flow they would never have their turn.
            () = sleep_until(self.end) => return State::Ended,
            () = sleep_until(self.next_bookmark), if self.live.bookmarks => {
                self.next_bookmark = bookmark_time(Instant::now(), self.end);
                self.writer.bookmark(out, watcher.progress(), false);
                return State::Following { watcher };
            }
            events = watcher.next() => events,
        };
        match events {
            Ok(events) => State::Sending { watcher, events, next: 0 },
            Err(error) => ended(error),
        }
    }

    fn send(
        &mut self,
        out: &mut Vec<u8>,
        watcher: Watcher<Projection>,
        events: Vec<Arc<Event<Projection>>>,
        mut next: usize,
    ) -> State {
        while let Some(event) = events.get(next) {
            next += 1;
            if let Some((ty, record, revision)) = seen(&self.live.filter, event) {
                self.writer.record(out, ty, record, revision);
                self.live.counter.inc();
            }
            if out.len() >= PIECE {
                return State::Sending { watcher, events, next };
            }
        }
        State::Following { watcher }
    }
}

/// The end of a stream that its watcher has ended.
fn ended(error: WatchError) -> State {
    match error {
        WatchError::Expired { after, oldest } => State::Failing(too_old(after, oldest)),
        WatchError::Closed => State::Ended,
        WatchError::Damaged(why) => State::Failing(ApiError::internal(why)),
    }
}
