//! Whole Jobs on the fake API server.

use std::time::Duration;

use serde_json::{Value, json};

use super::job;
use crate::options::Options;
use crate::testing::FakeApi;
use crate::workload::job::run;
use crate::workload::testing::keys;

fn status(api: &FakeApi) -> Value {
    api.get("jobs", "ns/j").unwrap()["status"].clone()
}

/// The types and reasons of the conditions that are True.
fn conditions(api: &FakeApi) -> Vec<(String, String)> {
    let status = status(api);
    let list = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let met = list.iter().filter(|condition| condition["status"] == "True");
    met.map(|condition| (text(&condition["type"]), text(&condition["reason"]))).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(one, two)| ((*one).to_owned(), (*two).to_owned())).collect()
}

fn set_phase(api: &FakeApi, key: &str, phase: &str) {
    api.patch("pods", key, "status", json!({"status": {"phase": phase}}));
}

/// Longer than a batch, and shorter than a backoff.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn job_runs_until_all_pods_have_succeeded() {
    let api = FakeApi::new();
    api.seed(job(json!({"completions": 3, "parallelism": 2})));
    let _running = api.start(&[run], Options::default());
    settle().await;
    let first = keys(&api, "pods");
    assert_eq!((first.len(), &status(&api)["active"]), (2, &json!(2)));
    assert_eq!(
        api.get("pods", &first[0]).unwrap()["metadata"]["finalizers"],
        json!(["batch.kubernetes.io/job-tracking"])
    );
    first.iter().for_each(|key| set_phase(&api, key, "Succeeded"));
    settle().await;
    let all = keys(&api, "pods");
    assert_eq!((all.len(), &status(&api)["succeeded"]), (3, &json!(2)));
    all.iter().for_each(|key| set_phase(&api, key, "Succeeded"));
    settle().await;
    let reached = "CompletionsReached";
    assert_eq!(conditions(&api), pairs(&[("SuccessCriteriaMet", reached), ("Complete", reached)]));
    let status = status(&api);
    assert_eq!(
        (&status["succeeded"], &status["uncountedTerminatedPods"], &status["terminating"], &status["active"]),
        (&json!(3), &json!({}), &json!(0), &Value::Null)
    );
    assert_eq!(status["completionTime"], status["conditions"][1]["lastTransitionTime"]);
    assert!(api.list("pods").iter().all(|pod| pod["metadata"]["finalizers"].is_null()));
    assert!(
        api.events().contains(&"Job ns/j Normal Completed Job completed".to_owned()),
        "{:?}",
        api.events()
    );
}

#[tokio::test(start_paused = true)]
async fn failed_job_stops_its_pods_before_it_ends() {
    let api = FakeApi::new();
    api.seed(job(json!({"completions": 2, "parallelism": 2, "backoffLimit": 0})));
    let _running = api.start(&[run], Options::default());
    settle().await;
    let pods = keys(&api, "pods");
    api.patch("pods", &pods[1], "", json!({"spec": {"nodeName": "n"}}));
    set_phase(&api, &pods[1], "Running");
    set_phase(&api, &pods[0], "Failed");
    settle().await;
    let reason = "BackoffLimitExceeded";
    assert_eq!(conditions(&api), pairs(&[("FailureTarget", reason)]), "a pod is still terminating");
    assert_eq!((&status(&api)["failed"], &status(&api)["terminating"]), (&json!(2), &json!(1)));
    api.delete_with("pods", &pods[1], json!({"gracePeriodSeconds": 0}));
    settle().await;
    assert_eq!(conditions(&api), pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    assert_eq!((&status(&api)["failed"], &status(&api)["terminating"]), (&json!(2), &json!(0)));
    let wanted = "Job ns/j Warning BackoffLimitExceeded Job has reached the specified backoff limit";
    assert!(api.events().contains(&wanted.to_owned()), "{:?}", api.events());
}

#[tokio::test(start_paused = true)]
async fn suspended_job_has_neither_pods_nor_start_time() {
    let api = FakeApi::new();
    api.seed(job(json!({"completions": 2, "parallelism": 2, "suspend": true})));
    let _running = api.start(&[run], Options::default());
    settle().await;
    assert_eq!((conditions(&api), keys(&api, "pods").len()), (pairs(&[("Suspended", "JobSuspended")]), 0));
    api.patch("jobs", "ns/j", "", json!({"spec": {"suspend": false}}));
    settle().await;
    assert_eq!((conditions(&api), keys(&api, "pods").len()), (Vec::new(), 2));
    assert_eq!(status(&api)["conditions"][0]["reason"], "JobResumed");
    assert!(status(&api)["startTime"].is_string());
    api.patch("jobs", "ns/j", "", json!({"spec": {"suspend": true}}));
    settle().await;
    assert_eq!((conditions(&api), keys(&api, "pods").len()), (pairs(&[("Suspended", "JobSuspended")]), 0));
    let status = status(&api);
    assert_eq!((&status["startTime"], &status["failed"]), (&Value::Null, &Value::Null), "{status}");
}

#[tokio::test(start_paused = true)]
async fn active_deadline_ends_a_job() {
    let api = FakeApi::new();
    api.seed(job(json!({"activeDeadlineSeconds": 30})));
    let _running = api.start(&[run], Options::default());
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(conditions(&api), Vec::new());
    settle().await;
    let reason = "DeadlineExceeded";
    assert_eq!(conditions(&api), pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    assert_eq!(keys(&api, "pods"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn orphan_is_adopted_with_the_finalizer_and_released_without_it() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p", "labels": {"job": "j"}}, "spec": {"containers": []}}));
    api.seed(job(json!({})));
    let _running = api.start(&[run], Options::default());
    settle().await;
    let meta = || api.get("pods", "ns/p").unwrap()["metadata"].clone();
    assert_eq!(meta()["ownerReferences"][0]["uid"], "uid-j");
    assert_eq!(meta()["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(keys(&api, "pods"), ["ns/p"]);
    api.patch("pods", "ns/p", "", json!({"metadata": {"labels": {"job": "other"}}}));
    settle().await;
    assert_eq!((&meta()["ownerReferences"], &meta()["finalizers"]), (&Value::Null, &Value::Null));
    assert_eq!(keys(&api, "pods").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_the_finalizer() {
    let api = FakeApi::new();
    api.seed(job(json!({"parallelism": 2, "completions": 2})));
    let _running = api.start(&[run], Options::default());
    settle().await;
    api.delete("jobs", "ns/j");
    settle().await;
    let pods = api.list("pods");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "{pods:?}");
}

#[tokio::test(start_paused = true)]
async fn job_of_another_controller_is_not_synced() {
    let api = FakeApi::new();
    api.seed(job(json!({"managedBy": "example.com/other"})));
    let _running = api.start(&[run], Options::default());
    settle().await;
    assert_eq!(api.take_writes(), []);
}
