//! Tests of pod GC: the selection of pods, and rounds against the fake API server.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};

const THIS: [Run; 1] = [run];
const NOW: &str = "2026-01-01T00:00:00Z";

fn pod(name: &str, phase: &str, node: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name}, "spec": {"containers": [], "nodeName": node},
        "status": {"phase": phase}})
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!(NOW);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    pod
}

fn node(name: &str, ready: &str, taint: Option<&str>) -> Value {
    let taints: Vec<Value> = taint.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
    json!({"kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn names(api: &FakeApi) -> Vec<String> {
    api.list("pods").iter().map(|p| p["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn surplus_selects_evicted_pods_first_then_the_oldest() {
    let at = |name: &str, phase: &str, time: &str, reason: &str| -> Candidate {
        let mut p = pod(name, phase, "n");
        p["metadata"]["creationTimestamp"] = json!(time);
        p["status"]["reason"] = json!(reason);
        let pod: Arc<Pod> = Arc::new(serde_json::from_value(p).unwrap());
        Candidate::of(PackedObject::new(Arc::clone(&pod)), &pod)
    };
    let pods = [
        at("new", "Succeeded", "2026-01-03T00:00:00Z", ""),
        at("old", "Failed", "2026-01-01T00:00:00Z", ""),
        at("evicted", "Failed", "2026-01-04T00:00:00Z", "Evicted"),
        at("runs", "Running", "2025-01-01T00:00:00Z", ""),
    ];
    for (threshold, wanted) in
        [(3, vec![]), (2, vec!["ns/evicted"]), (1, vec!["ns/evicted", "ns/old"]), (0, vec![]), (-1, vec![])]
    {
        let chosen: Vec<&str> = surplus(&pods, threshold).iter().map(|pod| pod.key()).collect();
        assert_eq!(chosen, wanted, "threshold {threshold}");
    }
}

#[test]
fn stuck_pods_are_terminating_on_an_out_of_service_node() {
    let table = [
        (
            "stuck",
            terminating(pod("p", "Running", "n")),
            Some(node("n", "False", Some(TAINT_OUT_OF_SERVICE))),
            true,
        ),
        (
            "unknown is not ready",
            terminating(pod("p", "Running", "n")),
            Some(node("n", "Unknown", Some(TAINT_OUT_OF_SERVICE))),
            true,
        ),
        ("alive", pod("p", "Running", "n"), Some(node("n", "False", Some(TAINT_OUT_OF_SERVICE))), false),
        (
            "node ready",
            terminating(pod("p", "Running", "n")),
            Some(node("n", "True", Some(TAINT_OUT_OF_SERVICE))),
            false,
        ),
        ("no taint", terminating(pod("p", "Running", "n")), Some(node("n", "False", None)), false),
        ("no node", terminating(pod("p", "Running", "n")), None, false),
    ];
    for (name, p, n, wanted) in table {
        let p: Pod = serde_json::from_value(p).unwrap();
        let n: Option<Node> = n.map(|n| serde_json::from_value(n).unwrap());
        assert_eq!(is_stuck(&p, n.as_ref()), wanted, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn stuck_and_unscheduled_pods_are_removed_and_others_stay() {
    let api = FakeApi::new();
    api.seed(node("down", "False", Some(TAINT_OUT_OF_SERVICE)));
    api.seed(node("up", "True", None));
    api.seed(terminating(pod("stuck", "Running", "down")));
    api.seed(terminating(pod("unscheduled", "Pending", "")));
    api.seed(terminating(pod("ending", "Running", "up")));
    api.seed(pod("waits", "Pending", ""));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(names(&api), ["ending", "waits"]);
    let writes: Vec<(&str, String, String)> =
        api.take_writes().into_iter().map(|w| (w.verb, w.key, w.subresource)).collect();
    let wanted = [
        ("patch", "ns/stuck", "status"),
        ("delete", "ns/stuck", ""),
        ("patch", "ns/unscheduled", "status"),
        ("delete", "ns/unscheduled", ""),
    ];
    assert_eq!(writes, wanted.map(|(v, k, s)| (v, k.to_owned(), s.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn orphaned_pods_are_deleted_after_the_quarantine_and_a_live_read() {
    let api = FakeApi::new();
    let mut orphan = pod("orphan", "Running", "gone");
    orphan["metadata"]["finalizers"] = json!(["example.test/hold"]);
    orphan["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    api.seed(orphan);
    let _running = api.start(&THIS, Options::default());
    tokio::time::sleep(Duration::from_secs(39)).await;
    assert_eq!(api.take_writes(), []);
    tokio::time::sleep(Duration::from_secs(25)).await;
    let left = api.get("pods", "ns/orphan").unwrap();
    assert_eq!(left["status"]["phase"], "Failed");
    let conditions = &left["status"]["conditions"];
    assert_eq!(
        (&conditions[0]["type"], &conditions[1]["reason"]),
        (&json!("Ready"), &json!("DeletionByPodGC"))
    );
    assert!(left["metadata"].get("deletionTimestamp").is_some());
}

#[tokio::test(start_paused = true)]
async fn pods_stay_while_their_node_returns_or_cannot_be_read() {
    let api = FakeApi::new();
    api.seed(pod("lucky", "Running", "late"));
    api.seed(pod("other", "Running", "gone"));
    api.fail(Fault {
        verb: "get",
        resource: "nodes",
        skip: 0,
        kind: FaultKind::Status(500, "InternalError", "no"),
    });
    let _running = api.start(&THIS, Options::default());
    tokio::time::sleep(Duration::from_secs(30)).await;
    api.create(node("late", "True", None));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((names(&api).len(), api.pending_faults()), (2, 0), "the look at the node failed");
    api.settle().await;
    api.settle().await;
    assert_eq!(names(&api), ["lucky"]);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    for nth in 0..2 {
        for kind in [FaultKind::Broken, FaultKind::AnswerLost, FaultKind::Status(409, "Conflict", "no")] {
            let api = FakeApi::new();
            api.seed(terminating(pod("unscheduled", "Pending", "")));
            api.fail_nth_write(nth, kind);
            let _running = api.start(&THIS, Options::default());
            api.settle().await;
            assert_eq!((names(&api).len(), api.pending_faults()), (0, 0));
        }
    }
}
