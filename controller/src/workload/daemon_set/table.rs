//! Case tables of the decisions.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::backoff::FailedPods;
use super::manage::{BURST, DaemonInput, PodChanges, by_node, manage};
use super::placement::Fit;
use super::rollout::rolling_update;
use super::status::{is_same_status, status};

const READY_SINCE: &str = "2026-01-01T00:00:00Z";

/// A DaemonSet with these limits of a rolling update.
fn set(unavailable: Value, surge: Value) -> DaemonSet {
    serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "d", "uid": "u", "generation": 2},
        "spec": {"selector": {}, "template": {}, "minReadySeconds": 10,
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}},
        "status": {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
            "observedGeneration": 1, "collisionCount": 3}}))
    .unwrap()
}

/// The pods in `name@node:hash:state`, separated by blanks. A node in brackets is required but not assigned. States:
/// `available`, `ready` (not yet available), `unready`, `failed`, `succeeded`, `leaving`, `failed-leaving`.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().enumerate().map(|(nth, word)| Arc::new(pod(nth, word))).collect()
}

fn pod(nth: usize, word: &str) -> Pod {
    let (name, rest) = word.split_once('@').unwrap();
    let [node, hash, state] = rest.split(':').collect::<Vec<_>>()[..] else { panic!("{word}") };
    let ready = |since: &str| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
    let (phase, conditions) = match state {
        "available" => ("Running", ready(READY_SINCE)),
        "ready" => ("Running", ready("2026-01-01T00:00:55Z")),
        "failed" | "failed-leaving" => ("Failed", json!([])),
        "succeeded" => ("Succeeded", json!([])),
        _ => ("Pending", json!([])),
    };
    let mut pod = json!({"metadata": {"namespace": "ns", "name": name, "labels": {"controller-revision-hash": hash},
            "creationTimestamp": format!("2025-01-01T00:{:02}:{:02}Z", nth / 60, nth % 60)},
        "spec": {"containers": []}, "status": {"phase": phase, "conditions": conditions}});
    if state.ends_with("leaving") {
        pod["metadata"]["deletionTimestamp"] = json!(READY_SINCE);
    }
    let required = node.strip_prefix('(').and_then(|node| node.strip_suffix(')'));
    match required {
        Some(node) => {
            let mut pod = serde_json::from_value(pod).unwrap();
            super::placement::require_node(&mut pod, node);
            pod
        }
        None => {
            pod["spec"]["nodeName"] = json!(node);
            serde_json::from_value(pod).unwrap()
        }
    }
}

/// The nodes in `runs`, `stays=NODE` or `never=NODE`, separated by blanks.
fn nodes(text: &str) -> BTreeMap<String, Fit> {
    let node = |word: &str| match word.split_once('=') {
        Some(("stays", node)) => (node.to_owned(), Fit::Stays),
        Some(("never", node)) => (node.to_owned(), Fit::Never),
        Some(_) | None => (word.to_owned(), Fit::Runs),
    };
    text.split_whitespace().map(node).collect()
}

/// Calls `decide` with the nodes and pods, the hash `new`, and the time 00:01.
fn with<T>(
    set: &DaemonSet,
    nodes_text: &str,
    pods_text: &str,
    decide: impl FnOnce(&DaemonInput<'_>) -> T,
) -> T {
    let (nodes, pods) = (nodes(nodes_text), by_node(&pods(pods_text)));
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    decide(&DaemonInput { set, hash: "new", nodes: &nodes, pods: &pods, now })
}

/// The changes as `+NODE` and `-POD`.
fn shown(changes: &PodChanges) -> String {
    let created = changes.create.iter().map(|node| format!("+{node}"));
    let deleted = changes.delete.iter().map(|pod| format!("-{}", pod.metadata.name.as_deref().unwrap()));
    created.chain(deleted).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_suitable_node_has_one_pod() {
    // Name, nodes, pods, changes without surge, changes with surge.
    let table = [
        ("1 ctl-ds-nodes: no pod yet", "a b", "", "+a +b", "+a +b"),
        ("2 all are there", "a b", "p@a:new:ready q@(b):new:unready", "", ""),
        (
            "3 ctl-ds-node-selector: no longer suitable",
            "never=a b",
            "p@a:new:ready q@(b):new:ready",
            "-p",
            "-p",
        ),
        ("4 ctl-ds-unschedulable: a pod stays", "stays=a stays=b", "p@a:new:ready", "", ""),
        ("5 a terminating pod occupies the node", "a", "p@a:new:leaving", "", "+a"),
        ("6 a terminating pod is not deleted again", "never=a", "p@a:new:leaving", "", ""),
        ("7 a finished terminating pod does not count", "a", "p@a:new:failed-leaving", "+a", "+a"),
        ("8 ctl-ds-failed-pod: failed", "a", "p@a:new:failed", "-p", "+a -p"),
        ("9 succeeded", "a", "p@a:new:succeeded", "-p", "+a -p"),
        ("10 failed, no longer suitable", "never=a", "p@a:new:failed", "-p", "-p"),
        (
            "11 the oldest of several remains",
            "a",
            "p@a:new:ready q@a:new:ready r@a:new:ready",
            "-q -r",
            "-q -r",
        ),
        ("12 an assigned pod remains", "a", "p@(a):new:unready q@a:new:ready", "-p", "-p"),
        ("13 surge: old and new", "a", "p@a:old:available q@a:new:ready", "-q", ""),
        ("14 surge: the new one is available", "a", "p@a:old:available q@a:new:available", "-q", "-p"),
        ("15 surge: the old one is not ready", "a", "p@a:old:unready q@a:new:unready", "-q", "-p"),
        ("16 surge: several old ones", "a", "p@a:old:ready q@a:old:ready", "-q", "-q"),
        ("17 pods of a deleted node", "", "p@(x):new:unready q@y:new:ready", "-p", "-p"),
    ];
    for (name, nodes, pods, plain, surging) in table {
        for (set, wanted) in [(set(json!(1), json!(0)), plain), (set(json!(0), json!(1)), surging)] {
            let plan =
                with(&set, nodes, pods, |input| manage(input, &mut FailedPods::default(), Instant::now()));
            assert_eq!(shown(&plan.changes), wanted, "{name}");
        }
    }
}

#[test]
fn finished_pods_are_reported_and_failed_ones_wait() {
    let set = set(json!(1), json!(0));
    let (mut failed, now) = (FailedPods::default(), Instant::now());
    let pods = "p@a:new:failed q@b:new:succeeded r@a:new:failed";
    let plan = with(&set, "a b", pods, |input| manage(input, &mut failed, now));
    assert_eq!(shown(&plan.changes), "-p -q");
    let events: Vec<_> = plan
        .events
        .iter()
        .map(|event| (event.type_.as_str(), event.reason, event.message.as_str()))
        .collect();
    assert_eq!(
        events,
        [
            ("Warning", "FailedDaemonPod", "Found failed daemon pod ns/p on node a, will try to kill it"),
            (
                "Normal",
                "SucceededDaemonPod",
                "Found succeeded daemon pod ns/q on node b, will try to delete it"
            ),
        ]
    );
    assert_eq!(plan.wait, Some(Duration::from_secs(1)), "the second pod of the same node");
    let later = now + Duration::from_secs(1);
    let plan = with(&set, "a", "r@a:new:failed", |input| manage(input, &mut failed, later));
    assert_eq!((shown(&plan.changes).as_str(), plan.wait), ("-r", None));
    // A change of the DaemonSet starts with the shortest delay again.
    let mut changed = set.clone();
    changed.status.as_mut().unwrap().observed_generation = Some(2);
    let plan = with(&changed, "a", "s@a:new:failed", |input| manage(input, &mut failed, later));
    assert_eq!(shown(&plan.changes), "-s");
}

#[test]
fn failed_pods_beyond_the_limit_of_a_sync_do_not_wait() {
    let set = set(json!(1), json!(0));
    let (mut failed, now) = (FailedPods::default(), Instant::now());
    let numbers = 0..BURST + 50;
    let nodes: Vec<String> = numbers.clone().map(|nth| format!("n{nth:03}")).collect();
    let pods: Vec<String> = numbers.map(|nth| format!("p{nth:03}@n{nth:03}:new:failed")).collect();
    let first = with(&set, &nodes.join(" "), &pods.join(" "), |input| manage(input, &mut failed, now));
    assert_eq!((first.events.len(), first.changes.delete.len()), (BURST, BURST));
    let (nodes, pods) = (nodes[BURST..].join(" "), pods[BURST..].join(" "));
    let second = with(&set, &nodes, &pods, |input| manage(input, &mut failed, now));
    assert_eq!((second.events.len(), second.changes.delete.len(), second.wait), (50, 50, None));
}

#[test]
fn update_stays_within_its_limits() {
    let three = "p@a:old:available q@b:old:available r@c:old:available";
    // Name, maxUnavailable, maxSurge, nodes, pods, changes.
    let table = [
        ("1 one at a time", json!(1), json!(0), "a b c", three, "-p"),
        ("2 two at a time", json!(2), json!(0), "a b c", three, "-p -q"),
        ("3 percentages are rounded up", json!("34%"), json!(0), "a b c", three, "-p -q"),
        ("4 no limit is set", json!(0), json!(0), "a b c", three, "-p"),
        ("5 a node without a pod is unavailable", json!(1), json!(0), "a b", "p@a:old:available", ""),
        ("6 a new pod is not available", json!(1), json!(0), "a b", "p@a:new:ready q@b:old:available", ""),
        (
            "7 the new pod is available",
            json!(1),
            json!(0),
            "a b",
            "p@a:new:available q@b:old:available",
            "-q",
        ),
        (
            "8 unavailable old pods first",
            json!(1),
            json!(0),
            "a b",
            "p@a:old:available q@b:old:unready",
            "-q",
        ),
        ("9 all unavailable old pods", json!(1), json!(0), "a b", "p@a:old:ready q@b:old:unready", "-p -q"),
        (
            "10 a terminating pod is unavailable",
            json!(1),
            json!(0),
            "a b",
            "p@a:old:leaving q@b:old:available",
            "",
        ),
        (
            "11 two old pods on one node",
            json!(1),
            json!(0),
            "a b",
            "p@a:old:ready q@a:old:ready r@b:old:available",
            "",
        ),
        ("12 complete", json!(1), json!(0), "a b", "p@a:new:available q@b:new:ready", ""),
        ("13 also where pods only stay", json!(1), json!(0), "stays=a", "p@a:old:unready", "-p"),
        ("20 surge on one node", json!(0), json!(1), "a b c", three, "+a"),
        ("21 surge on all nodes", json!(0), json!("100%"), "a b c", three, "+a +b +c"),
        (
            "22 the surge is used up",
            json!(0),
            json!(1),
            "a b",
            "p@a:old:available q@a:new:ready r@b:old:available",
            "",
        ),
        (
            "23 the new pod is available",
            json!(0),
            json!(1),
            "a b",
            "p@a:old:available q@a:new:available r@b:old:available",
            "+b -p",
        ),
        (
            "24 unavailable old pods do not count",
            json!(0),
            json!(1),
            "a b",
            "p@a:old:unready q@b:old:available",
            "+a +b",
        ),
        (
            "25 misplaced and unavailable",
            json!(0),
            json!(1),
            "stays=a b",
            "p@a:old:unready q@b:new:available",
            "-p",
        ),
        (
            "26 misplaced, the others are available",
            json!(0),
            json!(1),
            "stays=a b",
            "p@a:old:available q@b:new:available",
            "-p",
        ),
        (
            "27 misplaced, the others are not available",
            json!(0),
            json!(1),
            "stays=a b",
            "p@a:old:available q@b:new:ready",
            "",
        ),
        (
            "28 two old pods on one node",
            json!(0),
            json!(1),
            "a b",
            "p@a:old:ready q@a:old:ready r@b:old:available",
            "",
        ),
        ("29 the node is deleted", json!(0), json!(1), "b", "p@a:old:unready q@b:old:available", "+b"),
    ];
    for (name, unavailable, surge, nodes, pods, wanted) in table {
        let changes = with(&set(unavailable, surge), nodes, pods, rolling_update);
        assert_eq!(shown(&changes), wanted, "{name}");
    }
}

#[test]
fn status_counts_one_pod_per_node() {
    // Name, nodes, pods, desired, current, misscheduled, ready, updated, available, unavailable.
    let table = [
        ("1 no node", "", "", [0, 0, 0, 0, 0, 0, 0]),
        ("2 ctl-ds-nodes: no pod yet", "a b", "", [2, 0, 0, 0, 0, 0, 2]),
        ("3 ctl-ds-nodes: one is ready", "a b", "p@a:new:available q@(b):new:unready", [2, 2, 0, 1, 2, 1, 1]),
        ("4 ctl-ds-on-delete: an old pod", "a", "p@a:old:unready", [1, 1, 0, 0, 0, 0, 1]),
        ("5 ready, not yet available", "a", "p@a:new:ready", [1, 1, 0, 1, 1, 0, 1]),
        ("6 misscheduled", "stays=a never=b c", "p@a:new:available q@b:new:available", [1, 0, 2, 0, 0, 0, 1]),
        ("7 the older of two counts", "a", "p@a:old:available q@a:new:unready", [1, 1, 0, 1, 0, 1, 0]),
        ("8 a terminating pod counts", "a", "p@a:new:leaving", [1, 1, 0, 0, 1, 0, 1]),
    ];
    let set = set(json!(1), json!(0));
    for (name, nodes, pods, [desired, current, misscheduled, ready, updated, available, unavailable]) in table
    {
        let found = with(&set, nodes, pods, |input| status(input, true));
        let mut wanted = json!({"desiredNumberScheduled": desired, "currentNumberScheduled": current,
            "numberMisscheduled": misscheduled, "numberReady": ready, "observedGeneration": 2, "collisionCount": 3});
        for (field, count) in [
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", unavailable),
        ] {
            if count > 0 {
                wanted[field] = json!(count);
            }
        }
        assert_eq!(serde_json::to_value(&found).unwrap(), wanted, "{name}");
        let unobserved = with(&set, nodes, pods, |input| status(input, false));
        assert_eq!(unobserved.observed_generation, Some(1), "{name}");
        assert!(is_same_status(&found, &found) && !is_same_status(&found, &unobserved), "{name}");
    }
}
