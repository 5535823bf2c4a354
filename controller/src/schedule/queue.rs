//! The pods that wait for a node. A pod is ready, waits out its delay after a failure, is parked until something changes
//! that may help it, or is being worked on. Higher priorities go first, among equals who came first. Delays run on tokio's
//! clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::filter::{RULES, Rules};

/// Delay after the first failure; it doubles. Upstream: podInitialBackoffSeconds.
const FIRST: Duration = Duration::from_secs(1);
/// The longest delay. Upstream: podMaxBackoffSeconds.
const LONGEST: Duration = Duration::from_secs(10);
/// A parked pod is looked at after this long whatever happened; a safety net. Upstream: flushUnschedulablePodsLeftover.
const PARKED: Duration = Duration::from_secs(300);

/// The key of a pod.
pub type Key = Arc<str>;

/// A pod that was taken. One that was deleted and made anew has another ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The pod.
    pub key: Key,
    arrived: u64,
}

/// The queue. Clones share it.
#[derive(Clone, Default)]
pub struct PodQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    pods: HashMap<Key, Entry>,
    ready: BTreeSet<Turn>,
    /// Who becomes ready by time.
    timed: BTreeMap<(Instant, u64), Key>,
    /// Parked pods by the claims they name.
    by_claim: HashMap<String, BTreeSet<Key>>,
    /// Parked pods by the rules that sent them away.
    by_rule: [BTreeSet<Key>; RULES],
    sequence: u64,
    /// How many changes there were that might have helped somebody.
    moves: u64,
    closed: bool,
}

/// Priority, then order of arrival.
type Turn = (Reverse<i32>, u64, Key);

struct Entry {
    priority: i32,
    arrived: u64,
    failures: u32,
    /// Not before.
    rested: Option<Instant>,
    place: Place,
}

enum Place {
    Ready,
    Rests { at: (Instant, u64) },
    Parked { at: (Instant, u64), rules: Rules, claims: Vec<String> },
    Taken { again: bool },
}

impl PodQueue {
    /// A pod waits, or has changed in what matters.
    pub fn add(&self, key: &Key, priority: i32) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.sequence += 1;
        let arrived = state.sequence;
        match state.pods.get_mut(key) {
            None => {
                let entry = Entry { priority, arrived, failures: 0, rested: None, place: Place::Ready };
                state.pods.insert(Arc::clone(key), entry);
                state.ready.insert((Reverse(priority), arrived, Arc::clone(key)));
            }
            Some(entry) => match &mut entry.place {
                Place::Taken { again } => {
                    entry.priority = priority;
                    *again = true;
                }
                Place::Ready | Place::Rests { .. } => {}
                Place::Parked { .. } => {
                    entry.priority = priority;
                    state.wake(key);
                }
            },
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The pod of a ticket has its node.
    pub fn done(&self, ticket: &Ticket) {
        let mut state = self.state();
        if state.taken(ticket).is_some() {
            state.pods.remove(&ticket.key);
        }
    }

    /// A pod waits no more.
    pub fn remove(&self, key: &str) {
        let mut state = self.state();
        state.leave(key);
        state.pods.remove(key);
    }

    /// The next pod, or none after [`shutdown`](Self::shutdown). It is taken until [`park`](Self::park),
    /// [`retry`](Self::retry), [`done`](Self::done) or [`remove`](Self::remove).
    pub async fn next(&self) -> Option<Ticket> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let deadline = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                state.ripen(Instant::now());
                if let Some((_, arrived, key)) = state.ready.pop_first() {
                    if let Some(entry) = state.pods.get_mut(&key) {
                        entry.place = Place::Taken { again: false };
                    }
                    return Some(Ticket { key, arrived });
                }
                state.timed.first_key_value().map(|((at, _), _)| *at)
            };
            match deadline {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// How many changes there were so far; see [`park`](Self::park).
    pub fn moves(&self) -> u64 {
        self.state().moves
    }

    /// A taken pod found no node because of these rules. It waits until something about them, or about one of its claims,
    /// changes; if anything has changed since `moves` was read, it only waits out its delay.
    pub fn park(&self, ticket: &Ticket, rules: Rules, claims: &[String], moves: u64) {
        let mut state = self.state();
        let (now, key) = (Instant::now(), &ticket.key);
        let moved = state.moves != moves;
        let at = state.next_time(now + PARKED);
        let Some(entry) = state.taken(ticket) else { return };
        let again = matches!(entry.place, Place::Taken { again: true });
        entry.fail(now);
        entry.place = Place::Parked { at, rules, claims: claims.to_vec() };
        state.timed.insert(at, Arc::clone(key));
        for rule in rules.numbers() {
            state.by_rule[rule].insert(Arc::clone(key));
        }
        for claim in claims {
            state.by_claim.entry(claim.clone()).or_default().insert(Arc::clone(key));
        }
        if moved || again {
            state.wake(key);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// A taken pod failed for a reason that may be gone soon: it waits out its delay.
    pub fn retry(&self, ticket: &Ticket) {
        let mut state = self.state();
        let now = Instant::now();
        let Some(entry) = state.taken(ticket) else { return };
        entry.fail(now);
        state.rest(&ticket.key, now);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Something changed that may help parked pods that these rules sent away. `for_this` looks closer.
    pub fn wake(&self, rules: Rules, for_this: impl Fn(&Key) -> bool) {
        let mut state = self.state();
        state.moves += 1;
        let touched: BTreeSet<&Key> = rules.numbers().flat_map(|rule| &state.by_rule[rule]).collect();
        let keys: Vec<Key> = touched.into_iter().filter(|key| for_this(key)).cloned().collect();
        keys.iter().for_each(|key| state.wake(key));
        drop(state);
        if !keys.is_empty() {
            self.shared.changed.notify_one();
        }
    }

    /// A claim changed: parked pods that name it are looked at.
    pub fn wake_claim(&self, claim: &str) {
        let mut state = self.state();
        state.moves += 1;
        let keys: Vec<Key> = state.by_claim.get(claim).into_iter().flatten().cloned().collect();
        keys.iter().for_each(|key| state.wake(key));
        drop(state);
        if !keys.is_empty() {
            self.shared.changed.notify_one();
        }
    }

    /// Ends the queue.
    pub fn shutdown(&self) {
        self.state().closed = true;
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn fail(&mut self, now: Instant) {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let delay = FIRST.checked_mul(factor).unwrap_or(LONGEST).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.rested = Some(now + delay);
    }
}

impl State {
    fn next_time(&mut self, at: Instant) -> (Instant, u64) {
        self.sequence += 1;
        (at, self.sequence)
    }

    /// The pod of a ticket, if it is still that one.
    fn taken(&mut self, ticket: &Ticket) -> Option<&mut Entry> {
        let entry = self.pods.get_mut(&ticket.key)?;
        (entry.arrived == ticket.arrived && matches!(entry.place, Place::Taken { .. })).then_some(entry)
    }

    /// Takes a pod out of where it waits.
    fn leave(&mut self, key: &str) {
        let Some(entry) = self.pods.get(key) else { return };
        match &entry.place {
            Place::Ready => {
                let turn = (Reverse(entry.priority), entry.arrived, Key::from(key));
                self.ready.remove(&turn);
            }
            Place::Rests { at } => {
                self.timed.remove(at);
            }
            Place::Parked { at, rules, claims } => {
                self.timed.remove(at);
                for rule in rules.numbers() {
                    self.by_rule[rule].remove(key);
                }
                for claim in claims {
                    if let Some(keys) = self.by_claim.get_mut(claim) {
                        keys.remove(key);
                        if keys.is_empty() {
                            self.by_claim.remove(claim);
                        }
                    }
                }
            }
            Place::Taken { .. } => {}
        }
    }

    /// A parked pod is looked at, after its delay.
    fn wake(&mut self, key: &Key) {
        self.leave(key);
        self.rest(key, Instant::now());
    }

    fn rest(&mut self, key: &Key, now: Instant) {
        let rested = self.pods.get(key).and_then(|entry| entry.rested).filter(|rested| *rested > now);
        let at = rested.map(|rested| self.next_time(rested));
        let Some(entry) = self.pods.get_mut(key) else { return };
        match at {
            Some(at) => {
                entry.place = Place::Rests { at };
                self.timed.insert(at, Arc::clone(key));
            }
            None => {
                entry.place = Place::Ready;
                self.ready.insert((Reverse(entry.priority), entry.arrived, Arc::clone(key)));
            }
        }
    }

    /// Makes ready whose time has come.
    fn ripen(&mut self, now: Instant) {
        while let Some((at, key)) = self.timed.first_key_value().map(|(at, key)| (*at, Arc::clone(key))) {
            if at.0 > now {
                return;
            }
            self.wake(&key);
            // Where the entry and the time disagree the time goes, so that this ends.
            self.timed.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests;
