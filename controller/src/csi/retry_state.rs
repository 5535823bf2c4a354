//! What is remembered of claims between two attempts, and what may be forgotten with the process: everything that has to
//! be known after a crash is in the API.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long something infeasible rests. Upstream: the longest retry interval.
pub const SLOW: Duration = Duration::from_secs(300);

/// What is remembered, by the keys of objects.
#[derive(Default)]
pub struct Memory(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// When an infeasible attempt may be made again.
    slow: HashMap<String, Instant>,
    /// The last attempt ended with a final error.
    settled: HashSet<String>,
    /// The driver refused because somebody uses the volume.
    in_use: HashSet<String>,
}

impl Memory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attempt was infeasible: the same is not tried again for [`SLOW`].
    pub fn slow_down(&self, key: &str) {
        self.inner().slow.insert(key.to_owned(), Instant::now() + SLOW);
    }

    /// Something else is tried.
    pub fn speed_up(&self, key: &str) {
        self.inner().slow.remove(key);
    }

    /// How long an infeasible attempt rests yet.
    pub fn rests(&self, key: &str) -> Option<Duration> {
        let until = self.inner().slow.get(key).copied()?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Whether the last error was final: nothing is under way.
    pub fn set_settled(&self, key: &str, settled: bool) {
        let mut inner = self.inner();
        if settled {
            inner.settled.insert(key.to_owned());
        } else {
            inner.settled.remove(key);
        }
    }

    /// See [`set_settled`](Self::set_settled). False after a start, when nothing is known.
    pub fn is_settled(&self, key: &str) -> bool {
        self.inner().settled.contains(key)
    }

    /// Whether the driver wants the volume unused.
    pub fn set_in_use(&self, key: &str, in_use: bool) {
        let mut inner = self.inner();
        if in_use {
            inner.in_use.insert(key.to_owned());
        } else {
            inner.in_use.remove(key);
        }
    }

    /// See [`set_in_use`](Self::set_in_use).
    pub fn is_in_use(&self, key: &str) -> bool {
        self.inner().in_use.contains(key)
    }

    /// The object is gone, or another has its name.
    pub fn forget(&self, key: &str) {
        let mut inner = self.inner();
        inner.slow.remove(key);
        inner.settled.remove(key);
        inner.in_use.remove(key);
    }
}
