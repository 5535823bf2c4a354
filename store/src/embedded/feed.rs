//! The feeder: copies acknowledged events from the journal to the served copy, behind the writers.
//!
//! [`Backlog`] contains the events that are durable in the journal and not yet in the served copy;
//! together with that copy it is the whole log. [`Feeder`] writes them to the copy in batches: the events,
//! the location of each key's newest event, and the applied revision, in one atomic batch.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::frame::StoreId;
use super::read;
use super::retention::Marks;
use super::rows::{self, CurrentRow};
use super::sled::{Changes, Served, ServedError};
use crate::{Event, Key, Revision};

/// The maximum bytes of a batch. Larger batches make sled copy all pages before it collects any.
pub(crate) const BATCH_BYTES: usize = 2 << 20;
/// With fewer bytes, the feeder waits briefly for more events: one batch rewrites each of sled's pages
/// once.
const RIPE_BYTES: usize = 1 << 20;
const RIPE_AFTER: Duration = Duration::from_millis(200);
/// The maximum number of rows that one batch removes.
const SWEEP_ROWS: usize = 1000;

/// Events that are durable and not yet in the served copy.
pub(crate) struct Backlog<V> {
    state: Mutex<State<V>>,
    work: Condvar,
    room: Condvar,
    limit: usize,
}

struct State<V> {
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
        let state = State {
            queue,
            bytes: 0,
            floor,
            since: None,
            poked: false,
            closing: false,
            stalled: false,
            failed: None,
        };
        Backlog { state: Mutex::new(state), work: Condvar::new(), room: Condvar::new(), limit }
    }

    /// Blocks while the backlog is full. Returns false if it is full and cannot shrink for now.
    pub(crate) fn wait_for_room(&self) -> Result<bool, String> {
        let mut state = self.lock();
        while state.failed.is_none() && !state.stalled && state.bytes > self.limit {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &state.failed {
            Some(why) => Err(why.clone()),
            None => Ok(state.bytes <= self.limit),
        }
    }

    /// Sets whether the served copy cannot be written to.
    pub(crate) fn stall(&self, stalled: bool) {
        self.lock().stalled = stalled;
        self.room.notify_all();
    }

    pub(crate) fn push(&self, events: &[Arc<Event<V>>]) {
        let mut state = self.lock();
        state.bytes += events.iter().map(|event| size(event)).sum::<usize>();
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
            let waited = self.work.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
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
        state.bytes -= events.iter().map(|event| size(event)).sum::<usize>();
        state.queue.drain(..events.len());
        state.floor = last.revision;
        state.since = (!state.queue.is_empty()).then(Instant::now);
        self.room.notify_all();
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
        self.room.notify_all();
    }

    /// Blocks until the backlog is closed, for at most `timeout`. Returns true if it is closed.
    pub(crate) fn closes_within(&self, timeout: Duration) -> bool {
        let waited = self.work.wait_timeout_while(self.lock(), timeout, |state| !state.closing);
        waited.unwrap_or_else(PoisonError::into_inner).0.closing
    }

    /// Blocks until the backlog is closed.
    pub(crate) fn wait_for_close(&self) {
        let state = self.lock();
        drop(self.work.wait_while(state, |state| !state.closing));
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

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to the served copy. It is the only writer, so nothing that it reads changes meanwhile.
pub(crate) struct Feeder {
    /// `None` only while the copy is being reopened.
    served: Option<Arc<Served>>,
    store: StoreId,
    pub(crate) applied: Revision,
    /// When the newest event in the copy was written.
    pub(crate) time_ms: i64,
    pub(crate) swept: Revision,
    pub(crate) marks: Marks,
}

impl Feeder {
    pub(crate) fn new(
        served: Arc<Served>,
        store: StoreId,
        applied: Revision,
        time_ms: i64,
        swept: Revision,
        marks: Marks,
    ) -> Self {
        Feeder { served: Some(served), store, applied, time_ms, swept, marks }
    }

    /// The copy that it writes to.
    pub(crate) fn served(&self) -> &Arc<Served> {
        self.served.as_ref().expect("nothing is fed while the copy is being reopened")
    }

    /// Whether there is a copy; there is none while it is being reopened.
    pub(crate) fn has_copy(&self) -> bool {
        self.served.is_some()
    }

    /// Makes the fed events durable. Does nothing when there is no copy.
    pub(crate) fn sync(&self) -> Result<(), ServedError> {
        self.served.as_ref().map_or(Ok(()), |served| served.sync())
    }

    /// Switches to another copy with the same contents.
    pub(crate) fn change(&mut self, served: Arc<Served>) {
        self.served = Some(served);
    }

    /// Releases the copy so that it can be reopened.
    pub(crate) fn release(&mut self) -> Option<Arc<Served>> {
        self.served.take()
    }

    /// Writes events to the served copy, all or none.
    pub(crate) fn feed<V>(&mut self, events: &[Arc<Event<V>>]) -> Result<(), ServedError> {
        let Some(last) = events.last() else { return Ok(()) };
        let mut changes = Changes::default();
        let mut newest: HashMap<&str, CurrentRow> = HashMap::with_capacity(events.len());
        for event in events {
            let key = event.key.as_str();
            let prior = match (&event.prev, newest.get(key)) {
                (Some(prev), _) => prev.mod_revision,
                (None, Some(row)) => row.revision,
                // The key may have been deleted recently: its history continues across the deletion.
                (None, None) => match self.served().get(&rows::current_key(key))? {
                    Some(row) => CurrentRow::decode(self.store, key, &row)?.revision,
                    None => Revision::ZERO,
                },
            };
            let record = event.record.as_ref();
            let named = record.or(event.prev.as_ref());
            let create = named.map_or(Revision::ZERO, |record| record.create_revision);
            let value = record.map(|record| &*record.value);
            let chunks =
                rows::encode_log(self.store, event.revision, event.time_ms, create, prior, key, value);
            for (key, chunk) in chunks {
                changes.insert(&key, chunk);
            }
            let value_crc = value.map_or(0, crc32c::crc32c);
            newest.insert(
                key,
                CurrentRow { deleted: value.is_none(), create, revision: event.revision, value_crc },
            );
        }
        for (key, row) in newest {
            changes.insert(&rows::current_key(key), row.encode(self.store, key));
        }
        self.set_applied(&mut changes, last.revision, last.time_ms);
        self.served().apply(changes)?;
        self.applied = last.revision;
        self.time_ms = last.time_ms;
        for event in events {
            self.marks.push(event.revision, event.time_ms, size(event));
        }
        Ok(())
    }

    /// Adds the applied revision and the store's id to a batch.
    pub(crate) fn set_applied(&self, changes: &mut Changes, applied: Revision, time_ms: i64) {
        let row = rows::encode_meta(self.store, rows::META_APPLIED, applied.0, time_ms as u64);
        changes.insert(rows::META_APPLIED, row);
        changes.insert(rows::META_STORE, self.store.0.to_vec());
    }

    pub(crate) fn set_compacted(&self, changes: &mut Changes, oldest: Revision, swept: Revision) {
        let row = rows::encode_meta(self.store, rows::META_COMPACTED, oldest.0, swept.0);
        changes.insert(rows::META_COMPACTED, row);
    }

    /// Removes some of the versions that were replaced or deleted at or before `oldest`. Returns true when
    /// more may remain. The versions are found from the events that replaced them, so the cost is proportional
    /// to the number of changes and not to the size of the store.
    pub(crate) fn sweep(&mut self, oldest: Revision) -> Result<bool, ServedError> {
        let upto = oldest.min(self.applied);
        if self.swept >= upto {
            return Ok(false);
        }
        let mut changes = Changes::default();
        let mut removed = 0;
        let mut swept = upto;
        for row in read::log(self.served(), self.store, self.swept.next(), upto) {
            let row = row?;
            removed += self.remove_log(&mut changes, row.prior)?;
            if row.value.is_none() {
                removed += self.remove_log(&mut changes, row.revision)?;
                let name = rows::current_key(row.key.as_str());
                if let Some(bytes) = self.served().get(&name)?
                    && CurrentRow::decode(self.store, row.key.as_str(), &bytes)?.revision == row.revision
                {
                    changes.remove(&name);
                }
            }
            if removed >= SWEEP_ROWS {
                swept = row.revision;
                break;
            }
        }
        self.set_compacted(&mut changes, oldest, swept);
        self.served().apply(changes)?;
        self.swept = swept;
        self.marks.forget(swept);
        Ok(swept < upto)
    }

    /// Removes the chunks of an event, if it exists. Returns the number of rows.
    fn remove_log(&self, changes: &mut Changes, revision: Revision) -> Result<usize, ServedError> {
        let Some(first) = self.served().get(&rows::log_key(revision, 0))? else { return Ok(0) };
        let chunks = rows::chunk_count(&first).ok_or_else(|| format!("log/{revision} is too short"))?;
        for chunk in 0..chunks {
            changes.remove(&rows::log_key(revision, chunk));
        }
        Ok(usize::from(chunks))
    }
}

/// The number of bytes that an event adds to the log.
pub(crate) fn size_of(key: &Key, value: Option<&[u8]>) -> usize {
    64 + key.as_str().len() + value.map_or(0, <[u8]>::len)
}

fn size<V>(event: &Event<V>) -> usize {
    size_of(&event.key, event.record.as_ref().map(|record| &*record.value))
}
