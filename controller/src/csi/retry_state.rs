//! State about claims between two attempts. It may be lost with the process: all state that must survive a crash is in the
//! API.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// How long an infeasible attempt is delayed. Upstream: the longest retry interval.
pub const SLOW: Duration = Duration::from_secs(300);

/// The state by object key.
#[derive(Default)]
pub struct RetryState(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// When an infeasible attempt may be repeated.
    slow: HashMap<String, Instant>,
    /// The last attempt ended with a final error.
    settled: HashSet<String>,
    /// The driver refused because the volume is in use.
    in_use: HashSet<String>,
}

impl RetryState {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// The attempt was infeasible: it is not repeated for [`SLOW`].
    pub fn slow_down(&self, key: &str) {
        self.inner().slow.insert(key.to_owned(), Instant::now() + SLOW);
    }

    /// A different attempt follows: remove the delay.
    pub fn speed_up(&self, key: &str) {
        self.inner().slow.remove(key);
    }

    /// The remaining delay of an infeasible attempt.
    pub fn rests(&self, key: &str) -> Option<Duration> {
        let until = self.inner().slow.get(key).copied()?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Records whether the last error was final, so that no operation is in progress.
    pub fn set_settled(&self, key: &str, settled: bool) {
        let mut inner = self.inner();
        if settled {
            inner.settled.insert(key.to_owned());
        } else {
            inner.settled.remove(key);
        }
    }

    /// See [`set_settled`](Self::set_settled). False after a start, when the state is unknown.
    pub fn is_settled(&self, key: &str) -> bool {
        self.inner().settled.contains(key)
    }

    /// Records whether the driver requires an unused volume.
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

    /// The object is gone, or another object has its name.
    pub fn forget(&self, key: &str) {
        let mut inner = self.inner();
        inner.slow.remove(key);
        inner.settled.remove(key);
        inner.in_use.remove(key);
    }
}
