//! Observes the Jobs of a CronJob, and decides whether it starts another one. Pure functions.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use orlop_client::names::reason;
use orlop_client::recorder::EventType;

use super::jobs::job_name;
use crate::workload::job::end_of;

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

/// The UIDs of Jobs. References in the status may lack them.
pub type Uids = HashSet<Option<String>>;

/// Removes Jobs from the list of running Jobs, and returns whether one of them was there.
pub fn remove_active(cron: &mut CronJob, uids: &Uids) -> bool {
    let status = cron.status.get_or_insert_default();
    let Some(list) = &mut status.active else { return false };
    let before = list.len();
    list.retain(|job| !uids.contains(&job.uid));
    let found = list.len() < before;
    if list.is_empty() {
        status.active = None;
    }
    found
}

/// The unfinished Jobs that the status does not list as running.
pub fn unlisted(cron: &CronJob, jobs: &[Arc<Job>]) -> Uids {
    let listed: HashSet<&Option<String>> = active(cron).iter().map(|job| &job.uid).collect();
    let unfinished = jobs.iter().filter(|job| end_of(job).is_none()).map(|job| &job.metadata.uid);
    unfinished.filter(|uid| !listed.contains(uid)).cloned().collect()
}

/// An event about a CronJob.
#[derive(Debug)]
pub struct JobEvent {
    /// Its type.
    pub type_: EventType,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

/// The result of [`observe`].
#[derive(Debug, Default)]
pub struct Observed {
    /// The events to record.
    pub events: Vec<JobEvent>,
    /// Whether the status has changed.
    pub is_changed: bool,
}

/// Removes finished Jobs from the list of running Jobs, and sets the time of the last success.
pub fn observe(cron: &mut CronJob, jobs: &[Arc<Job>]) -> Observed {
    let listed: Uids = active(cron).iter().map(|job| job.uid.clone()).collect();
    let (mut found, mut ended) = (Observed::default(), Uids::new());
    for job in jobs {
        let (name, uid) = (job.name_any(), &job.metadata.uid);
        let Some(end) = end_of(job) else {
            if !listed.contains(uid) {
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                let (type_, reason) = (EventType::Warning, reason::UNEXPECTED_JOB);
                found.events.push(JobEvent { type_, reason, message });
            }
            continue;
        };
        if listed.contains(uid) {
            ended.insert(uid.clone());
            let message = format!("Saw completed job: {name}, status: {}", end.type_);
            let (type_, reason) = (EventType::Normal, reason::SAW_COMPLETED_JOB);
            found.events.push(JobEvent { type_, reason, message });
        }
        let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let last = &mut cron.status.get_or_insert_default().last_successful_time;
        if end.type_ == "Complete" && completed > *last {
            *last = completed;
            found.is_changed = true;
        }
    }
    found.is_changed |= remove_active(cron, &ended);
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

    use orlop_apimachinery::thread_time::assert_linear;
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
        let uid = |uid: &str| Uids::from([Some(uid.to_owned())]);
        assert!(is_active(&cron, Some("1")) && !remove_active(&mut cron, &uid("3")));
        assert!(remove_active(&mut cron, &uid("1")) && !is_active(&cron, Some("1")));
        assert!(remove_active(&mut cron, &uid("2")));
        assert_eq!(cron.status.unwrap().active, None);
    }

    /// `ended` finished Jobs with the UIDs from 0, then `running` unfinished ones.
    fn jobs(ended: usize, running: usize) -> Vec<Arc<Job>> {
        let job = |uid: usize| {
            let conditions =
                json!([{"type": "Complete", "status": if uid < ended { "True" } else { "False" }}]);
            let status = json!({"conditions": conditions, "completionTime": format!("2026-01-01T00:00:{:02}Z", uid % 60)});
            let job =
                json!({"metadata": {"name": format!("j{uid}"), "uid": uid.to_string()}, "status": status});
            Arc::new(serde_json::from_value(job).unwrap())
        };
        (0..ended + running).map(job).collect()
    }

    /// A CronJob that lists the Jobs with these UIDs.
    fn listing(uids: impl Iterator<Item = usize>) -> CronJob {
        let list: Vec<_> =
            uids.map(|uid| json!({"name": format!("j{uid}"), "uid": uid.to_string()})).collect();
        serde_json::from_value(json!({"metadata": {"name": "c"}, "status": {"active": list}})).unwrap()
    }

    #[test]
    fn finished_jobs_leave_the_list_and_unlisted_jobs_are_reported() {
        let (mut cron, jobs) = (listing([1, 2].into_iter()), jobs(2, 2));
        assert_eq!(unlisted(&cron, &jobs), Uids::from([Some("3".to_owned())]));
        let found = observe(&mut cron, &jobs);
        let events: Vec<_> =
            found.events.iter().map(|event| (event.reason, event.message.as_str())).collect();
        assert_eq!(
            events,
            [
                ("SawCompletedJob", "Saw completed job: j1, status: Complete"),
                ("UnexpectedJob", "Saw a job that the controller did not create or forgot: j3"),
            ]
        );
        assert!(found.is_changed && active(&cron).len() == 1 && is_active(&cron, Some("2")));
        let last = cron.status.as_ref().unwrap().last_successful_time.clone().unwrap();
        assert_eq!(last.0.to_string(), "2026-01-01T00:00:01Z");
        let again = observe(&mut cron, &jobs);
        assert_eq!((again.is_changed, again.events.len()), (false, 1));
    }

    #[test]
    fn cost_is_linear_in_the_jobs() {
        let input = |n: usize| (listing(0..n), jobs(n / 2, n));
        assert_linear("observe", 500, input, |(cron, jobs)| {
            let mut cron = cron.clone();
            (unlisted(&cron, jobs).len(), observe(&mut cron, jobs).events.len())
        });
    }
}
