//! A queue of keys for workers. A key is queued at most once, and never runs twice concurrently: if it is added while it runs, it
//! is queued again when its worker is done. Delays use tokio's clock.
//!
//! The rules are those of the work queues in upstream's client-go, with one difference: after [`WorkQueue::shutdown`]
//! the remaining keys are dropped, because the next start reads everything again.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How failing keys are delayed: the longer of a delay per key and a token bucket for all keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Delay of a key's first retry; doubles with each further retry.
    pub first: Duration,
    /// Upper limit of a key's delay.
    pub max: Duration,
    /// Limits the retries of all keys together; `None` means no limit.
    pub bucket: Option<Bucket>,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Tokens added per second.
    pub per_second: f64,
    /// Maximum number of tokens in the bucket.
    pub burst: u32,
}

impl Default for RateLimit {
    /// Upstream's default: 5 ms doubling to 1000 s, and 10 per second with a burst of 100.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            bucket: Some(Bucket { per_second: 10.0, burst: 100 }),
        }
    }
}

/// The queue. Clones share it.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// Longer delays count as this one.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The capacity that is retained for further keys; more is released after a burst.
const SPARE: usize = 1024;

struct Shared<K> {
    limit: RateLimit,
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

struct QueueState<K> {
    ready: VecDeque<K>,
    /// All keys that must run (again).
    dirty: HashSet<K>,
    processing: HashSet<K>,
    /// The time at which a waiting key becomes ready; `by_time` has the same entries, ordered by time.
    waiting: HashMap<K, (Instant, u64)>,
    by_time: BTreeMap<(Instant, u64), K>,
    sequence: u64,
    failures: HashMap<K, u32>,
    tokens: f64,
    refilled: Instant,
    closed: bool,
}

impl<K: Hash + Eq + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new(RateLimit::default())
    }
}

impl<K: Hash + Eq + Clone> WorkQueue<K> {
    /// Creates an empty queue.
    pub fn new(limit: RateLimit) -> Self {
        let state = QueueState {
            ready: VecDeque::new(),
            dirty: HashSet::new(),
            processing: HashSet::new(),
            waiting: HashMap::new(),
            by_time: BTreeMap::new(),
            sequence: 0,
            failures: HashMap::new(),
            tokens: limit.bucket.map_or(0.0, |b| f64::from(b.burst)),
            refilled: Instant::now(),
            closed: false,
        };
        Self { shared: Arc::new(Shared { limit, state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Queues the key for the next free worker.
    pub fn add(&self, key: K) {
        if self.state().add(key) {
            self.shared.changed.notify_one();
        }
    }

    /// Queues the key after `delay`. Of several such requests the earliest applies.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let now = Instant::now();
        if self.state().wait(key, now.checked_add(delay).unwrap_or(now + FOR_EVER)) {
            // A worker may be sleeping until a later deadline.
            self.shared.changed.notify_one();
        }
    }

    /// Queues the key after its rate limit's delay.
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.state().delay(&key, &self.shared.limit, Instant::now());
        self.add_after(key, delay);
    }

    /// Resets the failures of a key: its next failure starts with the first delay again.
    pub fn forget(&self, key: &K) {
        self.state().failures.remove(key);
    }

    /// How often [`add_rate_limited`](Self::add_rate_limited) was called since the last [`forget`](Self::forget).
    pub fn failures(&self, key: &K) -> u32 {
        self.state().failures.get(key).copied().unwrap_or(0)
    }

    /// Returns the next key, or `None` after [`shutdown`](Self::shutdown). The caller must call [`done`](Self::done).
    pub async fn get(&self) -> Option<K> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is read, so that no change is missed.
            changed.as_mut().enable();
            let deadline = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                if let Some(key) = state.take(Instant::now()) {
                    if !state.ready.is_empty() {
                        self.shared.changed.notify_one();
                    }
                    return Some(key);
                }
                state.by_time.first_key_value().map(|((at, _), _)| *at)
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

    /// Returns the next key if one is ready now.
    pub fn try_get(&self) -> Option<K> {
        let mut state = self.state();
        if state.closed { None } else { state.take(Instant::now()) }
    }

    /// Marks a key that a worker received as finished.
    pub fn done(&self, key: &K) {
        let mut state = self.state();
        state.processing.remove(key);
        if state.dirty.contains(key) {
            state.ready.push_back(key.clone());
            self.shared.changed.notify_one();
        }
    }

    /// The number of ready keys, without running and waiting ones.
    pub fn len(&self) -> usize {
        self.state().ready.len()
    }

    /// Whether no key is ready, running or waiting.
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.ready.is_empty() && state.processing.is_empty() && state.waiting.is_empty()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shuts the queue down: workers receive no more keys, and later additions are ignored.
    pub fn shutdown(&self) {
        self.state().closed = true;
        self.shared.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, QueueState<K>> {
        self.shared.state.lock()
    }
}

impl<K: Hash + Eq + Clone> QueueState<K> {
    /// Returns true if a worker has something new to do.
    fn add(&mut self, key: K) -> bool {
        if self.closed || !self.dirty.insert(key.clone()) {
            return false;
        }
        if self.processing.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    /// Returns true if the key becomes ready earlier than before.
    fn wait(&mut self, key: K, at: Instant) -> bool {
        if self.closed {
            return false;
        }
        match self.waiting.get(&key).copied() {
            Some((known, _)) if known <= at => return false,
            Some(known) => {
                self.by_time.remove(&known);
            }
            None => {}
        }
        self.sequence += 1;
        self.waiting.insert(key.clone(), (at, self.sequence));
        self.by_time.insert((at, self.sequence), key);
        true
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        while let Some(first) = self.by_time.first_entry() {
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            self.waiting.remove(&key);
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key.clone());
        if self.ready.is_empty() && self.ready.capacity() > SPARE {
            self.ready.shrink_to(SPARE);
            self.dirty.shrink_to(SPARE);
        }
        Some(key)
    }

    fn delay(&mut self, key: &K, limit: &RateLimit, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let own = item_delay(limit, *failures);
        *failures = failures.saturating_add(1);
        let Some(bucket) = limit.bucket else { return own };
        let refill = now.duration_since(self.refilled).as_secs_f64() * bucket.per_second;
        // A burst of failures does not delay later keys for long.
        let debt = bucket.per_second * DEBT.as_secs_f64();
        self.tokens = ((self.tokens + refill).min(f64::from(bucket.burst)) - 1.0).max(-debt);
        self.refilled = now;
        if self.tokens >= 0.0 || bucket.per_second <= 0.0 {
            return own;
        }
        own.max(Duration::from_secs_f64((-self.tokens / bucket.per_second).min(limit.max.as_secs_f64())))
    }
}

/// The maximum time that a key waits because of the failures of other keys.
const DEBT: Duration = Duration::from_secs(60);

/// The delay of a key after this many failures in a row.
fn item_delay(limit: &RateLimit, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    limit.first.checked_mul(factor).unwrap_or(limit.max).min(limit.max)
}

#[cfg(test)]
mod tests;
