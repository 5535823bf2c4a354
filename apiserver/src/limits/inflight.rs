//! Waiting for a permit and releasing it: a thin layer between requests and [`FairQueue`].
//!
//! The lock is held for a few instructions and never across an await. While permits are free, a request costs two
//! lock acquisitions and nothing else.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::fair_queue::{Arrival, Bounds, Client, FairQueue, Number};

/// The notification to a waiting request.
#[derive(Debug)]
enum QueueResult {
    Admitted,
    Refused,
}

type Ticket = oneshot::Sender<QueueResult>;

/// Why a request is rejected. The reasons are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitRefusal {
    /// The queue is full.
    QueueFull,
    /// No permit became free in time.
    TimeOut,
    /// No permit is free, and requests of this class do not wait.
    Limit,
}

impl LimitRefusal {
    /// The `reason` label of the metric.
    pub(super) fn reason(self) -> &'static str {
        match self {
            LimitRefusal::QueueFull => "queue-full",
            LimitRefusal::TimeOut => "time-out",
            LimitRefusal::Limit => "concurrency-limit",
        }
    }
}

/// The permits of one class of requests.
pub(super) struct Inflight {
    permits: Mutex<FairQueue<Ticket>>,
    patience: Duration,
}

/// A permit, and its client if permits are counted by client. Dropping it passes the permit on to the next
/// request.
pub(super) struct Permit(Arc<Inflight>, Option<Client>);

/// A waiting request. Dropping it leaves the queue, or passes on a permit that was granted in the meantime.
struct Waiter<'g> {
    gate: &'g Arc<Inflight>,
    client: Client,
    number: Number,
    receiver: oneshot::Receiver<QueueResult>,
}

impl Inflight {
    /// Creates the permits; no request waits longer than `patience`.
    pub(super) fn new(bounds: Bounds, patience: Duration) -> Arc<Self> {
        Arc::new(Inflight { permits: Mutex::new(FairQueue::new(bounds)), patience })
    }

    fn permits(&self) -> MutexGuard<'_, FairQueue<Ticket>> {
        // The guarded statements cannot panic, so the data of a poisoned lock is consistent.
        self.permits.lock()
    }

    /// Number of permits in use, and number of waiting requests.
    pub(super) fn count(&self) -> (usize, usize) {
        let permits = self.permits();
        (permits.taken(), permits.waiting())
    }

    /// Acquires a permit without waiting, regardless of the client. An `Inflight` is used either with this function
    /// or with `enter`, never with both.
    pub(super) fn try_enter(self: &Arc<Self>) -> Result<Permit, LimitRefusal> {
        if self.permits().try_acquire() { Ok(Permit(self.clone(), None)) } else { Err(LimitRefusal::Limit) }
    }

    /// Acquires a permit, and waits for one if necessary.
    pub(super) async fn enter(self: &Arc<Self>, client: Client) -> Result<Permit, LimitRefusal> {
        let (ticket, receiver) = oneshot::channel();
        let number = match self.arrive(client, ticket) {
            Ok(None) => return Ok(Permit(self.clone(), Some(client))),
            Ok(Some(number)) => number,
            Err(refusal) => return Err(refusal),
        };
        let mut place = Waiter { gate: self, client, number, receiver };
        match tokio::time::timeout(self.patience, &mut place.receiver).await {
            Ok(Ok(QueueResult::Admitted)) => Ok(Permit(self.clone(), Some(client))),
            Ok(Ok(QueueResult::Refused) | Err(_)) => Err(LimitRefusal::QueueFull),
            // Dropping `place` passes on a permit that arrives just after the timeout.
            Err(_) => Err(LimitRefusal::TimeOut),
        }
    }

    /// `None` for an admitted request, a number for a waiting one.
    fn arrive(&self, client: Client, ticket: Ticket) -> Result<Option<Number>, LimitRefusal> {
        let mut permits = self.permits();
        match permits.arrive(client, ticket) {
            Arrival::Admitted => Ok(None),
            Arrival::Waits(number) => Ok(Some(number)),
            Arrival::WaitsInsteadOf(number, other) => {
                // Sent under the lock, so that every request outside the queues has its notification. A request that has gone
                // needs none.
                let _ = other.send(QueueResult::Refused);
                Ok(Some(number))
            }
            Arrival::Refused => Err(LimitRefusal::QueueFull),
        }
    }

    fn leave(&self, client: Option<Client>) {
        let mut permits = self.permits();
        if let Some(next) = permits.leave(client) {
            // Sent under the lock, as above. A request that is just giving up finds the permit when its `Waiter` is dropped.
            let _ = next.send(QueueResult::Admitted);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.gate.permits().give_up(self.client, self.number) {
            return;
        }
        // The request is in no queue, so its notification has been sent and may still be in the channel.
        match self.receiver.try_recv() {
            Ok(QueueResult::Admitted) => self.gate.leave(Some(self.client)),
            Ok(QueueResult::Refused) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn gate(permits: usize, per_client: usize) -> Arc<Inflight> {
        Inflight::new(Bounds { permits, per_client, waiting: 9 }, PATIENCE)
    }

    async fn enter(gate: &Arc<Inflight>, client: u64) -> Result<Permit, LimitRefusal> {
        gate.enter(Client(client)).await
    }

    #[tokio::test(start_paused = true)]
    async fn released_permit_passes_to_the_next_request() {
        let gate = gate(1, 9);
        let first = enter(&gate, 1).await.ok().unwrap();
        let mut second = Box::pin(enter(&gate, 2));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(gate.count(), (1, 1));
        drop(first);
        let permit = second.await.ok().unwrap();
        assert_eq!(gate.count(), (1, 0));
        drop(permit);
        assert_eq!(gate.count(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_request_times_out() {
        let gate = gate(1, 1);
        let _first = enter(&gate, 1).await.ok().unwrap();
        let start = tokio::time::Instant::now();
        let (second, third) = tokio::join!(enter(&gate, 1), enter(&gate, 1));
        assert_eq!(second.err(), Some(LimitRefusal::TimeOut));
        assert_eq!(third.err(), Some(LimitRefusal::QueueFull));
        assert_eq!(start.elapsed(), PATIENCE);
        assert_eq!(gate.count(), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_request_leaves_no_permit_and_no_queue_entry() {
        let gate = gate(1, 9);
        let first = enter(&gate, 1).await.ok().unwrap();
        let mut second = Box::pin(enter(&gate, 2));
        assert!(second.as_mut().now_or_never().is_none());
        drop(second);
        assert_eq!(gate.count(), (1, 0));
        // The same, at the moment when the request is admitted.
        let mut third = Box::pin(enter(&gate, 3));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(gate.count(), (1, 0), "the third has the permit and does not know");
        drop(third);
        assert_eq!(gate.count(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_rejects_a_request_of_the_longest_queue() {
        let gate = Inflight::new(Bounds { permits: 1, per_client: 9, waiting: 2 }, PATIENCE);
        let first = enter(&gate, 1).await.ok().unwrap();
        let mut flood = [Box::pin(enter(&gate, 1)), Box::pin(enter(&gate, 1))];
        assert!(flood.iter_mut().all(|request| request.as_mut().now_or_never().is_none()));
        let mut other = Box::pin(enter(&gate, 2));
        assert!(other.as_mut().now_or_never().is_none());
        assert_eq!(flood[1].as_mut().await.err(), Some(LimitRefusal::QueueFull));
        drop(first);
        let permit = flood[0].as_mut().await.ok().unwrap();
        drop(permit);
        assert!(other.await.is_ok());
    }

    /// With many threads, every permit is free in the end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_permit_is_lost() {
        let gate = Inflight::new(Bounds { permits: 2, per_client: 3, waiting: 5 }, Duration::from_millis(1));
        let mut tasks = tokio::task::JoinSet::new();
        for client in 0..8 {
            let gate = gate.clone();
            tasks.spawn(async move {
                for turn in 0..200_u32 {
                    // Every third request is cancelled after its first poll.
                    let entering = enter(&gate, client);
                    if turn % 3 == 0 {
                        drop(entering.now_or_never());
                    } else if let Ok(permit) = entering.await {
                        tokio::task::yield_now().await;
                        drop(permit);
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(gate.count(), (0, 0));
    }
}
