//! Tests of both kinds on the fake API server.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};
use crate::workload::replicas::{replica_sets, replication_controllers};
use crate::workload::testing::{every_write_fails_once, keys, make_ready};

const BOTH: [(&str, &str, Run); 2] = [
    ("ReplicaSet", "replicasets", replica_sets),
    ("ReplicationController", "replicationcontrollers", replication_controllers),
];

fn set(kind: &str, replicas: i32) -> Value {
    let selector = match kind {
        "ReplicaSet" => json!({"matchLabels": {"app": "web"}}),
        _ => json!({"app": "web"}),
    };
    json!({"kind": kind, "metadata": {"namespace": "ns", "name": "web", "uid": "uid-web"}, "spec": {"replicas": replicas,
        "selector": selector, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}}})
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name, "labels": labels}, "spec": {"containers": []}})
}

#[tokio::test(start_paused = true)]
async fn pods_are_created_replaced_deleted_and_counted() {
    for (kind, plural, run) in BOTH {
        let api = FakeApi::new();
        api.seed(set(kind, 3));
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        let pods = keys(&api, "pods");
        assert_eq!(pods.len(), 3, "{kind}");
        let first = api.get("pods", &pods[0]).unwrap();
        assert_eq!(first["metadata"]["labels"], json!({"app": "web"}));
        let owner = &first["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["uid"], &owner["controller"]),
            (&json!(kind), &json!("uid-web"), &json!(true))
        );
        let mut made: Vec<String> = pods
            .iter()
            .map(|key| format!("{kind} ns/web Normal SuccessfulCreate Created pod: {}", &key[3..]))
            .collect();
        made.sort();
        let mut events = api.events();
        events.sort();
        assert_eq!(events, made);

        make_ready(&api, &pods[1]);
        api.settle().await;
        let status = api.get(plural, "ns/web").unwrap()["status"].clone();
        for (field, wanted) in [
            ("replicas", 3),
            ("readyReplicas", 1),
            ("availableReplicas", 1),
            ("fullyLabeledReplicas", 3),
            ("observedGeneration", 1),
        ] {
            assert_eq!(status[field], wanted, "{kind} {field}: {status}");
        }

        // Pods that are not ready are deleted first.
        api.patch(plural, "ns/web", "", json!({"spec": {"replicas": 1}}));
        api.settle().await;
        assert_eq!(keys(&api, "pods"), [pods[1].clone()]);
        let status = api.get(plural, "ns/web").unwrap()["status"].clone();
        assert_eq!((&status["replicas"], &status["observedGeneration"]), (&json!(1), &json!(2)));
        let deleted =
            api.events().into_iter().filter(|event| event.contains("SuccessfulDelete Deleted pod: web-"));
        assert_eq!(deleted.count(), 2);

        // A deleted or failed pod is replaced.
        api.delete_with("pods", &pods[1], json!({"gracePeriodSeconds": 0}));
        api.settle().await;
        let second = keys(&api, "pods");
        assert!(second.len() == 1 && second[0] != pods[1], "{second:?}");
        api.patch("pods", &second[0], "status", json!({"status": {"phase": "Failed"}}));
        api.settle().await;
        assert_eq!(keys(&api, "pods").len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn orphan_is_adopted_and_released_when_it_no_longer_matches() {
    for (kind, _, run) in BOTH {
        let api = FakeApi::new();
        api.seed(pod("orphan", json!({"app": "web"})));
        api.seed(pod("stranger", json!({"app": "db"})));
        api.seed(set(kind, 2));
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        let owner =
            |key: &str| api.get("pods", key).unwrap()["metadata"]["ownerReferences"][0]["uid"].clone();
        assert_eq!(owner("ns/orphan"), "uid-web");
        assert_eq!(owner("ns/stranger"), Value::Null);
        assert_eq!(keys(&api, "pods").len(), 3, "one was made beside the orphan");

        api.patch("pods", "ns/orphan", "", json!({"metadata": {"labels": {"app": "lost"}}}));
        api.settle().await;
        assert_eq!(owner("ns/orphan"), Value::Null);
        assert_eq!(keys(&api, "pods").len(), 4, "another one took its place");
        // The labels match again: the pod is adopted, and one surplus pod is deleted.
        api.patch("pods", "ns/orphan", "", json!({"metadata": {"labels": {"app": "web"}}}));
        api.settle().await;
        assert_eq!(keys(&api, "pods").len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn orphan_is_not_adopted_for_a_replaced_set() {
    let api = FakeApi::new();
    api.seed(set("ReplicaSet", 1));
    let _running = api.start(&[replica_sets], Options::default());
    api.settle().await;
    // Replace the set while the cache receives no events. The orphan must not be adopted for the old UID.
    api.set_away(true);
    api.delete("replicasets", "ns/web");
    let mut other = set("ReplicaSet", 1);
    other["metadata"]["uid"] = json!("uid-other");
    api.seed(other);
    api.seed(pod("orphan", json!({"app": "web"})));
    api.set_away(false);
    api.settle().await;
    let owner = api.get("pods", "ns/orphan").unwrap()["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner, "uid-other");
}

#[tokio::test(start_paused = true)]
async fn rejected_pod_creation_is_reported_and_retried() {
    let api = FakeApi::new();
    api.seed(set("ReplicaSet", 5));
    let quota = FaultKind::Status(403, "Forbidden", "exceeded quota");
    for _ in 0..4 {
        api.fail(Fault { verb: "create", resource: "pods", skip: 0, kind: quota.clone() });
    }
    let running = api.start(&[replica_sets], Options::default());
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let status = api.get("replicasets", "ns/web").unwrap()["status"].clone();
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("ReplicaFailure"), &json!("FailedCreate")),
        "{status}"
    );
    assert_eq!(condition["message"], "exceeded quota");
    // While the first creation is rejected, only one is tried at a time.
    let tried = api
        .requests()
        .iter()
        .filter(|request| request.starts_with("POST /api/v1/namespaces/ns/pods"))
        .count();
    assert!(tried < 5, "{tried}");
    api.settle().await;
    assert_eq!(keys(&api, "pods").len(), 5);
    let status = api.get("replicasets", "ns/web").unwrap()["status"].clone();
    assert_eq!(status.get("conditions"), None, "{status}");
    let expected = "ReplicaSet ns/web Warning FailedCreate Error creating: exceeded quota";
    assert!(api.events().iter().any(|event| event == expected), "{:?}", api.events());
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn pods_in_flight_are_not_created_again() {
    let api = FakeApi::new();
    api.seed(set("ReplicaSet", 4));
    let _running = api.start(&[replica_sets], Options::default());
    // Trigger many syncs before the new pods reach the cache.
    for step in 0..50 {
        api.patch(
            "replicasets",
            "ns/web",
            "",
            json!({"metadata": {"annotations": {"step": step.to_string()}}}),
        );
        tokio::task::yield_now().await;
    }
    api.settle().await;
    let creations = api.take_writes().into_iter().filter(|write| write.verb == "create").count();
    assert_eq!(creations, 4);
}

#[tokio::test(start_paused = true)]
async fn terminating_set_creates_no_pods() {
    let api = FakeApi::new();
    let mut ending = set("ReplicaSet", 2);
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    ending["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    api.seed(ending);
    let _running = api.start(&[replica_sets], Options::default());
    api.settle().await;
    assert_eq!(keys(&api, "pods").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn pod_becomes_available_after_min_ready_seconds() {
    let api = FakeApi::new();
    let mut slow = set("ReplicaSet", 1);
    slow["spec"]["minReadySeconds"] = json!(100);
    api.seed(slow);
    let _running = api.start(&[replica_sets], Options::default());
    api.settle().await;
    make_ready(&api, &keys(&api, "pods")[0]);
    let available =
        || api.get("replicasets", "ns/web").unwrap()["status"]["availableReplicas"].as_i64().unwrap_or(0);
    tokio::time::sleep(std::time::Duration::from_secs(95)).await;
    assert_eq!(available(), 0);
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(available(), 1);
}

type Play = fn(&FakeApi);

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    for (kind, _, run) in BOTH {
        let (seed, act): (Play, Play) = match kind {
            "ReplicaSet" => (
                |api| {
                    api.seed(set("ReplicaSet", 3));
                    api.seed(pod("orphan", json!({"app": "web"})));
                },
                |api| {
                    api.patch("replicasets", "ns/web", "", json!({"spec": {"replicas": 2}}));
                },
            ),
            _ => (
                |api| {
                    api.seed(set("ReplicationController", 3));
                },
                |api| {
                    api.patch("replicationcontrollers", "ns/web", "", json!({"spec": {"replicas": 2}}));
                },
            ),
        };
        every_write_fails_once(&[run], seed, act, |api, when| {
            assert_eq!(keys(api, "pods").len(), 2, "{when}");
            let plural =
                if api.list("replicasets").is_empty() { "replicationcontrollers" } else { "replicasets" };
            let status = api.get(plural, "ns/web").unwrap()["status"].clone();
            assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(2), &json!(2)), "{when}");
        })
        .await;
    }
}
