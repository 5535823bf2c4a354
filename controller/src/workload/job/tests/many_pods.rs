//! Jobs with many pods.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use orlop_apimachinery::thread_time::assert_linear;
use orlop_client::names::ANN_JOB_COMPLETION_INDEX;
use orlop_client::packed_object::GETS;
use serde_json::{Value, json};

use super::{decoded, job};
use crate::options::Options;
use crate::testing::FakeApi;
use crate::workload::job::assess::{JobInput, JobState, assess};
use crate::workload::job::backoff::Backoff;
use crate::workload::job::conclude::{Performed, conclude};
use crate::workload::job::manage::{Action, action};
use crate::workload::job::run;
use crate::workload::testing::{keys, start_after};

/// Running pods with the index 0.
fn pods(count: usize) -> Vec<Arc<Pod>> {
    let pod = |nth: usize| {
        let meta = json!({"namespace": "ns", "name": format!("p{nth}"), "uid": format!("p{nth}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {ANN_JOB_COMPLETION_INDEX: "0"}});
        let pod = json!({"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Running"}});
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    (0..count).map(pod).collect()
}

fn decide<T>(
    spec: Value,
    status: Value,
    pods: &[Arc<Pod>],
    test: impl FnOnce(&JobInput<'_>, JobState) -> T,
) -> T {
    let mut job = job(spec);
    job["status"] = status;
    let job = decoded(job);
    let input = JobInput {
        job: &job,
        spec: job.spec.as_ref().unwrap(),
        pods,
        untracked: &HashSet::new(),
        is_current: true,
        backoff: Backoff::default(),
        now: "2026-01-01T01:00:00Z".parse().unwrap(),
    };
    let state = assess(&input);
    test(&input, state)
}

fn deletions(spec: Value, status: Value, pods: &[Arc<Pod>]) -> usize {
    decide(spec, status, pods, |input, state| match action(input, &state) {
        Action::Delete(pods) | Action::Stop(pods) => pods.len(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn one_sync_deletes_a_limited_number_of_pods_unless_the_job_ends() {
    let spec = |change: Value| {
        let mut spec = json!({"parallelism": 600, "completions": 600, "activeDeadlineSeconds": 3600});
        crate::testing::merge_into(&mut spec, &change);
        spec
    };
    let started = json!({"startTime": "2026-01-01T00:00:00Z"});
    let pods = pods(600);
    let table = [
        ("1 suspended", spec(json!({"suspend": true})), json!({}), 500),
        ("2 parallelism", spec(json!({"parallelism": 10})), json!({}), 500),
        ("3 the deadline has passed", spec(json!({})), started, 600),
    ];
    for (name, spec, status, wanted) in table {
        assert_eq!(deletions(spec, status, &pods), wanted, "{name}");
    }
}

#[test]
fn many_pods_of_one_index_have_linear_cost() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 2, "completions": 2});
    assert_linear("surplus", 1_000, pods, |pods| deletions(spec.clone(), json!({}), pods));
}

#[test]
fn pods_that_no_longer_existed_are_not_terminating() {
    let status = json!({"startTime": "2026-01-01T00:00:00Z"});
    let spec = json!({"parallelism": 3, "completions": 3, "activeDeadlineSeconds": 60});
    let pods = pods(3);
    decide(spec, status, &pods, |input, mut state| {
        let action = action(input, &state);
        let performed = Performed { deleted: pods[..1].to_vec(), gone: pods[1..].to_vec(), created: 0 };
        conclude(input, &mut state, &action, &performed);
        assert_eq!((state.status.active, state.status.terminating), (None, Some(1)));
        assert!(state.end.is_some(), "all pods were stopped");
    });
}

#[tokio::test(start_paused = true)]
async fn few_requests_are_sent_concurrently() {
    for change in [json!({"suspend": true}), json!({"activeDeadlineSeconds": 1})] {
        let api = FakeApi::new();
        api.seed(job(json!({"parallelism": 100, "completions": 100})));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counting = (Arc::clone(&running), Arc::clone(&most));
        let _running = start_after(&api, run, move |_| {
            let (running, most) = counting.clone();
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
                running.fetch_sub(1, Ordering::SeqCst);
            }
        });
        api.settle().await;
        assert_eq!(keys(&api, "pods").len(), 100);
        api.patch("jobs", "ns/j", "", json!({"spec": change}));
        api.settle().await;
        assert_eq!(keys(&api, "pods").len(), 0, "{change}");
        let most = most.load(Ordering::SeqCst);
        assert!((2..=32).contains(&most), "{most} concurrent requests, {change}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_of_a_pod_of_a_finished_job_does_not_read_the_others() {
    let api = FakeApi::new();
    let mut finished = job(json!({}));
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let owner =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": true}]);
    let count = 40;
    for nth in 0..count {
        let finalizers = if nth == 0 { json!(["batch.kubernetes.io/job-tracking"]) } else { Value::Null };
        let meta = json!({"namespace": "ns", "name": format!("p{nth}"), "ownerReferences": owner, "finalizers": finalizers});
        api.seed(json!({"kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": {"phase": "Succeeded"}}));
    }
    api.seed(finished);
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert!(api.list("pods").iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "one search");
    let before = GETS.get();
    for key in keys(&api, "pods") {
        api.delete("pods", &key);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let reads = GETS.get() - before;
    assert!(reads <= 8 * count, "{reads} reads for {count} deletions");
}
