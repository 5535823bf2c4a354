//! Computes the due time of a CronJob. Pure functions.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};
use orlop_apimachinery::cron::{Schedule, time_zone};

/// The delay after a time of the schedule, so that the sync does not run too early. Upstream: nextScheduleDelta.
const DELTA: Duration = Duration::from_millis(100);
/// More missed times than this are reported.
const MANY: i64 = 100;

/// The error of a schedule without times, such as that of February 31.
const NO_TIMES: &str = "time difference between two schedules is less than 1 second";

/// Whether the schedule contains a time zone, which is not officially supported.
pub fn has_zone(spec: &CronJobSpec) -> bool {
    spec.schedule.contains("TZ")
}

/// The schedule in the time zone of the CronJob.
///
/// # Errors
/// The reason why the schedule is invalid.
pub fn schedule(spec: &CronJobSpec) -> Result<Schedule, String> {
    let zone = spec.time_zone.as_deref().filter(|name| !has_zone(spec) && time_zone(name).is_some());
    match zone {
        Some(zone) => Schedule::parse(&format!("TZ={zone} {}", spec.schedule)),
        None => Schedule::parse(&spec.schedule),
    }
}

/// A time at which a Job is due.
#[derive(Debug, PartialEq, Eq)]
pub struct Due {
    /// The last time of the schedule that is not in the future.
    pub at: Timestamp,
    /// Whether more than 100 times were missed.
    pub missed_many: bool,
}

/// The times of the schedule since the last Job.
struct Recent {
    /// The time of the last Job, or of the creation of the CronJob.
    since: Timestamp,
    last: Option<Timestamp>,
    missed: i64,
}

/// The time at which a Job is due; `None` if the next time is in the future, or the starting deadline of the last one has passed.
///
/// # Errors
/// The schedule has no times.
pub fn due(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Result<Option<Due>, &'static str> {
    let deadline = cron.spec.starting_deadline_seconds;
    let earliest = deadline.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
    let recent = recent(cron, schedule, now, earliest)?;
    Ok(recent.last.map(|at| Due { at, missed_many: recent.missed > MANY }))
}

/// The delay until the next time of the schedule; `None` if it has none.
pub fn next_in(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Duration> {
    let after = match recent(cron, schedule, now, None) {
        Err(_) => now,
        Ok(Recent { last: Some(last), .. }) => last,
        Ok(Recent { since, missed: 0, .. }) => since,
        Ok(_) => now,
    };
    let left = Duration::try_from(schedule.next(after)?.duration_since(now)).unwrap_or_default();
    Some(left + DELTA)
}

fn recent(
    cron: &CronJob,
    schedule: &Schedule,
    now: Timestamp,
    earliest: Option<Timestamp>,
) -> Result<Recent, &'static str> {
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let since = last.or(cron.metadata.creation_timestamp.as_ref()).map_or(now, |time| time.0);
    let since = earliest.map_or(since, |earliest| since.max(earliest));
    let first = schedule.next(since).ok_or(NO_TIMES)?;
    if now < first {
        return Ok(Recent { since, last: None, missed: 0 });
    }
    let second = schedule.next(first);
    if second.is_some_and(|second| now < second) {
        return Ok(Recent { since, last: Some(first), missed: 1 });
    }
    let interval = second.ok_or(NO_TIMES)?.duration_since(first).as_secs();
    if interval < 1 {
        return Err(NO_TIMES);
    }
    // An estimate, because the times of a schedule may have different intervals.
    let missed = now.duration_since(first).as_secs() / interval + 1;
    let skipped = SignedDuration::from_secs((missed - 2).saturating_mul(interval));
    // As upstream, the times before this one do not count: if the estimate is too high, no time is due.
    let last = first.checked_add(skipped).ok().and_then(|after| schedule.last(after, now));
    Ok(Recent { since, last, missed })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn cron(schedule: &str, last: Option<&str>, deadline: Option<i64>) -> CronJob {
        let status: Value = last.map_or(json!({}), |last| json!({"lastScheduleTime": last}));
        serde_json::from_value(json!({"metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:30Z"},
            "spec": {"schedule": schedule, "timeZone": "Etc/UTC", "startingDeadlineSeconds": deadline, "jobTemplate": {}},
            "status": status}))
        .unwrap()
    }

    #[test]
    fn last_missed_time_is_due() {
        // Name, schedule, last time, starting deadline, now, due time, delay until the next time in milliseconds.
        type Row = (
            &'static str,
            &'static str,
            Option<&'static str>,
            Option<i64>,
            &'static str,
            Option<&'static str>,
            u64,
        );
        let table: [Row; 10] = [
            ("1 new", "* * * * *", None, None, "2026-01-01T00:00:40Z", None, 20_100),
            (
                "2 first time",
                "* * * * *",
                None,
                None,
                "2026-01-01T00:01:00Z",
                Some("2026-01-01T00:01:00Z"),
                60_100,
            ),
            (
                "3 one time missed",
                "0 * * * *",
                Some("2026-01-01T01:00:00Z"),
                None,
                "2026-01-01T02:30:00Z",
                Some("2026-01-01T02:00:00Z"),
                1_800_100,
            ),
            (
                "4 ctl-cron-missed",
                "0 0 1 1 *",
                Some("2024-06-01T00:00:00Z"),
                None,
                "2026-11-26T00:00:00Z",
                Some("2026-01-01T00:00:00Z"),
                36 * 86_400_000 + 100,
            ),
            (
                "5 irregular times, whose estimated number is too high",
                "30 6-16/4 * * 1-5",
                Some("2026-01-01T14:30:00Z"),
                None,
                "2026-01-11T12:00:00Z",
                None,
                66_600_100,
            ),
            (
                "6 within the starting deadline",
                "0 * * * *",
                Some("2026-01-01T01:00:00Z"),
                Some(3600),
                "2026-01-01T02:30:00Z",
                Some("2026-01-01T02:00:00Z"),
                1_800_100,
            ),
            (
                "7 after the starting deadline",
                "0 * * * *",
                Some("2026-01-01T01:00:00Z"),
                Some(60),
                "2026-01-01T02:30:00Z",
                None,
                1_800_100,
            ),
            (
                "8 interval",
                "@every 40m",
                Some("2026-01-01T00:10:00Z"),
                None,
                "2026-01-01T03:00:00Z",
                Some("2026-01-01T02:50:00Z"),
                1_800_100,
            ),
            (
                "9 an interval of months between many times",
                "* * * 1-6 *",
                Some("2020-06-30T23:58:30Z"),
                None,
                "2026-06-15T00:00:30Z",
                Some("2026-06-15T00:00:00Z"),
                30_100,
            ),
            (
                "10 done",
                "0 * * * *",
                Some("2026-01-01T01:00:00Z"),
                None,
                "2026-01-01T01:00:05Z",
                None,
                3_595_100,
            ),
        ];
        for (name, schedule_text, last, deadline, now, wanted, next) in table {
            let cron = cron(schedule_text, last, deadline);
            let (parsed, now) = (schedule(&cron.spec).unwrap(), now.parse().unwrap());
            let found = due(&cron, &parsed, now).unwrap();
            assert_eq!(found.map(|due| due.at.to_string()).as_deref(), wanted, "{name}");
            assert_eq!(next_in(&cron, &parsed, now), Some(Duration::from_millis(next)), "{name}");
        }
    }

    #[test]
    fn many_missed_times_and_no_times_are_recognized() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let of = |text: &str| {
            let cron = cron(text, None, None);
            let parsed = schedule(&cron.spec).unwrap();
            due(&cron, &parsed, now)
        };
        assert_eq!(of("*/15 * * * *").unwrap().map(|due| due.missed_many), Some(false), "96 times");
        assert_eq!(of("*/10 * * * *").unwrap().map(|due| due.missed_many), Some(true), "144 times");
        assert_eq!(of("0 0 31 2 *"), Err(NO_TIMES));
    }

    #[test]
    fn zone_in_the_schedule_takes_precedence() {
        let mut spec = cron("TZ=Europe/Berlin 0 9 * * *", None, None).spec;
        assert_eq!(schedule(&spec).unwrap(), Schedule::parse("TZ=Europe/Berlin 0 9 * * *").unwrap());
        spec.schedule = "0 9 * * *".to_owned();
        assert_eq!(schedule(&spec).unwrap(), Schedule::parse("TZ=Etc/UTC 0 9 * * *").unwrap());
        spec.time_zone = Some("Mars/Base".to_owned());
        assert_eq!(schedule(&spec).unwrap(), Schedule::parse("0 9 * * *").unwrap());
    }
}
