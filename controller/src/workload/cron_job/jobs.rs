//! The Jobs of a CronJob: their names and objects, and those beyond the history limits. Pure functions.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job, JobCondition, JobStatus};
use kube::ResourceExt;
use kube::core::ObjectMeta;
use orlop_apimachinery::cron::time_zone;
use orlop_client::names::ANN_CRON_JOB_SCHEDULED_TIMESTAMP;

use crate::workload::job::end_of;
use crate::workload::owned::controller_reference;

/// The name of the Job for a time: the time in minutes is part of it.
pub fn job_name(cron: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", cron.name_any(), at.as_second() / 60)
}

/// The Job for a time.
pub fn new_job(cron: &CronJob, at: Timestamp) -> Job {
    let zone = cron.spec.time_zone.as_deref().and_then(time_zone).unwrap_or(TimeZone::UTC);
    let template = cron.spec.job_template.clone();
    let from = template.metadata.unwrap_or_default();
    let mut annotations = from.annotations.unwrap_or_default();
    annotations.insert(ANN_CRON_JOB_SCHEDULED_TIMESTAMP.to_owned(), rfc3339(at, zone));
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron, at)),
            namespace: cron.metadata.namespace.clone(),
            labels: from.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

fn rfc3339(at: Timestamp, zone: TimeZone) -> String {
    let text = at.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    text.strip_suffix("+00:00").map(|text| format!("{text}Z")).unwrap_or(text)
}

/// The part of a Job from which its CronJob decides: the name, the UID, whether it has ended, and its times.
pub fn job_part(job: &Job) -> Job {
    let end = end_of(job).map(|end| JobCondition {
        type_: end.type_.clone(),
        status: end.status.clone(),
        ..JobCondition::default()
    });
    Job {
        metadata: ObjectMeta {
            name: job.metadata.name.clone(),
            namespace: job.metadata.namespace.clone(),
            uid: job.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        spec: None,
        status: job.status.as_ref().map(|status| JobStatus {
            conditions: end.map(|end| vec![end]),
            start_time: status.start_time.clone(),
            completion_time: status.completion_time.clone(),
            ..JobStatus::default()
        }),
    }
}

/// The oldest finished Jobs beyond the limits: first the successful ones, then the failed ones.
pub fn surplus(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let spec = &cron.spec;
    let limits =
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    let mut surplus = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit else { continue };
        let ended = jobs.iter().filter(|job| end_of(job).is_some_and(|condition| condition.type_ == end));
        let mut ended: Vec<_> = ended.cloned().collect();
        ended.sort_by_cached_key(|job| {
            let start = job.status.as_ref().and_then(|status| status.start_time.clone());
            (start.is_none(), start, job.name_any())
        });
        ended.truncate(ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0)));
        surplus.append(&mut ended);
    }
    surplus
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn cron(spec: Value) -> CronJob {
        let mut cron = json!({"metadata": {"namespace": "ns", "name": "c", "uid": "u"}, "spec": {"schedule": "0 0 1 1 *",
            "jobTemplate": {"metadata": {"labels": {"from": "cron"}, "annotations": {"note": "n"}},
                "spec": {"suspend": true, "template": {}}}}});
        crate::testing::merge_into(&mut cron["spec"], &spec);
        serde_json::from_value(cron).unwrap()
    }

    #[test]
    fn job_has_the_time_in_its_name_and_annotation() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (name, spec, time) in [
            ("1 ctl-cron-missed", json!({}), "2026-01-01T00:00:00Z"),
            ("2 UTC", json!({"timeZone": "Etc/UTC"}), "2026-01-01T00:00:00Z"),
            ("3 another time zone", json!({"timeZone": "America/New_York"}), "2025-12-31T19:00:00-05:00"),
        ] {
            let job = serde_json::to_value(new_job(&cron(spec), at)).unwrap();
            assert_eq!(
                job["metadata"],
                json!({"namespace": "ns", "name": "c-29453760", "labels": {"from": "cron"},
                    "annotations": {"note": "n", "batch.kubernetes.io/cronjob-scheduled-timestamp": time},
                    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u",
                        "controller": true, "blockOwnerDeletion": true}]}),
                "{name}"
            );
            assert_eq!(job["spec"]["suspend"], true, "{name}");
        }
    }

    #[test]
    fn oldest_finished_jobs_are_beyond_the_limits() {
        let job = |name: &str, start: Option<&str>, end: &str| -> Arc<Job> {
            Arc::new(
                serde_json::from_value(json!({"metadata": {"name": name}, "status": {"startTime": start,
                    "conditions": [{"type": end, "status": "True"}]}}))
                .unwrap(),
            )
        };
        let jobs = [
            job("s2", Some("2026-01-01T02:00:00Z"), "Complete"),
            job("s0", None, "Complete"),
            job("s1", Some("2026-01-01T01:00:00Z"), "Complete"),
            job("f1", Some("2026-01-01T01:00:00Z"), "Failed"),
            job("running", Some("2026-01-01T00:00:00Z"), "Suspended"),
        ];
        let both = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
        let table = [
            ("1 ctl-cron-history", both, &["s1", "s2", "f1"][..]),
            (
                "2 within the limits",
                json!({"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}),
                &[],
            ),
            ("3 no limits", json!({}), &[]),
        ];
        for (name, spec, wanted) in table {
            let parts: Vec<_> = jobs.iter().map(|job| Arc::new(job_part(job))).collect();
            for jobs in [&jobs[..], &parts] {
                let surplus = surplus(&cron(spec.clone()), jobs);
                let names: Vec<String> = surplus.iter().map(|job| job.name_any()).collect();
                assert_eq!(names, wanted, "{name}");
            }
        }
    }
}
