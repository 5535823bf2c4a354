//! State of a connection: whether it has requests in progress, and whether it has to be closed. Request handlers
//! write it, the owner of the socket reads it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures::task::AtomicWaker;
use orlop_store::MemoryBudget;
use tokio::time::Instant;

use super::stall::StallWatch;

/// The open connections of a listener, and their limit.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    open: AtomicUsize,
    refused: AtomicU64,
    /// For the received parts of heads of requests.
    heads: Arc<MemoryBudget>,
    /// The responses that are being sent.
    stalls: Arc<StallWatch>,
}

impl Connections {
    /// Allows `most` connections at the same time; 0 means no limit. Large heads of requests need memory of `heads` until they are
    /// complete.
    pub fn new(most: usize, heads: Arc<MemoryBudget>) -> Arc<Self> {
        let most = if most == 0 { usize::MAX } else { most };
        Arc::new(Connections {
            most,
            open: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            heads,
            stalls: Arc::default(),
        })
    }

    /// Registers a new connection. `None` if the limit is reached; the caller closes the connection.
    pub fn open(self: &Arc<Self>, peer: SocketAddr) -> Option<Connection> {
        if self.open.fetch_add(1, Ordering::AcqRel) >= self.most {
            self.open.fetch_sub(1, Ordering::AcqRel);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Connection(Arc::new(ConnectionState {
            all: self.clone(),
            peer,
            made: Instant::now(),
            answered: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            at_work: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            owner: AtomicWaker::new(),
        })))
    }

    /// The memory for heads of requests that are not complete.
    pub fn heads(&self) -> &Arc<MemoryBudget> {
        &self.heads
    }

    /// Finds the responses that clients do not read.
    pub(super) fn stalls(&self) -> &Arc<StallWatch> {
        &self.stalls
    }

    /// Number of open connections, and number of connections refused so far.
    pub fn count(&self) -> (usize, u64) {
        (self.open.load(Ordering::Acquire), self.refused.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct ConnectionState {
    all: Arc<Connections>,
    peer: SocketAddr,
    made: Instant,
    /// When the last request ended: milliseconds after `made`.
    answered: AtomicU64,
    requests: AtomicU64,
    at_work: AtomicUsize,
    stalled: AtomicBool,
    owner: AtomicWaker,
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.all.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection. Clones share its state; every request carries one in its extensions. The connection counts as
/// open until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Connection(Arc<ConnectionState>);

/// A request in progress. Dropping it marks the request as answered.
#[derive(Debug)]
pub struct AtWork {
    connection: Connection,
    /// Only for HTTP/2: on HTTP/1 the owner polls by timer and is not woken for each request.
    wakes: bool,
}

impl Connection {
    /// The address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// All connections of its listener.
    pub fn all(&self) -> &Arc<Connections> {
        &self.0.all
    }

    /// Registers a new request.
    pub fn begin(&self, version: http::Version) -> AtWork {
        self.0.at_work.fetch_add(1, Ordering::AcqRel);
        self.0.requests.fetch_add(1, Ordering::AcqRel);
        AtWork { connection: self.clone(), wakes: version >= http::Version::HTTP_2 }
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Acquire)
    }

    /// Whether a request is in progress.
    pub fn is_at_work(&self) -> bool {
        self.0.at_work.load(Ordering::Acquire) > 0
    }

    /// When the last request ended, or when the connection was opened if it had none.
    pub fn idle_since(&self) -> Instant {
        self.0.made + Duration::from_millis(self.0.answered.load(Ordering::Acquire))
    }

    /// Marks the connection to be closed because the client stopped reading a response.
    pub fn stall(&self) {
        self.0.stalled.store(true, Ordering::Release);
        self.0.owner.wake();
    }

    /// Whether the connection has to be closed. `waker` is woken when this changes.
    pub fn is_stalled(&self, waker: &Waker) -> bool {
        self.0.owner.register(waker);
        self.0.stalled.load(Ordering::Acquire)
    }
}

impl AtWork {
    /// The connection of the request.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let state = &self.connection.0;
        // Stored first, so that a reader that sees no work in progress also sees this time.
        let now = u64::try_from(state.made.elapsed().as_millis()).unwrap_or(u64::MAX);
        state.answered.store(now, Ordering::Release);
        let before = state.at_work.fetch_sub(1, Ordering::AcqRel);
        if self.wakes && before == 1 {
            // The owner starts its idle timer.
            state.owner.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn connections_beyond_the_limit_are_refused() {
        let all = Connections::new(2, MemoryBudget::new(0));
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let first = all.open(peer).unwrap();
        let second = all.open(peer).unwrap();
        assert!(all.open(peer).is_none());
        assert_eq!(all.count(), (2, 1));
        let request = first.begin(http::Version::HTTP_11);
        drop(first);
        assert_eq!(all.count(), (2, 1), "a request is worked on");
        drop(request);
        assert_eq!(all.count(), (1, 1));
        assert!(all.open(peer).is_some());
        drop(second);
        assert_eq!(all.count(), (0, 1));
    }

    #[test]
    fn requests_in_progress_are_counted() {
        let connection =
            Connections::new(0, MemoryBudget::new(0)).open("127.0.0.1:1".parse().unwrap()).unwrap();
        assert!(!connection.is_at_work());
        let (one, two) = (connection.begin(http::Version::HTTP_2), connection.begin(http::Version::HTTP_2));
        drop(one);
        assert!(connection.is_at_work());
        drop(two);
        assert!(!connection.is_at_work());
        assert_eq!(connection.requests(), 2);
    }
}
