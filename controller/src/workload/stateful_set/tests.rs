//! Tests of StatefulSets on the fake API server, with the garbage collector and claim protection where needed.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

use super::identity::LABEL_REVISION;
use super::revisions::Revision;
use super::run;
use crate::context::Run;
use crate::gc;
use crate::options::Options;
use crate::protection;
use crate::testing::FakeApi;
use crate::workload::testing::{every_write_fails_once, keys, make_ready, run_pods};

fn set(replicas: i32) -> Value {
    json!({"kind": "StatefulSet", "metadata": {"namespace": "ns", "name": "web", "uid": "uid-web"}, "spec": {
        "replicas": replicas, "serviceName": "nginx", "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}})
}

fn with(mut set: Value, spec: Value) -> Value {
    crate::testing::merge_into(&mut set["spec"], &spec);
    set
}

fn set_image(api: &FakeApi, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    api.patch(
        "statefulsets",
        "ns/web",
        "",
        json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    );
}

fn status(api: &FakeApi) -> Value {
    api.get("statefulsets", "ns/web").unwrap()["status"].clone()
}

/// The name and image of every pod.
fn images(api: &FakeApi) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pods = api.list("pods").into_iter();
    pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["containers"][0]["image"]))).collect()
}

fn named(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, image)| ((*name).to_owned(), (*image).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_start_in_order_each_with_its_claim_and_stop_in_reverse_order() {
    let api = FakeApi::new();
    api.seed(set(3));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0"]);
    assert_eq!(keys(&api, "persistentvolumeclaims"), ["ns/www-web-0"]);
    make_ready(&api, "ns/web-0");
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0", "ns/web-1"]);
    run_pods(&api, |_| {}).await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0", "ns/web-1", "ns/web-2"]);
    let pod = api.get("pods", "ns/web-1").unwrap();
    let revision = keys(&api, "controllerrevisions")[0].trim_start_matches("ns/").to_owned();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "apps.kubernetes.io/pod-index": "1", "statefulset.kubernetes.io/pod-name": "web-1",
            "controller-revision-hash": revision})
    );
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-1"), &json!("nginx")));
    let found = status(&api);
    for (field, wanted) in [
        ("replicas", 3),
        ("readyReplicas", 3),
        ("availableReplicas", 3),
        ("currentReplicas", 3),
        ("updatedReplicas", 3),
        ("observedGeneration", 1),
    ] {
        assert_eq!(found[field], wanted, "{field}: {found}");
    }
    assert_eq!((&found["currentRevision"], &found["updateRevision"]), (&json!(revision), &json!(revision)));
    let events = api.events();
    for message in [
        "create Claim www-web-0 Pod web-0 in StatefulSet web success",
        "create Pod web-0 in StatefulSet web successful",
    ] {
        assert!(
            events.contains(&format!("StatefulSet ns/web Normal SuccessfulCreate {message}")),
            "{events:?}"
        );
    }

    // Scale down: pods are deleted one at a time from the highest ordinal; the claims are retained.
    api.patch("pods", "ns/web-2", "", json!({"metadata": {"finalizers": ["example.test/hold"]}}));
    api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 1}}));
    api.settle().await;
    assert_eq!(
        keys(&api, "pods"),
        ["ns/web-0", "ns/web-1", "ns/web-2"],
        "web-2 is on its way and web-1 waits"
    );
    api.patch("pods", "ns/web-2", "", json!({"metadata": {"finalizers": null}}));
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0"]);
    assert_eq!(keys(&api, "persistentvolumeclaims").len(), 3);
}

/// The number of replicas costs neither memory nor steps, and each turn is limited.
#[test]
fn steps_of_a_turn_are_limited_whatever_the_number_of_replicas() {
    use super::decide::{BURST, SetInput, Step, decide};
    let spec = json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": []});
    let set: StatefulSet = serde_json::from_value(with(set(i32::MAX), spec)).unwrap();
    let template = set.spec.as_ref().unwrap().template.clone();
    let revision = Revision { name: "web-1".to_owned(), template };
    let pod =
        |name: &str| serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}})).unwrap();
    let pods = [Arc::new(pod("web-1")), Arc::new(pod("web-2147483646"))];
    let now = jiff::Timestamp::UNIX_EPOCH;
    let seen =
        SetInput { set: &set, current: &revision, update: &revision, pods: &pods, claim: &|_| None, now };
    let plan = decide(&seen);
    assert!(plan.is_partial);
    assert_eq!(plan.groups.iter().map(Vec::len).sum::<usize>(), BURST);
    assert_eq!(plan.groups[0][..2], [Step::Create(0), Step::Fix(Arc::clone(&pods[0]), 1)]);
    let huge = with(json!(set), json!({"podManagementPolicy": "OrderedReady"}));
    let huge: StatefulSet = serde_json::from_value(huge).unwrap();
    let plan = decide(&SetInput { set: &huge, ..seen });
    assert_eq!((plan.groups, plan.is_partial), (vec![vec![Step::Create(0)]], false));
}

#[tokio::test(start_paused = true)]
async fn parallel_set_continues_after_a_full_turn() {
    let api = FakeApi::new();
    let count = super::decide::BURST + 20;
    let spec = json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": null});
    api.seed(with(set(i32::try_from(count).unwrap()), spec));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(keys(&api, "pods").len(), count);
}

#[tokio::test(start_paused = true)]
async fn taken_revision_names_are_tried_in_limited_steps() {
    let api = FakeApi::new();
    let typed: StatefulSet = serde_json::from_value(set(1)).unwrap();
    for collisions in 0..25 {
        let taken = super::revisions::new_revision(&typed, 1, collisions);
        let metadata = json!({"namespace": "ns", "name": taken.metadata.name});
        api.seed(json!({"kind": "ControllerRevision", "metadata": metadata, "revision": 1, "data": {}}));
    }
    api.seed(set(1));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0"]);
    assert_eq!(status(&api)["collisionCount"], 25);
    let requests = api.requests();
    let first_turn = requests.iter().take_while(|request| !request.ends_with("/statefulsets/web/status"));
    let created = first_turn.filter(|request| request.starts_with("POST") && request.ends_with("revisions"));
    assert_eq!(created.count(), 10);
}

#[tokio::test(start_paused = true)]
async fn next_pod_waits_until_the_previous_pod_is_available() {
    let api = FakeApi::new();
    api.seed(with(set(2), json!({"minReadySeconds": 100})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    make_ready(&api, "ns/web-0");
    tokio::time::sleep(std::time::Duration::from_secs(95)).await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0"]);
    let found = status(&api);
    assert_eq!((&found["readyReplicas"], &found["availableReplicas"]), (&json!(1), &json!(0)), "{found}");
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0", "ns/web-1"]);
}

#[tokio::test(start_paused = true)]
async fn orphan_with_a_member_name_is_adopted_and_labelled() {
    let api = FakeApi::new();
    for (name, labels) in [
        ("web-0", json!({"app": "web"})),
        ("other-1", json!({"app": "web"})),
        ("web-1", json!({"app": "db"})),
    ] {
        api.seed(json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name, "labels": labels},
            "spec": {"containers": []}}));
    }
    api.seed(with(set(1), json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}})));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    let owner = |name: &str| api.get("pods", name).unwrap()["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(
        (owner("ns/web-0"), owner("ns/other-1"), owner("ns/web-1")),
        (json!("uid-web"), Value::Null, Value::Null)
    );
    let labels = api.get("pods", "ns/web-0").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_do_not_wait_for_each_other() {
    let api = FakeApi::new();
    api.seed(with(set(4), json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 3}})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-3", "ns/web-4", "ns/web-5", "ns/web-6"]);
    api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 1}}));
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-3"]);
    // With another start ordinal, pods outside the range are deleted and missing pods are created.
    api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 2, "ordinals": {"start": 0}}}));
    api.settle().await;
    assert_eq!(keys(&api, "pods"), ["ns/web-0", "ns/web-1"]);
}

#[tokio::test(start_paused = true)]
async fn rolling_update_stops_at_the_partition_and_can_be_undone() {
    let api = FakeApi::new();
    api.seed(with(set(3), json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}})));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    let first = status(&api)["currentRevision"].clone();
    set_image(&api, "v2");
    run_pods(&api, |api| assert!(api.list("pods").len() >= 2, "one at a time")).await;
    assert_eq!(images(&api), named(&[("web-0", "v1"), ("web-1", "v1"), ("web-2", "v2")]));
    let found = status(&api);
    assert_eq!((&found["currentRevision"], &found["currentReplicas"]), (&first, &json!(2)));
    assert_eq!(found["updatedReplicas"], 1);
    // A pod below the partition is recreated at its old revision.
    api.delete_with("pods", "ns/web-0", json!({"gracePeriodSeconds": 0}));
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api)[0].1, "v1");

    api.patch(
        "statefulsets",
        "ns/web",
        "",
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
    );
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api), named(&[("web-0", "v2"), ("web-1", "v2"), ("web-2", "v2")]));
    let found = status(&api);
    assert_eq!(found["currentRevision"], found["updateRevision"]);
    assert_ne!(found["currentRevision"], first);

    set_image(&api, "v1");
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api), named(&[("web-0", "v1"), ("web-1", "v1"), ("web-2", "v1")]));
    assert_eq!(status(&api)["updateRevision"], first, "the same revision");
    let mut numbers: Vec<i64> =
        api.list("controllerrevisions").iter().map(|one| one["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_pods_do_not_block_a_parallel_update() {
    let api = FakeApi::new();
    api.seed(with(set(3), json!({"podManagementPolicy": "Parallel"})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    set_image(&api, "v2");
    api.settle().await;
    assert_eq!(images(&api), named(&[("web-0", "v2"), ("web-1", "v2"), ("web-2", "v2")]));
    // Of the available pods, only `maxUnavailable` are deleted at a time.
    run_pods(&api, |_| {}).await;
    api.patch(
        "statefulsets",
        "ns/web",
        "",
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}}),
    );
    set_image(&api, "v3");
    api.settle().await;
    assert_eq!(images(&api), named(&[("web-0", "v2"), ("web-1", "v3"), ("web-2", "v3")]));
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api)[0].1, "v3");
}

#[tokio::test(start_paused = true)]
async fn on_delete_strategy_updates_only_deleted_pods() {
    let api = FakeApi::new();
    api.seed(with(
        set(2),
        json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}, "revisionHistoryLimit": 0}),
    ));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    set_image(&api, "v2");
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api), named(&[("web-0", "v1"), ("web-1", "v1")]));
    api.delete_with("pods", "ns/web-0", json!({"gracePeriodSeconds": 0}));
    run_pods(&api, |_| {}).await;
    assert_eq!(images(&api), named(&[("web-0", "v2"), ("web-1", "v1")]));
    assert_eq!(keys(&api, "controllerrevisions").len(), 2, "a pod still has the old one");
}

#[tokio::test(start_paused = true)]
async fn failed_pod_is_recreated() {
    let api = FakeApi::new();
    api.seed(set(2));
    let _running = api.start(&[run], Options::default());
    run_pods(&api, |_| {}).await;
    let before = api.get("pods", "ns/web-0").unwrap()["metadata"]["uid"].clone();
    api.patch("pods", "ns/web-0", "status", json!({"status": {"phase": "Failed"}}));
    run_pods(&api, |_| {}).await;
    assert_ne!(api.get("pods", "ns/web-0").unwrap()["metadata"]["uid"], before);
}

#[tokio::test(start_paused = true)]
async fn retention_policy_decides_which_claims_are_deleted() {
    const ALL: [Run; 3] = [run, gc::owners::run, protection::claim::run];
    for (deleted, scaled, after_scaling, after_deletion) in [
        ("Retain", "Retain", 3, 3),
        ("Retain", "Delete", 1, 1),
        ("Delete", "Retain", 3, 0),
        ("Delete", "Delete", 1, 0),
    ] {
        let when = format!("whenDeleted {deleted}, whenScaled {scaled}");
        let api = FakeApi::new();
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        api.seed(with(set(3), json!({"persistentVolumeClaimRetentionPolicy": policy})));
        let _running = api.start(&ALL, Options::default());
        run_pods(&api, |_| {}).await;
        assert_eq!(keys(&api, "persistentvolumeclaims").len(), 3, "{when}");
        api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 1}}));
        run_pods(&api, |_| {}).await;
        assert_eq!(keys(&api, "pods"), ["ns/web-0"], "{when}");
        assert_eq!(keys(&api, "persistentvolumeclaims").len(), after_scaling, "{when}");
        // Scale up again, with new or retained claims.
        api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 2}}));
        run_pods(&api, |_| {}).await;
        assert_eq!(keys(&api, "pods").len(), 2, "{when}");
        api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 1}}));
        run_pods(&api, |_| {}).await;
        api.delete_with("statefulsets", "ns/web", json!({"propagationPolicy": "Background"}));
        api.settle().await;
        assert_eq!(keys(&api, "pods").len() + keys(&api, "controllerrevisions").len(), 0, "{when}");
        assert_eq!(keys(&api, "persistentvolumeclaims").len(), after_deletion, "{when}");
    }
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(with(set(2), json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}})));
    };
    let act = |api: &FakeApi| {
        set_image(api, "v2");
        api.patch("statefulsets", "ns/web", "", json!({"spec": {"replicas": 1}}));
    };
    every_write_fails_once(&[run], seed, act, |api, when| {
        assert_eq!(images(api), named(&[("web-0", "v2")]), "{when}");
        let found = status(api);
        assert_eq!(found["currentRevision"], found["updateRevision"], "{when}");
        assert_eq!((&found["replicas"], &found["readyReplicas"]), (&json!(1), &json!(1)), "{when}");
        let owner = |key: &str| {
            api.get("persistentvolumeclaims", key).unwrap()["metadata"]["ownerReferences"][0]["kind"].clone()
        };
        assert_eq!(
            (owner("ns/www-web-0"), owner("ns/www-web-1")),
            (json!("StatefulSet"), json!("Pod")),
            "{when}"
        );
        let label = api.get("pods", "ns/web-0").unwrap()["metadata"]["labels"][LABEL_REVISION].clone();
        assert_eq!(label, found["updateRevision"], "{when}");
    })
    .await;
}
