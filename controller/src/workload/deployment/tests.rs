//! Tests of Deployments and their ReplicaSets on the fake API server.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};

use super::run;
use super::sets::{ANN_REVISION, ANN_REVISION_HISTORY};
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};
use crate::workload::replicas::replica_sets;
use crate::workload::testing::{every_write_fails_once, is_ready, keys, run_pods};

const BOTH: [Run; 2] = [run, replica_sets];

fn deployment(replicas: i32, strategy: Value) -> Value {
    json!({"kind": "Deployment", "metadata": {"namespace": "ns", "name": "web", "uid": "uid-web"}, "spec": {
        "replicas": replicas, "strategy": strategy, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}}})
}

fn rolling(surge: i32, unavailable: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn set_image(api: &FakeApi, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    api.patch(
        "deployments",
        "ns/web",
        "",
        json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    );
}

fn status(api: &FakeApi) -> Value {
    api.get("deployments", "ns/web").unwrap()["status"].clone()
}

/// The status and the reason of a condition.
fn condition(api: &FakeApi, type_: &str) -> (String, String) {
    let status = status(api);
    let found = status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == type_);
    let found = found.unwrap_or_else(|| panic!("no {type_}: {status}"));
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// The image, revision and size of every ReplicaSet, sorted by revision.
fn sets(api: &FakeApi) -> Vec<(String, i64, i64)> {
    let set = |set: Value| {
        let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let revision = set["metadata"]["annotations"][ANN_REVISION].as_str().unwrap().parse().unwrap();
        (image, revision, set["spec"]["replicas"].as_i64().unwrap())
    };
    let mut sets: Vec<_> = api.list("replicasets").into_iter().map(set).collect();
    sets.sort_by_key(|(_, revision, _)| *revision);
    sets
}

fn set(image: &str, revision: i64, size: i64) -> (String, i64, i64) {
    (image.to_owned(), revision, size)
}

#[tokio::test(start_paused = true)]
async fn rolling_update_respects_its_limits_and_can_be_undone() {
    for (surge, unavailable) in [(1, 0), (0, 1), (2, 2), (5, 0), (0, 5)] {
        let api = FakeApi::new();
        api.seed(deployment(5, rolling(surge, unavailable)));
        let _running = api.start(&BOTH, Options::default());
        run_pods(&api, |_| {}).await;
        assert_eq!(sets(&api), [set("v1", 1, 5)]);
        let first = api.list("replicasets")[0].clone();
        let hash = first["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
        assert_eq!(first["metadata"]["name"], format!("web-{hash}"));
        assert_eq!(
            first["spec"]["selector"]["matchLabels"],
            json!({"app": "web", "pod-template-hash": hash})
        );
        assert_eq!(condition(&api, "Progressing"), pair("True", "NewReplicaSetAvailable"));
        assert_eq!(condition(&api, "Available"), pair("True", "MinimumReplicasAvailable"));

        let promises = |api: &FakeApi| {
            let pods = api.list("pods");
            let (there, ready) = (pods.len(), pods.iter().filter(|pod| is_ready(pod)).count());
            let (most, least) =
                (usize::try_from(5 + surge).unwrap(), usize::try_from(5 - unavailable).unwrap());
            assert!(
                there <= most && ready >= least,
                "surge {surge}, unavailable {unavailable}: {ready} of {there}"
            );
        };
        set_image(&api, "v2");
        run_pods(&api, promises).await;
        assert_eq!(sets(&api), [set("v1", 1, 0), set("v2", 2, 5)]);
        let found = status(&api);
        for (field, wanted) in [
            ("replicas", 5),
            ("updatedReplicas", 5),
            ("readyReplicas", 5),
            ("availableReplicas", 5),
            ("observedGeneration", 2),
        ] {
            assert_eq!(found[field], wanted, "{field}: {found}");
        }
        assert_eq!(condition(&api, "Progressing"), pair("True", "NewReplicaSetAvailable"));
        assert_eq!(api.get("deployments", "ns/web").unwrap()["metadata"]["annotations"][ANN_REVISION], "2");

        // Like `kubectl rollout undo`: restore the old template.
        set_image(&api, "v1");
        run_pods(&api, promises).await;
        assert_eq!(sets(&api), [set("v2", 2, 0), set("v1", 3, 5)]);
        let again = api
            .list("replicasets")
            .into_iter()
            .find(|set| set["metadata"]["uid"] == first["metadata"]["uid"]);
        assert_eq!(again.unwrap()["metadata"]["annotations"][ANN_REVISION_HISTORY], "1");
        assert_eq!(api.get("deployments", "ns/web").unwrap()["metadata"]["annotations"][ANN_REVISION], "3");
        let name = first["metadata"]["name"].as_str().unwrap();
        let expected =
            format!("Deployment ns/web Normal ScalingReplicaSet Scaled up replica set {name} from 0 to 5");
        assert!(api.events().contains(&expected), "{:?}", api.events());
    }
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_last_old_pod() {
    let api = FakeApi::new();
    api.seed(deployment(3, json!({"type": "Recreate"})));
    let _running = api.start(&BOTH, Options::default());
    run_pods(&api, |_| {}).await;
    // A finalizer delays the end of one pod.
    let slow = keys(&api, "pods")[0].clone();
    api.patch("pods", &slow, "", json!({"metadata": {"finalizers": ["example.test/hold"]}}));
    set_image(&api, "v2");
    api.settle().await;
    assert_eq!(keys(&api, "pods"), std::slice::from_ref(&slow));
    assert_eq!(sets(&api), [set("v1", 1, 0)]);
    api.patch("pods", &slow, "", json!({"metadata": {"finalizers": null}}));
    run_pods(&api, |_| {}).await;
    assert_eq!(sets(&api), [set("v1", 1, 0), set("v2", 2, 3)]);
    assert_eq!(condition(&api, "Progressing"), pair("True", "NewReplicaSetAvailable"));
}

#[tokio::test(start_paused = true)]
async fn paused_deployment_scales_but_does_not_roll_out() {
    let api = FakeApi::new();
    api.seed(deployment(2, rolling(1, 0)));
    let _running = api.start(&BOTH, Options::default());
    run_pods(&api, |_| {}).await;
    api.patch("deployments", "ns/web", "", json!({"spec": {"paused": true}}));
    set_image(&api, "v2");
    api.patch("deployments", "ns/web", "", json!({"spec": {"replicas": 4}}));
    run_pods(&api, |_| {}).await;
    assert_eq!(sets(&api), [set("v1", 1, 4)]);
    assert_eq!(condition(&api, "Progressing"), pair("Unknown", "DeploymentPaused"));
    api.patch("deployments", "ns/web", "", json!({"spec": {"paused": null}}));
    run_pods(&api, |_| {}).await;
    assert_eq!(sets(&api), [set("v1", 1, 0), set("v2", 2, 4)]);
    assert_eq!(condition(&api, "Progressing"), pair("True", "NewReplicaSetAvailable"));
}

#[tokio::test(start_paused = true)]
async fn stalled_rollout_is_reported_after_its_deadline() {
    let api = FakeApi::new();
    api.seed(deployment(2, rolling(1, 0)));
    let _running = api.start(&BOTH, Options::default());
    run_pods(&api, |_| {}).await;
    set_image(&api, "broken");
    tokio::time::sleep(Duration::from_secs(595)).await;
    assert_eq!(condition(&api, "Progressing"), pair("True", "ReplicaSetUpdated"));
    assert_eq!(sets(&api), [set("v1", 1, 2), set("broken", 2, 1)]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(condition(&api, "Progressing"), pair("False", "ProgressDeadlineExceeded"));
    assert_eq!(condition(&api, "Available"), pair("True", "MinimumReplicasAvailable"));
    // Restore the working template.
    set_image(&api, "v1");
    run_pods(&api, |_| {}).await;
    assert_eq!(sets(&api), [set("broken", 2, 0), set("v1", 3, 2)]);
    assert_eq!(condition(&api, "Progressing"), pair("True", "NewReplicaSetAvailable"));
}

#[tokio::test(start_paused = true)]
async fn scaling_during_a_rollout_is_spread_over_both_sets() {
    let api = FakeApi::new();
    api.seed(deployment(10, rolling(0, 5)));
    let _running = api.start(&BOTH, Options::default());
    run_pods(&api, |_| {}).await;
    set_image(&api, "broken");
    api.settle().await;
    assert_eq!(sets(&api), [set("v1", 1, 5), set("broken", 2, 5)]);
    api.patch(
        "deployments",
        "ns/web",
        "",
        json!({"spec": {"replicas": 20,
        "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}}}),
    );
    api.settle().await;
    let sizes: Vec<i64> = sets(&api).into_iter().map(|(_, _, size)| size).collect();
    assert_eq!(sizes, [10, 10]);
}

#[tokio::test(start_paused = true)]
async fn old_revisions_are_retained_up_to_the_limit() {
    let api = FakeApi::new();
    let mut short = deployment(1, rolling(1, 0));
    short["spec"]["revisionHistoryLimit"] = json!(2);
    api.seed(short);
    let _running = api.start(&BOTH, Options::default());
    for image in ["v1", "v2", "v3", "v4", "v5"] {
        set_image(&api, image);
        run_pods(&api, |_| {}).await;
    }
    assert_eq!(sets(&api), [set("v3", 3, 0), set("v4", 4, 0), set("v5", 5, 1)]);
}

#[tokio::test(start_paused = true)]
async fn orphaned_set_with_the_same_template_is_adopted_and_a_taken_name_is_avoided() {
    let api = FakeApi::new();
    api.seed(deployment(1, rolling(1, 0)));
    let running = api.start(&BOTH, Options::default());
    run_pods(&api, |_| {}).await;
    let made = api.list("replicasets")[0].clone();
    drop(running);
    // Orphan the ReplicaSet as `--cascade=orphan` does, then recreate the Deployment.
    let name = format!("ns/{}", made["metadata"]["name"].as_str().unwrap());
    api.patch("replicasets", &name, "", json!({"metadata": {"ownerReferences": null}}));
    api.delete("deployments", "ns/web");
    let mut again = deployment(1, rolling(1, 0));
    again["metadata"]["uid"] = json!("uid-again");
    api.seed(again);
    let running = api.start(&BOTH, Options::default());
    run_pods(&api, |_| {}).await;
    let sets_now = api.list("replicasets");
    assert_eq!(sets_now.len(), 1);
    assert_eq!(sets_now[0]["metadata"]["ownerReferences"][0]["uid"], "uid-again");
    drop(running);

    // Another owner already has a ReplicaSet with the generated name.
    let other = FakeApi::new();
    let mut stranger = made;
    stranger["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o",
        "controller": true}]);
    stranger["spec"]["replicas"] = json!(0);
    other.seed(stranger);
    other.seed(deployment(1, rolling(1, 0)));
    let _running = other.start(&[run], Options::default());
    other.settle().await;
    assert_eq!(other.list("replicasets").len(), 2);
    assert_eq!(status(&other)["collisionCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn rejected_sets_and_pods_are_reported_in_conditions() {
    let api = FakeApi::new();
    api.seed(deployment(1, rolling(1, 0)));
    let quota = FaultKind::Status(403, "Forbidden", "exceeded quota");
    for _ in 0..20 {
        api.fail(Fault { verb: "create", resource: "replicasets", skip: 0, kind: quota.clone() });
    }
    let _running = api.start(&[run], Options::default());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(condition(&api, "Progressing"), pair("False", "ReplicaSetCreateError"));
    let failures = api
        .events()
        .into_iter()
        .filter(|event| event.contains("Warning ReplicaSetCreateError Failed to create new replica set"));
    assert!(failures.count() > 0);
    // The ReplicaSet reports rejected pods, and the Deployment copies its condition.
    let api = FakeApi::new();
    api.seed(deployment(1, rolling(1, 0)));
    for _ in 0..20 {
        api.fail(Fault { verb: "create", resource: "pods", skip: 0, kind: quota.clone() });
    }
    let _running = api.start(&BOTH, Options::default());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(condition(&api, "ReplicaFailure"), pair("True", "FailedCreate"));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    run_pods(&api, |_| {}).await;
    let types = status(&api)["conditions"].to_string();
    assert!(!types.contains("ReplicaFailure"), "{types}");
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(deployment(1, rolling(1, 0)));
    };
    every_write_fails_once(
        &BOTH,
        seed,
        |api| set_image(api, "v2"),
        |api, when| {
            assert_eq!(sets(api), [set("v1", 1, 0), set("v2", 2, 1)], "{when}");
            assert_eq!(keys(api, "pods").len(), 1, "{when}");
            assert_eq!(condition(api, "Progressing"), pair("True", "NewReplicaSetAvailable"), "{when}");
        },
    )
    .await;
}
