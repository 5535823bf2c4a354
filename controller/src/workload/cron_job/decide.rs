//! Decides whether a CronJob starts a Job. Pure functions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::ObjectReference;

use super::jobs::job_name;

/// The decision about a due time.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// The starting deadline has passed.
    TooLate,
    /// The Job of this time was started.
    Done,
    /// A Job is still running, and the concurrency policy is Forbid.
    Forbidden,
    /// Delete the running Jobs, then start one: the concurrency policy is Replace.
    Replace,
    /// Start a Job.
    Now,
}

/// The running Jobs in the status.
pub fn active(cron: &CronJob) -> &[ObjectReference] {
    let active = cron.status.as_ref().and_then(|status| status.active.as_deref());
    active.unwrap_or_default()
}

/// Whether the status lists the Job as running.
pub fn is_active(cron: &CronJob, uid: Option<&str>) -> bool {
    active(cron).iter().any(|job| job.uid.as_deref() == uid)
}

/// Removes a Job from the list, and returns whether it was there.
pub fn remove_active(cron: &mut CronJob, uid: Option<&str>) -> bool {
    let status = cron.status.get_or_insert_default();
    let Some(list) = &mut status.active else { return false };
    let before = list.len();
    list.retain(|job| job.uid.as_deref() != uid);
    let found = list.len() < before;
    if list.is_empty() {
        status.active = None;
    }
    found
}

/// Decides about a due time.
pub fn start(cron: &CronJob, due: Timestamp, now: Timestamp) -> Start {
    let end = cron
        .spec
        .starting_deadline_seconds
        .and_then(|seconds| due.checked_add(SignedDuration::from_secs(seconds)).ok());
    if end.is_some_and(|end| end < now) {
        return Start::TooLate;
    }
    let name = job_name(cron, due);
    let is_listed = active(cron).iter().any(|job| job.name.as_ref() == Some(&name));
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    if is_listed || last.is_some_and(|last| last.0 == due) {
        return Start::Done;
    }
    match cron.spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active(cron).is_empty() => Start::Forbidden,
        Some("Replace") => Start::Replace,
        _ => Start::Now,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn deadline_status_and_concurrency_policy_decide() {
        let due: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let minutes = due.as_second() / 60;
        let same = json!([{"name": format!("c-{minutes}"), "uid": "1"}]);
        let other = json!([{"name": "c-1", "uid": "2"}]);
        let table = [
            ("1 ctl-cron-missed", json!({}), json!({}), Start::Now),
            ("2 in time", json!({"startingDeadlineSeconds": 60}), json!({}), Start::Now),
            ("3 too late", json!({"startingDeadlineSeconds": 29}), json!({}), Start::TooLate),
            ("4 started", json!({}), json!({"lastScheduleTime": due.to_string()}), Start::Done),
            ("5 running", json!({"concurrencyPolicy": "Replace"}), json!({"active": same}), Start::Done),
            ("6 ctl-cron-allow", json!({"concurrencyPolicy": "Allow"}), json!({"active": other}), Start::Now),
            (
                "7 forbidden",
                json!({"concurrencyPolicy": "Forbid"}),
                json!({"active": other}),
                Start::Forbidden,
            ),
            ("8 nothing runs", json!({"concurrencyPolicy": "Forbid"}), json!({}), Start::Now),
            (
                "9 ctl-cron-replace",
                json!({"concurrencyPolicy": "Replace"}),
                json!({"active": other}),
                Start::Replace,
            ),
        ];
        for (name, spec, status, wanted) in table {
            let mut cron =
                json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {}}});
            crate::testing::merge_into(&mut cron["spec"], &spec);
            cron["status"] = status;
            let cron: CronJob = serde_json::from_value(cron).unwrap();
            assert_eq!(start(&cron, due, due + SignedDuration::from_secs(30)), wanted, "{name}");
        }
    }

    #[test]
    fn empty_list_is_removed() {
        let status: Value = json!({"active": [{"name": "a", "uid": "1"}, {"name": "b", "uid": "2"}]});
        let mut cron: CronJob = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
        assert!(is_active(&cron, Some("1")) && !remove_active(&mut cron, Some("3")));
        assert!(remove_active(&mut cron, Some("1")) && !is_active(&cron, Some("1")));
        assert!(remove_active(&mut cron, Some("2")));
        assert_eq!(cron.status.unwrap().active, None);
    }
}
