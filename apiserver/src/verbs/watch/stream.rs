//! The event stream of a watch: initial events, the bookmark that ends them, then changes until the timeout, the
//! loss of its revision, or shutdown.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use orlop_store::watch::BATCH;
use orlop_store::{Event, Kv, ReservedMemory, Revision, Snapshot, WatchError, Watcher};
use prometheus::IntCounter;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::account::IsAlive;
use super::event::{Type, Writer, seen};
use super::too_old;
use crate::limits::old_states::OldState;
use crate::limits::unread::UnreadResponse;
use crate::projection::Projection;
use crate::verbs::filter::Filter;
use crate::verbs::former::{FormerLimit, hides_event, hides_state};
use orlop_api::status::ApiError;

/// Where a stream starts.
pub(super) enum Start {
    /// With the state at a revision.
    Initial { snapshot: Snapshot<Projection>, old_state: Option<OldState> },
    /// With the changes after a revision.
    After(Revision),
    /// With an error, which is the only event.
    Failed(ApiError),
}

/// The data of a running stream.
pub(super) struct Live {
    pub(super) store: Arc<dyn Kv<Projection>>,
    pub(super) prefix: String,
    pub(super) filter: Filter,
    /// The memory of the filter.
    pub(super) _selectors: ReservedMemory,
    /// Hides former versions of Secrets.
    pub(super) former: Option<FormerLimit>,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
    /// Cancelled on shutdown: the stream ends cleanly.
    pub(super) closing: CancellationToken,
    pub(super) counter: IntCounter,
    /// For a service account and for a session of the web page: the watch ends after the account is deleted, or after the key of its token
    /// or the credentials of the session are no longer accepted.
    pub(super) account: Option<IsAlive>,
    /// Permits for the steps of the initial state.
    pub(super) initial_steps: Arc<Semaphore>,
    /// The data that the client has not read yet.
    pub(super) unread: UnreadResponse,
}

/// The state of a stream.
enum WatchState {
    /// Sends the objects from this key on (all if `None`), then the bookmark, then continues with `Following`.
    Initial { snapshot: Snapshot<Projection>, old_state: Option<OldState>, from: Option<String> },
    /// Nothing has been sent yet; opens the watcher.
    Opening { after: Revision },
    /// Waits for events.
    Following { watcher: Watcher<Projection> },
    /// Sends these events, then continues with `Following`. No bookmark is sent before all of them
    /// are, because a bookmark guarantees them.
    Sending { watcher: Watcher<Projection>, events: std::vec::IntoIter<Arc<Event<Projection>>> },
    /// Sends the error and ends.
    Failing(ApiError),
    /// The stream has ended.
    Ended,
}

/// How often the existence of a service account and the credentials of a session are checked.
const CHECK_ACCOUNT_EVERY: Duration = Duration::from_secs(20);
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark is sent this long before the timeout.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events are combined into chunks of up to this many bytes.
const PIECE: usize = 64 * 1024;
/// The bytes of initial objects that are examined before other tasks run.
const VISITED: usize = 1 << 20;
/// Up to this many watchers of a topic are served without rest.
const FEW: usize = 64;
/// Maximum number of chunks per second and core for the watchers of one topic. Each chunk costs a wake-up and two
/// system calls on each side, whatever its size.
const PIECES_PER_CORE: u32 = 25_000;
/// Maximum rest of a watcher.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// How long a watcher rests after it was served, so that the events of that time are sent in one chunk. The first
/// event after a rest is never delayed. After a full batch more events are already waiting, so a watcher that
/// catches up does not rest.
fn rest(crowd: usize, count: usize, cores: u32) -> Duration {
    if crowd <= FEW || count >= BATCH {
        return Duration::ZERO;
    }
    let crowd = u32::try_from(crowd).unwrap_or(u32::MAX);
    let each = Duration::from_secs(1) / PIECES_PER_CORE.saturating_mul(cores.max(1));
    each.saturating_mul(crowd).min(LONGEST_REST)
}

/// Number of cores of this machine.
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
    /// Completes on shutdown.
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Fires at the timeout, at the next bookmark or at the next check of the account, whichever comes first.
    alarm: Pin<Box<Sleep>>,
    /// Events are collected until this timer fires; `None` without a rest.
    rest: Option<Pin<Box<Sleep>>>,
}

/// The chunks of the response body.
pub(super) fn stream(
    start: Start,
    live: Live,
    writer: Writer,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let now = Instant::now();
    let end = now + live.timeout;
    let state = match start {
        Start::Initial { snapshot, old_state } => WatchState::Initial { snapshot, old_state, from: None },
        Start::After(after) => WatchState::Opening { after },
        Start::Failed(error) => WatchState::Failing(error),
    };
    let next_bookmark = bookmark_time(now, end);
    let closing = Box::pin(live.closing.clone().cancelled_owned());
    let alarm = Box::pin(sleep_until(end));
    let mut running = Running { live, writer, state, end, next_bookmark, closing, alarm, rest: None };
    running.set_alarm(now);
    let pieces = stream::unfold(running, |mut running| async move {
        running.piece().await.map(|piece| (Ok(Bytes::from(piece)), running))
    });
    // Fused, so that polling after the end is allowed.
    pieces.fuse()
}

/// The time of the next bookmark: once a minute, and a last one shortly before the timeout.
fn bookmark_time(now: Instant, end: Instant) -> Instant {
    let last = end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
    let next = now + BOOKMARK_EVERY;
    if now < last && last < next { last } else { next }
}

impl Running {
    /// The next chunk of the body; `None` at its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        // The client has read the piece before.
        self.live.unread.is_read();
        let mut out = Vec::new();
        while out.is_empty() {
            let state = std::mem::replace(&mut self.state, WatchState::Ended);
            self.state = match state {
                WatchState::Initial { .. } if self.live.closing.is_cancelled() => WatchState::Ended,
                WatchState::Initial { snapshot, old_state, from } => {
                    let steps = self.live.initial_steps.clone();
                    // The semaphore is never closed.
                    let turn = steps.acquire().await;
                    let state = self.initial(&mut out, snapshot, old_state, from);
                    drop(turn);
                    if out.is_empty() {
                        tokio::task::yield_now().await;
                    }
                    state
                }
                WatchState::Opening { after } => self.open(after),
                WatchState::Following { watcher } => self.follow(&mut out, watcher).await,
                WatchState::Sending { watcher, events } => {
                    self.live.unread.hold_next(events.as_slice()).await;
                    let state = self.send(&mut out, watcher, events);
                    if out.is_empty() {
                        // No event matches this watcher; let other tasks run before the next batch.
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
        let events = match &self.state {
            WatchState::Sending { events, .. } => events.as_slice(),
            WatchState::Initial { .. }
            | WatchState::Opening { .. }
            | WatchState::Following { .. }
            | WatchState::Failing(_)
            | WatchState::Ended => &[],
        };
        self.live.unread.hold_events(out.len(), events).await;
        Some(out)
    }

    fn initial(
        &mut self,
        out: &mut Vec<u8>,
        snapshot: Snapshot<Projection>,
        old_state: Option<OldState>,
        from: Option<String>,
    ) -> WatchState {
        let mut visited = 0;
        let mut next = None;
        for record in self.live.filter.candidates(&snapshot, &self.live.prefix, from.as_deref()) {
            visited += record.size();
            if self.live.filter.matches(record) {
                if let Err(error) = self.writer.record(out, Type::Added, record, record.mod_revision) {
                    return WatchState::Failing(error);
                }
                self.live.counter.inc();
            }
            if out.len() >= PIECE || visited >= VISITED {
                // The smallest key after this one.
                next = Some(format!("{}\0", record.key));
                break;
            }
        }
        if next.is_some() {
            return WatchState::Initial { snapshot, old_state, from: next };
        }
        if self.live.bookmarks {
            self.writer.bookmark(out, snapshot.revision(), true);
        }
        self.open(snapshot.revision())
    }

    fn open(&self, after: Revision) -> WatchState {
        if let Some(floor) = self.former_floor().filter(|floor| hides_state(*floor, after)) {
            return WatchState::Failing(too_old(after, floor));
        }
        match self.live.store.watch(&self.live.prefix, after) {
            Ok(watcher) => WatchState::Following { watcher },
            Err(error) => ended(error),
        }
    }

    async fn follow(&mut self, out: &mut Vec<u8>, mut watcher: Watcher<Projection>) -> WatchState {
        let (resting, unread) = (&mut self.rest, &mut self.live.unread);
        let next = async {
            if let Some(timer) = resting {
                timer.as_mut().await;
            }
            unread.next_events(&mut watcher).await
        };
        let events = tokio::select! {
            biased;
            () = &mut self.closing => return WatchState::Ended,
            // Timers come before events: a constant flow of events would never let them run.
            () = &mut self.alarm => {
                let now = Instant::now();
                if now >= self.end || self.live.account.as_ref().is_some_and(|is_alive| !is_alive()) {
                    return WatchState::Ended;
                }
                if self.live.bookmarks && now >= self.next_bookmark {
                    self.next_bookmark = bookmark_time(now, self.end);
                    self.writer.bookmark(out, watcher.progress(), false);
                }
                self.set_alarm(now);
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
            Ok(events) => WatchState::Sending { watcher, events: events.into_iter() },
            Err(error) => ended(error),
        }
    }

    /// Sets the alarm to whatever comes next: the timeout, a bookmark, or a check of the account.
    fn set_alarm(&mut self, now: Instant) {
        let bookmark = self.live.bookmarks.then_some(self.next_bookmark);
        let check = self.live.account.is_some().then(|| now + CHECK_ACCOUNT_EVERY);
        let next = bookmark.into_iter().chain(check).fold(self.end, Instant::min);
        self.alarm.as_mut().reset(next);
    }

    /// Starts the timer of a rest.
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

    /// The newest revision whose former versions are hidden, if some are.
    fn former_floor(&self) -> Option<Revision> {
        self.live.former.as_ref().map(FormerLimit::floor)
    }

    fn send(
        &mut self,
        out: &mut Vec<u8>,
        watcher: Watcher<Projection>,
        mut events: std::vec::IntoIter<Arc<Event<Projection>>>,
    ) -> WatchState {
        // The floor rises while events wait for a slow client.
        let floor = self.former_floor();
        while let Some(event) = events.next() {
            if let Some(floor) = floor.filter(|floor| hides_event(*floor, event.revision)) {
                return WatchState::Failing(too_old(event.revision, floor));
            }
            if let Some((ty, record, revision)) = seen(&self.live.filter, &event) {
                if let Err(error) = self.writer.record(out, ty, record, revision) {
                    return WatchState::Failing(error);
                }
                self.live.counter.inc();
            }
            if out.len() >= PIECE && events.len() > 0 {
                return WatchState::Sending { watcher, events };
            }
        }
        WatchState::Following { watcher }
    }
}

/// The state of a stream whose watcher has ended.
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
    fn crowded_watchers_rest_long_enough_to_stay_within_the_chunk_budget() {
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
