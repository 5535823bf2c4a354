//! The backlog: the events that are durable in the journal and not yet in the served copy. Together with that copy
//! it is the whole log.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Event, Key, Revision};

/// The maximum bytes of a batch. Larger batches make sled copy all pages before it collects any.
pub(crate) const BATCH_BYTES: usize = 2 << 20;
/// With fewer bytes, the feeder waits briefly for more events: one batch rewrites each of sled's pages
/// once.
const RIPE_BYTES: usize = 1 << 20;
const RIPE_AFTER: Duration = Duration::from_millis(200);

/// Events that are durable and not yet in the served copy.
pub(crate) struct Backlog<V> {
    state: Mutex<BacklogState<V>>,
    work: Condvar,
    space: Condvar,
    limit: usize,
}

struct BacklogState<V> {
    queue: VecDeque<Arc<Event<V>>>,
    bytes: usize,
    /// Everything up to this revision is in the served copy; the queue continues after it.
    floor: Revision,
    /// When the oldest event was queued.
    since: Option<Instant>,
    poked: bool,
    closing: bool,
    /// The served copy cannot be written to, for lack of disk space.
    stalled: bool,
    failed: Option<String>,
}

/// The next task of the feeder.
pub(crate) struct Work<V> {
    /// The oldest events of the backlog; they stay in it until [`done`](Backlog::done) removes them.
    pub(crate) events: Vec<Arc<Event<V>>>,
    /// No more events follow these.
    pub(crate) last: bool,
}

impl<V> Backlog<V> {
    pub(crate) fn new(floor: Revision, limit: usize) -> Self {
        let queue = VecDeque::new();
        let state = BacklogState {
            queue,
            bytes: 0,
            floor,
            since: None,
            poked: false,
            closing: false,
            stalled: false,
            failed: None,
        };
        Backlog { state: Mutex::new(state), work: Condvar::new(), space: Condvar::new(), limit }
    }

    /// Blocks while the backlog is full. Returns false if it is full and cannot shrink for now.
    pub(crate) fn wait_for_space(&self) -> Result<bool, String> {
        let mut state = self.lock();
        while state.failed.is_none() && !state.stalled && state.bytes > self.limit {
            self.space.wait(&mut state);
        }
        match &state.failed {
            Some(why) => Err(why.clone()),
            None => Ok(state.bytes <= self.limit),
        }
    }

    /// Sets whether the served copy cannot be written to.
    pub(crate) fn stall(&self, stalled: bool) {
        self.lock().stalled = stalled;
        self.space.notify_all();
    }

    pub(crate) fn push(&self, events: &[Arc<Event<V>>]) {
        let mut state = self.lock();
        state.bytes += events.iter().map(|event| size_in_memory(event)).sum::<usize>();
        state.queue.extend(events.iter().cloned());
        let first = state.since.is_none();
        if first {
            state.since = Some(Instant::now());
        }
        if first || state.bytes >= self.ripe() {
            self.work.notify_one();
        }
    }

    fn ripe(&self) -> usize {
        RIPE_BYTES.min(self.limit / 8)
    }

    /// Waits until there are enough events to feed or there is other work, for at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Work<V> {
        let mut state = self.lock();
        let start = Instant::now();
        loop {
            let now = Instant::now();
            let due = state.since.map(|since| since + RIPE_AFTER);
            let ripe = state.bytes >= self.ripe() || due.is_some_and(|due| due <= now);
            if state.poked || state.closing || (ripe && state.since.is_some()) {
                break;
            }
            let until = due.map_or(start + timeout, |due| due.min(start + timeout));
            if until <= now {
                return Work { events: Vec::new(), last: false };
            }
            self.work.wait_until(&mut state, until);
        }
        let mut bytes = 0;
        let fits = |event: &&Arc<Event<V>>| {
            let first = bytes == 0;
            bytes += size(event);
            first || bytes <= BATCH_BYTES
        };
        let events: Vec<_> = state.queue.iter().take_while(fits).cloned().collect();
        // A caller of `poke` waits for all events queued so far.
        state.poked &= events.len() < state.queue.len();
        let last = state.closing && events.len() == state.queue.len();
        Work { events, last }
    }

    /// Removes the oldest events, which are now in the served copy.
    pub(crate) fn done(&self, events: &[Arc<Event<V>>]) {
        let Some(last) = events.last() else { return };
        let mut state = self.lock();
        state.bytes -= events.iter().map(|event| size_in_memory(event)).sum::<usize>();
        state.queue.drain(..events.len());
        state.floor = last.revision;
        state.since = (!state.queue.is_empty()).then(Instant::now);
        self.space.notify_all();
    }

    /// Removes all events up to a revision, which are now in the served copy.
    pub(crate) fn done_through(&self, revision: Revision) {
        let events: Vec<_> = {
            let state = self.lock();
            state.queue.iter().take_while(|event| event.revision <= revision).cloned().collect()
        };
        self.done(&events);
    }

    /// Wakes the feeder, also when there are no events.
    pub(crate) fn poke(&self) {
        self.lock().poked = true;
        self.work.notify_one();
    }

    /// Closes the backlog: no event is pushed after this.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.work.notify_one();
    }

    pub(crate) fn fail(&self, why: String) {
        self.lock().failed = Some(why);
        self.space.notify_all();
    }

    /// Blocks until the backlog is closed, for at most `timeout`. Returns true if it is closed.
    pub(crate) fn closes_within(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        self.work.wait_while_for(&mut state, |state| !state.closing, timeout);
        state.closing
    }

    /// The bytes of the queued events.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    pub(crate) fn floor(&self) -> Revision {
        self.lock().floor
    }

    /// The matching events in `(after, upto]`, at most `limit`; `None` when the served copy already has some
    /// of them.
    pub(crate) fn since(
        &self,
        after: Revision,
        upto: Revision,
        limit: usize,
        matches: impl Fn(&Key) -> bool,
    ) -> Option<Vec<Arc<Event<V>>>> {
        let state = self.lock();
        if after < state.floor {
            return None;
        }
        // Revisions are dense, so the revision gives the index.
        let start = ((after.0 - state.floor.0) as usize).min(state.queue.len());
        let later = state.queue.range(start..).take_while(|event| event.revision <= upto);
        Some(later.filter(|event| matches(&event.key)).take(limit).cloned().collect())
    }

    /// The queued events of a key up to a revision, and the revision from which on they are complete.
    pub(crate) fn of_key(&self, key: &Key, upto: Revision) -> (Vec<Arc<Event<V>>>, Revision) {
        let state = self.lock();
        let matching = state.queue.iter().filter(|event| event.revision <= upto && event.key == *key);
        (matching.cloned().collect(), state.floor)
    }

    fn lock(&self) -> MutexGuard<'_, BacklogState<V>> {
        self.state.lock()
    }
}

/// The number of bytes that an event adds to the log.
pub(crate) fn size_of(key: &Key, value: Option<&[u8]>) -> usize {
    64 + key.as_str().len() + value.map_or(0, <[u8]>::len)
}

pub(super) fn size<V>(event: &Event<V>) -> usize {
    size_of(&event.key, event.record.as_ref().map(|record| &**record.stored_bytes()))
}

/// The number of bytes of an event in the backlog.
fn size_in_memory<V>(event: &Event<V>) -> usize {
    64 + event.record.as_ref().map_or(event.key.as_str().len(), |record| record.size())
}
