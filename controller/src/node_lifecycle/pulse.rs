//! Detects that this process itself stood still, and so has heard nothing of the nodes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether this process itself has run all the time: one that was stopped has heard nothing.
pub struct Pulse {
    period: Duration,
    last: Mutex<Instant>,
}

impl Pulse {
    /// One beat in each `period`.
    pub fn new(period: Duration) -> Self {
        // A period of nothing would be a loop without an end.
        Self { period: period.max(Duration::from_millis(100)), last: Mutex::new(Instant::now()) }
    }

    /// Beats until it is dropped.
    pub(super) async fn run(&self) {
        loop {
            tokio::time::sleep(self.period).await;
            // A beat that is late is not taken: who asks next has to learn of it.
            if !self.is_late(Instant::now()) {
                self.beat(Instant::now());
            }
        }
    }

    /// From now on.
    pub fn beat(&self, now: Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// More than two beats are missing.
    pub fn is_late(&self, now: Instant) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last) > self.period * 3
    }
}
