//! Waiting for a permit and releasing it: a thin layer between requests and [`LevelPool`].
//!
//! The lock is held for a few instructions and never across an await. While permits are free, a request costs two
//! lock acquisitions and nothing else.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::fair_queue::{Arrival, Bounds, Client, Number};
use super::flow_control::flow::{ExecutingRequest, WaitingRequest};
use super::level_pool::{GiveUp, LevelConfig, LevelId, LevelPool};

/// The notification to a waiting request.
#[derive(Debug)]
enum QueueResult {
    Admitted,
    Refused,
}

/// A waiting request.
pub(super) struct Ticket {
    sender: oneshot::Sender<QueueResult>,
    /// `None` if the request belongs to no flow.
    pub(super) request: Option<WaitingRequest>,
}

impl Ticket {
    /// The receiver belongs to a request that is no longer interested if this has no effect.
    fn send(self, result: QueueResult) {
        let _ = self.sender.send(result);
    }
}

/// Why a request is rejected. The reasons are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitRefusal {
    /// The queue is full.
    QueueFull,
    /// No permit became free in time.
    TimeOut,
    /// No permit is free, and requests of this class or priority level do not wait.
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
    permits: Mutex<LevelPool<Ticket>>,
    patience: Duration,
}

/// A permit, and its client if permits are counted by client. Dropping it passes the permit on to the next
/// request.
pub(super) struct Permit {
    gate: Arc<Inflight>,
    level: LevelId,
    client: Option<Client>,
    _executing: Option<ExecutingRequest>,
}

impl Permit {
    /// Counts a request of a flow as executing while it has the permit.
    pub(super) fn counts(mut self, executing: ExecutingRequest) -> Self {
        self._executing = Some(executing);
        self
    }
}

/// A waiting request. Dropping it leaves the queue, or passes on a permit that was granted in the meantime.
pub(super) struct Waiter {
    gate: Arc<Inflight>,
    level: LevelId,
    client: Client,
    number: Number,
    receiver: oneshot::Receiver<QueueResult>,
    is_late: bool,
}

/// The result of an arrival.
pub(super) enum Entry {
    Admitted(Permit),
    Waits(Waiter),
}

impl Entry {
    /// Whether the request has to wait.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Entry::Waits(_))
    }

    /// Waits for the permit.
    pub(super) async fn permit(self) -> Result<Permit, LimitRefusal> {
        let mut waiter = match self {
            Entry::Admitted(permit) => return Ok(permit),
            Entry::Waits(waiter) => waiter,
        };
        match tokio::time::timeout(waiter.gate.patience, &mut waiter.receiver).await {
            Ok(Ok(QueueResult::Admitted)) => Ok(waiter.gate.permit(waiter.level, Some(waiter.client))),
            Ok(Ok(QueueResult::Refused) | Err(_)) => Err(LimitRefusal::QueueFull),
            // Dropping `waiter` passes on a permit that arrives just after the timeout.
            Err(_) => {
                waiter.is_late = true;
                Err(LimitRefusal::TimeOut)
            }
        }
    }
}

impl Inflight {
    /// Creates the permits; no request waits longer than `patience`.
    pub(super) fn new(bounds: Bounds, patience: Duration) -> Arc<Self> {
        Arc::new(Inflight { permits: Mutex::new(LevelPool::sole(bounds)), patience })
    }

    fn permits(&self) -> MutexGuard<'_, LevelPool<Ticket>> {
        // The guarded statements cannot panic, so the data of a poisoned lock is consistent.
        self.permits.lock()
    }

    /// Number of permits in use, and number of waiting requests.
    pub(super) fn count(&self) -> (usize, usize) {
        let permits = self.permits();
        (permits.taken(), permits.waiting())
    }

    /// Replaces the priority levels.
    pub(super) fn configure(&self, levels: &[LevelConfig]) {
        let mut permits = self.permits();
        for next in permits.configure(levels) {
            // Sent under the lock, as in `arrive`.
            next.send(QueueResult::Admitted);
        }
    }

    /// Reads the state of the levels.
    pub(super) fn inspect<R>(&self, read: impl FnOnce(&LevelPool<Ticket>) -> R) -> R {
        read(&self.permits())
    }

    /// Acquires a permit without waiting, regardless of the client. An `Inflight` is used either with this function
    /// or with `enter`, never with both.
    pub(super) fn try_enter(self: &Arc<Self>) -> Result<Permit, LimitRefusal> {
        let is_free = self.permits().try_acquire();
        is_free.then(|| self.permit(LevelId::FALLBACK, None)).ok_or(LimitRefusal::Limit)
    }

    /// Acquires a permit of the only level, and waits for one if necessary.
    pub(super) async fn enter(self: &Arc<Self>, client: Client) -> Result<Permit, LimitRefusal> {
        self.arrive(LevelId::FALLBACK, client, || None)?.permit().await
    }

    fn permit(self: &Arc<Self>, level: LevelId, client: Option<Client>) -> Permit {
        Permit { gate: self.clone(), level, client, _executing: None }
    }

    /// Acquires a permit of a level, or joins its queues. `request` describes the request if it waits.
    pub(super) fn arrive(
        self: &Arc<Self>,
        level: LevelId,
        client: Client,
        request: impl FnOnce() -> Option<WaitingRequest>,
    ) -> Result<Entry, LimitRefusal> {
        let mut receiver = None;
        let mut permits = self.permits();
        let (level, arrival) = permits.arrive(level, client, || {
            let (sender, notified) = oneshot::channel();
            receiver = Some(notified);
            Ticket { sender, request: request() }
        });
        let number = match arrival {
            Arrival::Admitted => return Ok(Entry::Admitted(self.permit(level, Some(client)))),
            Arrival::Waits(number) => number,
            Arrival::WaitsInsteadOf(number, other) => {
                // Sent under the lock, so that every request outside the queues has its notification. A request that has gone
                // needs none.
                other.send(QueueResult::Refused);
                number
            }
            Arrival::Refused => return Err(LimitRefusal::QueueFull),
            Arrival::NoQueue => return Err(LimitRefusal::Limit),
        };
        // A waiting request has a receiver.
        let receiver = receiver.ok_or(LimitRefusal::QueueFull)?;
        Ok(Entry::Waits(Waiter { gate: self.clone(), level, client, number, receiver, is_late: false }))
    }

    fn leave(&self, level: LevelId, client: Option<Client>) {
        let mut permits = self.permits();
        if let Some(next) = permits.leave(level, client) {
            // Sent under the lock, as above. A request that is just giving up finds the permit when its `Waiter` is dropped.
            next.send(QueueResult::Admitted);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave(self.level, self.client);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let why = if self.is_late { GiveUp::TimedOut } else { GiveUp::Cancelled };
        if self.gate.permits().give_up(self.level, self.client, self.number, why) {
            return;
        }
        // The request is in no queue, so its notification has been sent and may still be in the channel.
        match self.receiver.try_recv() {
            Ok(QueueResult::Admitted) => self.gate.leave(self.level, Some(self.client)),
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
