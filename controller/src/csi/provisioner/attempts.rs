//! Failed attempts and their backoff: 1 s, doubling up to 5 min (upstream: external-provisioner's
//! `--retry-interval-start` and `-max`). Changes of an object arrive at any time and do not shorten the delay, unless they
//! change the request.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// First and longest delay.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// A hash of a request's input. A request with a different hash starts without delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of(parts: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Fingerprint(hasher.finish())
    }
}

struct Attempt {
    failures: u32,
    not_before: Instant,
    of: Fingerprint,
}

/// Failures by UID.
#[derive(Default)]
pub(super) struct Attempts {
    known: Mutex<HashMap<String, Attempt>>,
}

impl Attempts {
    /// The remaining delay; none when the request may be tried now.
    pub(super) fn wait(&self, uid: &str, of: Fingerprint) -> Option<Duration> {
        let mut known = self.known();
        let attempt = known.get(uid)?;
        if attempt.of != of {
            known.remove(uid);
            return None;
        }
        let left = attempt.not_before.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Records a failure and returns the delay. `slow` skips to the longest one.
    pub(super) fn failed(&self, uid: &str, of: Fingerprint, slow: bool) -> Duration {
        let mut known = self.known();
        let failures =
            known.get(uid).filter(|attempt| attempt.of == of).map_or(0, |attempt| attempt.failures);
        let doubled = WAITS.0.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        let delay = if slow { WAITS.1 } else { doubled.min(WAITS.1) };
        let attempt =
            Attempt { failures: failures.saturating_add(1), not_before: Instant::now() + delay, of };
        known.insert(uid.to_owned(), attempt);
        delay
    }

    /// Removes the delay of the next attempt, because its obstacle has changed.
    pub(super) fn hurry(&self, uid: &str) {
        if let Some(attempt) = self.known().get_mut(uid) {
            attempt.not_before = Instant::now();
        }
    }

    /// The attempt succeeded, or the object is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.known().remove(uid);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Attempt>> {
        self.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delay_doubles_and_another_request_has_none() {
        let (attempts, one, other) = (Attempts::default(), Fingerprint::of(1), Fingerprint::of(2));
        let waits: Vec<u64> = (0..11).map(|_| attempts.failed("u", one, false).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(attempts.wait("u", one), Some(Duration::from_secs(300)));
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(attempts.wait("u", one), None);
        assert_eq!(attempts.failed("u", one, false).as_secs(), 300, "it is still the same request");
        assert_eq!(attempts.wait("u", other), None);
        assert_eq!(attempts.failed("u", other, false).as_secs(), 1);
        assert_eq!(attempts.failed("u", other, true).as_secs(), 300, "slow");
        attempts.hurry("u");
        assert_eq!(attempts.wait("u", other), None);
        attempts.forget("u");
        assert_eq!(attempts.failed("u", other, false).as_secs(), 1);
    }
}
