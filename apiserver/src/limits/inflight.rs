//! Waiting for a permit, and giving it back: the thin layer between requests and [`FairQueue`].
//!
//! The lock is held for a few instructions and never over an await. With permits to spare a request
//! takes it twice and nothing else is done for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::fair_queue::{Arrival, Bounds, Client, FairQueue, Number};

/// What who waits is told.
#[derive(Debug)]
enum QueueResult {
    Admitted,
    Refused,
}

type Ticket = oneshot::Sender<QueueResult>;

/// Why a request is refused; upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitRefusal {
    /// No room to wait in.
    QueueFull,
    /// No permit in time.
    TimeOut,
    /// No permit, and such requests do not wait.
    Limit,
}

impl LimitRefusal {
    /// The `reason` of the metric.
    pub(super) fn reason(self) -> &'static str {
        match self {
            LimitRefusal::QueueFull => "queue-full",
            LimitRefusal::TimeOut => "time-out",
            LimitRefusal::Limit => "concurrency-limit",
        }
    }
}

/// The permits of one sort of requests.
pub(super) struct Inflight {
    permits: Mutex<FairQueue<Ticket>>,
    patience: Duration,
}

/// A permit, and whose it is where that counts. Dropped, it is the next one's.
pub(super) struct Permit(Arc<Inflight>, Option<Client>);

/// Someone who waits. Dropped, it does not wait any more, or passes on the permit that it was given
/// in that moment.
struct Waiter<'g> {
    gate: &'g Arc<Inflight>,
    client: Client,
    number: Number,
    told: oneshot::Receiver<QueueResult>,
}

impl Inflight {
    /// So many permits, and nobody waits longer than this.
    pub(super) fn new(bounds: Bounds, patience: Duration) -> Arc<Self> {
        Arc::new(Inflight { permits: Mutex::new(FairQueue::new(bounds)), patience })
    }

    fn permits(&self) -> MutexGuard<'_, FairQueue<Ticket>> {
        // A panic between two statements that cannot panic is none.
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sit and how many wait.
    pub(super) fn count(&self) -> (usize, usize) {
        let permits = self.permits();
        (permits.taken(), permits.waiting())
    }

    /// A permit now or not at all, whoever comes. A gate has either such permits or those of `enter`.
    pub(super) fn try_enter(self: &Arc<Self>) -> Result<Permit, LimitRefusal> {
        if self.permits().try_acquire() { Ok(Permit(self.clone(), None)) } else { Err(LimitRefusal::Limit) }
    }

    /// A permit, perhaps after a while.
    pub(super) async fn enter(self: &Arc<Self>, client: Client) -> Result<Permit, LimitRefusal> {
        let (ticket, told) = oneshot::channel();
        let number = match self.arrive(client, ticket) {
            Ok(None) => return Ok(Permit(self.clone(), Some(client))),
            Ok(Some(number)) => number,
            Err(refusal) => return Err(refusal),
        };
        let mut place = Waiter { gate: self, client, number, told };
        match tokio::time::timeout(self.patience, &mut place.told).await {
            Ok(Ok(QueueResult::Admitted)) => Ok(Permit(self.clone(), Some(client))),
            Ok(Ok(QueueResult::Refused) | Err(_)) => Err(LimitRefusal::QueueFull),
            // `place` sees to a permit that comes at the last moment.
            Err(_) => Err(LimitRefusal::TimeOut),
        }
    }

    /// `None` has a permit, a number waits.
    fn arrive(&self, client: Client, ticket: Ticket) -> Result<Option<Number>, LimitRefusal> {
        let mut permits = self.permits();
        match permits.arrive(client, ticket) {
            Arrival::Admitted => Ok(None),
            Arrival::Waits(number) => Ok(Some(number)),
            Arrival::WaitsInsteadOf(number, other) => {
                // Under the lock, so that who is in no queue has been told. Who has gone needs no answer.
                let _ = other.send(QueueResult::Refused);
                Ok(Some(number))
            }
            Arrival::Refused => Err(LimitRefusal::QueueFull),
        }
    }

    fn leave(&self, client: Option<Client>) {
        let mut permits = self.permits();
        if let Some(next) = permits.leave(client) {
            // Under the lock, as above. Who has just given up finds it when its place is dropped.
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
        // In no queue, so it has been told; what it has not heard is still in the channel.
        match self.told.try_recv() {
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
    async fn a_seat_is_passed_on() {
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
    async fn patience_ends() {
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
    async fn who_goes_while_waiting_leaves_nothing_behind() {
        let gate = gate(1, 9);
        let first = enter(&gate, 1).await.ok().unwrap();
        let mut second = Box::pin(enter(&gate, 2));
        assert!(second.as_mut().now_or_never().is_none());
        drop(second);
        assert_eq!(gate.count(), (1, 0));
        // And in the moment in which it is admitted.
        let mut third = Box::pin(enter(&gate, 3));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(gate.count(), (1, 0), "the third has the permit and does not know");
        drop(third);
        assert_eq!(gate.count(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_queue_gives_way() {
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

    /// Many threads, and in the end every permit is free.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_seat_is_lost() {
        let gate = Inflight::new(Bounds { permits: 2, per_client: 3, waiting: 5 }, Duration::from_millis(1));
        let mut tasks = tokio::task::JoinSet::new();
        for client in 0..8 {
            let gate = gate.clone();
            tasks.spawn(async move {
                for turn in 0..200_u32 {
                    // Every third one goes after its first look.
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
