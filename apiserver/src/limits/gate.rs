//! Waiting for a seat, and giving it back: the thin layer between requests and [`Seats`].
//!
//! The lock is held for a few instructions and never over an await. With seats to spare a request
//! takes it twice and nothing else is done for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::seats::{Arrival, Bounds, Client, Number, Seats};

/// What who waits is told.
#[derive(Debug)]
enum Told {
    Seated,
    Refused,
}

type Ticket = oneshot::Sender<Told>;

/// Why a request is refused; upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No room to wait in.
    QueueFull,
    /// No seat in time.
    TimeOut,
    /// No seat, and such requests do not wait.
    Limit,
}

impl Refusal {
    /// The `reason` of the metric.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Refusal::QueueFull => "queue-full",
            Refusal::TimeOut => "time-out",
            Refusal::Limit => "concurrency-limit",
        }
    }
}

/// The seats of one sort of requests.
pub(super) struct Gate {
    seats: Mutex<Seats<Ticket>>,
    patience: Duration,
}

/// A seat, and whose it is where that counts. Dropped, it is the next one's.
pub(super) struct Seat(Arc<Gate>, Option<Client>);

/// Someone who waits. Dropped, it does not wait any more, or passes on the seat that it was given
/// in that moment.
struct Place<'g> {
    gate: &'g Arc<Gate>,
    client: Client,
    number: Number,
    told: oneshot::Receiver<Told>,
}

impl Gate {
    /// So many seats, and nobody waits longer than this.
    pub(super) fn new(bounds: Bounds, patience: Duration) -> Arc<Self> {
        Arc::new(Gate { seats: Mutex::new(Seats::new(bounds)), patience })
    }

    fn seats(&self) -> MutexGuard<'_, Seats<Ticket>> {
        // A panic between two statements that cannot panic is none.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sit and how many wait.
    pub(super) fn count(&self) -> (usize, usize) {
        let seats = self.seats();
        (seats.taken(), seats.waiting())
    }

    /// A seat now or not at all, whoever comes. A gate has either such seats or those of `enter`.
    pub(super) fn try_enter(self: &Arc<Self>) -> Result<Seat, Refusal> {
        if self.seats().try_seat() { Ok(Seat(self.clone(), None)) } else { Err(Refusal::Limit) }
    }

    /// A seat, perhaps after a while.
    pub(super) async fn enter(self: &Arc<Self>, client: Client) -> Result<Seat, Refusal> {
        let (ticket, told) = oneshot::channel();
        let number = match self.arrive(client, ticket) {
            Ok(None) => return Ok(Seat(self.clone(), Some(client))),
            Ok(Some(number)) => number,
            Err(refusal) => return Err(refusal),
        };
        let mut place = Place { gate: self, client, number, told };
        match tokio::time::timeout(self.patience, &mut place.told).await {
            Ok(Ok(Told::Seated)) => Ok(Seat(self.clone(), Some(client))),
            Ok(Ok(Told::Refused) | Err(_)) => Err(Refusal::QueueFull),
            // `place` sees to a seat that comes at the last moment.
            Err(_) => Err(Refusal::TimeOut),
        }
    }

    /// `None` has a seat, a number waits.
    fn arrive(&self, client: Client, ticket: Ticket) -> Result<Option<Number>, Refusal> {
        let mut seats = self.seats();
        match seats.arrive(client, ticket) {
            Arrival::Seated => Ok(None),
            Arrival::Waits(number) => Ok(Some(number)),
            Arrival::WaitsInsteadOf(number, other) => {
                // Under the lock, so that who is in no queue has been told. Who has gone needs no answer.
                let _ = other.send(Told::Refused);
                Ok(Some(number))
            }
            Arrival::Refused => Err(Refusal::QueueFull),
        }
    }

    fn leave(&self, client: Option<Client>) {
        let mut seats = self.seats();
        if let Some(next) = seats.leave(client) {
            // Under the lock, as above. Who has just given up finds it when its place is dropped.
            let _ = next.send(Told::Seated);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.gate.seats().give_up(self.client, self.number) {
            return;
        }
        // In no queue, so it has been told; what it has not heard is still in the channel.
        match self.told.try_recv() {
            Ok(Told::Seated) => self.gate.leave(Some(self.client)),
            Ok(Told::Refused) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn gate(seats: usize, per_client: usize) -> Arc<Gate> {
        Gate::new(Bounds { seats, per_client, waiting: 9 }, PATIENCE)
    }

    async fn enter(gate: &Arc<Gate>, client: u64) -> Result<Seat, Refusal> {
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
        let seat = second.await.ok().unwrap();
        assert_eq!(gate.count(), (1, 0));
        drop(seat);
        assert_eq!(gate.count(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let gate = gate(1, 1);
        let _first = enter(&gate, 1).await.ok().unwrap();
        let start = tokio::time::Instant::now();
        let (second, third) = tokio::join!(enter(&gate, 1), enter(&gate, 1));
        assert_eq!(second.err(), Some(Refusal::TimeOut));
        assert_eq!(third.err(), Some(Refusal::QueueFull));
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
        // And in the moment in which it is seated.
        let mut third = Box::pin(enter(&gate, 3));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(gate.count(), (1, 0), "the third has the seat and does not know");
        drop(third);
        assert_eq!(gate.count(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_queue_gives_way() {
        let gate = Gate::new(Bounds { seats: 1, per_client: 9, waiting: 2 }, PATIENCE);
        let first = enter(&gate, 1).await.ok().unwrap();
        let mut flood = [Box::pin(enter(&gate, 1)), Box::pin(enter(&gate, 1))];
        assert!(flood.iter_mut().all(|request| request.as_mut().now_or_never().is_none()));
        let mut other = Box::pin(enter(&gate, 2));
        assert!(other.as_mut().now_or_never().is_none());
        assert_eq!(flood[1].as_mut().await.err(), Some(Refusal::QueueFull));
        drop(first);
        let seat = flood[0].as_mut().await.ok().unwrap();
        drop(seat);
        assert!(other.await.is_ok());
    }

    /// Many threads, and in the end every seat is free.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_seat_is_lost() {
        let gate = Gate::new(Bounds { seats: 2, per_client: 3, waiting: 5 }, Duration::from_millis(1));
        let mut tasks = tokio::task::JoinSet::new();
        for client in 0..8 {
            let gate = gate.clone();
            tasks.spawn(async move {
                for turn in 0..200_u32 {
                    // Every third one goes after its first look.
                    let entering = enter(&gate, client);
                    if turn % 3 == 0 {
                        drop(entering.now_or_never());
                    } else if let Ok(seat) = entering.await {
                        tokio::task::yield_now().await;
                        drop(seat);
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
