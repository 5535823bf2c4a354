//! Wall-clock time for timestamps in objects, and exponential delays. Durations always run on tokio's clock, so tests
//! with paused time decide when they pass; this clock can follow it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The source of timestamps.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The system's wall clock.
    Wall,
    /// A fixed start that moves with tokio's clock. For tests with paused time.
    Tokio {
        /// The wall time at `started`.
        origin: Timestamp,
        /// The instant of `origin`.
        started: Instant,
    },
}

impl Clock {
    /// A clock that begins at the Unix time `seconds` and follows tokio's clock.
    pub fn following_tokio(seconds: i64) -> Self {
        let origin = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
        Clock::Tokio { origin, started: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::Wall => Timestamp::now(),
            // Saturates at the end of jiff's range, which no process lives to see.
            Clock::Tokio { origin, started } => {
                origin.saturating_add(started.elapsed()).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// A delay that doubles from `first` up to `max`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts at `first`, never exceeds `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first.min(max) }
    }

    /// The delay to wait now; the following one is twice as long.
    pub fn advance(&mut self) -> Duration {
        let now = self.next;
        self.next = self.next.saturating_mul(2).min(self.max);
        now
    }

    /// Begins again at the first delay.
    pub fn reset(&mut self) {
        self.next = self.first.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit_and_starts_over() {
        let mut b = Backoff::new(Duration::from_millis(500), Duration::from_millis(1800));
        let delays: Vec<u128> = (0..4).map(|_| b.advance().as_millis()).collect();
        assert_eq!(delays, [500, 1000, 1800, 1800]);
        b.reset();
        assert_eq!(b.advance().as_millis(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn the_test_clock_moves_with_tokio() {
        let clock = Clock::following_tokio(1_000);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now().as_second(), 1_007);
    }
}
