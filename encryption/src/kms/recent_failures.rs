//! Recent failures to decrypt a seed. Many values have the same seed, and a store decrypts them one after the other: without this
//! list, each of them would wait for the timeout of a plugin that is not available.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use orlop_store::TransformError;
use parking_lot::Mutex;

use super::object::SeedId;

/// How long decryptions fail without a call after a failure. Upstream polls a failing plugin at this interval.
const FAIL_FAST: Duration = Duration::from_secs(10);
/// The number of seeds in the list.
const CAPACITY: usize = 4096;

/// The recent failures of a provider.
#[derive(Default)]
pub(crate) struct RecentFailures(Mutex<Failures>);

#[derive(Default)]
struct Failures {
    /// The plugin did not respond.
    outage: Option<Failure>,
    /// The plugin refused a seed.
    seeds: HashMap<SeedId, Failure>,
}

struct Failure {
    error: TransformError,
    at: Instant,
}

impl Failure {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < FAIL_FAST
    }
}

impl RecentFailures {
    /// The error of the last call for a seed, if it is recent.
    pub(crate) fn find(&self, id: &SeedId, now: Instant) -> Option<TransformError> {
        let failures = self.0.lock();
        let found = [failures.outage.as_ref(), failures.seeds.get(id)];
        found
            .into_iter()
            .flatten()
            .find(|failure| failure.is_recent(now))
            .map(|failure| failure.error.clone())
    }

    /// Records that the plugin did not respond.
    pub(crate) fn note_outage(&self, error: TransformError, now: Instant) {
        self.0.lock().outage = Some(Failure { error, at: now });
    }

    /// Records that the plugin cannot decrypt a seed.
    pub(crate) fn note(&self, id: SeedId, error: TransformError, now: Instant) {
        let mut failures = self.0.lock();
        if failures.seeds.len() >= CAPACITY {
            failures.seeds.retain(|_, failure| failure.is_recent(now));
        }
        if failures.seeds.len() < CAPACITY {
            failures.seeds.insert(id, Failure { error, at: now });
        }
    }

    /// Records that the plugin responds again.
    pub(crate) fn end_outage(&self) {
        self.0.lock().outage = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_repeated_for_ten_seconds() {
        let (a, b) = ([1; 32], [2; 32]);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let failures = RecentFailures::default();
        let (refused, down) = (TransformError::from("refused"), TransformError::temporary("down"));
        failures.note(a, refused.clone(), start);
        let find = |id, seconds| failures.find(&id, after(seconds));
        assert_eq!((find(a, 9), find(a, 10), find(b, 0)), (Some(refused.clone()), None, None));
        failures.note_outage(down.clone(), after(5));
        assert_eq!((find(b, 14), find(b, 15)), (Some(down), None));
        failures.end_outage();
        assert_eq!((find(b, 6), find(a, 6)), (None, Some(refused)));
    }
}
