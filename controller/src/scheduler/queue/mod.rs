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
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    pods: HashMap<Key, Entry>,
    ready: BTreeSet<Turn>,
    /// Who becomes ready by time.
    timed: BTreeMap<(Instant, u64), Key>,
    /// Parked pods, and pods that are decided about, by the claims they name.
    by_claim: HashMap<String, BTreeSet<Key>>,
    /// Parked pods by the rules that sent them away.
    by_rule: [BTreeSet<Key>; RULES],
    sequence: u64,
    /// How many changes there were that a rule looks at, for each.
    moves: [u64; RULES],
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
    Rests {
        at: (Instant, u64),
    },
    Parked {
        at: (Instant, u64),
        rules: Rules,
        claims: Vec<String>,
    },
    /// `again`: the pod or one of the `claims` has changed since it was looked at.
    Taken {
        again: bool,
        claims: Vec<String>,
    },
}

/// What had changed when a decision began, see [`PodQueue::look`].
#[derive(Clone, Copy, Debug)]
pub struct Moves([u64; RULES]);

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
                Place::Taken { again, .. } => {
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
            state.leave(&ticket.key);
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
                        entry.place = Place::Taken { again: false, claims: Vec::new() };
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

    /// A decision about a taken pod with these claims begins: call this before anything is read. From now on no change is
    /// missed that concerns the rules which then send the pod away, or its claims; see [`park`](Self::park).
    pub fn look(&self, ticket: &Ticket, claims: &[String]) -> Moves {
        let mut state = self.state();
        let moves = Moves(state.moves);
        if state.taken(ticket).is_none() {
            return moves;
        }
        state.leave(&ticket.key);
        if let Some(Entry { place: Place::Taken { claims: listened, .. }, .. }) = state.taken(ticket) {
            *listened = claims.to_vec();
        }
        for claim in claims {
            state.by_claim.entry(claim.clone()).or_default().insert(Arc::clone(&ticket.key));
        }
        moves
    }

    /// A taken pod found no node because of these rules. It waits until something about them, or about one of its claims,
    /// changes; if such a change came since [`look`](Self::look), it only waits out its delay. Other changes are nothing to
    /// it.
    pub fn park(&self, ticket: &Ticket, rules: Rules, claims: &[String], seen: Moves) {
        let mut state = self.state();
        let (now, key) = (Instant::now(), &ticket.key);
        let moved = rules.numbers().any(|rule| state.moves[rule] != seen.0[rule]);
        let at = state.next_time(now + PARKED);
        let Some(entry) = state.taken(ticket) else { return };
        let again = matches!(entry.place, Place::Taken { again: true, .. });
        entry.fail(now);
        state.leave(key);
        if let Some(entry) = state.taken(ticket) {
            entry.place = Place::Parked { at, rules, claims: claims.to_vec() };
        }
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
        state.leave(&ticket.key);
        state.rest(&ticket.key, now);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Something changed that may help parked pods that these rules sent away. `for_this` looks closer at them; a pod that
    /// is decided about right now is not looked at, for it the change counts.
    pub fn wake(&self, rules: Rules, for_this: impl Fn(&Key) -> bool) {
        let mut state = self.state();
        rules.numbers().for_each(|rule| state.moves[rule] += 1);
        let touched: BTreeSet<&Key> = rules.numbers().flat_map(|rule| &state.by_rule[rule]).collect();
        let keys: Vec<Key> = touched.into_iter().filter(|key| for_this(key)).cloned().collect();
        keys.iter().for_each(|key| state.wake(key));
        drop(state);
        if !keys.is_empty() {
            self.shared.changed.notify_one();
        }
    }

    /// A claim changed: parked pods that name it are looked at, and those that are decided about right now will be again.
    pub fn wake_claim(&self, claim: &str) {
        let mut state = self.state();
        let keys: Vec<Key> = state.by_claim.get(claim).into_iter().flatten().cloned().collect();
        for key in &keys {
            match state.pods.get_mut(key).map(|entry| &mut entry.place) {
                Some(Place::Taken { again, .. }) => *again = true,
                Some(Place::Ready | Place::Rests { .. } | Place::Parked { .. }) | None => state.wake(key),
            }
        }
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

    fn state(&self) -> MutexGuard<'_, QueueState> {
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

impl QueueState {
    fn next_time(&mut self, at: Instant) -> (Instant, u64) {
        self.sequence += 1;
        (at, self.sequence)
    }

    /// The pod of a ticket, if it is still that one.
    fn taken(&mut self, ticket: &Ticket) -> Option<&mut Entry> {
        let entry = self.pods.get_mut(&ticket.key)?;
        (entry.arrived == ticket.arrived && matches!(entry.place, Place::Taken { .. })).then_some(entry)
    }

    /// Takes a pod out of where it waits or listens.
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
                unlist(&mut self.by_claim, claims, key);
            }
            Place::Taken { claims, .. } => unlist(&mut self.by_claim, claims, key),
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

/// A pod listens to these claims no more.
fn unlist(by_claim: &mut HashMap<String, BTreeSet<Key>>, claims: &[String], key: &str) {
    for claim in claims {
        if let Some(keys) = by_claim.get_mut(claim) {
            keys.remove(key);
            if keys.is_empty() {
                by_claim.remove(claim);
            }
        }
    }
}

#[cfg(test)]
mod tests;
