//! The whole scheduler, with the fake API server and mostly together with the binder.
#![allow(clippy::unwrap_used)]

mod random;
mod scale;
mod storage;

use serde_json::{Value, json};

use super::run;
use crate::context::Run;
use crate::options::Options;
use crate::pv;
use crate::testing::FakeApi;

/// The scheduler alone, and with the binder.
const ALONE: [Run; 1] = [run];
const WITH_BINDER: [Run; 2] = [pv::run, run];

/// A node with 4 CPUs and 10 pod slots, in a zone.
fn node(name: &str, zone: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels":
            {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})
}

/// A pod that requests one CPU and names claims.
fn pod(name: &str, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name}, "spec": {"schedulerName": "default-scheduler",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": claims.iter().map(volume).collect::<Vec<_>>()}})
}

fn node_of(api: &FakeApi, pod: &str) -> Option<String> {
    let pod = api.get("pods", &format!("ns/{pod}"))?;
    pod["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// Reason and message of the condition.
fn condition(api: &FakeApi, pod: &str) -> (String, String) {
    let pod = api.get("pods", &format!("ns/{pod}")).unwrap();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|one| one["type"] == "PodScheduled").cloned().unwrap_or(Value::Null);
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn pod_is_bound_when_the_first_node_appears() {
    let api = FakeApi::new();
    let _running = api.start(&ALONE, Options::default());
    api.create(pod("p", &[]));
    api.settle().await;
    let said = ("Unschedulable".to_owned(), "no nodes available to schedule pods".to_owned());
    assert_eq!(condition(&api, "p"), said);
    assert_eq!(api.events(), ["Pod ns/p Warning FailedScheduling no nodes available to schedule pods"]);
    api.create(json!({"kind": "Node", "metadata": {"name": "n"}}));
    api.settle().await;
    let said = "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods. no new claims to deallocate, preemption: \
                0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&api, "p").1, said);
    let room = json!({"status": {"allocatable": {"cpu": "4", "pods": "1"}}});
    api.patch("nodes", "n", "status", room);
    api.settle().await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n"));
    assert!(
        api.events().iter().any(|event| event == "Pod ns/p Normal Scheduled Successfully assigned ns/p to n")
    );
    api.create(pod("q", &[]));
    api.settle().await;
    let said = "0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are \
                available: 1 No preemption victims found for incoming pod.";
    assert_eq!(condition(&api, "q").1, said);
    api.delete_with("pods", "ns/p", json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(node_of(&api, "q").as_deref(), Some("n"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_schedulers_are_ignored_but_counted() {
    let api = FakeApi::new();
    api.seed(node("n", "a"));
    let mut other = pod("other", &[]);
    other["spec"]["schedulerName"] = json!("mine");
    let mut gated = pod("gated", &[]);
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    let mut there = pod("there", &[]);
    there["spec"]["nodeName"] = json!("n");
    there["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    [other, gated, there, pod("p", &[])].into_iter().for_each(|pod| drop(api.seed(pod)));
    let _running = api.start(&ALONE, Options::default());
    api.settle().await;
    for pod in ["other", "gated", "p"] {
        assert_eq!(node_of(&api, pod), None, "{pod}");
    }
    assert_eq!(condition(&api, "other").0, "");
    assert!(condition(&api, "p").1.contains("1 Insufficient cpu."));
    api.patch("pods", "ns/there", "status", json!({"status": {"phase": "Succeeded"}}));
    api.settle().await;
    assert_eq!(node_of(&api, "p").as_deref(), Some("n"));
    api.patch("pods", "ns/gated", "", json!({"spec": {"schedulingGates": null}}));
    api.settle().await;
    assert_eq!(node_of(&api, "gated").as_deref(), Some("n"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_higher_priority_are_scheduled_first() {
    let api = FakeApi::new();
    for (name, priority) in [("low", 1), ("high", 100), ("middle", 10)] {
        let mut pod = pod(name, &[]);
        pod["spec"]["priority"] = json!(priority);
        api.seed(pod);
    }
    let mut small = node("n", "a");
    small["status"]["allocatable"]["pods"] = json!("2");
    api.seed(small);
    let _running = api.start(&ALONE, Options::default());
    api.settle().await;
    let placed = ["low", "middle", "high"].map(|pod| node_of(&api, pod).is_some());
    assert_eq!(placed, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn recreated_pod_is_another_one() {
    let api = FakeApi::new();
    api.seed(node("n", "a"));
    let _running = api.start(&ALONE, Options::default());
    for _ in 0..3 {
        api.create(pod("p", &[]));
        api.settle().await;
        assert_eq!(node_of(&api, "p").as_deref(), Some("n"));
        api.delete_with("pods", "ns/p", json!({"gracePeriodSeconds": 0}));
    }
    api.settle().await;
    for name in ["a", "b", "c", "d"] {
        api.create(pod(name, &[]));
    }
    api.settle().await;
    assert!(["a", "b", "c", "d"].iter().all(|pod| node_of(&api, pod).is_some()), "nothing was left counted");
}
