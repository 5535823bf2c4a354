//! Delays the replacement of failed pods: 10 s after the first failure, twice as long after each further one, at most 10 min.
//! Pure functions.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::pod_facts::{ended_at, failures, ignored_failures};

/// The first delay. Upstream: DefaultJobPodFailureBackOff.
const FIRST: Duration = Duration::from_secs(10);
/// The longest delay. Upstream: MaxJobPodFailureBackOff.
const MAX: Duration = Duration::from_secs(600);

/// The failures of a Job since its last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    last: Option<Timestamp>,
}

impl Backoff {
    /// The failures after pods with these ends were observed.
    #[must_use]
    pub fn after(self, succeeded: impl IntoIterator<Item = Timestamp>, failed: &[Timestamp]) -> Self {
        let last_success = succeeded.into_iter().max();
        let before = if last_success.is_some() { Self::default() } else { self };
        let new = || failed.iter().filter(move |at| last_success.is_none_or(|success| **at > success));
        match new().max() {
            None => before,
            Some(last) => Self {
                failures: before.failures.saturating_add(u32::try_from(new().count()).unwrap_or(u32::MAX)),
                last: Some(*last),
            },
        }
    }

    /// The time until a pod may be created.
    pub fn remaining(&self, now: Timestamp) -> Duration {
        remaining(self.failures, self.last, now)
    }
}

/// The time until this last failed pod of an index may be replaced.
pub fn remaining_of_index(failed: Option<&Pod>, now: Timestamp) -> Duration {
    let Some(pod) = failed else { return Duration::ZERO };
    let count = failures(pod) + ignored_failures(pod) + 1;
    remaining(u32::try_from(count).unwrap_or(u32::MAX), Some(ended_at(pod)), now)
}

fn remaining(failures: u32, last: Option<Timestamp>, now: Timestamp) -> Duration {
    let (Some(last), 1..) = (last, failures) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
    let delay = FIRST.checked_mul(factor).unwrap_or(MAX).min(MAX);
    let end = last.saturating_add(delay).unwrap_or(last);
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn delay_doubles_with_each_failure_since_the_last_success() {
        let none = Backoff::default();
        let two = none.after([], &[at(100), at(90)]);
        // Name, the failures, the time now, the remaining seconds.
        let table = [
            ("1 no failure", none, 100, 0),
            ("2 one failure", none.after([], &[at(100)]), 104, 6),
            ("3 two failures", two, 100, 20),
            ("4 three failures", two.after([], &[at(110)]), 110, 40),
            ("5 no new pods", two.after([], &[]), 100, 20),
            ("6 a success", two.after([at(120)], &[]), 120, 0),
            ("7 a failure before the success", two.after([at(120)], &[at(110)]), 120, 0),
            ("8 failures around the success", two.after([at(120), at(115)], &[at(110), at(125)]), 125, 10),
            ("9 many failures", none.after([], &[at(100); 50]), 100, 600),
            ("10 the delay has passed", two, 200, 0),
        ];
        for (name, backoff, now, wanted) in table {
            assert_eq!(backoff.remaining(at(now)), Duration::from_secs(wanted), "{name}");
        }
    }
}
