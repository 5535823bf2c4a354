//! Computes the times of a schedule.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::{Field, Fields, Schedule, Times};

/// A schedule without a time in this number of years has none, for example that of February 31.
const YEARS: i16 = 5;

impl Schedule {
    /// The first time after `after`; `None` if the schedule has none in the next five years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let second = Timestamp::from_second(after.as_second()).ok()?;
        match &self.times {
            Times::Every(interval) => second.checked_add(*interval).ok(),
            Times::Fields(fields) => {
                let zone = self.zone.clone().unwrap_or_else(TimeZone::system);
                let from = second.checked_add(SignedDuration::from_secs(1)).ok()?.to_zoned(zone);
                fields.first_from(from).map(|at| at.timestamp())
            }
        }
    }

    /// The last time that is after `after` and not after `until`.
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let first = self.next(after).filter(|at| *at <= until)?;
        match &self.times {
            Times::Every(interval) => {
                let interval = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX).max(1);
                let passed = until.as_second() - first.as_second();
                first.checked_add(SignedDuration::from_secs(passed - passed % interval)).ok()
            }
            Times::Fields(_) => Some(last_from(first, until, |after| self.next(after))),
        }
    }
}

/// The last time that is not after `until`; `first` is an earlier one. Halves the interval that contains it, because there may be one
/// time in each minute of many years.
fn last_from(first: Timestamp, until: Timestamp, next: impl Fn(Timestamp) -> Option<Timestamp>) -> Timestamp {
    // `last` is a time of the schedule, and none is after `end` and not after `until`.
    let (mut last, mut end) = (first, until.as_second());
    while last.as_second() < end {
        let middle = last.as_second() + (end - last.as_second()) / 2;
        let after_middle = Timestamp::from_second(middle).ok().and_then(&next);
        match after_middle.filter(|at| *at <= until) {
            Some(at) => last = at,
            None => end = middle,
        }
    }
    last
}

impl Field {
    fn contains(&self, value: i8) -> bool {
        u32::try_from(value)
            .is_ok_and(|value| self.values.checked_shr(value).is_some_and(|bits| bits & 1 == 1))
    }
}

impl Fields {
    /// The first matching time that is not before `at`: skips to the start of the next month, day, hour or minute as long as that
    /// unit does not match. An hour that a change of the clocks skips never matches, and one that it repeats matches twice.
    fn first_from(&self, mut at: Zoned) -> Option<Zoned> {
        let last_year = at.year().saturating_add(YEARS);
        while at.year() <= last_year {
            at = if !self.month.contains(at.month()) {
                at.last_of_month().ok()?.tomorrow().ok()?.start_of_day().ok()?
            } else if !self.has_day(&at) {
                at.tomorrow().ok()?.start_of_day().ok()?
            } else if !self.hour.contains(at.hour()) {
                let passed = 60 * i64::from(at.minute()) + i64::from(at.second());
                at.checked_add(SignedDuration::from_secs(3600 - passed)).ok()?
            } else if !self.minute.contains(at.minute()) || at.second() != 0 {
                at.checked_add(SignedDuration::from_secs(60 - i64::from(at.second()))).ok()?
            } else {
                return Some(at);
            };
        }
        None
    }

    fn has_day(&self, at: &Zoned) -> bool {
        let day = self.day.contains(at.day());
        let weekday = self.weekday.contains(at.weekday().to_sunday_zero_offset());
        if self.day.is_any || self.weekday.is_any { day && weekday } else { day || weekday }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn next_times_follow_the_fields() {
        // The schedule, the time before it, the next times.
        let table: [(&str, &str, &[&str]); 12] = [
            (
                "TZ=UTC */15 * * * *",
                "2026-01-01T00:00:00Z",
                &["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"],
            ),
            ("TZ=UTC * * * * *", "2026-01-01T00:00:59.5Z", &["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]),
            ("TZ=UTC @yearly", "2024-06-01T00:00:00Z", &["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]),
            ("TZ=UTC 30 6-16/4 * * 1-5", "2026-01-02T14:30:00Z", &["2026-01-05T06:30:00Z"]),
            // The 13th or a Friday, because neither field is `*`.
            (
                "TZ=UTC 0 0 13 * fri",
                "2026-01-08T00:00:00Z",
                &["2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"],
            ),
            // Every odd day: the weekday is `*`, so that the day decides.
            ("TZ=UTC 0 0 */2 * *", "2026-01-31T00:00:00Z", &["2026-02-01T00:00:00Z", "2026-02-03T00:00:00Z"]),
            ("TZ=UTC 0 0 29 2 *", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z"]),
            ("TZ=UTC 59 23 31 2 *", "2026-01-01T00:00:00Z", &[]),
            (
                "TZ=UTC @every 90m",
                "2026-01-01T00:00:00.7Z",
                &["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"],
            ),
            ("TZ=Europe/Berlin 0 9 * * *", "2026-07-01T12:00:00Z", &["2026-07-02T07:00:00Z"]),
            // Berlin has no 02:30 on March 29, and 02:30 twice on October 25.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", &["2026-03-30T00:30:00Z"]),
            (
                "TZ=Europe/Berlin 30 2 * * *",
                "2026-10-24T12:00:00Z",
                &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"],
            ),
        ];
        for (schedule, after, wanted) in table {
            let parsed = Schedule::parse(schedule).unwrap();
            let mut at: Timestamp = after.parse().unwrap();
            for wanted in wanted {
                at = parsed.next(at).unwrap();
                assert_eq!(at.to_string(), *wanted, "{schedule} after {after}");
            }
            if wanted.is_empty() {
                assert_eq!(parsed.next(at), None, "{schedule}");
            }
        }
    }

    #[test]
    fn last_time_is_that_which_stepping_finds() {
        let until: Timestamp = "2026-01-11T12:00:30.5Z".parse().unwrap();
        for schedule in [
            "TZ=UTC * * * * *",
            "TZ=UTC */7 3-5 * * 1-5",
            "TZ=UTC 0 12 11 1 *",
            "TZ=UTC 1 12 11 1 *",
            "TZ=UTC @every 90m",
            "TZ=UTC @every 17s",
            "TZ=UTC 0 0 31 2 *",
            "TZ=America/New_York 30 2 * * *",
        ] {
            let parsed = Schedule::parse(schedule).unwrap();
            for after in [
                "2025-10-20T00:00:00.2Z",
                "2026-01-11T11:59:50Z",
                "2026-01-11T12:00:30.5Z",
                "2026-02-01T00:00:00Z",
            ] {
                let after: Timestamp = after.parse().unwrap();
                let steps = std::iter::successors(parsed.next(after), |at| parsed.next(*at));
                let wanted = steps.take_while(|at| *at <= until).last();
                assert_eq!(parsed.last(after, until), wanted, "{schedule} after {after}");
            }
        }
    }

    #[test]
    fn last_of_many_times_is_found_in_few_steps() {
        let parsed = Schedule::parse("TZ=UTC * * * 1-6 *").unwrap();
        let time = |text: &str| -> Timestamp { text.parse().unwrap() };
        let steps = std::cell::Cell::new(0);
        let next = |after| {
            steps.set(steps.get() + 1);
            parsed.next(after)
        };
        let last = last_from(time("1970-01-01T00:01:00Z"), time("2026-12-01T00:00:00Z"), next);
        assert_eq!(last, time("2026-06-30T23:59:00Z"));
        assert!(steps.get() <= 64, "{}", steps.get());
    }
}
