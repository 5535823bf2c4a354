//! Tests of the controller on the fake API server, whose clock begins at 2026-01-01T00:00:00Z.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};

use super::run;
use crate::options::Options;
use crate::testing::FakeApi;
use crate::workload::testing::keys;

fn cron(spec: Value) -> Value {
    let mut cron = json!({"kind": "CronJob", "metadata": {"namespace": "ns", "name": "c", "uid": "uid-c"}, "spec": {
        "schedule": "* * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Allow", "suspend": false,
        "jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}});
    crate::testing::merge_into(&mut cron["spec"], &spec);
    cron
}

fn active(api: &FakeApi) -> Vec<String> {
    let status = api.get("cronjobs", "ns/c").unwrap()["status"].clone();
    let list = status["active"].as_array().cloned().unwrap_or_default();
    list.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
}

fn finish(api: &FakeApi, key: &str) {
    let conditions = json!([{"type": "Complete", "status": "True", "lastTransitionTime": api.now()}]);
    let status = json!({"status": {"conditions": conditions, "completionTime": api.now()}});
    api.patch("jobs", key, "status", status);
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

#[tokio::test(start_paused = true)]
async fn job_is_created_at_each_time_and_leaves_the_list_when_it_ends() {
    let api = FakeApi::new();
    api.seed(cron(json!({})));
    let _running = api.start(&[run], Options::default());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(keys(&api, "jobs"), Vec::<String>::new());
    minutes(1).await;
    assert_eq!(
        (keys(&api, "jobs"), active(&api)),
        (vec!["ns/c-29453761".to_owned()], vec!["c-29453761".to_owned()])
    );
    assert_eq!(api.get("cronjobs", "ns/c").unwrap()["status"]["lastScheduleTime"], "2026-01-01T00:01:00Z");
    minutes(1).await;
    assert_eq!(active(&api), ["c-29453761", "c-29453762"]);
    finish(&api, "ns/c-29453761");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(active(&api), ["c-29453762"]);
    assert!(api.get("cronjobs", "ns/c").unwrap()["status"]["lastSuccessfulTime"].is_string());
    let events = api.events();
    for wanted in [
        "CronJob ns/c Normal SuccessfulCreate Created job c-29453761",
        "CronJob ns/c Normal SawCompletedJob Saw completed job: c-29453761, status: Complete",
    ] {
        assert!(events.iter().any(|event| event == wanted), "{wanted}: {events:?}");
    }
    api.delete("jobs", "ns/c-29453762");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(active(&api), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn concurrency_policy_limits_the_running_jobs() {
    for (policy, jobs, event) in [
        ("Allow", &["ns/c-29453761", "ns/c-29453762"][..], "SuccessfulCreate Created job c-29453762"),
        (
            "Forbid",
            &["ns/c-29453761"],
            "JobAlreadyActive Not starting job because prior execution is running",
        ),
        ("Replace", &["ns/c-29453762"], "SuccessfulDelete Deleted job c-29453761"),
    ] {
        let api = FakeApi::new();
        api.seed(cron(json!({"concurrencyPolicy": policy})));
        let _running = api.start(&[run], Options::default());
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(keys(&api, "jobs"), jobs, "{policy}");
        assert!(api.events().iter().any(|shown| shown.contains(event)), "{policy}: {:?}", api.events());
    }
}

/// A running Job.
fn running_job(name: &str, uid: &str, owners: Value) -> Value {
    json!({"kind": "Job", "metadata": {"namespace": "ns", "name": name, "uid": uid, "ownerReferences": owners}, "spec": {"template": {}}})
}

#[tokio::test(start_paused = true)]
async fn another_job_with_the_name_of_a_listed_one_is_not_replaced() {
    let api = FakeApi::new();
    let mut listing = cron(json!({"concurrencyPolicy": "Replace"}));
    listing["status"] = json!({"active": [{"name": "c-1", "uid": "uid-1"}]});
    api.seed(listing);
    api.seed(running_job("c-1", "uid-other", json!([])));
    let _running = api.start(&[run], Options::default());
    minutes(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(keys(&api, "jobs"), ["ns/c-1", "ns/c-29453761"]);
    assert_eq!(active(&api), ["c-29453761"]);
}

#[tokio::test(start_paused = true)]
async fn cron_job_is_read_once_for_all_unlisted_jobs() {
    let api = FakeApi::new();
    api.seed(cron(json!({"suspend": true})));
    let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "uid-c", "controller": true}]);
    for nth in 0..20 {
        api.seed(running_job(&format!("j{nth}"), &format!("uid-{nth}"), owner.clone()));
    }
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let is_read = |request: &&String| request.as_str() == "GET /apis/batch/v1/namespaces/ns/cronjobs/c";
    assert_eq!(api.requests().iter().filter(is_read).count(), 1);
    // Most of these events are combined into one, in any order.
    let wanted =
        "CronJob ns/c Warning UnexpectedJob Saw a job that the controller did not create or forgot: j";
    assert!(api.events().iter().any(|event| event.starts_with(wanted)), "{:?}", api.events());
}

#[tokio::test(start_paused = true)]
async fn resumed_cron_job_starts_the_last_missed_job() {
    let api = FakeApi::new();
    api.seed(cron(json!({"suspend": true})));
    let _running = api.start(&[run], Options::default());
    tokio::time::sleep(Duration::from_secs(210)).await;
    assert_eq!(keys(&api, "jobs"), Vec::<String>::new());
    api.patch("cronjobs", "ns/c", "", json!({"spec": {"suspend": false}}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(keys(&api, "jobs"), ["ns/c-29453763"]);
}

#[tokio::test(start_paused = true)]
async fn schedule_without_times_is_reported() {
    let api = FakeApi::new();
    api.seed(cron(json!({"suspend": true})));
    let _running = api.start(&[run], Options::default());
    tokio::time::sleep(Duration::from_secs(90)).await;
    api.patch("cronjobs", "ns/c", "", json!({"spec": {"suspend": false, "schedule": "0 0 31 2 *"}}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let wanted = "CronJob ns/c Warning InvalidSchedule invalid schedule: 0 0 31 2 * : time difference between two schedules is \
                  less than 1 second";
    assert!(api.events().contains(&wanted.to_owned()), "{:?}", api.events());
}
