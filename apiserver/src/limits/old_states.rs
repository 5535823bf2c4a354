//! The replaced and deleted objects that slow responses still hold.
//!
//! A list, and the initial state of a watch or a stream, is sent from a snapshot. Objects that are replaced meanwhile stay in
//! memory until the response ends. The bytes that were replaced since the oldest of these responses began are an upper bound of
//! this memory, and so is the sum of the data at the beginning of each response. The smaller bound is part of the server's memory
//! budget. When it does not fit, the connections of the oldest responses are closed: their clients can repeat the request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orlop_store::{DataBytes, Kv, MemoryBudget, ReservedMemory};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection::Connection;
use crate::projection::Projection;

/// The interval between two measurements while a response is in progress.
const EVERY: Duration = Duration::from_millis(250);
/// A response is not ended earlier than this after its beginning.
const PATIENCE: Duration = Duration::from_secs(1);

/// The old states that responses hold.
#[derive(Debug)]
pub(crate) struct OldStates {
    budget: Arc<MemoryBudget>,
    held: Mutex<Held>,
    closed: AtomicU64,
    /// Notified when the first response begins.
    begun: Notify,
}

#[derive(Debug, Default)]
struct Held {
    /// The responses, by the bytes that were replaced before they began, and by a number.
    responses: BTreeMap<(u64, u64), Response>,
    next: u64,
    reserved: Option<ReservedMemory>,
}

#[derive(Debug)]
struct Response {
    connection: Connection,
    /// The data when it began, bytes.
    data: u64,
    since: Instant,
}

impl Held {
    /// The upper bound of the memory of old objects, after this many bytes were replaced.
    fn bytes(&self, replaced: u64) -> u64 {
        let Some(((before, _), _)) = self.responses.first_key_value() else { return 0 };
        let data = self.responses.values().fold(0, |sum: u64, response| sum.saturating_add(response.data));
        replaced.saturating_sub(*before).min(data)
    }

    fn reserve(&mut self, budget: &Arc<MemoryBudget>, bytes: u64) -> bool {
        match &mut self.reserved {
            Some(reserved) => reserved.resize(bytes).is_ok(),
            None => {
                self.reserved = budget.reserve(bytes).ok();
                self.reserved.is_some()
            }
        }
    }
}

impl OldStates {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(OldStates {
            budget,
            held: Mutex::default(),
            closed: AtomicU64::new(0),
            begun: Notify::new(),
        })
    }

    /// The number of connections that were closed for lack of memory.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Counts a response that is sent from the current state, until the result is dropped. `None` for a client in this process.
    pub(crate) fn hold(
        self: &Arc<Self>,
        connection: Option<&Connection>,
        now: DataBytes,
    ) -> Option<OldState> {
        let connection = connection?.clone();
        let mut held = self.held.lock();
        held.next += 1;
        let key = (now.replaced, held.next);
        held.responses.insert(key, Response { connection, data: now.current, since: Instant::now() });
        if held.responses.len() == 1 {
            self.begun.notify_one();
        }
        Some(OldState { all: self.clone(), key })
    }

    /// Counts the memory after this many bytes were replaced. Ends the oldest responses while it does not fit. Returns whether
    /// responses are in progress.
    fn measure(&self, replaced: u64) -> bool {
        let mut held = self.held.lock();
        loop {
            let bytes = held.bytes(replaced);
            if held.reserve(&self.budget, bytes) {
                break;
            }
            let Some(oldest) = held.responses.first_entry() else { break };
            if oldest.get().since.elapsed() < PATIENCE {
                break;
            }
            let response = oldest.remove();
            self.closed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                peer = %response.connection.peer(), bytes,
                "the memory limit is reached, and a slow response holds replaced objects; its connection is closed"
            );
            response.connection.stall();
        }
        if held.responses.is_empty() {
            held.reserved = None;
        }
        !held.responses.is_empty()
    }

    /// Measures while responses are in progress. Never returns.
    pub(crate) async fn keep_measuring(&self, store: &dyn Kv<Projection>) {
        loop {
            self.begun.notified().await;
            while self.measure(store.data().replaced) {
                tokio::time::sleep(EVERY).await;
            }
        }
    }
}

/// The old state that a response holds.
#[derive(Debug)]
pub(crate) struct OldState {
    all: Arc<OldStates>,
    key: (u64, u64),
}

impl Drop for OldState {
    fn drop(&mut self) {
        self.all.held.lock().responses.remove(&self.key);
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

    fn is_closed(connection: &Connection) -> bool {
        connection.is_stalled(Waker::noop())
    }

    fn data(current: u64, replaced: u64) -> DataBytes {
        DataBytes { current, replaced }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_replaced_since_the_oldest_response_are_counted() {
        let budget = MemoryBudget::new(1000);
        let all = OldStates::new(budget.clone());
        let (one, two) = (connection(), connection());
        let first = all.hold(Some(&one), data(100, 50));
        let second = all.hold(Some(&two), data(300, 70));
        for (replaced, used) in [(50, 0), (120, 70), (449, 399), (450, 400), (5000, 400)] {
            assert!(all.measure(replaced));
            assert_eq!(budget.used(), used, "{replaced}");
        }
        drop(first);
        assert!(all.measure(100));
        assert_eq!(budget.used(), 30);
        drop(second);
        assert!(!all.measure(100));
        assert_eq!((budget.used(), all.closed()), (0, 0));
        assert!(all.hold(None, data(1, 1)).is_none(), "a client in this process");
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_response_is_ended_when_its_state_does_not_fit() {
        let budget = MemoryBudget::new(100);
        let all = OldStates::new(budget.clone());
        let (old, young) = (connection(), connection());
        let _old = all.hold(Some(&old), data(500, 0));
        assert!(all.measure(101), "it has just begun");
        assert!(!is_closed(&old));
        tokio::time::sleep(PATIENCE).await;
        let _young = all.hold(Some(&young), data(500, 60));
        assert!(all.measure(101));
        assert_eq!((is_closed(&old), is_closed(&young)), (true, false));
        assert_eq!((budget.used(), all.closed()), (41, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn measurements_end_with_the_last_response() {
        let store = orlop_store::Memory::<Projection>::new();
        let budget = MemoryBudget::new(100);
        let all = OldStates::new(budget.clone());
        let measured = all.clone();
        let measuring = tokio::spawn(async move { measured.keep_measuring(&store).await });
        for _ in 0..2 {
            let held = all.hold(Some(&connection()), data(10, 0));
            tokio::time::sleep(EVERY * 2).await;
            assert!(all.held.lock().reserved.is_some());
            drop(held);
            tokio::time::sleep(EVERY * 2).await;
            assert!(all.held.lock().reserved.is_none());
        }
        measuring.abort();
    }
}
