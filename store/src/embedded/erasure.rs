//! The steps of an erasure of former versions (`erase`), and when the next step may start. Pure.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::Revision;

/// The step of an erasure. `through`: it erases what is former at this revision.
///
/// A step that fails is repeated later; the steps before it are not, because each leaves nothing behind that a later write could
/// undo.
pub(super) enum Erasure {
    /// None is running.
    Idle,
    /// The rows of the log are being rewritten, a bounded number per round.
    Rows { through: Revision },
    /// The journal starts a new segment. `None`: the committer has not been asked yet.
    Rotating { through: Revision, answer: Option<Receiver<Result<Revision, String>>> },
    /// A snapshot at `from` or later is needed.
    Snapshot { through: Revision, from: Revision, is_begun: bool },
    /// The files before `snapshot`, and the segments up to `from`, can be removed when the served copy contains everything up to
    /// `from` durably.
    Removing { through: Revision, from: Revision, snapshot: Revision },
    /// The served copy is being replaced.
    Copying { through: Revision, is_begun: bool },
}

impl Erasure {
    /// The revision through which everything is erased when the running replacement of the served copy ends.
    pub(super) fn ends_with_copy(&self) -> Option<Revision> {
        match self {
            Erasure::Copying { through, is_begun: true } => Some(*through),
            Erasure::Idle
            | Erasure::Rows { .. }
            | Erasure::Rotating { .. }
            | Erasure::Snapshot { .. }
            | Erasure::Removing { .. }
            | Erasure::Copying { is_begun: false, .. } => None,
        }
    }

    /// Whether the rows of the log are being rewritten, so that they cannot be copied.
    pub(super) fn rewrites_rows(&self) -> bool {
        match self {
            Erasure::Rows { .. } => true,
            Erasure::Idle
            | Erasure::Rotating { .. }
            | Erasure::Snapshot { .. }
            | Erasure::Removing { .. }
            | Erasure::Copying { .. } => false,
        }
    }

    /// Notes that a replacement of the served copy begins, for whatever reason: it also serves an erasure that waits for one.
    pub(super) fn copy_begins(&mut self) {
        match self {
            Erasure::Copying { is_begun, .. } => *is_begun = true,
            Erasure::Idle
            | Erasure::Rows { .. }
            | Erasure::Rotating { .. }
            | Erasure::Snapshot { .. }
            | Erasure::Removing { .. } => {}
        }
    }
}

/// An erasure writes all records twice, so it may take this part of the time at most.
const PART: u32 = 60;

/// When the next step of an erasure may start.
#[derive(Debug)]
pub(super) struct ErasurePace {
    /// When the last erasure ended, or a step of the current one failed, by the store's clock in milliseconds; `None` before that.
    since_ms: Option<i64>,
    /// The pause after that.
    wait: Duration,
    /// The duration of the current erasure without its pauses, up to the last one.
    worked: Duration,
    /// Since when it works.
    working: Option<Instant>,
}

impl ErasurePace {
    /// The first erasure may start when this interval has passed since the newest served copy was set aside, if there is one, so
    /// that an administrator can examine it.
    pub(super) fn new(set_aside_ms: Option<i64>, every: Duration) -> Self {
        ErasurePace { since_ms: set_aside_ms, wait: every, worked: Duration::ZERO, working: None }
    }

    /// Whether the next step may start. If the clock was set back, the pause is over.
    pub(super) fn is_due(&self, now_ms: i64) -> bool {
        let wait_ms = i64::try_from(self.wait.as_millis()).unwrap_or(i64::MAX);
        self.since_ms.is_none_or(|since_ms| now_ms < since_ms || now_ms.saturating_sub(since_ms) >= wait_ms)
    }

    /// Notes that a step runs.
    pub(super) fn works(&mut self, now: Instant) {
        self.working.get_or_insert(now);
    }

    /// Notes that a step has failed.
    pub(super) fn pause(&mut self, now_ms: i64, now: Instant, wait: Duration) {
        self.worked +=
            self.working.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (self.since_ms, self.wait) = (Some(now_ms), wait);
    }

    /// Notes that the erasure has ended. The next one may start after the interval, or later if it takes long.
    pub(super) fn end(&mut self, now_ms: i64, now: Instant, every: Duration) {
        self.pause(now_ms, now, every);
        self.wait = every.max(self.worked.saturating_mul(PART));
        self.worked = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(600);

    #[test]
    fn next_erasure_is_due_after_the_interval_or_a_multiple_of_the_last_duration() {
        let now = Instant::now();
        for (name, took_s, wait_s) in [("a short one", 2, 600), ("a long one", 30, 1800)] {
            let mut pace = ErasurePace::new(None, EVERY);
            assert!(pace.is_due(0), "{name}: the first one");
            pace.works(now);
            pace.works(now + Duration::from_secs(1));
            pace.end(5_000, now + Duration::from_secs(took_s), EVERY);
            for (passed_ms, want) in
                [(0, false), (wait_s * 1000 - 1, false), (wait_s * 1000, true), (-1, true)]
            {
                assert_eq!(pace.is_due(5_000 + passed_ms), want, "{name}, after {passed_ms} ms");
            }
        }
    }

    #[test]
    fn pauses_do_not_count_as_work() {
        let now = Instant::now();
        let mut pace = ErasurePace::new(None, Duration::ZERO);
        pace.works(now);
        pace.pause(0, now + Duration::from_secs(4), EVERY);
        assert!(!pace.is_due(599_999) && pace.is_due(600_000));
        pace.works(now + Duration::from_secs(1000));
        pace.end(0, now + Duration::from_secs(1006), Duration::ZERO);
        assert!(!pace.is_due(599_999) && pace.is_due(600_000), "60 times 10 seconds");
    }

    #[test]
    fn copy_that_was_set_aside_stays_for_the_interval() {
        let pace = ErasurePace::new(Some(1_000), EVERY);
        assert!(!pace.is_due(1_000) && !pace.is_due(600_999) && pace.is_due(601_000));
        assert!(pace.is_due(999), "the clock was set back");
    }
}
