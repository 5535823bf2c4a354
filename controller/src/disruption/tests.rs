//! Tests of the decisions, one row per case, and of the controller on the fake API server.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use orlop_client::packed_object::GETS;
use serde_json::{Value, json};

use super::budget::{self, BudgetPod, Observed, Targets, observe, unmanaged_message};
use super::selection::{Selectors, is_relevant};
use super::stale::stale_after;
use super::*;
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, merge_into};

const THIS: [Run; 1] = [run];
const NOW: &str = "2026-11-26T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn of_spec(spec: Value, status: Value) -> PodDisruptionBudget {
    let metadata = json!({"name": "p", "namespace": "n", "generation": 2});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn pod(name: &str, ready: &str, deleted: Option<&str>) -> BudgetPod {
    let pod = json!({
        "metadata": {"name": name, "namespace": "n", "deletionTimestamp": deleted},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    BudgetPod::of(&serde_json::from_value::<Pod>(pod).unwrap())
}

#[test]
fn targets_follow_the_spec() {
    for (case, spec, needs_scale, expected, want) in [
        ("1 ctl-pdb-min-percent", json!({"minAvailable": "50%"}), true, 3, (3, 2)),
        ("2 ctl-pdb-no-controller", json!({"maxUnavailable": 1}), true, 0, (0, 0)),
        ("3 ctl-pdb-pending", json!({"minAvailable": 2}), false, 1, (1, 2)),
        ("4 a percentage is rounded up", json!({"maxUnavailable": "10%"}), true, 11, (11, 9)),
        ("5 all may be unavailable", json!({"maxUnavailable": "100%"}), true, 3, (3, 0)),
        ("6 more than all", json!({"maxUnavailable": 7}), true, 3, (3, 0)),
        ("7 none may be unavailable", json!({"maxUnavailable": 0}), true, 3, (3, 3)),
        ("8 no demand", json!({}), false, 3, (0, 0)),
    ] {
        let spec = of_spec(spec, json!({})).spec.unwrap();
        assert_eq!(budget::needs_scale(&spec), needs_scale, "{case}");
        let want = Targets { expected: want.0, healthy: want.1 };
        assert_eq!(budget::targets(&spec, expected), want, "{case}");
    }
}

#[test]
fn evicted_pods_are_disrupted_until_they_are_deleted() {
    let pods = [
        pod("healthy", "True", None),
        pod("unready", "False", None),
        pod("terminating", "True", Some(NOW)),
        pod("evicted", "True", None),
        pod("evicted-later", "True", None),
        pod("evicted-unready", "False", None),
        pod("overdue", "True", None),
    ];
    let status = json!({"disruptedPods": {
        "evicted": "2026-11-26T11:58:30Z", "evicted-later": "2026-11-26T11:59:00Z",
        "evicted-unready": "2026-11-26T11:59:30Z", "overdue": "2026-11-26T11:57:59Z",
        "terminating": "2026-11-26T11:59:00Z", "gone": "2026-11-26T11:59:00Z"}});
    let observed = observe(&of_spec(json!({}), status), &pods, now());
    assert_eq!(observed.healthy, 2, "the healthy one and the overdue one");
    let names: Vec<&str> = observed.disrupted.keys().map(String::as_str).collect();
    assert_eq!(names, ["evicted", "evicted-later", "evicted-unready"]);
    assert_eq!(observed.recheck, Some("2026-11-26T12:00:30Z".parse().unwrap()));
    let overdue: Vec<_> = observed.overdue.iter().filter_map(|pod| pod.name.as_deref()).collect();
    assert_eq!(overdue, ["overdue"]);
}

#[test]
fn status_allows_the_surplus_of_healthy_pods() {
    let condition = |status: &str, reason: &str, since: &str| {
        json!([{"type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
            "observedGeneration": 2, "lastTransitionTime": since}])
    };
    let counts = |allowed: i32, healthy: i32, wanted: i32, expected: i32, conditions: Value| {
        json!({"observedGeneration": 2, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": wanted, "expectedPods": expected, "conditions": conditions})
    };
    let earlier = "2026-11-26T11:00:00Z";
    let (yes, no) = ("SufficientPods", "InsufficientPods");
    for (case, old, healthy, (expected, wanted), want) in [
        ("1 ctl-pdb-min-percent", json!({}), 3, (3, 2), counts(1, 3, 2, 3, condition("True", yes, NOW))),
        ("2 ctl-pdb-no-controller", json!({}), 1, (0, 0), counts(0, 1, 0, 0, condition("False", no, NOW))),
        ("3 ctl-pdb-pending", json!({}), 1, (2, 2), counts(0, 1, 2, 2, condition("False", no, NOW))),
        (
            "4 the value of the condition stays",
            counts(1, 3, 2, 3, condition("True", yes, earlier)),
            4,
            (4, 2),
            counts(2, 4, 2, 4, condition("True", yes, earlier)),
        ),
        (
            "5 the value of the condition changes",
            counts(1, 3, 2, 3, condition("True", yes, earlier)),
            2,
            (3, 2),
            counts(0, 2, 2, 3, condition("False", no, NOW)),
        ),
        (
            "6 the sync had failed",
            counts(0, 2, 2, 3, condition("False", "SyncFailed", earlier)),
            2,
            (3, 2),
            counts(0, 2, 2, 3, condition("False", no, earlier)),
        ),
        ("7 unchanged", counts(1, 3, 2, 3, condition("True", yes, earlier)), 3, (3, 2), Value::Null),
    ] {
        let budget = of_spec(json!({}), old);
        let observed = Observed { healthy, ..Observed::default() };
        let found = budget::status(&budget, Targets { expected, healthy: wanted }, &observed, now());
        assert_eq!(json!(found), want, "{case}");
    }
}

#[test]
fn failed_sync_allows_no_eviction() {
    let budget =
        of_spec(json!({}), json!({"observedGeneration": 1, "disruptionsAllowed": 3, "currentHealthy": 4}));
    let why = "found no controllers for pod \"a\"";
    let failed = budget::failed_status(&budget, why, now()).unwrap();
    let want = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 4, "conditions": [
        {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": why,
         "observedGeneration": 1, "lastTransitionTime": NOW}]});
    assert_eq!(json!(failed), want);
    let again = PodDisruptionBudget { status: Some(failed), ..budget };
    assert_eq!(budget::failed_status(&again, why, now()), None);
}

#[test]
fn message_shows_the_selector_as_go_does() {
    let selector = serde_json::from_value(json!({"matchLabels": {"app": "web", "a": "b"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]}))
    .unwrap();
    let want = "(selector: &LabelSelector{MatchLabels:map[string]string{a: b,app: web,},\
        MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},})";
    assert!(unmanaged_message(Some(&selector)).contains(want), "{}", unmanaged_message(Some(&selector)));
}

#[test]
fn disruption_target_is_stale_after_two_minutes() {
    let pod = |phase: &str, status: &str, reason: &str, since: &str, deleted: Option<&str>| -> Pod {
        let conditions = json!([{"type": "DisruptionTarget", "status": status, "reason": reason,
            "lastTransitionTime": since}]);
        let metadata = json!({"name": "a", "deletionTimestamp": deleted});
        let pod = json!({"metadata": metadata, "status": {"phase": phase, "conditions": conditions}});
        serde_json::from_value(pod).unwrap()
    };
    let (fresh, old) = ("2026-11-26T11:59:00Z", "2026-11-26T11:00:00Z");
    let by_api = "EvictionByEvictionAPI";
    let seconds = Duration::from_secs;
    for (case, pod, want) in [
        ("1 no condition", Pod::default(), None),
        ("2 fresh", pod("Running", "True", by_api, fresh, None), Some(seconds(60))),
        ("3 stale", pod("Running", "True", by_api, old, None), Some(Duration::ZERO)),
        ("4 reset", pod("Running", "False", "", old, None), None),
        ("5 of the node", pod("Running", "True", "TerminationByKubelet", old, None), None),
        ("6 terminating", pod("Running", "True", by_api, old, Some(NOW)), None),
        ("7 finished", pod("Failed", "True", by_api, old, None), None),
        (
            "8 from the future",
            pod("Running", "True", by_api, "2026-11-26T12:01:00Z", None),
            Some(seconds(180)),
        ),
    ] {
        assert_eq!(stale_after(&pod, now()), want, "{case}");
    }
}

#[test]
fn budgets_are_found_by_the_labels_of_a_pod() {
    let selectors = Selectors::default();
    for (key, selector) in [
        ("n/web", json!({"matchLabels": {"app": "web"}})),
        ("n/all", json!({})),
        ("n/front", json!({"matchLabels": {"app": "web", "tier": "front"}})),
        ("n/has-app", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
        ("n/db", json!({"matchLabels": {"app": "db"}})),
        ("n/deleted", json!({"matchLabels": {"app": "web"}})),
        ("n/none", Value::Null),
        ("n/invalid", json!({"matchExpressions": [{"key": "app", "operator": "?"}]})),
        ("other/web", json!({"matchLabels": {"app": "web"}})),
    ] {
        selectors.set(key, Some(&of_spec(json!({"selector": selector}), json!({}))));
    }
    selectors.set("n/db", Some(&of_spec(json!({"selector": {"matchLabels": {"app": "mail"}}}), json!({}))));
    selectors.set("n/deleted", None);
    for (case, labels, want) in [
        ("1 one label", json!({"app": "web"}), vec!["n/all", "n/has-app", "n/web"]),
        (
            "2 two labels",
            json!({"app": "web", "tier": "front"}),
            vec!["n/all", "n/front", "n/has-app", "n/web"],
        ),
        ("3 the former selector of a budget", json!({"app": "db"}), vec!["n/all", "n/has-app"]),
        ("4 the new selector of a budget", json!({"app": "mail"}), vec!["n/all", "n/db", "n/has-app"]),
        ("5 no labels", json!({}), vec!["n/all"]),
    ] {
        let labels = serde_json::from_value(labels).unwrap();
        assert_eq!(selectors.of("n", Some(&labels)), want, "{case}");
    }
    assert_eq!(
        ["n", "other", "n2", ""].map(|namespace| selectors.has_any(namespace)),
        [true, true, false, false]
    );
    selectors.set("other/web", None);
    assert!(!selectors.has_any("other"));
}

#[test]
fn only_some_changes_of_a_pod_are_relevant() {
    let base = json!({"metadata": {"name": "a", "uid": "u"}, "status": {"phase": "Running"}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let owner = json!([{"apiVersion": "v1", "kind": "K", "name": "k", "uid": "k", "controller": true}]);
    for (case, change, want) in [
        ("1 nothing", json!({}), false),
        ("2 an address", json!({"status": {"podIP": "10.0.0.1"}}), false),
        ("3 an annotation", json!({"metadata": {"annotations": {"a": "b"}}}), false),
        ("4 ready", json!({"status": {"conditions": ready}}), true),
        ("5 deleted", json!({"metadata": {"deletionTimestamp": NOW}}), true),
        ("6 adopted", json!({"metadata": {"ownerReferences": owner}}), true),
        ("7 another pod of that name", json!({"metadata": {"uid": "v"}}), true),
        ("8 finished", json!({"status": {"phase": "Failed"}}), true),
        ("9 scheduled", json!({"spec": {"containers": [], "nodeName": "n"}}), true),
    ] {
        let mut new = base.clone();
        merge_into(&mut new, &change);
        let [old, new] = [base.clone(), new].map(|pod| serde_json::from_value::<Pod>(pod).unwrap());
        assert_eq!(is_relevant(&old, &new), want, "{case}");
    }
}

fn stored_pod(name: &str, labels: Value, owner: Option<(&str, &str)>) -> Value {
    let owners: Vec<Value> = owner
        .map(|(kind, uid)| {
            json!({"apiVersion": "apps/v1", "kind": kind, "name": "r", "uid": uid, "controller": true})
        })
        .into_iter()
        .collect();
    json!({"kind": "Pod", "metadata": {"namespace": "default", "name": name, "labels": labels, "ownerReferences": owners},
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn stored_budget(spec: Value) -> Value {
    json!({"kind": "PodDisruptionBudget", "metadata": {"namespace": "default", "name": "p"}, "spec": spec})
}

fn counts(api: &FakeApi) -> [i64; 4] {
    let budget = api.get("poddisruptionbudgets", "default/p").unwrap();
    ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
        .map(|name| budget["status"][name].as_i64().unwrap_or(-1))
}

#[tokio::test(start_paused = true)]
async fn status_follows_pods_and_the_scale_of_their_controller() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "ReplicaSet", "metadata": {"namespace": "default", "name": "r", "uid": "u"},
        "spec": {"replicas": 4, "selector": {}}}));
    for name in ["a", "b", "c"] {
        api.seed(stored_pod(name, json!({"app": "web"}), Some(("ReplicaSet", "u"))));
    }
    api.seed(stored_pod("d", json!({"app": "db"}), None));
    api.seed(stored_budget(json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}})));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(counts(&api), [1, 3, 2, 4]);
    assert_eq!(api.events(), Vec::<String>::new());
    api.patch("pods", "default/a", "", json!({"metadata": {"labels": {"app": "db"}}}));
    api.settle().await;
    assert_eq!(counts(&api), [0, 2, 2, 4], "the pod no longer matches");
    api.delete("pods", "default/b");
    api.settle().await;
    assert_eq!(counts(&api), [0, 1, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn budget_without_pods_allows_no_eviction() {
    let api = FakeApi::new();
    api.seed(stored_budget(json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}})));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    assert_eq!(counts(&api), [0, 0, 0, 0]);
    assert_eq!(api.events(), ["PodDisruptionBudget default/p Normal NoPods No matching pods found"]);
}

#[tokio::test(start_paused = true)]
async fn missing_controller_fails_the_sync() {
    let api = FakeApi::new();
    api.seed(stored_pod("a", json!({"app": "web"}), Some(("Unknown", "u"))));
    api.seed(stored_budget(json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    let budget = api.get("poddisruptionbudgets", "default/p").unwrap();
    let condition = &budget["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SyncFailed");
    assert_eq!(condition["message"], "no matches for kind \"Unknown\" in version \"apps/v1\"");
}

#[tokio::test(start_paused = true)]
async fn stale_condition_of_a_pod_is_reset() {
    let api = FakeApi::new();
    let mut pod = stored_pod("a", json!({}), None);
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": api.now()});
    pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
    api.seed(pod);
    let _running = api.start(&THIS, Options::default());
    let condition = || api.get("pods", "default/a").unwrap()["status"]["conditions"][1].clone();
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!(condition()["status"], "True");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((condition()["status"].as_str(), condition().get("reason")), (Some("False"), None));
}

#[tokio::test(start_paused = true)]
async fn change_of_a_pod_reads_only_its_own_budgets() {
    let api = FakeApi::new();
    for n in 0..200 {
        api.seed(json!({"kind": "PodDisruptionBudget", "metadata": {"namespace": "default", "name": format!("p{n}")},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": format!("a{n}")}}}}));
    }
    api.seed(stored_pod("a", json!({"app": "a7"}), None));
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    for (subresource, change) in [
        ("", json!({"metadata": {"annotations": {"a": "b"}}})),
        ("", json!({"metadata": {"labels": {"app": "a8"}}})),
        ("status", json!({"status": {"conditions": []}})),
    ] {
        let before = GETS.get();
        api.patch("pods", "default/a", subresource, change.clone());
        api.settle().await;
        let reads = GETS.get() - before;
        assert!(reads < 20, "{change}: {reads}");
    }
}

#[tokio::test(start_paused = true)]
async fn resources_are_discovered_once_for_many_syncs() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "Deployment", "metadata": {"namespace": "default", "name": "r", "uid": "u"},
        "spec": {"replicas": 4, "selector": {}}}));
    api.seed(stored_pod("a", json!({"app": "web"}), Some(("Deployment", "u"))));
    api.seed(stored_budget(json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})));
    let _running = api.start(&THIS, Options::default());
    for ready in ["False", "True", "False"] {
        api.patch(
            "pods",
            "default/a",
            "status",
            json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}}),
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let count = |wanted: &str| api.requests().iter().filter(|request| *request == wanted).count();
    assert_eq!(counts(&api), [0, 0, 3, 4]);
    assert!(count("GET /apis/apps/v1/namespaces/default/deployments/r/scale") > 1);
    assert_eq!(count("GET /apis/apps/v1"), 1);
}

#[tokio::test(start_paused = true)]
async fn sync_requests_a_limited_number_of_scales() {
    let api = FakeApi::new();
    for n in 0..1100 {
        let (name, uid) = (format!("d{n}"), format!("u{n}"));
        api.seed(
            json!({"kind": "Deployment", "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"replicas": 1, "selector": {}}}),
        );
        let mut pod = stored_pod(&name, json!({"app": "web"}), Some(("Deployment", &uid)));
        pod["metadata"]["ownerReferences"][0]["name"] = json!(name);
        api.seed(pod);
    }
    let _running = api.start(&THIS, Options::default());
    api.settle().await;
    api.create(stored_budget(json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})));
    let before = api.requests().len();
    api.settle().await;
    let requests = api.requests();
    let scales = requests.iter().skip(before).filter(|request| request.ends_with("/scale")).count();
    let condition = &api.get("poddisruptionbudgets", "default/p").unwrap()["status"]["conditions"][0];
    assert_eq!(
        condition["message"],
        "the pods have more than 1000 controllers whose scale must be requested"
    );
    // The write of the status causes one more sync.
    assert!((1000..=2000).contains(&scales), "{scales}");
}
