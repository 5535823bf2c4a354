//! Both controllers against the in-memory API, with a clock that advances when all tasks are idle.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::DropGuard;

use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, FaultKind};

const BOTH: [Run; 2] = [run, eviction::run];

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// Adds a node with a registered agent.
fn add_node(api: &FakeApi, name: &str) {
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": api.now(), "lastTransitionTime": api.now()}]);
    let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"});
    api.seed(json!({"kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {}, "status": {"conditions": conditions}}));
    api.seed(
        json!({"kind": "Lease", "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {}}),
    );
}

fn renew(api: &FakeApi, name: &str) {
    let spec = json!({"spec": {"renewTime": api.now(), "holderIdentity": name}});
    api.patch("leases", &format!("kube-node-lease/{name}"), "", spec);
}

/// Reports a node's status as its agent would.
fn say(api: &FakeApi, name: &str, status: &str) {
    let conditions = json!([{"type": "Ready", "status": status, "lastHeartbeatTime": api.now()}]);
    api.patch("nodes", name, "status", json!({"status": {"conditions": conditions}}));
}

/// Adds a pod that tolerates a lost node for this many seconds.
fn add_pod(api: &FakeApi, name: &str, node: &str, tolerates: Option<u64>) {
    let toleration = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": tolerates})
    };
    let tolerations = tolerates.map(|_| json!([toleration("not-ready"), toleration("unreachable")]));
    api.seed(json!({"kind": "Pod", "metadata": {"name": name, "namespace": "d"},
        "spec": {"nodeName": node, "tolerations": tolerations},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
}

/// Renews Leases as agents do, until the guard is dropped.
fn agents(api: &FakeApi, names: &'static [&'static str]) -> DropGuard {
    let (api, end) = (api.clone(), tokio_util::sync::CancellationToken::new());
    let ended = end.clone();
    tokio::spawn(async move {
        while !ended.is_cancelled() {
            names.iter().for_each(|name| renew(&api, name));
            sleep(Duration::from_secs(10)).await;
        }
    });
    end.drop_guard()
}

fn ready_of(api: &FakeApi, node: &str) -> String {
    let node = api.get("nodes", node).unwrap();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |condition: &Value| {
        let field = |name: &str| condition[name].as_str().unwrap_or("-").to_owned();
        format!("{} {}", field("status"), field("reason"))
    };
    conditions.iter().find(|c| c["type"] == "Ready").map_or_else(|| "none".to_owned(), text)
}

fn taints_of(api: &FakeApi, node: &str) -> Vec<String> {
    let node = api.get("nodes", node).unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let short = |key: &Value| key.as_str().unwrap().trim_start_matches("node.kubernetes.io/").to_owned();
    taints.iter().map(|t| format!("{}:{}", short(&t["key"]), t["effect"].as_str().unwrap())).collect()
}

fn is_going(api: &FakeApi, pod: &str) -> bool {
    api.get("pods", pod).is_none_or(|pod| pod["metadata"].get("deletionTimestamp").is_some())
}

const LOST: [&str; 2] = ["unreachable:NoSchedule", "unreachable:NoExecute"];

#[tokio::test(start_paused = true)]
async fn silent_node_evicts_pods_and_loses_its_taints_on_recovery() {
    let api = FakeApi::new();
    add_node(&api, "a");
    add_node(&api, "b");
    add_pod(&api, "patient", "b", Some(300));
    add_pod(&api, "hasty", "b", Some(20));
    add_pod(&api, "elsewhere", "a", None);
    let _well = agents(&api, &["a"]);
    let other = agents(&api, &["b"]);
    let _running = api.start(&BOTH, Options::default());
    seconds(300).await;
    assert_eq!(
        (ready_of(&api, "a"), ready_of(&api, "b")),
        ("True KubeletReady".into(), "True KubeletReady".into())
    );
    assert_eq!(api.take_writes().iter().filter(|write| write.resource != "leases").count(), 0, "all is well");

    drop(other);
    // The last renewal was at 290 or 300 s, at most 10 s ago.
    seconds(39).await;
    assert_eq!(ready_of(&api, "b"), "True KubeletReady");
    seconds(13).await;
    assert_eq!(ready_of(&api, "b"), "Unknown NodeStatusUnknown");
    assert_eq!(taints_of(&api, "b"), LOST);
    let pod = api.get("pods", "d/patient").unwrap();
    assert_eq!(pod["status"]["conditions"][0]["status"], "False");
    assert_eq!(api.get("pods", "d/elsewhere").unwrap()["status"]["conditions"][0]["status"], "True");

    seconds(25).await;
    let hasty = api.get("pods", "d/hasty").unwrap();
    let going = hasty["status"]["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&going["type"], &going["reason"]),
        (&json!("DisruptionTarget"), &json!("DeletionByTaintManager"))
    );
    assert!(is_going(&api, "d/hasty") && !is_going(&api, "d/patient"));

    renew(&api, "b");
    say(&api, "b", "True");
    seconds(1).await;
    assert_eq!(taints_of(&api, "b"), Vec::<String>::new());
    let _back = agents(&api, &["b"]);
    seconds(600).await;
    assert!(!is_going(&api, "d/patient") && !is_going(&api, "d/elsewhere"));
    let events = api.events();
    for wanted in [
        "Node b Normal NodeNotReady Node b status is now: NodeNotReady",
        "Pod d/patient Warning NodeNotReady Node is not ready",
        "Pod d/hasty Normal TaintManagerEviction Marking for deletion Pod d/hasty",
        "Pod d/patient Normal TaintManagerEviction Cancelling deletion of Pod d/patient",
    ] {
        assert!(events.iter().any(|event| event == wanted), "{wanted} is not in {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_pods_are_evicted_while_all_nodes_are_lost() {
    let api = FakeApi::new();
    for (node, pod) in [("a", "on-a"), ("b", "on-b")] {
        add_node(&api, node);
        add_pod(&api, pod, node, Some(0));
    }
    let both = agents(&api, &["a", "b"]);
    let _running = api.start(&BOTH, Options::default());
    seconds(100).await;
    drop(both);
    // The node that is declared lost first may get its NoExecute taint before the other one is lost too; the taint
    // is then removed. These pods tolerate it for 0 s, so one of them may already be deleted.
    seconds(100).await;
    for node in ["a", "b"] {
        assert_eq!(ready_of(&api, node), "Unknown NodeStatusUnknown");
        assert_eq!(taints_of(&api, node), ["unreachable:NoSchedule"]);
    }
    assert!(!is_going(&api, "d/on-a") || !is_going(&api, "d/on-b"));
    let before = api.list("pods").len();
    seconds(3600).await;
    assert_eq!(api.list("pods").len(), before);

    // One node recovers; the grace period of the other one starts again.
    say(&api, "a", "True");
    let _back = agents(&api, &["a"]);
    seconds(2).await;
    assert_eq!((taints_of(&api, "a"), taints_of(&api, "b")), (vec![], LOST.map(str::to_owned).to_vec()));
}

#[tokio::test(start_paused = true)]
async fn start_and_server_outage_do_not_make_nodes_lost() {
    let api = FakeApi::new();
    add_node(&api, "a");
    add_node(&api, "b");
    // No Lease was renewed for an hour.
    seconds(3600).await;
    let running = api.start(&BOTH, Options::default());
    seconds(45).await;
    assert_eq!(ready_of(&api, "a"), "True KubeletReady");
    let both = agents(&api, &["a", "b"]);
    seconds(60).await;
    drop(both);
    api.set_away(true);
    seconds(300).await;
    api.set_away(false);
    seconds(20).await;
    let _both = agents(&api, &["a", "b"]);
    seconds(120).await;
    for node in ["a", "b"] {
        assert_eq!((ready_of(&api, node), taints_of(&api, node)), ("True KubeletReady".to_owned(), vec![]));
    }
    assert_eq!(api.take_writes(), []);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_lease_are_lost_only_when_monitored() {
    for monitored in [true, false] {
        let api = FakeApi::new();
        let by_hand = |name: &str, taints: Value| {
            api.seed(json!({"kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}}));
        };
        by_hand("new", json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
        by_hand("opened", Value::Null);
        add_node(&api, "well");
        add_pod(&api, "p", "opened", Some(300));
        let _well = agents(&api, &["well"]);
        let options = Options { monitor_nodes_without_lease: monitored, ..Options::default() };
        let _running = api.start(&BOTH, options);
        seconds(55).await;
        assert_eq!(taints_of(&api, "new"), ["not-ready:NoSchedule"]);
        assert_eq!(taints_of(&api, "opened"), Vec::<String>::new());
        seconds(20).await;
        // A Ready status removes the taint, with or without a Lease.
        say(&api, "new", "True");
        seconds(5).await;
        assert_eq!(taints_of(&api, "new"), Vec::<String>::new());
        let (ready, taints) = match monitored {
            true => ("Unknown NodeStatusNeverUpdated", LOST.map(str::to_owned).to_vec()),
            false => ("none", vec![]),
        };
        assert_eq!(
            (ready_of(&api, "opened").as_str(), taints_of(&api, "opened")),
            (ready, taints),
            "{monitored}"
        );
        assert!(!is_going(&api, "d/p"));
        let pod = api.get("pods", "d/p").unwrap();
        assert_eq!(
            pod["status"]["conditions"][0]["status"], "True",
            "the creator of the node decides for the pod"
        );
        seconds(310).await;
        assert_eq!(is_going(&api, "d/p"), monitored);
        let ready = if monitored { "Unknown NodeStatusUnknown" } else { "True -" };
        assert_eq!(ready_of(&api, "new"), ready);
    }
}

/// A node without a Lease is monitored as soon as it gets one.
#[tokio::test(start_paused = true)]
async fn late_lease_starts_monitoring() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "Node", "metadata": {"name": "a"}, "spec": {}}));
    let options = Options { monitor_nodes_without_lease: false, ..Options::default() };
    let _running = api.start(&BOTH, options);
    seconds(200).await;
    assert_eq!(ready_of(&api, "a"), "none");
    api.seed(json!({"kind": "Lease", "metadata": {"name": "a", "namespace": "kube-node-lease"}, "spec": {"renewTime": api.now()}}));
    seconds(59).await;
    assert_eq!(ready_of(&api, "a"), "none");
    seconds(2).await;
    assert_eq!(ready_of(&api, "a"), "Unknown NodeStatusNeverUpdated");
}

#[tokio::test(start_paused = true)]
async fn cordons_and_pressure_become_taints_and_beta_labels_are_updated() {
    let api = FakeApi::new();
    add_node(&api, "a");
    let _agent = agents(&api, &["a"]);
    let _running = api.start(&BOTH, Options::default());
    seconds(1).await;
    api.patch("nodes", "a", "", json!({"spec": {"unschedulable": true}}));
    seconds(1).await;
    assert_eq!(taints_of(&api, "a"), ["unschedulable:NoSchedule"]);
    api.patch(
        "nodes",
        "a",
        "",
        json!({"spec": {"unschedulable": null},
        "metadata": {"labels": {"kubernetes.io/arch": "arm64"}}}),
    );
    let pressed = json!([{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]);
    api.patch("nodes", "a", "status", json!({"status": {"conditions": pressed}}));
    seconds(1).await;
    assert_eq!(taints_of(&api, "a"), ["disk-pressure:NoSchedule"]);
    let node = api.get("nodes", "a").unwrap();
    assert_eq!(node["metadata"]["labels"]["beta.kubernetes.io/arch"], "arm64");
    api.delete("nodes", "a");
    api.seed(json!({"kind": "Node", "metadata": {"name": "z"}}));
    seconds(1).await;
    let events = api.events();
    for wanted in [
        "Node a Normal RemovingNode Node a event: Removing Node a from Controller",
        "Node z Normal RegisteredNode Node z event: Registered Node z in Controller",
    ] {
        assert!(events.iter().any(|event| event == wanted), "{wanted} is not in {events:#?}");
    }
    assert!(!events.iter().any(|event| event.contains("Registered Node a ")), "it was there before");
}

#[tokio::test(start_paused = true)]
async fn lost_nodes_are_evicted_one_at_a_time() {
    let api = FakeApi::new();
    for node in ["a", "b", "c", "d", "e"] {
        add_node(&api, node);
    }
    let _well = agents(&api, &["a", "b", "c"]);
    let others = agents(&api, &["d", "e"]);
    let _running = api.start(&BOTH, Options::default());
    seconds(95).await;
    drop(others);
    let emptied = || ["d", "e"].iter().filter(|node| taints_of(&api, node).len() == 2).count();
    seconds(50).await;
    assert_eq!(
        (ready_of(&api, "d"), ready_of(&api, "e")),
        (ready_of(&api, "e"), "Unknown NodeStatusUnknown".into())
    );
    assert_eq!(emptied(), 1);
    seconds(8).await;
    assert_eq!(emptied(), 2);
}

/// A changed toleration counts from the start of the pod's toleration time, and manual taints evict as well.
#[tokio::test(start_paused = true)]
async fn changed_toleration_counts_from_the_original_start() {
    let api = FakeApi::new();
    add_node(&api, "a");
    let _agent = agents(&api, &["a"]);
    let tolerations = |seconds: u64| json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]}});
    for (name, node) in [("none", "a"), ("some", "a"), ("late", "")] {
        let node = Some(node).filter(|node| !node.is_empty());
        api.seed(
            json!({"kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": {"nodeName": node}}),
        );
    }
    for (name, seconds) in [("some", 100), ("late", 50)] {
        api.patch("pods", &format!("d/{name}"), "", tolerations(seconds));
    }
    let _running = api.start(&BOTH, Options::default());
    seconds(1).await;
    api.patch("nodes", "a", "", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    seconds(1).await;
    assert!(is_going(&api, "d/none") && !is_going(&api, "d/some"));
    seconds(30).await;
    api.patch("pods", "d/late", "", json!({"spec": {"nodeName": "a"}}));
    seconds(45).await;
    assert!(!is_going(&api, "d/some") && !is_going(&api, "d/late"));
    api.patch("pods", "d/some", "", tolerations(60));
    seconds(1).await;
    assert!(is_going(&api, "d/some"), "76 seconds are more than 60");
    seconds(8).await;
    assert!(is_going(&api, "d/late"), "54 seconds are more than 50");
}

/// A toleration longer than the clock's range never expires, and its eviction can be cancelled.
#[tokio::test(start_paused = true)]
async fn huge_toleration_never_expires_and_can_be_cancelled() {
    let api = FakeApi::new();
    add_node(&api, "a");
    let _agent = agents(&api, &["a"]);
    let toleration = |seconds: i64| json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    api.seed(json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "d"},
        "spec": {"nodeName": "a", "tolerations": toleration(i64::MAX)}}));
    let _running = api.start(&BOTH, Options::default());
    seconds(1).await;
    api.patch("nodes", "a", "", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    seconds(3600).await;
    assert!(!is_going(&api, "d/p"));
    api.patch("nodes", "a", "", json!({"spec": {"taints": null}}));
    seconds(1).await;
    let cancelled = |event: &String| event.contains("Cancelling deletion of Pod d/p");
    assert_eq!(api.events().iter().filter(|event| cancelled(event)).count(), 1);
}

/// Any single failed write, of any kind, leads to the same final state.
#[tokio::test(start_paused = true)]
async fn any_single_failed_write_is_repaired() {
    let play = async |fault: Option<(usize, FaultKind)>| {
        let api = FakeApi::new();
        add_node(&api, "a");
        add_node(&api, "b");
        add_pod(&api, "p", "b", Some(30));
        if let Some((nth, kind)) = fault {
            api.fail_nth_write(nth, kind);
        }
        let running = api.start(&BOTH, Options::default());
        // The test's own changes do not count as client writes.
        let _well = agents(&api, &["a"]);
        seconds(300).await;
        drop(running);
        assert_eq!(
            (ready_of(&api, "b"), taints_of(&api, "b")),
            ("Unknown NodeStatusUnknown".to_owned(), LOST.map(str::to_owned).to_vec())
        );
        let pod = api.get("pods", "d/p").unwrap();
        let conditions: Vec<_> = pod["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| (&c["type"], &c["status"]))
            .collect();
        assert_eq!(json!(conditions), json!([["Ready", "False"], ["DisruptionTarget", "True"]]));
        assert!(is_going(&api, "d/p"));
        assert_eq!(api.pending_faults(), 0);
        api.take_writes()
            .iter()
            .map(|w| format!("{} {} {} {}", w.verb, w.resource, w.subresource, w.body))
            .collect::<Vec<_>>()
    };
    let writes = play(None).await;
    assert_eq!(writes.len(), 5, "{writes:#?}");
    let writes = writes.len();
    for nth in 0..writes {
        for kind in [
            FaultKind::Broken,
            FaultKind::AnswerLost,
            FaultKind::Status(409, "Conflict", "the object has been modified"),
            FaultKind::Status(500, "InternalError", "no"),
        ] {
            play(Some((nth, kind))).await;
        }
    }
}

/// Lease renewals of many nodes cost no request; a lost node costs only its own requests.
#[tokio::test(start_paused = true)]
async fn lease_renewals_cost_no_requests() {
    const NODES: usize = 300;
    let api = FakeApi::new();
    let names: Vec<String> = (0..NODES).map(|n| format!("n{n}")).collect();
    names.iter().for_each(|name| add_node(&api, name));
    let _running = api.start(&BOTH, Options::default());
    seconds(1).await;
    let before = api.requests().len();
    let began = Instant::now();
    for _ in 0..12 {
        names[1..].iter().for_each(|name| renew(&api, name));
        seconds(10).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(120));
    assert_eq!(ready_of(&api, "n0"), "Unknown NodeStatusUnknown");
    let requests: Vec<String> =
        api.requests().drain(before..).filter(|line| !line.contains("events")).collect();
    assert_eq!(
        requests,
        [
            "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n0",
            "PATCH /api/v1/nodes/n0/status",
            "PATCH /api/v1/nodes/n0",
        ]
    );
}

#[test]
fn pulse_is_late_after_more_than_three_periods() {
    let pulse = Pulse::new(Duration::from_secs(5));
    let began = Instant::now();
    pulse.beat(began);
    let late = |seconds| pulse.is_late(began + Duration::from_secs(seconds));
    assert_eq!([late(5), late(15), late(16)], [false, false, true]);
}
