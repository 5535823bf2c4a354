//! The permits of one class of requests, shared by priority levels. Decides which level may take a permit; the [`FairQueue`] of
//! the level decides which of its clients gets it. Without I/O, clock or threads.
//!
//! Each level has guaranteed permits. `committed` counts, for each level, the permits that it uses or those that are guaranteed
//! to it, whichever is more. A level takes a guaranteed permit at any time, and a further one only if `committed` is below the
//! number of permits. So no level ever takes a permit that is guaranteed to another. A freed permit goes to the waiting level
//! that uses the smallest part of its nominal permits. Exempt levels take no permits.
//!
//! Invariants: `committed` is at most the number of permits, unless the levels have changed since; no request waits for a permit
//! that its level may take, except requests of a client that has its full share.

use std::sync::Arc;

use super::fair_queue::{Arrival, Bounds, Client, FairQueue, Number};

/// A priority level. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LevelId(pub(super) u64);

impl LevelId {
    /// The level of requests whose level does not exist: `catch-all`, or the only one.
    pub(super) const FALLBACK: LevelId = LevelId(0);
}

/// A level, its name for people, and its limits.
#[derive(Clone, Debug)]
pub(super) struct LevelConfig {
    pub(super) id: LevelId,
    pub(super) name: Arc<str>,
    pub(super) bounds: LevelBounds,
}

/// The limits of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelBounds {
    /// The queues, and the maximum number of permits including borrowed ones.
    pub(super) queue: Bounds,
    /// Number of permits that no other level can take.
    pub(super) guaranteed: usize,
    /// The share of the level, including the permits that others may borrow.
    pub(super) nominal: usize,
    /// Whether requests never wait and take no permits.
    pub(super) is_exempt: bool,
}

impl LevelBounds {
    /// The only level.
    pub(super) fn sole(queue: Bounds) -> Self {
        LevelBounds { queue, guaranteed: queue.permits, nominal: queue.permits, is_exempt: false }
    }
}

/// The results of the requests of a level so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelTotals {
    pub(super) dispatched: u64,
    /// Rejected because the queues were full, or because requests do not wait.
    pub(super) rejected: u64,
    pub(super) timed_out: u64,
    pub(super) cancelled: u64,
}

/// Why a waiting request leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GiveUp {
    TimedOut,
    Cancelled,
}

/// A level and its requests.
pub(super) struct Level<T> {
    pub(super) id: LevelId,
    pub(super) name: Arc<str>,
    pub(super) totals: LevelTotals,
    pub(super) bounds: LevelBounds,
    /// Whether the level was removed. It remains until its requests have ended.
    pub(super) is_quiescing: bool,
    pub(super) queue: FairQueue<T>,
}

impl<T> Level<T> {
    fn new(config: &LevelConfig) -> Self {
        Level {
            id: config.id,
            name: config.name.clone(),
            totals: LevelTotals::default(),
            bounds: config.bounds,
            is_quiescing: false,
            queue: FairQueue::new(config.bounds.queue),
        }
    }

    fn committed(&self) -> usize {
        if self.bounds.is_exempt { 0 } else { self.queue.taken().max(self.bounds.guaranteed) }
    }

    fn is_idle(&self) -> bool {
        self.queue.taken() == 0 && self.queue.waiting() == 0
    }

    /// Whether this level uses a smaller part of its nominal permits than another one.
    fn is_less_used_than(&self, other: &Level<T>) -> bool {
        let part = |used: &Level<T>, of: &Level<T>| used.queue.taken() as u128 * of.bounds.nominal as u128;
        let nominal = |level: &Level<T>| level.bounds.nominal > 0;
        (nominal(self), part(other, self)) > (nominal(other), part(self, other))
    }
}

/// The permits and the levels. `T` notifies a waiting request.
pub(super) struct LevelPool<T> {
    /// Number of permits; `usize::MAX` means no limit.
    permits: usize,
    committed: usize,
    waiting: usize,
    /// Never empty; the first is [`LevelId::FALLBACK`].
    levels: Vec<Level<T>>,
}

impl<T> LevelPool<T> {
    /// Permits for requests of one level.
    pub(super) fn sole(bounds: Bounds) -> Self {
        let bounds_of_level = LevelBounds::sole(bounds);
        let level =
            Level::new(&LevelConfig { id: LevelId::FALLBACK, name: Arc::from(""), bounds: bounds_of_level });
        LevelPool { permits: bounds.permits, committed: level.committed(), waiting: 0, levels: vec![level] }
    }

    /// Number of permits in use, with the requests of exempt levels.
    pub(super) fn taken(&self) -> usize {
        self.levels.iter().map(|level| level.queue.taken()).sum()
    }

    /// Number of waiting requests.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn levels(&self) -> &[Level<T>] {
        &self.levels
    }

    /// Replaces the levels. Other levels end when their requests have ended, with the exception of
    /// [`LevelId::FALLBACK`], which stays. Returns the waiting requests that this admits.
    pub(super) fn configure(&mut self, levels: &[LevelConfig]) -> Vec<T> {
        for level in &mut self.levels {
            match levels.iter().find(|config| config.id == level.id) {
                Some(config) => {
                    level.name = config.name.clone();
                    level.bounds = config.bounds;
                    level.queue.set_bounds(config.bounds.queue);
                    level.is_quiescing = false;
                }
                None => {
                    level.bounds.guaranteed = 0;
                    level.is_quiescing = level.id != LevelId::FALLBACK;
                }
            }
        }
        for config in levels {
            if self.position(config.id).is_none() {
                self.levels.push(Level::new(config));
            }
        }
        self.levels.retain(|level| !level.is_quiescing || !level.is_idle());
        self.committed = self.levels.iter().map(Level::committed).fold(0, usize::saturating_add);
        std::iter::from_fn(|| self.admit_next()).collect()
    }

    fn position(&self, id: LevelId) -> Option<usize> {
        self.levels.iter().position(|level| level.id == id)
    }

    /// Whether a level may take a permit.
    fn may_take(&self, level: &Level<T>) -> bool {
        level.bounds.is_exempt
            || level.queue.taken() < level.bounds.guaranteed
            || self.committed < self.permits
    }

    /// Acquires a permit of the first level if one is free, regardless of the client. `leave(_, None)` releases it.
    pub(super) fn try_acquire(&mut self) -> bool {
        self.levels.first_mut().is_some_and(|level| level.queue.try_acquire())
    }

    /// Admits, queues or rejects a new request. Returns the level in which it is: if its level does not exist,
    /// [`LevelId::FALLBACK`].
    pub(super) fn arrive(
        &mut self,
        level: LevelId,
        client: Client,
        ticket: impl FnOnce() -> T,
    ) -> (LevelId, Arrival<T>) {
        let at = self.position(level).unwrap_or(0);
        let may_take = self.levels.get(at).is_some_and(|level| self.may_take(level));
        let Some(level) = self.levels.get_mut(at) else { return (level, Arrival::NoQueue) };
        let (committed, waiting) = (level.committed(), level.queue.waiting());
        let arrival = level.queue.arrive(client, may_take, ticket);
        self.committed = self.committed.saturating_add(level.committed() - committed);
        self.waiting += level.queue.waiting() - waiting;
        match &arrival {
            Arrival::Admitted => level.totals.dispatched += 1,
            Arrival::Waits(_) => {}
            Arrival::WaitsInsteadOf(..) | Arrival::Refused | Arrival::NoQueue => level.totals.rejected += 1,
        }
        (level.id, arrival)
    }

    /// Releases a permit of a level, and of a client if it was acquired for one. The permit passes to the returned request, or
    /// becomes free.
    pub(super) fn leave(&mut self, level: LevelId, client: Option<Client>) -> Option<T> {
        let at = self.position(level)?;
        let level = self.levels.get_mut(at)?;
        let committed = level.committed();
        level.queue.leave(client);
        self.committed -= committed - level.committed();
        self.remove_if_over(at);
        self.admit_next()
    }

    /// Admits the waiting request that is next, if its level may take a permit.
    fn admit_next(&mut self) -> Option<T> {
        if self.waiting == 0 {
            return None;
        }
        let ready = |level: &&Level<T>| level.queue.is_ready() && self.may_take(level);
        let next = self
            .levels
            .iter()
            .filter(ready)
            .reduce(|best, level| if level.is_less_used_than(best) { level } else { best })?;
        let at = self.position(next.id)?;
        let level = self.levels.get_mut(at)?;
        let committed = level.committed();
        let ticket = level.queue.admit_next()?;
        self.committed = self.committed.saturating_add(level.committed() - committed);
        self.waiting -= 1;
        level.totals.dispatched += 1;
        Some(ticket)
    }

    /// Removes a waiting request. False if it is not waiting: it has been admitted or rejected.
    pub(super) fn give_up(&mut self, level: LevelId, client: Client, number: Number, why: GiveUp) -> bool {
        let Some(at) = self.position(level) else { return false };
        let Some(level) = self.levels.get_mut(at) else { return false };
        if !level.queue.give_up(client, number) {
            return false;
        }
        match why {
            GiveUp::TimedOut => level.totals.timed_out += 1,
            GiveUp::Cancelled => level.totals.cancelled += 1,
        }
        self.waiting -= 1;
        self.remove_if_over(at);
        true
    }

    /// Removes a level that was removed from the configuration, when its last request has ended.
    fn remove_if_over(&mut self, at: usize) {
        if self.levels.get(at).is_some_and(|level| level.is_quiescing && level.is_idle()) {
            self.levels.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const A: LevelId = LevelId::FALLBACK;
    const B: LevelId = LevelId(1);
    const EXEMPT: LevelId = LevelId(2);

    fn level(guaranteed: usize, nominal: usize, most: usize) -> LevelBounds {
        let queue = Bounds { permits: most, per_client: 9, waiting: 9 };
        LevelBounds { queue, guaranteed, nominal, is_exempt: false }
    }

    fn configs(levels: &[(LevelId, LevelBounds)]) -> Vec<LevelConfig> {
        let config = |(id, bounds): &(LevelId, LevelBounds)| LevelConfig {
            id: *id,
            name: Arc::from("a level"),
            bounds: *bounds,
        };
        levels.iter().map(config).collect()
    }

    fn pool(permits: usize, levels: &[(LevelId, LevelBounds)]) -> LevelPool<String> {
        let mut pool = LevelPool::sole(Bounds { permits, per_client: 9, waiting: 9 });
        assert!(pool.configure(&configs(levels)).is_empty());
        pool
    }

    fn id(name: u8) -> LevelId {
        match name {
            b'a' => A,
            b'b' => B,
            _ => EXEMPT,
        }
    }

    /// Runs a scenario. `a1` is the arrival of client 1 in level `a`, `-a1` releases its permit, `!a1` gives up.
    fn play(pool: &mut LevelPool<String>, story: &str) -> String {
        let mut numbers: HashMap<String, Number> = HashMap::new();
        let client = |name: &str| Client(u64::from(name.as_bytes()[1]));
        let mut out = Vec::new();
        for step in story.split_whitespace() {
            out.push(match step.split_at(1) {
                ("-", name) => {
                    let next = pool.leave(id(name.as_bytes()[0]), Some(client(name)));
                    next.unwrap_or_else(|| "free".to_owned())
                }
                ("!", name) => {
                    let level = id(name.as_bytes()[0]);
                    let number = numbers.get(name).copied().unwrap_or(Number(u64::MAX));
                    pool.give_up(level, client(name), number, GiveUp::Cancelled).to_string()
                }
                _ => match pool.arrive(id(step.as_bytes()[0]), client(step), || step.to_owned()).1 {
                    Arrival::Admitted => "in".to_owned(),
                    Arrival::Waits(number) | Arrival::WaitsInsteadOf(number, _) => {
                        numbers.insert(step.to_owned(), number);
                        "waits".to_owned()
                    }
                    Arrival::Refused => "full".to_owned(),
                    Arrival::NoQueue => "none".to_owned(),
                },
            });
            let committed: usize = pool.levels.iter().map(Level::committed).sum();
            assert_eq!(pool.committed, committed, "{story}");
            assert!(committed <= pool.permits, "{story}");
            let waiting: usize = pool.levels.iter().map(|level| level.queue.waiting()).sum();
            assert_eq!(pool.waiting, waiting, "{story}");
        }
        out.join(" ")
    }

    #[test]
    fn levels_share_the_permits() {
        for (case, permits, a, b, story, want) in [
            ("1 borrows free permits", 4, level(1, 2, 4), level(1, 2, 4), "a1 a2 a3", "in in in"),
            (
                "2 but not those guaranteed to others",
                4,
                level(1, 2, 4),
                level(1, 2, 4),
                "a1 a2 a3 a4 b1",
                "in in in waits in",
            ),
            (
                "3 a guaranteed permit returns to its level",
                4,
                level(1, 2, 4),
                level(1, 2, 4),
                "a1 a2 a3 a4 b1 -b1 b2 -a1",
                "in in in waits in free in a4",
            ),
            ("4 all are guaranteed", 4, level(2, 2, 4), level(2, 2, 4), "a1 a2 a3 b1", "in in waits in"),
            (
                "5 the most that it may borrow",
                4,
                level(1, 1, 2),
                level(0, 1, 4),
                "a1 a2 a3 b1",
                "in in waits in",
            ),
            (
                "6 a freed permit goes to the level that uses less of its share",
                4,
                level(0, 2, 4),
                level(0, 2, 4),
                "a1 a2 a3 b1 a4 b2 -a1 -a2",
                "in in in in waits waits b2 a4",
            ),
            (
                "7 in proportion to the share",
                4,
                level(0, 3, 4),
                level(0, 1, 4),
                "a1 a2 b1 b2 a3 b3 -b1 -b2",
                "in in in in waits waits a3 b3",
            ),
            (
                "8 a level without a share waits for the others",
                2,
                level(0, 0, 2),
                level(0, 2, 2),
                "b1 b2 a1 b3 -b1 -b2",
                "in in waits waits b3 a1",
            ),
            (
                "9 gives up",
                2,
                level(0, 1, 2),
                level(0, 1, 2),
                "a1 a2 a3 !a3 !a3 -a1",
                "in in waits true false free",
            ),
            (
                "10 exempt requests take no permits",
                1,
                level(0, 1, 1),
                level(0, 1, 1),
                "e1 e1 a1 e2 b1",
                "in in in in waits",
            ),
        ] {
            let everything = Bounds { permits: usize::MAX, per_client: 0, waiting: 0 };
            let exempt = LevelBounds { queue: everything, guaranteed: 0, nominal: 0, is_exempt: true };
            let mut pool = pool(permits, &[(A, a), (B, b), (EXEMPT, exempt)]);
            assert_eq!(play(&mut pool, story), want, "{case}");
        }
    }

    #[test]
    fn changed_levels_admit_waiting_requests() {
        let mut pool = pool(4, &[(A, level(0, 4, 1)), (B, level(3, 3, 3))]);
        assert_eq!(play(&mut pool, "a1 a2 a3 b1"), "in waits waits in");
        let admitted = pool.configure(&configs(&[(A, level(3, 4, 4))]));
        assert_eq!(admitted, ["a2", "a3"]);
        assert_eq!(pool.levels.len(), 2, "a removed level serves the rest of its requests");
        assert!(pool.levels[1].is_quiescing);
        assert_eq!(pool.levels[0].totals, LevelTotals { dispatched: 3, ..LevelTotals::default() });
        assert_eq!(pool.leave(B, Some(Client(u64::from(b'1')))), None);
        assert_eq!(pool.levels.len(), 1);
        let (level, arrival) = pool.arrive(B, Client(7), String::new);
        assert_eq!((level, arrival), (A, Arrival::Admitted), "requests of a removed level");
    }

    /// In any sequence of events, a level gets each of its guaranteed permits immediately.
    #[test]
    fn guaranteed_permits_are_never_taken() {
        use rand::{Rng as _, SeedableRng as _};
        let seed: u64 = rand::rng().random();
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        for round in 0..200 {
            let (own, other) = (rng.random_range(1..4), rng.random_range(0..4));
            let permits = own + other + rng.random_range(0..3);
            let mut pool =
                pool(permits, &[(A, level(other, permits, permits)), (B, level(own, own, permits))]);
            let mut held: Vec<(LevelId, Client)> = Vec::new();
            let mut clients = HashMap::new();
            for number in 0..200_u64 {
                let level = if rng.random_bool(0.7) { A } else { B };
                let used = held.iter().filter(|(held, _)| *held == level).count();
                if rng.random_bool(0.6) {
                    let client = Client(number);
                    let name = number.to_string();
                    clients.insert(name.clone(), (level, client));
                    let (_, arrival) = pool.arrive(level, client, || name);
                    let guaranteed = if level == A { other } else { own };
                    let is_in = arrival == Arrival::Admitted;
                    assert!(is_in || used >= guaranteed, "seed {seed}, round {round}");
                    if is_in {
                        held.push((level, client));
                    }
                } else if !held.is_empty() {
                    let (level, client) = held.swap_remove(rng.random_range(0..held.len()));
                    held.extend(pool.leave(level, Some(client)).map(|name| clients[&name]));
                }
                assert!(held.len() <= permits, "seed {seed}, round {round}");
                assert_eq!(pool.taken(), held.len(), "seed {seed}, round {round}");
            }
        }
    }
}
