//! The processor time of a test, which does not depend on the load of the machine. Only for tests.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of this thread since [`ThreadTime::start`].
#[derive(Debug)]
pub struct ThreadTime(Duration);

impl ThreadTime {
    /// Starts to measure.
    pub fn start() -> Self {
        Self(now())
    }

    /// The processor time since the start.
    pub fn spent(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

fn now() -> Duration {
    // No clock of a thread goes below zero.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
