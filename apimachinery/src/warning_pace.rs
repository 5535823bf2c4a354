//! When to log a problem that lasts for many attempts. Pure.

use std::time::{Duration, Instant};

/// Limits the warnings about one problem: the first failure is logged, and then at most one per interval.
#[derive(Clone, Copy, Debug)]
pub struct WarningPace {
    every: Duration,
    /// When the last warning was logged; `None` if the last attempt succeeded.
    last: Option<Instant>,
}

impl WarningPace {
    /// At most one warning per interval.
    pub fn new(every: Duration) -> Self {
        WarningPace { every, last: None }
    }

    /// Notes a failure. Returns whether to log it.
    pub fn fails(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.every);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// Notes a success. Returns whether failures were logged before it.
    pub fn succeeds(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_is_logged_and_then_one_per_interval() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pace = WarningPace::new(Duration::from_secs(60));
        assert!(!pace.succeeds(), "nothing has failed");
        for (seconds, want) in [(0, true), (1, false), (59, false), (60, true), (61, false), (300, true)] {
            assert_eq!(pace.fails(after(seconds)), want, "after {seconds} s");
        }
        assert!(pace.succeeds());
        assert!(!pace.succeeds(), "once");
        assert!(pace.fails(after(301)), "another problem");
    }
}
