//! The memory of data that clients have not read yet: the events and the encoded text that an open watch holds.
//!
//! It is part of the server's memory budget. When the budget is exhausted, the connection of the client that has not read for
//! the longest time is closed: its client can resume the watch from the last revision that it has received.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orlop_store::watch::BATCH_BYTES;
use orlop_store::{Event, MemoryBudget, ReservedMemory, View, WatchError, Watcher};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// Less than this is part of the memory of a connection and not counted, bytes.
const COUNTED: u64 = 64 << 10;
/// The memory of a batch that is read from the log, bytes: its last event may exceed the limit by two objects.
const BEHIND: u64 = (BATCH_BYTES + (4 << 20)) as u64;
/// How long a client may leave data unread before its connection can be closed.
const PATIENCE: Duration = Duration::from_millis(200);
/// The interval between attempts to reserve memory.
const RETRY: Duration = Duration::from_millis(50);

/// The clients that have data to read, slowest first.
#[derive(Debug)]
pub(crate) struct UnreadData {
    budget: Arc<MemoryBudget>,
    waiting: Mutex<Waiting>,
    closed: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By the time since which they wait, and a number.
    clients: BTreeMap<(Instant, u64), (Connection, u64)>,
    next: u64,
    /// The bytes of clients whose connections are being closed.
    closing: u64,
}

impl UnreadData {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(UnreadData { budget, waiting: Mutex::default(), closed: AtomicU64::new(0) })
    }

    /// The number of connections that were closed for lack of memory.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// The unread data of a client. Without a connection, the client is in this process, and its data is not counted.
    pub(crate) fn of(self: &Arc<Self>, connection: Option<Connection>) -> UnreadResponse {
        UnreadResponse { all: self.clone(), connection, reserved: None, place: Place::None }
    }

    /// Closes the connections of the slowest clients until `needed` bytes are about to become free.
    fn make_room(&self, needed: u64) {
        let mut waiting = self.waiting.lock();
        while waiting.closing < needed {
            let Some(slowest) = waiting.clients.first_entry() else { return };
            let (since, _) = *slowest.key();
            if since.elapsed() < PATIENCE {
                return;
            }
            let (connection, bytes) = slowest.remove();
            waiting.closing += bytes;
            self.closed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                peer = %connection.peer(), bytes,
                "the memory limit is reached, and a client does not read a watch; its connection is closed"
            );
            connection.stall();
        }
    }
}

/// The data of one response.
#[derive(Debug)]
pub(crate) struct UnreadResponse {
    all: Arc<UnreadData>,
    connection: Option<Connection>,
    reserved: Option<ReservedMemory>,
    place: Place,
}

/// Where a response is in the order of slow clients.
#[derive(Clone, Copy, Debug)]
enum Place {
    None,
    At(Instant, u64),
}

impl UnreadResponse {
    /// The client has read all data. The memory stays reserved for the next [`hold`](Self::hold).
    pub(crate) fn is_read(&mut self) {
        let Place::At(since, number) = std::mem::replace(&mut self.place, Place::None) else { return };
        let mut waiting = self.all.waiting.lock();
        if waiting.clients.remove(&(since, number)).is_none() {
            // Its connection is being closed.
            waiting.closing = waiting.closing.saturating_sub(self.bytes());
        }
    }

    /// Returns the memory: the client has read everything, and nothing waits for it.
    fn release(&mut self) {
        self.is_read();
        self.reserved = None;
    }

    /// Waits until the budget has room for this many bytes that the client has to read, and counts them until the next call.
    pub(crate) async fn hold(&mut self, bytes: u64) {
        self.is_read();
        if bytes < COUNTED {
            self.reserved = None;
            return;
        }
        let Some(connection) = self.connection.clone() else { return };
        while !self.reserve(bytes) {
            // Two clients that keep a part would wait for each other.
            self.reserved = None;
            self.all.make_room(bytes);
            tokio::time::sleep(RETRY).await;
        }
        let mut waiting = self.all.waiting.lock();
        waiting.next += 1;
        let (since, number) = (Instant::now(), waiting.next);
        waiting.clients.insert((since, number), (connection, bytes));
        self.place = Place::At(since, number);
    }

    /// Counts text that is sent next, and the events that follow it, as [`hold`](Self::hold).
    pub(crate) async fn hold_events<V>(&mut self, text: usize, events: &[Arc<Event<V>>]) {
        let events: usize = events.iter().map(|event| event.size()).sum();
        self.hold((text + events) as u64).await;
    }

    /// Counts the text of the next event before it is encoded, if it is large. Its text is about as long as the event.
    pub(crate) async fn hold_next<V>(&mut self, events: &[Arc<Event<V>>]) {
        if let Some(next) = events.first().filter(|event| event.size() as u64 >= COUNTED) {
            self.hold_events(next.size(), events).await;
        }
    }

    /// Counts a batch of events that is about to be read from the log, into memory of this response alone.
    pub(crate) async fn hold_batch(&mut self) {
        self.hold(BEHIND).await;
    }

    /// The next events of a watcher. Those that it reads from the log are counted.
    pub(crate) async fn next_events<V: View>(
        &mut self,
        watcher: &mut Watcher<V>,
    ) -> Result<Vec<Arc<Event<V>>>, WatchError> {
        loop {
            self.release();
            if let Some(events) = watcher.next_of_ring().await? {
                return Ok(events);
            }
            self.hold_batch().await;
            if let Some(events) = watcher.next_of_log().await? {
                return Ok(events);
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.reserved.as_ref().map_or(0, ReservedMemory::bytes)
    }

    fn reserve(&mut self, bytes: u64) -> bool {
        match &mut self.reserved {
            Some(reserved) => reserved.resize(bytes).is_ok(),
            None => {
                self.reserved = self.all.budget.reserve(bytes).ok();
                self.reserved.is_some()
            }
        }
    }
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        self.is_read();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::task::Waker;

    use super::*;
    use crate::limits::connection::Connections;

    fn connection() -> Connection {
        Connections::new(0, MemoryBudget::new(0)).open("127.0.0.1:1".parse().unwrap()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_client_is_closed_when_the_memory_is_exhausted() {
        let budget = MemoryBudget::new(10 * COUNTED);
        let all = UnreadData::new(budget.clone());
        let [slow, fast, new] = [connection(), connection(), connection()];
        let is_closed = |connection: &Connection| connection.is_stalled(Waker::noop());
        let mut of_fast = all.of(Some(fast.clone()));
        of_fast.hold(4 * COUNTED).await;
        let mut of_slow = all.of(Some(slow.clone()));
        of_slow.hold(4 * COUNTED).await;
        tokio::time::sleep(PATIENCE * 2).await;
        // It reads, and gets more.
        of_fast.hold(5 * COUNTED).await;
        let mut of_new = all.of(Some(new.clone()));
        let waits = tokio::time::timeout(PATIENCE, of_new.hold(2 * COUNTED)).await;
        assert!(waits.is_err(), "its connection is closed, its memory is not free yet");
        assert_eq!((is_closed(&slow), is_closed(&fast), all.closed()), (true, false, 1));
        drop(of_slow);
        of_new.hold(2 * COUNTED).await;
        assert_eq!((is_closed(&new), all.closed(), budget.used()), (false, 1, 7 * COUNTED));
        drop((of_fast, of_new));
        let waiting = all.waiting.lock();
        assert_eq!((budget.used(), waiting.closing, waiting.clients.len()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn little_data_and_clients_in_this_process_are_not_counted() {
        let budget = MemoryBudget::new(COUNTED);
        let all = UnreadData::new(budget.clone());
        let mut little = all.of(Some(connection()));
        little.hold(COUNTED - 1).await;
        let mut own = all.of(None);
        own.hold(100 * COUNTED).await;
        assert_eq!(budget.used(), 0);
        little.hold(COUNTED).await;
        assert_eq!(budget.used(), COUNTED);
        little.hold(0).await;
        assert_eq!(budget.used(), 0);
    }
}
