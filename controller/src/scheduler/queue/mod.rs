//! The queue of pods without a node. A pod is ready, backing off after a failure, parked until a change that may help it, or
//! being scheduled. Pods of higher priority precede others; within a priority, the order is FIFO. Delays use tokio's clock.

pub use key::Key;
use parking_lot::{Mutex, MutexGuard};

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use self::waits::WaitIndex;
pub use self::waits::Waits;
use super::filter::{RULES, Rules};
use super::node_needs::NodeNeeds;

mod key;
mod waits;

/// Delay after the first failure; it doubles. Upstream: podInitialBackoffSeconds.
const FIRST: Duration = Duration::from_secs(1);
/// The longest delay. Upstream: podMaxBackoffSeconds.
const LONGEST: Duration = Duration::from_secs(10);
/// A parked pod is retried after this time without any event, as a safety net. Upstream: flushUnschedulablePodsLeftover.
const PARKED: Duration = Duration::from_secs(300);

/// A pod taken from the queue. After it is deleted and created again, it has another ticket.
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
    ready: BTreeSet<QueueOrder>,
    /// Pods that become ready at a time.
    timed: BTreeMap<(Instant, u64), Key>,
    /// Parked pods, and pods being scheduled, by the claims that they name.
    by_claim: HashMap<String, BTreeSet<Key>>,
    /// Parked pods by what else they wait for.
    parked: WaitIndex,
    sequence: u64,
    /// The number of relevant changes so far, for each rule.
    moves: [u64; RULES],
    closed: bool,
}

/// Priority, then order of arrival.
type QueueOrder = (Reverse<i32>, u64, Key);

struct Entry {
    priority: i32,
    arrived: u64,
    failures: u32,
    /// The end of its delay.
    rested: Option<Instant>,
    place: QueuePlace,
}

enum QueuePlace {
    Ready,
    Rests {
        at: (Instant, u64),
    },
    Parked {
        at: (Instant, u64),
        waits: Waits,
    },
    /// `again`: the pod or one of the `claims` has changed since scheduling began.
    Taken {
        again: bool,
        claims: Vec<String>,
    },
}

/// The numbers of changes when a decision began, see [`PodQueue::look`].
#[derive(Clone, Copy, Debug)]
pub struct Moves([u64; RULES]);

impl PodQueue {
    /// Adds a waiting pod, or one with a relevant change.
    pub fn add(&self, key: &Key, priority: i32) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.sequence += 1;
        let arrived = state.sequence;
        match state.pods.get_mut(key) {
            None => {
                let entry = Entry { priority, arrived, failures: 0, rested: None, place: QueuePlace::Ready };
                state.pods.insert(Arc::clone(key), entry);
                state.ready.insert((Reverse(priority), arrived, Arc::clone(key)));
            }
            Some(entry) => match &mut entry.place {
                QueuePlace::Taken { again, .. } => {
                    entry.priority = priority;
                    *again = true;
                }
                QueuePlace::Ready | QueuePlace::Rests { .. } => {}
                QueuePlace::Parked { .. } => {
                    entry.priority = priority;
                    state.wake(key);
                }
            },
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The pod of a ticket is bound.
    pub fn done(&self, ticket: &Ticket) {
        let mut state = self.state();
        if state.taken(ticket).is_some() {
            state.leave(&ticket.key);
            state.pods.remove(&ticket.key);
        }
    }

    /// Removes a pod.
    pub fn remove(&self, key: &str) {
        let mut state = self.state();
        state.leave(key);
        state.pods.remove(key);
    }

    /// Takes the next pod; none after [`shutdown`](Self::shutdown). It stays taken until [`park`](Self::park),
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
                        entry.place = QueuePlace::Taken { again: false, claims: Vec::new() };
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

    /// Begins a decision about a taken pod with these claims; call this before reading any state. Later changes of its claims, and changes that
    /// concern the rules that reject it, are not missed; see [`park`](Self::park).
    pub fn look(&self, ticket: &Ticket, claims: &[String]) -> Moves {
        let mut state = self.state();
        let moves = Moves(state.moves);
        if state.taken(ticket).is_none() {
            return moves;
        }
        state.leave(&ticket.key);
        if let Some(Entry { place: QueuePlace::Taken { claims: listened, .. }, .. }) = state.taken(ticket) {
            *listened = claims.to_vec();
        }
        for claim in claims {
            state.by_claim.entry(claim.clone()).or_default().insert(Arc::clone(&ticket.key));
        }
        moves
    }

    /// Parks a taken pod that some rules rejected on all nodes, until a change that concerns one of the rules or one of its
    /// claims. If such a change arrived after [`look`](Self::look), the pod only waits for its delay. Other changes do not wake it.
    pub fn park(&self, ticket: &Ticket, mut waits: Waits, seen: Moves) {
        let mut state = self.state();
        let (now, key) = (Instant::now(), &ticket.key);
        let moved = waits.rules.numbers().any(|rule| state.moves[rule] != seen.0[rule]);
        let at = state.next_time(now + PARKED);
        let Some(entry) = state.taken(ticket) else { return };
        let again = matches!(entry.place, QueuePlace::Taken { again: true, .. });
        entry.fail(now);
        state.leave(key);
        state.timed.insert(at, Arc::clone(key));
        for claim in &waits.claims {
            state.by_claim.entry(claim.clone()).or_default().insert(Arc::clone(key));
        }
        state.parked.insert(key, &mut waits);
        if let Some(entry) = state.taken(ticket) {
            entry.place = QueuePlace::Parked { at, waits };
        }
        if moved || again {
            state.wake(key);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Retries a taken pod that failed for a possibly temporary reason, after its delay.
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

    /// A change may help parked pods that these rules rejected.
    pub fn wake(&self, rules: Rules) {
        self.wake_those(rules, |parked| parked.rejected(rules));
    }

    /// A change may help parked pods that these rules rejected and that have a claim of this class. For a pod that is being
    /// scheduled, the change counts whatever its classes are.
    pub fn wake_class(&self, rules: Rules, class: &str) {
        self.wake_those(rules, |parked| parked.of_class(class, rules));
    }

    /// A node changed, which may help parked pods that these rules rejected, if it suits their needs. For a pod that is being
    /// scheduled, the change counts whatever its needs are.
    pub fn wake_for_node(&self, rules: Rules, may_suit: impl Fn(&NodeNeeds) -> bool) {
        // Counted first: the decision about a pod that is parked later included the change, or the count causes a retry.
        let mut needs = {
            let mut state = self.state();
            state.count(rules);
            state.parked.needs()
        };
        // Without the lock of the queue.
        needs.retain(|needs| may_suit(needs));
        let state = self.state();
        let keys: Vec<Key> = needs.iter().flat_map(|needs| state.parked.with_needs(needs, rules)).collect();
        self.wake_all(state, &keys);
    }

    fn wake_those(&self, rules: Rules, which: impl FnOnce(&WaitIndex) -> Vec<Key>) {
        let mut state = self.state();
        state.count(rules);
        let keys = which(&state.parked);
        self.wake_all(state, &keys);
    }

    fn wake_all(&self, mut state: MutexGuard<'_, QueueState>, keys: &[Key]) {
        keys.iter().for_each(|key| state.wake(key));
        drop(state);
        if !keys.is_empty() {
            self.shared.changed.notify_one();
        }
    }

    /// A claim changed: wakes the parked pods that name it, and marks those being scheduled for a retry.
    pub fn wake_claim(&self, claim: &str) {
        let mut state = self.state();
        let keys: Vec<Key> = state.by_claim.get(claim).into_iter().flatten().cloned().collect();
        for key in &keys {
            match state.pods.get_mut(key).map(|entry| &mut entry.place) {
                Some(QueuePlace::Taken { again, .. }) => *again = true,
                Some(QueuePlace::Ready | QueuePlace::Rests { .. } | QueuePlace::Parked { .. }) | None => {
                    state.wake(key)
                }
            }
        }
        drop(state);
        if !keys.is_empty() {
            self.shared.changed.notify_one();
        }
    }

    /// Shuts the queue down.
    pub fn shutdown(&self) {
        self.state().closed = true;
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.shared.state.lock()
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

    /// The pod of a ticket, if the ticket is current.
    fn taken(&mut self, ticket: &Ticket) -> Option<&mut Entry> {
        let entry = self.pods.get_mut(&ticket.key)?;
        (entry.arrived == ticket.arrived && matches!(entry.place, QueuePlace::Taken { .. })).then_some(entry)
    }

    /// Removes a pod from the index of its state.
    fn leave(&mut self, key: &str) {
        let Some(entry) = self.pods.get(key) else { return };
        match &entry.place {
            QueuePlace::Ready => {
                let turn = (Reverse(entry.priority), entry.arrived, Key::from(key));
                self.ready.remove(&turn);
            }
            QueuePlace::Rests { at } => {
                self.timed.remove(at);
            }
            QueuePlace::Parked { at, waits } => {
                self.timed.remove(at);
                self.parked.remove(key, waits);
                unlist(&mut self.by_claim, &waits.claims, key);
            }
            QueuePlace::Taken { claims, .. } => unlist(&mut self.by_claim, claims, key),
        }
    }

    /// Counts a change that concerns these rules.
    fn count(&mut self, rules: Rules) {
        rules.numbers().for_each(|rule| self.moves[rule] += 1);
    }

    /// Makes a parked pod ready, after its delay.
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
                entry.place = QueuePlace::Rests { at };
                self.timed.insert(at, Arc::clone(key));
            }
            None => {
                entry.place = QueuePlace::Ready;
                self.ready.insert((Reverse(entry.priority), entry.arrived, Arc::clone(key)));
            }
        }
    }

    /// Makes all pods ready whose delay has ended.
    fn ripen(&mut self, now: Instant) {
        while let Some((at, key)) = self.timed.first_key_value().map(|(at, key)| (*at, Arc::clone(key))) {
            if at.0 > now {
                return;
            }
            self.wake(&key);
            // On a mismatch with the entry the time is removed, so that this loop ends.
            self.timed.remove(&at);
        }
    }
}

/// Removes a pod from the index of these claims.
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
