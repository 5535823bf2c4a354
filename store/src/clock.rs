//! The clock: the only place in this crate that reads the system time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// The time that records are stamped with.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the epoch. This may jump back; the time stamps of records never do.
    fn now_ms(&self) -> i64;

    /// Tells the clock the last time stamp of a store that is opened.
    fn continue_from(&self, _last_ms: i64) {}
}

/// The system clock, except that it never jumps back: after the system's time has been set back, this clock continues from
/// the latest time it has returned, and from the last time stamp of the store. Otherwise new records would have one and
/// the same stamp until the system's time has caught up, and nothing would expire.
#[derive(Debug, Default)]
pub struct SystemClock {
    /// The latest time that was ahead of this clock, in milliseconds since the epoch, and when that was.
    latest: Mutex<Option<(i64, Instant)>>,
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The time that has passed since `from` at `at`.
fn continued(from: Option<(i64, Instant)>, at: Instant) -> Option<i64> {
    let (ms, since) = from?;
    let passed = i64::try_from(at.saturating_duration_since(since).as_millis()).unwrap_or(i64::MAX);
    Some(ms.saturating_add(passed))
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let (wall, at) = (wall_ms(), Instant::now());
        let mut latest = self.latest.lock();
        match continued(*latest, at) {
            Some(steady) if steady > wall => steady,
            Some(_) | None => {
                *latest = Some((wall, at));
                wall
            }
        }
    }

    fn continue_from(&self, last_ms: i64) {
        let ahead = last_ms.saturating_sub(self.now_ms());
        if ahead > 0 {
            *self.latest.lock() = Some((last_ms, Instant::now()));
        }
        if ahead > AHEAD_MS {
            let ahead_s = ahead / 1000;
            tracing::warn!(
                ahead_s,
                "the last write of the store is in the future of the system's clock; expiry and retention follow the \
                 time of the store"
            );
        }
    }
}

/// A store that is ahead by more than this is reported, milliseconds.
const AHEAD_MS: i64 = 60_000;

/// A clock that is set manually, for tests.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that stands at this time.
    pub fn new(now_ms: i64) -> Self {
        ManualClock(AtomicI64::new(now_ms))
    }

    /// Sets the time, forwards or backwards.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_continues_from_a_stamp_in_the_future() {
        let clock = SystemClock::default();
        let year_ms = 365 * 24 * 3600 * 1000;
        let future = wall_ms() + 10 * year_ms;
        clock.continue_from(future);
        let now = clock.now_ms();
        assert!(now >= future && now < future + year_ms, "{now}");
        let start = Instant::now();
        assert_eq!(continued(Some((5, start)), start + Duration::from_millis(70)), Some(75));
        clock.continue_from(0);
        assert!(clock.now_ms() >= now, "an earlier stamp changes nothing");
    }
}
