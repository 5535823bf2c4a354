//! Tests of forged owner references on the fake API server: an object names a workload of another namespace as its
//! controller, or has the workload's UID with another kind or API group.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::deployment::sets::{ANN_REVISION, ANN_ROLLBACK_TO};
use super::replicas::{replica_sets, replication_controllers};
use super::testing::{keys, make_ready, run_pods};
use super::{cron_job, daemon_set, deployment, job, stateful_set};
use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, merge_into};

/// One kind of workload, and an object that changes it if the workload is its controller.
struct Case {
    name: &'static str,
    run: Run,
    /// The objects at the start. The workload has the namespace `ns`, the name `w` and the UID `uid-w`.
    seeds: Vec<Value>,
    /// The API version and the kind of the workload.
    owner: (&'static str, &'static str),
    /// The object, without namespace and owner.
    object: Value,
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn workload(kind: &str, spec: Value) -> Value {
    let mut workload = json!({"kind": kind, "metadata": {"namespace": "ns", "name": "w", "uid": "uid-w"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template("v1")}});
    merge_into(&mut workload["spec"], &spec);
    workload
}

fn deployment_with(strategy: Value) -> Value {
    let spec = json!({"strategy": strategy, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600});
    workload("Deployment", spec)
}

fn stateful_set_with(partition: i32) -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    workload(
        "StatefulSet",
        json!({"serviceName": "w", "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10, "updateStrategy": strategy}),
    )
}

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "labels": {"app": "w"}}, "spec": {"containers": []}})
}

fn replica_set(revision: &str) -> Value {
    let mut template = template("forged");
    template["metadata"]["labels"]["pod-template-hash"] = json!("f");
    let labels = json!({"app": "w", "pod-template-hash": "f"});
    json!({"kind": "ReplicaSet", "metadata": {"name": "w-f", "labels": labels,
            "annotations": {ANN_REVISION: revision}},
        "spec": {"replicas": 5, "selector": {"matchLabels": labels}, "template": template}})
}

fn revision(name: &str, number: i64) -> Value {
    let mut template = template("forged");
    template["$patch"] = json!("replace");
    json!({"kind": "ControllerRevision", "metadata": {"name": name, "labels": {"app": "w"}},
        "data": {"spec": {"template": template}}, "revision": number})
}

/// The object in a namespace, with the workload `ns/w` as its controller.
fn owned(mut object: Value, namespace: &str, (api_version, kind): (&str, &str)) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": "w", "uid": "uid-w", "controller": true}]);
    object
}

fn cases() -> Vec<Case> {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let daemon_set = || {
        let spec = json!({"replicas": null, "revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}});
        vec![json!({"kind": "Node", "metadata": {"name": "n"}}), workload("DaemonSet", spec)]
    };
    let mut controller = workload("ReplicationController", json!({}));
    controller["spec"]["selector"] = json!({"app": "w"});
    let mut job = workload(
        "Job",
        json!({"replicas": null, "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
            "suspend": false, "podReplacementPolicy": "TerminatingOrFailed"}),
    );
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let mut succeeded = pod("forged");
    succeeded["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    succeeded["status"] = json!({"phase": "Succeeded"});
    let cron_job = json!({"kind": "CronJob", "metadata": {"namespace": "ns", "name": "w", "uid": "uid-w"}, "spec": {
        "schedule": "* * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Replace", "suspend": true,
        "successfulJobsHistoryLimit": 0, "jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}});
    let complete = json!({"kind": "Job", "metadata": {"name": "forged"}, "spec": {"template": {}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let mut on_node = pod("forged");
    on_node["spec"]["nodeName"] = json!("n");
    let case = |name, run, seeds, owner, object| Case { name, run, seeds, owner, object };
    vec![
        case(
            "pod, ReplicaSet",
            replica_sets,
            vec![workload("ReplicaSet", json!({}))],
            ("apps/v1", "ReplicaSet"),
            pod("forged"),
        ),
        case(
            "pod, ReplicationController",
            replication_controllers,
            vec![controller],
            ("v1", "ReplicationController"),
            pod("forged"),
        ),
        case(
            "ReplicaSet, Deployment",
            deployment::run,
            vec![deployment_with(rolling)],
            ("apps/v1", "Deployment"),
            replica_set("7"),
        ),
        case(
            "pod, StatefulSet",
            stateful_set::run,
            vec![stateful_set_with(0)],
            ("apps/v1", "StatefulSet"),
            pod("w-5"),
        ),
        case(
            "ControllerRevision, StatefulSet",
            stateful_set::run,
            vec![stateful_set_with(0)],
            ("apps/v1", "StatefulSet"),
            revision("w-forged", 7),
        ),
        case("pod, DaemonSet", daemon_set::run, daemon_set(), ("apps/v1", "DaemonSet"), on_node),
        case(
            "ControllerRevision, DaemonSet",
            daemon_set::run,
            daemon_set(),
            ("apps/v1", "DaemonSet"),
            revision("w-forged", 7),
        ),
        case("pod, Job", job::run, vec![job], ("batch/v1", "Job"), succeeded),
        case("Job, CronJob", cron_job::run, vec![cron_job], ("batch/v1", "CronJob"), complete),
    ]
}

#[tokio::test(start_paused = true)]
async fn object_with_a_forged_controller_changes_nothing() {
    for Case { name, run, seeds, owner, object } in cases() {
        // Description, namespace and owner of the object, whether the workload controls it.
        let table = [
            ("another namespace", "other", owner, false),
            ("another kind", "ns", (owner.0, "Other"), false),
            ("another group", "ns", ("example.com/v1", owner.1), false),
            ("the owner's", "ns", owner, true),
        ];
        for (how, namespace, owner, is_controlled) in table {
            let api = FakeApi::new();
            seeds.iter().cloned().for_each(|seed| drop(api.seed(seed)));
            let running = api.start(&[run], Options::default());
            api.settle().await;
            api.take_writes();
            let events = api.events();
            api.seed(owned(object.clone(), namespace, owner));
            api.settle().await;
            if is_controlled {
                assert_ne!(api.take_writes(), [], "{name}, {how}");
                continue;
            }
            // A controller that starts later finds the object in its first list.
            drop(running);
            let _again = api.start(&[run], Options::default());
            api.settle().await;
            assert_eq!(api.take_writes(), [], "{name}, {how}");
            assert_eq!(api.events(), events, "{name}, {how}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deployment_is_not_rolled_back_to_the_replica_set_of_another_namespace() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for (revision, event) in [
        ("7", "Unable to find the revision to rollback to."),
        // The current revision is the only one.
        ("0", "Unable to find last revision."),
    ] {
        let api = FakeApi::new();
        api.seed(deployment_with(rolling.clone()));
        api.seed(owned(replica_set("7"), "other", ("apps/v1", "Deployment")));
        let _running = api.start(&[deployment::run], Options::default());
        api.settle().await;
        let annotations = json!({ANN_ROLLBACK_TO: revision});
        api.patch("deployments", "ns/w", "", json!({"metadata": {"annotations": annotations}}));
        api.settle().await;
        let found = api.get("deployments", "ns/w").unwrap();
        assert_eq!(found["spec"]["template"]["spec"]["containers"][0]["image"], "v1", "{revision}");
        let wanted = format!("Deployment ns/w Warning DeploymentRollbackRevisionNotFound {event}");
        assert!(api.events().contains(&wanted), "{revision}: {:?}", api.events());
    }
}

#[tokio::test(start_paused = true)]
async fn deployment_does_not_wait_for_pods_of_another_namespace() {
    let api = FakeApi::new();
    api.seed(deployment_with(json!({"type": "Recreate"})));
    let _running = api.start(&[deployment::run, replica_sets], Options::default());
    run_pods(&api, |_| {}).await;
    let old = api.list("replicasets")[0]["metadata"].clone();
    let mut forged = owned(pod("forged"), "other", ("apps/v1", "ReplicaSet"));
    for field in ["name", "uid"] {
        forged["metadata"]["ownerReferences"][0][field] = old[field].clone();
    }
    api.seed(forged);
    let containers = json!([{"name": "c", "image": "v2"}]);
    api.patch("deployments", "ns/w", "", json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    run_pods(&api, |_| {}).await;
    let pods = api.list("pods");
    let own: Vec<&Value> = pods.iter().filter(|pod| pod["metadata"]["namespace"] == "ns").collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(own[0]["spec"]["containers"][0]["image"], "v2");
    assert!(keys(&api, "pods").contains(&"other/forged".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn pod_is_not_created_from_the_revision_of_another_namespace() {
    let api = FakeApi::new();
    api.seed(stateful_set_with(1));
    let _running = api.start(&[stateful_set::run], Options::default());
    api.settle().await;
    make_ready(&api, "ns/w-0");
    api.settle().await;
    let status = api.get("statefulsets", "ns/w").unwrap()["status"].clone();
    let current = status["currentRevision"].as_str().unwrap();
    // With the name of the current revision, and sorted before it.
    api.seed(owned(revision(current, 0), "other", ("apps/v1", "StatefulSet")));
    let containers = json!([{"name": "c", "image": "v2"}]);
    api.patch(
        "statefulsets",
        "ns/w",
        "",
        json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    );
    api.settle().await;
    api.delete_with("pods", "ns/w-0", json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    let pod = api.get("pods", "ns/w-0").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], "v1");
}
