//! Fair queue of the permits of one priority level: decides which request is admitted, waits or is rejected. Without I/O,
//! clock or threads.
//!
//! The caller ([`super::level_pool`]) decides whether the level may take a permit. A request that finds none free waits in the
//! queue of its client, and a freed
//! permit goes to the clients in round-robin order, one request each: a client with a hundred requests delays
//! itself and not the others. Each queue is bounded, and so is their total length. If the total is reached, the
//! client with the longest queue loses a request to a client with a shorter one. No client has all permits: its
//! share is three quarters, and beyond its share a client waits even if permits are free. Slow requests of one
//! client therefore do not block the others.
//!
//! Invariants: while a permit is free, only clients that have their full share wait; a client is in `turns`
//! exactly once while its queue is not empty, and has no queue otherwise.

use std::collections::{HashMap, VecDeque};

/// Maximum number of waiting requests of one client (upstream: queueLengthLimit).
pub(super) const WAITING_PER_CLIENT: usize = 50;
/// Maximum number of waiting requests per permit.
pub(super) const WAITING_PER_PERMIT: usize = 4;

/// The client of a request, or another flow; equal for requests of the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(pub(super) u64);

/// A waiting request. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Number(pub(super) u64);

/// The limits of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum number of permits; `usize::MAX` means no limit.
    pub(super) permits: usize,
    /// Maximum number of waiting requests of one client.
    pub(super) per_client: usize,
    /// Maximum number of waiting requests in total.
    pub(super) waiting: usize,
}

impl Bounds {
    /// The queues of all permits of a class of requests.
    pub(super) fn of_permits(permits: usize) -> Self {
        let waiting = permits.saturating_mul(WAITING_PER_PERMIT).max(WAITING_PER_CLIENT);
        Bounds { permits, per_client: WAITING_PER_CLIENT, waiting }
    }

    /// Maximum number of permits of one client: three quarters of all, and at least one.
    fn share(&self) -> usize {
        if self.permits == usize::MAX {
            return usize::MAX;
        }
        // Not `permits * 3 / 4`, which overflows.
        (self.permits - self.permits.div_ceil(4)).max(1)
    }
}

/// The result of an arrival.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<T> {
    /// The request has a permit.
    Admitted,
    /// The request waits.
    Waits(Number),
    /// The request waits, and this other waiting request is rejected in its place.
    WaitsInsteadOf(Number, T),
    /// The request is rejected because the queues are full.
    Refused,
    /// The request is rejected because no request waits here.
    NoQueue,
}

struct Waiting<T> {
    number: Number,
    ticket: T,
}

/// The permits and the queues. `T` notifies a waiting request.
pub(super) struct FairQueue<T> {
    bounds: Bounds,
    taken: usize,
    /// Permits in use, by client. Empty if a client may have all permits.
    shares: HashMap<Client, usize>,
    waiting: usize,
    next: u64,
    queues: HashMap<Client, VecDeque<Waiting<T>>>,
    /// The clients with waiting requests, in the order of their turns.
    turns: VecDeque<Client>,
}

impl<T> FairQueue<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        FairQueue {
            bounds,
            taken: 0,
            shares: HashMap::new(),
            waiting: 0,
            next: 0,
            queues: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Number of permits in use.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Number of waiting requests.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Changes the limits. Requests that have a permit or wait keep it, or their place.
    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The waiting requests by client, in the order of the clients' turns.
    pub(super) fn queues(&self) -> impl Iterator<Item = (Client, impl Iterator<Item = &T>)> {
        self.turns.iter().map(|client| {
            let queue = self.queues.get(client);
            (*client, queue.into_iter().flatten().map(|waiting| &waiting.ticket))
        })
    }

    /// Number of permits that a client uses.
    pub(super) fn used_by(&self, client: Client) -> usize {
        self.shares.get(&client).copied().unwrap_or_default()
    }

    /// Acquires a permit if one is free, regardless of the client. `leave(None)` releases it.
    pub(super) fn try_acquire(&mut self) -> bool {
        let free = self.taken < self.bounds.permits;
        self.taken += usize::from(free);
        free
    }

    /// Whether a client has its full share of the permits.
    fn has_its_share(&self, client: Client) -> bool {
        self.shares.get(&client).is_some_and(|has| *has >= self.bounds.share())
    }

    fn count_in(&mut self, client: Client) {
        if self.bounds.share() < usize::MAX {
            *self.shares.entry(client).or_default() += 1;
        }
    }

    fn count_out(&mut self, client: Client) {
        let Some(has) = self.shares.get_mut(&client) else { return };
        *has -= 1;
        if *has == 0 {
            self.shares.remove(&client);
        }
    }

    /// Admits, queues or rejects a new request. `may_take` states whether the level may take a permit.
    pub(super) fn arrive(
        &mut self,
        client: Client,
        may_take: bool,
        ticket: impl FnOnce() -> T,
    ) -> Arrival<T> {
        if may_take && !self.has_its_share(client) && self.try_acquire() {
            self.count_in(client);
            return Arrival::Admitted;
        }
        if self.bounds.per_client == 0 {
            return Arrival::NoQueue;
        }
        let own = self.queues.get(&client).map_or(0, VecDeque::len);
        if own >= self.bounds.per_client {
            return Arrival::Refused;
        }
        if self.waiting < self.bounds.waiting {
            return Arrival::Waits(self.enqueue(client, ticket()));
        }
        // The queues are full. This happens only under overload, so a scan of all queues is acceptable.
        let longest =
            self.turns.iter().map(|client| (self.length(*client), *client)).max_by_key(|found| found.0);
        match longest {
            // With one more request, this client would have the longest queue itself.
            Some((length, other)) if length > own + 1 => {
                let Some(refused) = self.take_newest(other) else { return Arrival::Refused };
                Arrival::WaitsInsteadOf(self.enqueue(client, ticket()), refused)
            }
            Some(_) | None => Arrival::Refused,
        }
    }

    /// Releases a permit: that of this client if the permit was acquired for a client.
    pub(super) fn leave(&mut self, client: Option<Client>) {
        if let Some(client) = client {
            self.count_out(client);
        }
        self.taken = self.taken.saturating_sub(1);
    }

    /// Whether a request waits that could use a permit.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting > 0 && self.taken < self.bounds.permits && self.turn().is_some()
    }

    /// The place in `turns` of the next client. At most three clients can have their full share, so the search is short.
    fn turn(&self) -> Option<usize> {
        self.turns.iter().position(|client| !self.has_its_share(*client))
    }

    /// Admits the next waiting request, if there is a permit for it.
    pub(super) fn admit_next(&mut self) -> Option<T> {
        if self.taken >= self.bounds.permits {
            return None;
        }
        let client = self.turns.remove(self.turn()?)?;
        let queue = self.queues.get_mut(&client)?;
        let next = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.taken += 1;
        self.waiting -= 1;
        self.count_in(client);
        Some(next.ticket)
    }

    /// Removes a waiting request. False if it is not waiting: it has been admitted or rejected.
    pub(super) fn give_up(&mut self, client: Client, number: Number) -> bool {
        let Some(queue) = self.queues.get_mut(&client) else { return false };
        let Some(at) = queue.iter().position(|waiting| waiting.number == number) else { return false };
        queue.remove(at);
        self.waiting -= 1;
        if queue.is_empty() {
            self.forget(client);
        }
        true
    }

    fn length(&self, client: Client) -> usize {
        self.queues.get(&client).map_or(0, VecDeque::len)
    }

    fn enqueue(&mut self, client: Client, ticket: T) -> Number {
        let number = Number(self.next);
        self.next += 1;
        self.waiting += 1;
        let queue = self.queues.entry(client).or_default();
        if queue.is_empty() {
            self.turns.push_back(client);
        }
        queue.push_back(Waiting { number, ticket });
        number
    }

    fn take_newest(&mut self, client: Client) -> Option<T> {
        let queue = self.queues.get_mut(&client)?;
        let newest = queue.pop_back()?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.forget(client);
        }
        Some(newest.ticket)
    }

    fn forget(&mut self, client: Client) {
        self.queues.remove(&client);
        self.turns.retain(|other| *other != client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a scenario and returns the result of each step. `a1` is an arrival of client `a` with ticket 1, `-`
    /// releases the permit that was acquired first, `-a` the first one of that client, `!a1` gives up.
    fn play(permits: usize, per_client: usize, waiting: usize, story: &str) -> String {
        let mut room: FairQueue<String> = FairQueue::new(Bounds { permits, per_client, waiting });
        let mut numbers: HashMap<String, Number> = HashMap::new();
        let mut admitted: VecDeque<Client> = VecDeque::new();
        let mut out = Vec::new();
        for step in story.split_whitespace() {
            let client = |name: &str| Client(u64::from(name.as_bytes()[0]));
            let said = match step.as_bytes()[0] {
                b'-' => {
                    let wanted = step.as_bytes().get(1).map(|name| Client(u64::from(*name)));
                    let at = admitted.iter().position(|has| wanted.is_none_or(|wanted| wanted == *has));
                    let goes = admitted.remove(at.expect("one is admitted")).expect("it is there");
                    room.leave(Some(goes));
                    let next = room.admit_next();
                    admitted.extend(next.iter().map(|next| client(next)));
                    next.unwrap_or_else(|| "free".to_owned())
                }
                b'!' => {
                    let name = &step[1..];
                    let number = numbers.get(name).copied().unwrap_or(Number(u64::MAX));
                    if room.give_up(client(name), number) { "gone".to_owned() } else { "no".to_owned() }
                }
                _ => match room.arrive(client(step), true, || step.to_owned()) {
                    Arrival::Admitted => {
                        admitted.push_back(client(step));
                        "in".to_owned()
                    }
                    Arrival::Waits(number) => {
                        numbers.insert(step.to_owned(), number);
                        "waits".to_owned()
                    }
                    Arrival::WaitsInsteadOf(number, other) => {
                        numbers.insert(step.to_owned(), number);
                        format!("for:{other}")
                    }
                    Arrival::Refused => "429".to_owned(),
                    Arrival::NoQueue => "none".to_owned(),
                },
            };
            out.push(said);
            let queued: usize = room.queues.values().map(VecDeque::len).sum();
            assert_eq!(queued, room.waiting, "{story}: the count of waiting requests");
            assert_eq!(room.queues.len(), room.turns.len(), "{story}: each queue has its turn once");
            assert!(room.queues.values().all(|queue| !queue.is_empty()), "{story}: no empty queue");
            let eager = room.turns.iter().any(|client| !room.has_its_share(*client));
            assert!(
                room.taken == room.bounds.permits || !eager,
                "{story}: no request waits for a free permit"
            );
            let share = room.bounds.share();
            assert!(room.shares.values().all(|has| (1..=share).contains(has)), "{story}: the shares");
            let shared: usize = room.shares.values().sum();
            assert!(shared == room.taken || share == usize::MAX, "{story}: each permit belongs to a client");
        }
        out.join(" ")
    }

    #[test]
    fn scenarios_end_as_expected() {
        for (case, (permits, per_client, waiting), story, want) in [
            ("1 enough permits", (2, 1, 1), "a1 b1 - - a2", "in in free free in"),
            ("2 then waits", (1, 2, 9), "a1 a2 a3 - - -", "in waits waits a2 a3 free"),
            ("3 the own queue is full", (1, 2, 9), "a1 a2 a3 a4 b1", "in waits waits 429 waits"),
            (
                "4 in turn, however many one has",
                (1, 9, 9),
                "a1 a2 a3 a4 b1 c1 - - - - - -",
                "in waits waits waits waits waits a2 b1 c1 a3 a4 free",
            ),
            (
                "5 a returning client waits for its turn",
                (1, 9, 9),
                "a1 a2 b1 - a3 - -",
                "in waits waits a2 waits b1 a3",
            ),
            ("6 no queues", (1, 0, 0), "a1 b1 - b2", "in none free in"),
            (
                "7 all queues are full: the longest gives way",
                (1, 9, 3),
                "a1 a2 a3 a4 b1 - - -",
                "in waits waits waits for:a4 a2 b1 a3",
            ),
            ("8 but not to its own", (1, 9, 3), "a1 a2 a3 a4 a5", "in waits waits waits 429"),
            ("9 nor to an equal", (1, 9, 2), "a1 a2 b1 c1", "in waits waits 429"),
            (
                "10 nor when both would only change places",
                (1, 9, 3),
                "a1 a2 a3 b1 b2",
                "in waits waits waits 429",
            ),
            ("11 gives up", (1, 9, 9), "a1 a2 b1 !a2 - -", "in waits waits gone b1 free"),
            (
                "12 gives up in the middle",
                (1, 9, 9),
                "a1 a2 a3 a4 !a3 - -",
                "in waits waits waits gone a2 a4",
            ),
            ("13 is admitted already", (1, 9, 9), "a1 a2 - !a2 -", "in waits a2 no free"),
            ("14 was refused already", (1, 9, 2), "a1 a2 a3 b1 !a3", "in waits waits for:a3 no"),
            ("15 never waited", (1, 9, 9), "a1 !a1 !z9", "in no no"),
            ("16 no limit", (usize::MAX, 0, 0), "a1 a2 a3 -", "in in in free"),
            ("17 one does not have all", (4, 9, 9), "a1 a2 a3 a4 b1 b2", "in in in waits in waits"),
            (
                "18 its own permit is for itself",
                (4, 9, 9),
                "a1 a2 a3 a4 a5 -a - -",
                "in in in waits waits a4 a5 free",
            ),
            ("19 another's is not", (4, 9, 9), "a1 a2 a3 a4 b1 -b -a", "in in in waits in free a4"),
            (
                "20 nor before others, though it waits longer",
                (4, 9, 9),
                "a1 a2 a3 a4 b1 b2 -b -b -a",
                "in in in waits in waits b2 free a4",
            ),
            (
                "21 in turn among the clients below their share",
                (4, 9, 9),
                "a1 a2 a3 b1 a4 b2 c1 -a - -",
                "in in in in waits waits waits a4 b2 c1",
            ),
            ("22 two permits, one each", (2, 9, 9), "a1 a2 b1 c1 -b -a", "in waits in waits c1 a2"),
            (
                "23 no queue, and a permit that it cannot have",
                (4, 0, 0),
                "a1 a2 a3 a4 b1",
                "in in in none in",
            ),
        ] {
            assert_eq!(play(permits, per_client, waiting, story), want, "{case}");
        }
    }

    #[test]
    fn a_client_gets_at_most_three_quarters_of_the_permits() {
        for (permits, want) in [
            (1, 1),
            (2, 1),
            (3, 2),
            (4, 3),
            (5, 3),
            (200, 150),
            (400, 300),
            (usize::MAX - 1, usize::MAX / 4 * 3 + 1),
            (usize::MAX, usize::MAX),
        ] {
            assert_eq!(Bounds { permits, per_client: 0, waiting: 0 }.share(), want, "{permits}");
        }
    }

    /// Every request is admitted once, rejected once or gives up once, in any sequence of events.
    #[test]
    fn no_request_is_lost() {
        use rand::{Rng as _, SeedableRng as _};
        let seed: u64 = rand::rng().random();
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        for round in 0..200 {
            let bounds = Bounds {
                permits: rng.random_range(1..7),
                per_client: rng.random_range(0..5),
                waiting: rng.random_range(0..9),
            };
            let mut room = FairQueue::new(bounds);
            let (mut came, mut admitted, mut left, mut refused, mut gone) = (0, 0, 0, 0, 0);
            let mut waiting: Vec<(Client, Number, u64)> = Vec::new();
            let mut sitting: Vec<Client> = Vec::new();
            for ticket in 0..300_u64 {
                match rng.random_range(0..5) {
                    0..=2 => {
                        came += 1;
                        let client = Client(rng.random_range(0..4));
                        match room.arrive(client, true, || ticket) {
                            Arrival::Admitted => {
                                admitted += 1;
                                sitting.push(client);
                            }
                            Arrival::Waits(number) => waiting.push((client, number, ticket)),
                            Arrival::WaitsInsteadOf(number, other) => {
                                refused += 1;
                                waiting.retain(|found| found.2 != other);
                                waiting.push((client, number, ticket));
                            }
                            Arrival::Refused | Arrival::NoQueue => refused += 1,
                        }
                    }
                    3 if admitted > left => {
                        left += 1;
                        let goes = sitting.swap_remove(rng.random_range(0..sitting.len()));
                        room.leave(Some(goes));
                        if let Some(next) = room.admit_next() {
                            admitted += 1;
                            let at = waiting.iter().position(|found| found.2 == next);
                            sitting.push(waiting.remove(at.expect("it waited")).0);
                        }
                    }
                    _ if !waiting.is_empty() => {
                        let (client, number, _) = waiting.swap_remove(rng.random_range(0..waiting.len()));
                        assert!(room.give_up(client, number), "seed {seed}, round {round}");
                        gone += 1;
                    }
                    _ => {}
                }
                assert_eq!(room.taken(), admitted - left, "seed {seed}, round {round}");
                assert_eq!(room.waiting(), waiting.len(), "seed {seed}, round {round}");
                for client in &sitting {
                    let has = sitting.iter().filter(|other| *other == client).count();
                    assert!(has <= bounds.share(), "seed {seed}, round {round}: one has {has}");
                }
                assert_eq!(came, admitted + refused + gone + waiting.len(), "seed {seed}, round {round}");
            }
        }
    }
}
