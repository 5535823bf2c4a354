//! The decision of one sync, for many Jobs and pods.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use orlop_client::names::{ANN_JOB_COMPLETION_INDEX, ANN_JOB_INDEX_FAILURE_COUNT, FINALIZER_JOB_TRACKING};
use serde_json::{Value, json};

use super::{decoded, job};
use crate::workload::job::assess::{JobInput, assess};
use crate::workload::job::backoff::Backoff;
use crate::workload::job::conclude::{Performed, conclude};
use crate::workload::job::manage::{Action, action};
use crate::workload::job::track::track;

const NOW: &str = "2026-01-01T01:00:00Z";

/// The pods in `NAME[#INDEX][*FAILURES]:STATE`, separated by spaces. The state is a phase, `Terminating` for a running pod that is
/// being deleted, or an exit code with which the pod failed at 00:00; a trailing `-` means that the pod has no finalizer.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(|pod| Arc::new(serde_json::from_value(pod_of(pod)).unwrap())).collect()
}

fn pod_of(text: &str) -> Value {
    let (name, state) = text.split_once(':').unwrap();
    let (name, failures) = name.split_once('*').map_or((name, None), |(name, count)| (name, Some(count)));
    let (name, index) = name.split_once('#').map_or((name, None), |(name, index)| (name, Some(index)));
    let (state, finalizers) = match state.strip_suffix('-') {
        Some(state) => (state, json!([])),
        None => (state, json!([FINALIZER_JOB_TRACKING])),
    };
    let mut pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "finalizers": finalizers,
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {}},
        "spec": {"containers": []}, "status": {"phase": state}});
    if let Some(index) = index {
        pod["metadata"]["annotations"][ANN_JOB_COMPLETION_INDEX] = json!(index);
    }
    if let Some(failures) = failures {
        pod["metadata"]["annotations"][ANN_JOB_INDEX_FAILURE_COUNT] = json!(failures);
    }
    if state == "Terminating" {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
        pod["status"]["phase"] = json!("Running");
    }
    if let Ok(code) = state.parse::<i32>() {
        pod["status"] = json!({"phase": "Failed", "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}}]});
    }
    pod
}

/// The action, and the status after it, in one line.
fn play(spec: Value, status: Value, pods_text: &str) -> String {
    let mut job = job(spec);
    job["status"] = status;
    let (job, pods) = (decoded(job), pods(pods_text));
    let input = JobInput {
        job: &job,
        spec: job.spec.as_ref().unwrap(),
        pods: &pods,
        untracked: &HashSet::new(),
        is_current: true,
        backoff: Backoff::default(),
        now: NOW.parse().unwrap(),
    };
    let mut state = assess(&input);
    let act = action(&input, &state);
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(",");
    let mut performed = Performed::default();
    let shown = match &act {
        Action::Skip => "skip".to_owned(),
        Action::Nothing => "nothing".to_owned(),
        Action::Stop(pods) => {
            performed.deleted.clone_from(pods);
            format!("stop [{}]", names(pods))
        }
        Action::Delete(pods) => {
            performed.deleted.clone_from(pods);
            format!("delete [{}]", names(pods))
        }
        Action::Create(indexes) => {
            performed.created = indexes.len();
            let index = |index: &Option<i64>| index.map_or("-".to_owned(), |index| index.to_string());
            format!("create [{}]", indexes.iter().map(index).collect::<Vec<_>>().join(","))
        }
        Action::Wait(delay) => format!("wait {}", delay.as_secs()),
    };
    let (must_write, _) = conclude(&input, &mut state, &act, &performed);
    let tracking = track(&input, &mut state, must_write);
    let lists = state.status.uncounted_terminated_pods.unwrap();
    let list = |list: Option<Vec<String>>| list.unwrap_or_default().join(",");
    let end = tracking.end.map(|end| format!(" {} {}", end.type_, end.reason.unwrap_or_default()));
    format!(
        "{shown} active {} +[{}] -[{}] free [{}]{}",
        state.status.active.unwrap_or(0),
        list(lists.succeeded),
        list(lists.failed),
        names(&tracking.untrack),
        end.unwrap_or_default()
    )
}

#[test]
fn jobs_without_indexes() {
    let two = json!({"completions": 2, "parallelism": 2});
    let policy = json!({"completions": 2, "parallelism": 2, "podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}});
    let failing =
        json!({"failed": 1, "conditions": [{"type": "FailureTarget", "status": "True", "reason": "R"}]});
    let table = [
        ("1 first pods", two.clone(), json!({}), "", "create [-,-] active 2 +[] -[] free []"),
        ("2 both run", two.clone(), json!({}), "a:Running b:Pending", "nothing active 2 +[] -[] free []"),
        (
            "3 one succeeded",
            two.clone(),
            json!({}),
            "a:Succeeded b:Running",
            "nothing active 1 +[a] -[] free [a]",
        ),
        (
            "4 all succeeded",
            two.clone(),
            json!({"succeeded": 1}),
            "a:Succeeded- b:Succeeded",
            "nothing active 0 +[b] -[] free [b] Complete CompletionsReached",
        ),
        (
            "5 listed, not counted",
            two.clone(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a"]}}),
            "a:Succeeded b:Running",
            "nothing active 1 +[a] -[] free [a]",
        ),
        (
            "6 one failed long ago",
            two.clone(),
            json!({}),
            "a:1 b:Running",
            "create [-] active 2 +[] -[a] free [a]",
        ),
        (
            "7 ctl-job-backoff-limit",
            json!({"completions": 2, "parallelism": 2, "backoffLimit": 0}),
            json!({}),
            "a:1 b:Pending",
            "stop [b] active 0 +[] -[a,b] free [a,b] Failed BackoffLimitExceeded",
        ),
        (
            "8 the limit is reached, not exceeded",
            json!({"completions": 2, "parallelism": 2, "backoffLimit": 1}),
            json!({}),
            "a:1 b:Running",
            "create [-] active 2 +[] -[a] free [a]",
        ),
        (
            "9 ctl-job-failure-policy",
            policy.clone(),
            json!({}),
            "a:42 b:Pending",
            "stop [b] active 0 +[] -[a,b] free [a,b] Failed PodFailurePolicy",
        ),
        ("10 ignored", policy.clone(), json!({}), "a:3 b:Running", "create [-] active 2 +[] -[] free [a]"),
        (
            "11 the policy awaits the end",
            policy,
            json!({}),
            "a:Terminating b:Running",
            "nothing active 1 +[] -[] free []",
        ),
        (
            "12 terminating pods count as failed",
            two.clone(),
            json!({}),
            "a:Terminating b:Running",
            "create [-] active 2 +[] -[a] free [a]",
        ),
        (
            "13 replaced only when failed",
            json!({"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"}),
            json!({}),
            "a:Terminating b:Running",
            "nothing active 1 +[] -[] free []",
        ),
        (
            "14 end determined earlier",
            two.clone(),
            failing,
            "a:Running",
            "stop [a] active 0 +[] -[a] free [a] Failed R",
        ),
        (
            "15 ctl-job-deadline",
            json!({"activeDeadlineSeconds": 60, "parallelism": 2, "completions": 2}),
            json!({"startTime": "2026-01-01T00:59:00Z"}),
            "a:Pending b:Pending",
            "stop [a,b] active 0 +[] -[a,b] free [a,b] Failed DeadlineExceeded",
        ),
        (
            "16 ctl-job-suspend",
            json!({"suspend": true, "parallelism": 2, "completions": 2}),
            json!({}),
            "a:Running b:Running",
            "delete [a,b] active 0 +[] -[] free []",
        ),
        (
            "17 scaled down",
            json!({"parallelism": 1, "completions": 5}),
            json!({}),
            "a:Running b:Pending",
            "delete [b] active 1 +[] -[] free []",
        ),
        (
            "18 work queue",
            json!({"parallelism": 3, "completions": null}),
            json!({}),
            "a:Running",
            "create [-,-] active 3 +[] -[] free []",
        ),
        (
            "19 work queue after a success",
            json!({"parallelism": 3, "completions": null}),
            json!({"succeeded": 1}),
            "a:Running",
            "nothing active 1 +[] -[] free []",
        ),
        (
            "20 no completions",
            json!({"completions": 0}),
            json!({}),
            "",
            "nothing active 0 +[] -[] free [] Complete CompletionsReached",
        ),
    ];
    for (name, spec, status, pods, wanted) in table {
        assert_eq!(play(spec, status, pods), wanted, "{name}");
    }
}

#[test]
fn failed_pods_are_replaced_with_a_delay() {
    let mut failed = pod_of("a:1");
    failed["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] =
        json!("2026-01-01T00:59:56Z");
    let job = decoded(job(json!({"completions": 2, "parallelism": 2})));
    let pods = [Arc::new(serde_json::from_value(failed).unwrap()), pods("b:Running").remove(0)];
    let input = JobInput {
        job: &job,
        spec: job.spec.as_ref().unwrap(),
        pods: &pods,
        untracked: &HashSet::new(),
        is_current: true,
        backoff: Backoff::default(),
        now: NOW.parse().unwrap(),
    };
    let state = assess(&input);
    assert!(matches!(action(&input, &state), Action::Wait(delay) if delay.as_secs() == 6));
    let again = JobInput { backoff: state.backoff, untracked: &HashSet::from(["a".to_owned()]), ..input };
    assert_eq!(assess(&again).backoff, state.backoff, "a pod counts once");
    let outdated = JobInput { is_current: false, ..again };
    assert!(matches!(action(&outdated, &assess(&outdated)), Action::Skip));
}

#[test]
fn jobs_with_indexes() {
    let indexed = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
        crate::testing::merge_into(&mut spec, &more);
        spec
    };
    let per_index = |limit: i32| indexed(json!({"backoffLimitPerIndex": limit, "backoffLimit": i32::MAX}));
    let table = [
        ("1 first pods", indexed(json!({})), json!({}), "", "create [0,1,2] active 3 +[] -[] free []"),
        (
            "2 missing index",
            indexed(json!({})),
            json!({"completedIndexes": "0", "succeeded": 1}),
            "b#2:Running",
            "create [1] active 2 +[] -[] free []",
        ),
        (
            "3 repeated and invalid indexes",
            indexed(json!({})),
            json!({}),
            "a#0:Running b#0:Pending c#7:Running d:Running",
            "delete [c,d,b] active 1 +[] -[] free []",
        ),
        (
            "4 ctl-job-success-policy",
            indexed(json!({"successPolicy": {"rules": [{"succeededIndexes": "1"}]}})),
            json!({}),
            "a#0:Pending b#1:Succeeded c#2:Pending",
            "stop [a,c] active 0 +[] -[] free [a,b,c] Complete SuccessPolicy",
        ),
        (
            "5 ctl-job-limit-per-index",
            per_index(0),
            json!({}),
            "a#0*0:1 b#1*0:Running c#2*0:Running",
            "nothing active 2 +[] -[a] free [a]",
        ),
        (
            "6 all indexes ended",
            per_index(0),
            json!({"failed": 1, "failedIndexes": "0", "completedIndexes": "1", "succeeded": 1}),
            "c#2*0:Succeeded",
            "stop [] active 0 +[] -[] free [c] Failed FailedIndexes",
        ),
        (
            "7 the failed pod stays until it is replaced",
            per_index(1),
            json!({}),
            "a#0*0:1 b#1*0:Running c#2*0:Running",
            "create [0] active 3 +[] -[] free []",
        ),
        (
            "8 replaced",
            per_index(1),
            json!({}),
            "a#0*0:1 d#0*1:Running b#1*0:Running c#2*0:Running",
            "nothing active 3 +[] -[a] free [a]",
        ),
        (
            "9 too many failed indexes",
            indexed(json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0, "backoffLimit": i32::MAX})),
            json!({}),
            "a#0*0:1 b#1*0:Running",
            "stop [b] active 0 +[] -[a,b] free [a,b] Failed MaxFailedIndexesExceeded",
        ),
        (
            "10 scaled down",
            indexed(json!({"completions": 1, "parallelism": 1})),
            json!({"completedIndexes": "0,2", "succeeded": 2}),
            "",
            "nothing active 0 +[] -[] free [] Complete CompletionsReached",
        ),
    ];
    for (name, spec, status, pods, wanted) in table {
        assert_eq!(play(spec, status, pods), wanted, "{name}");
    }
}
