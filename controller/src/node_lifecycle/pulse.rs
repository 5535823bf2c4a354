//! Detects that this process was paused and therefore received no heartbeats from nodes.

use parking_lot::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Tracks whether this process has run without a pause: a paused process receives no heartbeats.
pub struct Pulse {
    period: Duration,
    last: Mutex<Instant>,
}

impl Pulse {
    /// Creates a pulse with one beat per `period`.
    pub fn new(period: Duration) -> Self {
        // A period of zero would loop without end.
        Self { period: period.max(Duration::from_millis(100)), last: Mutex::new(Instant::now()) }
    }

    /// Beats until the future is dropped.
    pub(super) async fn run(&self) {
        loop {
            tokio::time::sleep(self.period).await;
            // A late beat is not recorded: the next caller must detect the pause.
            if !self.is_late(Instant::now()) {
                self.beat(Instant::now());
            }
        }
    }

    /// Records a beat at `now`.
    pub fn beat(&self, now: Instant) {
        *self.last.lock() = now;
    }

    /// Whether more than two beats are missing.
    pub fn is_late(&self, now: Instant) -> bool {
        let last = *self.last.lock();
        now.saturating_duration_since(last) > self.period * 3
    }
}
