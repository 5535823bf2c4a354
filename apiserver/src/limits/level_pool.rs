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

    pub(super) fn is_idle(&self) -> bool {
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
        let ready = |level: &&Level<T>| {
            level.queue.is_ready() && level.queue.taken() < level.bounds.queue.permits && self.may_take(level)
        };
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
mod tests;
