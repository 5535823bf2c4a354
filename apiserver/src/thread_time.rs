//! How long a test computes: what is told apart is a second from an hour, whatever else the machine does meanwhile.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time that this thread has been on a processor since.
pub(crate) struct ThreadTime(Duration);

impl ThreadTime {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self(now())
    }

    /// Until now.
    pub(crate) fn spent(&self) -> Duration {
        now().saturating_sub(self.0)
    }
}

fn now() -> Duration {
    // No clock of a thread goes below zero.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
