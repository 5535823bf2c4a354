//! The part of the log that events of requests without an authenticated user can take. Anyone can send such requests, and the log has a
//! maximum size: without a limit, a flood of them would displace all other events within seconds. Pure.

use std::time::{Duration, Instant};

use super::config::Rotation;

/// The bytes that such events can take in immediate succession.
const BURST: f64 = 1_048_576.0;
/// The part of the log's maximum size that such events can take in [`PERIOD`].
const PART: f64 = 0.1;
const PERIOD: Duration = Duration::from_secs(7 * 86_400);

/// A bucket of bytes, full at the start.
pub(super) struct Budget {
    burst: f64,
    /// Bytes per second.
    refill: f64,
    bytes: f64,
    filled: Option<Instant>,
    /// The number of events that did not fit.
    dropped: u64,
}

/// Whether an event fits in the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Fits,
    /// It does not. The first of these events, the second, the fourth and so on have to be logged with their number.
    Dropped {
        logs: Option<u64>,
    },
}

impl Budget {
    /// The budget of a log with these limits; `None` if its size has no limit, so that new events displace none.
    #[expect(clippy::cast_precision_loss, reason = "a size of many gigabytes")]
    pub(super) fn of(rotation: &Rotation) -> Option<Self> {
        if rotation.max_bytes == 0 || rotation.max_backups == 0 {
            return None;
        }
        let part = rotation.max_bytes as f64 * (rotation.max_backups as f64 + 1.0) * PART;
        let burst = BURST.min(part / 2.0);
        let refill = (part - burst) / PERIOD.as_secs_f64();
        Some(Budget { burst, refill, bytes: burst, filled: None, dropped: 0 })
    }

    /// Takes the bytes of an event.
    #[expect(clippy::cast_precision_loss, reason = "an event has less than a gigabyte")]
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Fit {
        let elapsed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        self.bytes = (self.bytes + elapsed.as_secs_f64() * self.refill).min(self.burst);
        let bytes = bytes as f64;
        if bytes <= self.bytes {
            self.bytes -= bytes;
            return Fit::Fits;
        }
        self.dropped += 1;
        Fit::Dropped { logs: Some(self.dropped).filter(|count| count.is_power_of_two()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(max_bytes: u64, max_backups: usize) -> Rotation {
        Rotation { max_bytes, max_backups, max_age: Duration::ZERO, compress: false }
    }

    #[test]
    fn flood_takes_at_most_a_tenth_of_the_log_in_a_week() {
        // case, maximum bytes of a file, maximum number of older files, bytes taken by a burst of events, bytes taken in a week
        for (case, max_bytes, max_backups, at_once, in_a_week) in [
            ("1 the default", 10_000_000, 9, 1_048_000, 9_900_000..=10_000_000),
            ("2 large", 1_000_000_000, 99, 1_048_000, 600_000_000..=606_000_000),
            ("3 small", 1_000_000, 1, 100_000, 190_000..=200_000),
        ] {
            let start = Instant::now();
            let mut budget = Budget::of(&rotation(max_bytes, max_backups)).expect("the log has a limit");
            let at_start = (0..20_000).filter(|_| budget.take(1_000, start) == Fit::Fits).count() * 1_000;
            assert_eq!(at_start, at_once, "{case}");
            let seconds = 1..PERIOD.as_secs();
            let fit = seconds
                .filter(|second| budget.take(1_000, start + Duration::from_secs(*second)) == Fit::Fits);
            let taken = at_start + fit.count() * 1_000;
            assert!(in_a_week.contains(&taken), "{case}: {taken}");
        }
        for (max_bytes, max_backups) in [(0, 9), (10_000_000, 0), (0, 0)] {
            assert!(Budget::of(&rotation(max_bytes, max_backups)).is_none(), "no limit");
        }
    }

    #[test]
    fn dropped_events_are_logged_ever_more_rarely() {
        let now = Instant::now();
        let mut budget = Budget::of(&rotation(1_000_000, 1)).expect("the log has a limit");
        let mut drops = (0..1_000).map(|_| budget.take(200_000, now));
        let logs: Vec<u64> = drops
            .by_ref()
            .filter_map(|fit| match fit {
                Fit::Fits => panic!("the event is larger than the budget"),
                Fit::Dropped { logs } => logs,
            })
            .collect();
        assert_eq!(logs, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        drop(drops);
        assert_eq!(budget.take(100_000, now), Fit::Fits, "a smaller event fits");
    }
}
