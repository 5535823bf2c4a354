//! Tests of DaemonSets on the fake API server.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::run;
use crate::options::Options;
use crate::testing::{FakeApi, merge_into};
use crate::workload::testing::{every_write_fails_once, keys, make_ready, run_pods, start_after};

fn node(name: &str, labels: Value) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels}})
}

fn set() -> Value {
    json!({"kind": "DaemonSet", "metadata": {"namespace": "ns", "name": "d", "uid": "uid-d"}, "spec": {
        "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "x"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {
            "containers": [{"name": "c", "image": "v1"}], "nodeSelector": {"golden": "yes"}}}}})
}

fn with(mut set: Value, spec: Value) -> Value {
    merge_into(&mut set["spec"], &spec);
    set
}

/// A server with the nodes a and b.
fn two_nodes() -> FakeApi {
    let api = FakeApi::new();
    api.seed(node("a", json!({"golden": "yes"})));
    api.seed(node("b", json!({"golden": "yes"})));
    api
}

fn set_image(api: &FakeApi, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    api.patch("daemonsets", "ns/d", "", json!({"spec": {"template": {"spec": {"containers": containers}}}}));
}

fn status(api: &FakeApi) -> Value {
    api.get("daemonsets", "ns/d").unwrap()["status"].clone()
}

fn target(pod: &Value) -> String {
    let assigned = pod["spec"]["nodeName"].as_str();
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    assigned.or_else(|| pod.pointer(required)?.as_str()).unwrap().to_owned()
}

/// The node and the image of every pod that is not terminating, by node.
fn images(api: &FakeApi) -> Vec<(String, String)> {
    let pods = api.list("pods").into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let mut found: Vec<_> = pods.map(|pod| (target(&pod), image(&pod))).collect();
    found.sort();
    found
}

fn on(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(node, image)| ((*node).to_owned(), (*image).to_owned())).collect()
}

fn pod_on(api: &FakeApi, node: &str) -> String {
    let pods = api.list("pods");
    let pod = pods.iter().find(|pod| target(pod) == node).unwrap();
    format!("ns/{}", pod["metadata"]["name"].as_str().unwrap())
}

fn bind(api: &FakeApi, node: &str) {
    api.patch("pods", &pod_on(api, node), "", json!({"spec": {"nodeName": node}}));
}

#[tokio::test(start_paused = true)]
async fn pods_follow_the_nodes() {
    let api = two_nodes();
    api.seed(node("c", json!({})));
    api.seed(set());
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(images(&api), on(&[("a", "v1"), ("b", "v1")]));
    let pod = api.list("pods")[0].clone();
    let revisions = keys(&api, "controllerrevisions");
    let hash = revisions[0].trim_start_matches("ns/d-");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "x", "controller-revision-hash": hash}));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "uid-d");
    let created = api.events();
    assert_eq!(created.len(), 2, "{created:?}");
    assert!(created[0].starts_with("DaemonSet ns/d Normal SuccessfulCreate Created pod: d-"), "{created:?}");

    make_ready(&api, &pod_on(&api, "a"));
    api.settle().await;
    assert_eq!(
        status(&api),
        json!({"currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2, "numberReady": 1,
            "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 1, "numberUnavailable": 1})
    );

    // ctl-ds-node-selector
    bind(&api, "a");
    api.patch("nodes", "c", "", json!({"metadata": {"labels": {"golden": "yes"}}}));
    api.patch("nodes", "a", "", json!({"metadata": {"labels": {"golden": "no"}}}));
    api.settle().await;
    assert_eq!(images(&api), on(&[("b", "v1"), ("c", "v1")]));
    // A deleted pod is replaced, and a taint that it does not tolerate deletes it.
    api.delete_with("pods", &pod_on(&api, "b"), json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(images(&api), on(&[("b", "v1"), ("c", "v1")]));
    bind(&api, "b");
    api.patch("nodes", "b", "", json!({"spec": {"taints": [{"key": "golden", "effect": "NoExecute"}]}}));
    api.settle().await;
    assert_eq!(images(&api), on(&[("c", "v1")]));
    let found = status(&api);
    assert_eq!(
        (&found["desiredNumberScheduled"], &found["numberUnavailable"]),
        (&json!(1), &json!(1)),
        "{found}"
    );
}

/// ctl-ds-failed-pod
#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_after_growing_delays() {
    let api = two_nodes();
    api.seed(set());
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let fail = |node: &str| {
        let pod = pod_on(&api, node);
        api.patch("pods", &pod, "status", json!({"status": {"phase": "Failed"}}));
        pod
    };
    let second = || tokio::time::sleep(std::time::Duration::from_millis(100));
    let first = fail("a");
    second().await;
    assert!(api.get("pods", &first).is_none(), "the first one is deleted immediately");
    let next = fail("a");
    second().await;
    assert!(api.get("pods", &next).is_some(), "the next one stays for 1 s");
    api.settle().await;
    assert!(api.get("pods", &next).is_none());
    assert_eq!(images(&api), on(&[("a", "v1"), ("b", "v1")]));
    let message = format!(
        "DaemonSet ns/d Warning FailedDaemonPod Found failed daemon pod {next} on node a, will try to kill it"
    );
    assert!(api.events().contains(&message), "{:?}", api.events());
}

#[tokio::test(start_paused = true)]
async fn rolling_update_replaces_one_pod_after_the_other() {
    let api = two_nodes();
    api.seed(with(set(), json!({"minReadySeconds": 2})));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    set_image(&api, "v2");
    let check = |api: &FakeApi| {
        let pods = api.list("pods");
        let ready = pods.iter().filter(|pod| crate::workload::testing::is_ready(pod)).count();
        assert!(ready >= 1 && pods.len() <= 2, "{pods:?}");
    };
    run_pods(&api, check).await;
    assert_eq!(images(&api), on(&[("a", "v2"), ("b", "v2")]));
    let found = status(&api);
    assert_eq!(
        (&found["updatedNumberScheduled"], &found["observedGeneration"]),
        (&json!(2), &json!(2)),
        "{found}"
    );

    // The first template is the current one again, with its first revision.
    set_image(&api, "v1");
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api), on(&[("a", "v1"), ("b", "v1")]));
    let mut numbers: Vec<i64> =
        api.list("controllerrevisions").iter().map(|one| one["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn surge_creates_the_new_pod_first() {
    let api = two_nodes();
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, "minReadySeconds": 2});
    api.seed(with(set(), rolling));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    set_image(&api, "v2");
    let check = |api: &FakeApi| {
        let pods = api.list("pods");
        let ready = pods.iter().filter(|pod| crate::workload::testing::is_ready(pod)).count();
        assert!(ready >= 2 && pods.len() <= 3, "{pods:?}");
    };
    run_pods(&api, check).await;
    assert_eq!(images(&api), on(&[("a", "v2"), ("b", "v2")]));
}

/// ctl-ds-on-delete
#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_the_deletion_of_pods() {
    let api = two_nodes();
    let strategy =
        json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}, "revisionHistoryLimit": 0});
    api.seed(with(set(), strategy));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    set_image(&api, "v2");
    api.settle().await;
    assert_eq!(images(&api), on(&[("a", "v1"), ("b", "v1")]));
    assert_eq!(status(&api)["updatedNumberScheduled"], Value::Null);
    api.delete_with("pods", &pod_on(&api, "a"), json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(images(&api), on(&[("a", "v2"), ("b", "v1")]));
    assert_eq!(status(&api)["updatedNumberScheduled"], 1);
    assert_eq!(keys(&api, "controllerrevisions").len(), 2, "a pod still has the old one");
    api.delete_with("pods", &pod_on(&api, "b"), json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(keys(&api, "controllerrevisions").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pods_and_revisions_are_adopted_and_released() {
    let api = two_nodes();
    let orphan = json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "orphan", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "v0"}], "nodeName": "a"}});
    api.seed(orphan);
    let strategy = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}});
    api.seed(with(set(), strategy));
    let data = json!({"spec": {"template": with(set(), json!({}))["spec"]["template"]}});
    api.seed(json!({"kind": "ControllerRevision", "metadata": {"namespace": "ns", "name": "saved", "labels": {"app": "x"}},
        "revision": 7, "data": data}));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(images(&api), on(&[("a", "v0"), ("b", "v1")]));
    let owner = |plural: &str, key: &str| {
        api.get(plural, key).unwrap()["metadata"]["ownerReferences"][0]["uid"].clone()
    };
    assert_eq!(owner("pods", "ns/orphan"), "uid-d");
    assert_eq!(keys(&api, "controllerrevisions"), ["ns/saved"], "it has the current template");
    assert_eq!(owner("controllerrevisions", "ns/saved"), "uid-d");
    let labels = |key: &str| api.get("pods", key).unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels(&pod_on(&api, "b"))["controller-revision-hash"], "saved");

    api.patch("pods", "ns/orphan", "", json!({"metadata": {"labels": {"app": "y"}}}));
    api.settle().await;
    assert_eq!(owner("pods", "ns/orphan"), Value::Null);
    assert_eq!(images(&api), on(&[("a", "v0"), ("a", "v1"), ("b", "v1")]), "another one took its place");
}

#[tokio::test(start_paused = true)]
async fn taken_revision_name_counts_as_a_collision() {
    let api = two_nodes();
    let typed = serde_json::from_value(set()).unwrap();
    let taken = super::history::new_revision(&typed, 1).metadata.name;
    api.seed(json!({"kind": "ControllerRevision", "metadata": {"namespace": "ns", "name": taken}, "revision": 1, "data": {}}));
    api.seed(set());
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(api.list("pods").len(), 2);
    assert_eq!(status(&api)["collisionCount"], 1);
    assert_eq!(keys(&api, "controllerrevisions").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn replacement_of_a_daemon_set_does_not_wait_for_the_pods_of_the_old_one() {
    let api = two_nodes();
    api.seed(set());
    let (server, is_first) = (api.clone(), AtomicBool::new(true));
    // During the first sync, while it creates the revision, another DaemonSet gets the name.
    let _running = start_after(&api, run, move |request| {
        let is_due = request.starts_with("POST") && request.ends_with("/controllerrevisions");
        let server = (is_due && is_first.swap(false, Ordering::SeqCst)).then(|| server.clone());
        async move {
            if let Some(server) = server {
                server.delete("daemonsets", "ns/d");
                let mut replacement = set();
                replacement["metadata"]["uid"] = json!("uid-new");
                server.seed(replacement);
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    });
    api.settle().await;
    let pods = api.list("pods");
    let owned =
        |uid: &str| pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == uid).count();
    assert_eq!((owned("uid-d"), owned("uid-new")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn selector_of_all_pods_is_reported() {
    let api = two_nodes();
    api.seed(with(set(), json!({"selector": {"matchLabels": null}})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(api.list("pods").len(), 0);
    let message = "DaemonSet ns/d Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required.";
    assert_eq!(api.events(), [message]);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(node("a", json!({"golden": "yes"})));
        api.seed(node("b", json!({"golden": "yes"})));
        api.seed(with(set(), json!({"revisionHistoryLimit": 0})));
    };
    let act = |api: &FakeApi| set_image(api, "v2");
    every_write_fails_once(&[run], seed, act, |api, when| {
        assert_eq!(images(api), on(&[("a", "v2"), ("b", "v2")]), "{when}");
        assert_eq!(keys(api, "controllerrevisions").len(), 1, "{when}");
        let found = status(api);
        assert_eq!(
            (&found["desiredNumberScheduled"], &found["numberAvailable"], &found["updatedNumberScheduled"]),
            (&json!(2), &json!(2), &json!(2)),
            "{when}: {found}"
        );
    })
    .await;
}
