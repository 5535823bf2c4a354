//! Tests counting on the fake API server, and the decisions.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use orlop_apimachinery::thread_time::assert_linear;
use orlop_client::client::in_process;

use super::count::{is_stale, next_status, resources};
use super::*;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};

fn quota(name: &str, hard: Value) -> Value {
    json!({"kind": "ResourceQuota", "metadata": {"namespace": "ns", "name": name}, "spec": {"hard": hard}})
}

fn claim(name: &str, size: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
}

fn used(api: &FakeApi, name: &str) -> Value {
    api.get("resourcequotas", &format!("ns/{name}")).unwrap()["status"]["used"].clone()
}

#[tokio::test(start_paused = true)]
async fn existing_objects_are_counted_and_deleted_ones_released() {
    let api = FakeApi::new();
    api.seed(claim("a", "5Gi"));
    api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "m"}}));
    api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "other", "name": "m"}}));
    api.seed(json!({"kind": "Service", "metadata": {"namespace": "ns", "name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}}));
    api.seed(quota(
        "q",
        json!({"requests.storage": "10Gi", "persistentvolumeclaims": "5", "count/configmaps": "3",
        "services.nodeports": "2", "count/beans.example.com": "1"}),
    ));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let counted = json!({"requests.storage": "5Gi", "persistentvolumeclaims": "1", "count/configmaps": "1", "services.nodeports": "1"});
    assert_eq!(used(&api, "q"), counted);
    let status = api.get("resourcequotas", "ns/q").unwrap()["status"].clone();
    assert_eq!(status["hard"]["count/beans.example.com"], "1", "not served, but requested");
    assert!(api.delete("persistentvolumeclaims", "ns/a") && api.delete("configmaps", "ns/m"));
    api.patch("services", "ns/s", "", json!({"spec": {"type": "ClusterIP"}}));
    api.settle().await;
    let left = json!({"requests.storage": "0", "persistentvolumeclaims": "0", "count/configmaps": "0", "services.nodeports": "0"});
    assert_eq!(used(&api, "q"), left);
}

#[tokio::test(start_paused = true)]
async fn unknown_kinds_cost_one_discovery_and_a_step_each() {
    let api = FakeApi::new();
    let mut hard: serde_json::Map<String, Value> =
        (0..2_000).map(|n| (format!("count/a{n}.example.com"), json!("1"))).collect();
    hard.insert("count/configmaps".to_owned(), json!("3"));
    api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "m"}}));
    api.seed(quota("q", json!(hard)));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(used(&api, "q"), json!({"count/configmaps": "1"}));
    let discoveries = |api: &FakeApi| api.requests().iter().filter(|request| *request == "GET /apis").count();
    // At the start, one for the count and one for the watches; later, one for the watches every 30 seconds.
    let before = discoveries(&api);
    assert!(before <= 5, "{before}");
    api.delete("configmaps", "ns/m");
    api.settle().await;
    assert_eq!(used(&api, "q"), json!({"count/configmaps": "0"}));
    assert!(discoveries(&api) <= before + 4, "{}", discoveries(&api));
}

#[test]
fn resources_of_many_names_are_linear() {
    let quota = |names: usize| {
        let hard: serde_json::Map<String, Value> =
            (0..names).map(|n| (format!("count/a{n}.b"), json!("1"))).collect();
        typed(json!({"hard": hard}), json!({}))
    };
    assert_linear("resources of a quota", 2_000, quota, |quota| resources(quota).len());
}

#[tokio::test(start_paused = true)]
async fn changed_quota_is_counted_again() {
    let api = FakeApi::new();
    api.seed(claim("a", "5Gi"));
    api.seed(quota("q", json!({"requests.storage": "10Gi"})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    api.patch(
        "resourcequotas",
        "ns/q",
        "",
        json!({"spec": {"hard": {"requests.storage": null, "persistentvolumeclaims": "1"}}}),
    );
    api.settle().await;
    assert_eq!(used(&api, "q"), json!({"persistentvolumeclaims": "1"}));
    // An edit by another client.
    api.patch(
        "resourcequotas",
        "ns/q",
        "status",
        json!({"status": {"hard": {"persistentvolumeclaims": "7"}}}),
    );
    api.settle().await;
    let status = api.get("resourcequotas", "ns/q").unwrap()["status"].clone();
    assert_eq!(
        status,
        json!({"hard": {"persistentvolumeclaims": "1"}, "used": {"persistentvolumeclaims": "1"}})
    );
}

#[tokio::test(start_paused = true)]
async fn terminated_pods_do_not_count() {
    let api = FakeApi::new();
    let pod = |name: &str| {
        json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name}, "status": {"phase": "Running"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}})
    };
    api.seed(pod("a"));
    api.seed(pod("b"));
    api.seed(quota("q", json!({"requests.cpu": "2", "pods": "5", "count/pods": "5"})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(used(&api, "q"), json!({"requests.cpu": "1", "pods": "2", "count/pods": "2"}));
    api.patch("pods", "ns/a", "status", json!({"status": {"phase": "Succeeded"}}));
    api.settle().await;
    assert_eq!(used(&api, "q"), json!({"requests.cpu": "500m", "pods": "1", "count/pods": "2"}));
}

#[tokio::test(start_paused = true)]
async fn i6_every_request_may_fail_once() {
    for fault in [
        Fault { verb: "list", resource: "configmaps", skip: 0, kind: FaultKind::Broken },
        Fault { verb: "get", resource: "resourcequotas", skip: 0, kind: FaultKind::Broken },
        Fault { verb: "update", resource: "resourcequotas/status", skip: 0, kind: FaultKind::Broken },
        Fault { verb: "update", resource: "resourcequotas/status", skip: 0, kind: FaultKind::AnswerLost },
        Fault {
            verb: "update",
            resource: "resourcequotas/status",
            skip: 0,
            kind: FaultKind::Status(409, "Conflict", "the object has been modified"),
        },
    ] {
        let api = FakeApi::new();
        let case = format!("{fault:?}");
        api.seed(claim("a", "5Gi"));
        api.seed(json!({"kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "m"}}));
        api.seed(quota("q", json!({"requests.storage": "10Gi", "configmaps": "3"})));
        api.fail(fault);
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        assert_eq!(used(&api, "q"), json!({"requests.storage": "5Gi", "configmaps": "1"}), "{case}");
        assert_eq!(api.pending_faults(), 0, "{case}");
    }
}

/// Each create of an object that counts changes a quota that is not counted yet.
#[tokio::test(start_paused = true)]
async fn limits_take_effect_although_clients_create_without_pause() {
    let api = FakeApi::new();
    api.seed(claim("a", "5Gi"));
    let hard = json!({"requests.storage": "10Gi", "persistentvolumeclaims": "5"});
    api.seed(quota("q", hard.clone()));
    let kind = FaultKind::Status(409, "Conflict", "the object has been modified");
    api.fail(Fault { verb: "update", resource: "resourcequotas/status", skip: 0, kind });
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let written: Vec<Value> =
        api.take_writes().into_iter().map(|write| write.body["status"].clone()).collect();
    let counted = json!({"hard": hard, "used": {"requests.storage": "5Gi", "persistentvolumeclaims": "1"}});
    let rejecting = json!({"hard": hard, "used": {}});
    assert_eq!(written, [rejecting, counted], "after the write that failed");
}

/// The count needs longer than clients need to fill the namespace.
#[tokio::test(start_paused = true)]
async fn limits_do_not_wait_for_a_long_count() {
    let api = FakeApi::new();
    api.seed(claim("a", "5Gi"));
    let hard = json!({"requests.storage": "10Gi"});
    api.seed(quota("q", hard.clone()));
    let client = api.client();
    let slow = in_process(tower::service_fn(move |request| {
        let client = client.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            client.send(request).await
        }
    }));
    let counting = Counting {
        client: api.client(),
        listing: Listing::new(slow),
        clock: api.clock(),
        queue: WorkQueue::new(Options::default().rate_limit),
    };
    counting.sync("ns/q".to_owned()).await.unwrap();
    let written: Vec<Value> =
        api.take_writes().into_iter().map(|write| write.body["status"].clone()).collect();
    let counted = json!({"hard": hard, "used": {"requests.storage": "5Gi"}});
    assert_eq!(written, [json!({"hard": hard, "used": {}}), counted]);
}

#[tokio::test(start_paused = true)]
async fn without_quotas_no_kind_is_watched() {
    let api = FakeApi::new();
    api.seed(claim("a", "5Gi"));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let asked = api.requests();
    assert!(asked.iter().all(|request| request.ends_with("/resourcequotas")), "{asked:?}");
}

fn typed(spec: Value, status: Value) -> ResourceQuota {
    serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": spec, "status": status})).unwrap()
}

#[test]
fn next_status_has_the_new_counts_for_the_current_limits() {
    let counted = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
    };
    let hard = json!({"pods": "5", "secrets": "2"});
    let spec = json!({"hard": hard});
    for (case, status, found, want) in [
        (
            "1 first",
            json!({}),
            vec![("pods", "1"), ("secrets", "0")],
            json!({"hard": hard, "used": {"pods": "1", "secrets": "0"}}),
        ),
        (
            "2 right",
            json!({"hard": hard, "used": {"pods": "1", "secrets": "0"}}),
            vec![("pods", "1"), ("secrets", "0")],
            json!(null),
        ),
        (
            "3 other",
            json!({"hard": hard, "used": {"pods": "9", "secrets": "0"}}),
            vec![("pods", "1"), ("secrets", "0")],
            json!({"hard": hard, "used": {"pods": "1", "secrets": "0"}}),
        ),
        (
            "4 one not counted",
            json!({"hard": hard, "used": {"pods": "3", "secrets": "2"}}),
            vec![("secrets", "0")],
            json!({"hard": hard, "used": {"pods": "3", "secrets": "0"}}),
        ),
        (
            "5 not wanted any more",
            json!({"hard": hard, "used": {"pods": "1", "secrets": "0", "configmaps": "4"}}),
            vec![],
            json!({"hard": hard, "used": {"pods": "1", "secrets": "0"}}),
        ),
        (
            "6 another limit",
            json!({"hard": {"pods": "1", "secrets": "2"}, "used": {"pods": "1", "secrets": "0"}}),
            vec![],
            json!({"hard": hard, "used": {"pods": "1", "secrets": "0"}}),
        ),
    ] {
        let quota = typed(spec.clone(), status);
        let next = next_status(&quota, &counted(&found));
        assert_eq!(next.map_or(json!(null), |status| json!(status)), want, "{case}");
    }
    assert!(is_stale(&typed(spec.clone(), json!({}))));
    assert!(!is_stale(&typed(spec, json!({"hard": hard, "used": {"pods": "1"}}))));
}

#[test]
fn quota_counts_only_the_kinds_of_its_limits() {
    let quota = typed(
        json!({"hard": {"pods": "1", "limits.cpu": "1", "requests.storage": "1", "count/deployments.apps": "1",
            "count/events": "1", "secrets": "1", "beans": "1"}}),
        json!({}),
    );
    let found: Vec<(&str, &str)> = resources(&quota).into_keys().collect();
    assert_eq!(
        found,
        [("", "persistentvolumeclaims"), ("", "pods"), ("", "secrets"), ("apps", "deployments")]
    );
}
