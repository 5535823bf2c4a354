//! The stream of a watch: initial events, the bookmark that ends them, then what happens, until
//! its time is up, its revision is lost or the server closes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use orlop_store::watch::BATCH;
use orlop_store::{Event, Kv, Record, Revision, WatchError, Watcher};
use prometheus::IntCounter;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

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
enum WatchState {
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
/// So few watchers of a topic are each served at once, whatever happens.
const FEW: usize = 64;
/// How many pieces a core may send to the watchers of one topic in a second. Each costs a wake-up
/// and two system calls here and two there, however little is in it.
const PIECES_PER_CORE: u32 = 25_000;
/// Nobody is made to wait longer for company.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// How long a watcher that was served rests before it is served again, so that what happens
/// meanwhile comes in one piece. The first event after a rest is never held back. After a full batch
/// there is more already: whoever catches up does not rest.
fn rest(crowd: usize, count: usize, cores: u32) -> Duration {
    if crowd <= FEW || count >= BATCH {
        return Duration::ZERO;
    }
    let crowd = u32::try_from(crowd).unwrap_or(u32::MAX);
    let each = Duration::from_secs(1) / PIECES_PER_CORE.saturating_mul(cores.max(1));
    each.saturating_mul(crowd).min(LONGEST_REST)
}

/// The cores of this machine.
fn cores() -> u32 {
    static CORES: LazyLock<u32> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32));
    *CORES
}

struct Running {
    live: Live,
    writer: Writer,
    state: WatchState,
    end: Instant,
    next_bookmark: Instant,
    /// The server is closing.
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The end or the next bookmark, whichever comes first.
    alarm: Pin<Box<Sleep>>,
    /// Until then events are gathered; not set while nobody has to wait.
    rest: Option<Pin<Box<Sleep>>>,
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
        Start::Initial { records, at } => WatchState::Initial { records, next: 0, at },
        Start::After(after) => WatchState::Opening { after },
        Start::Failed(error) => WatchState::Failing(error),
    };
    let next_bookmark = bookmark_time(now, end);
    let closing = Box::pin(live.closing.clone().cancelled_owned());
    let alarm = Box::pin(sleep_until(if live.bookmarks { next_bookmark.min(end) } else { end }));
    let running = Running { live, writer, state, end, next_bookmark, closing, alarm, rest: None };
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
            let state = std::mem::replace(&mut self.state, WatchState::Ended);
            self.state = match state {
                WatchState::Initial { records, next, at } => self.initial(&mut out, records, next, at),
                WatchState::Opening { after } => self.open(after),
                WatchState::Following { watcher } => self.follow(&mut out, watcher).await,
                WatchState::Sending { watcher, events, next } => {
                    let state = self.send(&mut out, watcher, events, next);
                    if out.is_empty() {
                        // Nothing for this watcher; others want to run before the next lot.
                        tokio::task::yield_now().await;
                    }
                    state
                }
                WatchState::Failing(error) => {
                    self.writer.error(&mut out, &error);
                    WatchState::Ended
                }
                WatchState::Ended => return None,
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
    ) -> WatchState {
        while let Some(record) = records.get(next) {
            self.writer.record(out, Type::Added, record, record.mod_revision);
            self.live.counter.inc();
            next += 1;
            if out.len() >= PIECE {
                return WatchState::Initial { records, next, at };
            }
        }
        if self.live.bookmarks {
            self.writer.bookmark(out, at, true);
        }
        self.open(at)
    }

    fn open(&self, after: Revision) -> WatchState {
        match self.live.store.watch(&self.live.prefix, after) {
            Ok(watcher) => WatchState::Following { watcher },
            Err(error) => ended(error),
        }
    }

    async fn follow(&mut self, out: &mut Vec<u8>, mut watcher: Watcher<Projection>) -> WatchState {
        let resting = &mut self.rest;
        let next = async {
            if let Some(timer) = resting {
                timer.as_mut().await;
            }
            watcher.next().await
        };
        let events = tokio::select! {
            biased;
            () = &mut self.closing => return WatchState::Ended,
            // The times come before the events: in a steady flow they would never have their turn.
            () = &mut self.alarm => {
                let now = Instant::now();
                if now >= self.end {
                    return WatchState::Ended;
                }
                self.next_bookmark = bookmark_time(now, self.end);
                self.alarm.as_mut().reset(self.next_bookmark.min(self.end));
                self.writer.bookmark(out, watcher.progress(), false);
                return WatchState::Following { watcher };
            }
            events = next => events,
        };
        let count = events.as_ref().map_or(0, Vec::len);
        self.rest = match rest(watcher.crowd(), count, cores()) {
            Duration::ZERO => None,
            time => Some(self.rested(time)),
        };
        match events {
            Ok(events) => WatchState::Sending { watcher, events, next: 0 },
            Err(error) => ended(error),
        }
    }

    /// The timer of a rest that begins now.
    fn rested(&mut self, time: Duration) -> Pin<Box<Sleep>> {
        let until = Instant::now() + time;
        match self.rest.take() {
            Some(mut timer) => {
                timer.as_mut().reset(until);
                timer
            }
            None => Box::pin(sleep_until(until)),
        }
    }

    fn send(
        &mut self,
        out: &mut Vec<u8>,
        watcher: Watcher<Projection>,
        events: Vec<Arc<Event<Projection>>>,
        mut next: usize,
    ) -> WatchState {
        while let Some(event) = events.get(next) {
            next += 1;
            if let Some((ty, record, revision)) = seen(&self.live.filter, event) {
                self.writer.record(out, ty, record, revision);
                self.live.counter.inc();
            }
            if out.len() >= PIECE {
                return WatchState::Sending { watcher, events, next };
            }
        }
        WatchState::Following { watcher }
    }
}

/// The end of a stream that its watcher has ended.
fn ended(error: WatchError) -> WatchState {
    match error {
        WatchError::Expired { after, oldest } => WatchState::Failing(too_old(after, oldest)),
        WatchError::Closed => WatchState::Ended,
        WatchError::Damaged(why) => WatchState::Failing(ApiError::internal(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_rests_so_long_that_the_pieces_of_all_stay_within_the_budget() {
        let cases = [
            (1, 1, 2, 0),
            (FEW, 1, 2, 0),
            (FEW + 1, 1, 2, 1_300),
            (1_000, 1, 2, 20_000),
            (1_000, BATCH - 1, 4, 10_000),
            (10_000, 1, 2, 200_000),
            (10_000, 0, 2, 200_000),
            (10_000, BATCH, 2, 0),
            (1_000_000, 1, 2, 250_000),
            (usize::MAX, 1, 0, 250_000),
        ];
        for (crowd, count, cores, micros) in cases {
            let got = rest(crowd, count, cores);
            assert_eq!(got, Duration::from_micros(micros), "{crowd} watchers, {count} events, {cores} cores");
        }
    }
}
