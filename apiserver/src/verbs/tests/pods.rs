//! Subresources of pods, and orphaned pods of deleted controllers.

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{Rig, text};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod(rig: &Rig, name: &str, spec: Value) -> Value {
    let mut body =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    json_patch::merge(&mut body, &json!({ "spec": spec }));
    rig.post(PODS, body).await.expect(201).json()
}

#[tokio::test]
async fn eviction_marks_and_deletes_the_pod() {
    let rig = Rig::new().await;
    pod(&rig, "a", json!({})).await;
    pod(&rig, "b", json!({"nodeName": "n"})).await;
    let body = |name: &str, options: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
    for (case, name, body, code) in [
        (
            "1 another version",
            "a",
            json!({"apiVersion": "v1", "kind": "Eviction", "metadata": {"name": "a"}}),
            400,
        ),
        ("2 another name", "a", body("b", Value::Null), 400),
        ("3 no name", "a", json!({}), 400),
        ("4 no pod", "c", body("c", Value::Null), 404),
        ("5 another pod", "a", body("a", json!({"preconditions": {"uid": "other"}})), 409),
        (
            "6 another version of the pod",
            "a",
            body("a", json!({"preconditions": {"resourceVersion": "1"}})),
            409,
        ),
        ("7 a dry run", "a", body("a", json!({"dryRun": ["All"]})), 201),
        ("8 another namespace", "a", json!({"metadata": {"name": "a", "namespace": "other"}}), 400),
    ] {
        let before = rig.head();
        rig.post(&format!("{PODS}/{name}/eviction"), body).await.expect(code);
        assert_eq!(rig.head(), before, "{case}: changes nothing");
    }
    // A pod without a node is removed immediately, and watchers see the reason.
    let first = rig.head().0;
    let status = rig.post(&format!("{PODS}/a/eviction"), body("a", Value::Null)).await.expect(201).json();
    assert_eq!(status["status"], "Success");
    rig.get(&format!("{PODS}/a")).await.expect(404);
    let mut watch = rig.watch(&format!("{PODS}?watch=1&resourceVersion={first}")).await;
    let marked = watch.next().await.unwrap();
    assert_eq!(text(&marked, "/object/status/conditions/0/reason"), "EvictionByEvictionAPI", "{marked}");
    assert_eq!(text(&marked, "/object/metadata/deletionTimestamp"), "");
    // A pod with a node has its grace period.
    rig.post(&format!("{PODS}/b/eviction"), body("b", Value::Null)).await.expect(201);
    let ending = rig.get(&format!("{PODS}/b")).await.expect(200).json();
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = json!({"gracePeriodSeconds": 0});
    rig.post(&format!("{PODS}/b/eviction"), body("b", now)).await.expect(201);
    rig.get(&format!("{PODS}/b")).await.expect(404);
}

#[tokio::test]
async fn binding_preconditions_are_checked() {
    let rig = Rig::new().await;
    let made = pod(&rig, "a", json!({})).await;
    let (uid, version) = (text(&made, "/metadata/uid"), text(&made, "/metadata/resourceVersion"));
    let bind = async |metadata: Value| {
        let mut body = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
        json_patch::merge(&mut body, &json!({ "metadata": metadata }));
        rig.post(&format!("{PODS}/a/binding"), body).await
    };
    for (case, metadata, code, why) in [
        ("1 another uid", json!({"uid": "x"}), 409, "Precondition failed: UID in precondition: x, "),
        (
            "2 another version",
            json!({"resourceVersion": "1"}),
            409,
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: ",
        ),
        (
            "3 another namespace",
            json!({"namespace": "other"}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let answer = bind(metadata).await.expect(code).json();
        assert!(text(&answer, "/message").contains(why), "{case}: {answer}");
    }
    bind(json!({"uid": uid, "resourceVersion": version, "namespace": "default"})).await.expect(201);
}

#[tokio::test]
async fn evictions_respect_disruption_budgets() {
    const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let rig = Rig::new().await;
    let running = |name: &str, ready: &str| {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        (format!("{PODS}/{name}/status"), json!({ "status": status }))
    };
    for (name, ready) in [("a", "True"), ("b", "True"), ("c", "False")] {
        let body = json!({
            "metadata": {"name": name, "labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        });
        rig.post(PODS, body).await.expect(201);
        let (target, status) = running(name, ready);
        rig.patch(&target, "merge", status).await.expect(200);
    }
    let evict = |name: &str| (format!("{PODS}/{name}/eviction"), json!({"metadata": {"name": name}}));
    let budget = json!({
        "metadata": {"name": "x"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    rig.post(BUDGETS, budget.clone()).await.expect(201);
    let (target, body) = evict("a");
    let early = rig.post(&target, body.clone()).await.expect(429);
    assert_eq!(early.header("retry-after"), "10");
    let why = "The disruption budget x is still being processed by the server.";
    assert_eq!(text(&early.json(), "/details/causes/0/message"), why);

    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    rig.patch(&format!("{BUDGETS}/x/status"), "merge", status).await.expect(200);
    let before = rig.head();
    rig.post(&format!("{target}?dryRun=All"), body.clone()).await.expect(201);
    assert_eq!(rig.head(), before, "a dry run spends nothing");
    // A pod that is not ready costs no disruption.
    let (unready, nothing) = evict("c");
    rig.post(&unready, nothing).await.expect(201);
    rig.post(&target, body).await.expect(201);
    rig.get(&format!("{PODS}/a")).await.expect(404);
    let spent = rig.get(&format!("{BUDGETS}/x")).await.expect(200).json();
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert_eq!(spent["status"]["disruptedPods"], json!({"a": "2026-01-01T12:00:00Z"}));
    assert_eq!(text(&spent, "/status/conditions/0/reason"), "InsufficientPods");

    let (target, body) = evict("b");
    let refused = rig.post(&target, body.clone()).await.expect(429);
    assert_eq!(refused.header("retry-after"), "");
    let why = "The disruption budget x does not allow evicting pods currently";
    assert_eq!(text(&refused.json(), "/details/causes/0/message"), why);
    let mut second = budget;
    second["metadata"]["name"] = "y".into();
    rig.post(BUDGETS, second).await.expect(201);
    rig.post(&target, body.clone()).await.expect(500);

    // An empty selector selects all pods.
    for name in ["x", "y"] {
        rig.delete(&format!("{BUDGETS}/{name}"), Value::Null).await.expect(200);
    }
    let all = json!({"metadata": {"name": "z"}, "spec": {"maxUnavailable": 0, "selector": {}}});
    rig.post(BUDGETS, all).await.expect(201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    rig.patch(&format!("{BUDGETS}/z/status"), "merge", status).await.expect(200);
    rig.post(&target, body).await.expect(429);
}

#[tokio::test]
async fn ephemeral_containers_and_resizes_increase_the_generation() {
    let rig = Rig::new().await;
    pod(
        &rig,
        "a",
        json!({"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}),
    )
    .await;
    let (ephemeral, resize) = (format!("{PODS}/a/ephemeralcontainers"), format!("{PODS}/a/resize"));
    let debug = json!({
        "metadata": {"labels": {"not": "taken"}},
        "spec": {"ephemeralContainers": [{"name": "d", "image": "i:1"}]},
    });
    let made = rig.patch(&ephemeral, "strategic", debug).await.expect(200).json();
    assert_eq!((&made["metadata"]["generation"], &made["metadata"]["labels"]), (&json!(2), &Value::Null));
    assert_eq!(rig.get(&ephemeral).await.expect(200).json(), made);
    let owner = &made["metadata"]["managedFields"][1];
    assert_eq!(text(owner, "/subresource"), "ephemeralcontainers");
    assert!(owner.pointer("/fieldsV1/f:metadata").is_none(), "what is not taken is not owned: {owner}");
    rig.patch(&ephemeral, "merge", json!({"spec": {"ephemeralContainers": []}})).await.expect(422);

    let more = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
    let made = rig.patch(&resize, "strategic", more.clone()).await.expect(200).json();
    assert_eq!(text(&made, "/spec/containers/0/resources/requests/cpu"), "2");
    assert_eq!(made["metadata"]["generation"], 3);
    rig.patch(&format!("{PODS}/a"), "strategic", more).await.expect(200);
    let other = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}});
    rig.patch(&format!("{PODS}/a"), "strategic", other).await.expect(422);
    let put = rig.get(&resize).await.expect(200).json();
    assert_eq!(rig.put(&resize, &put).await.expect(200).json(), put);
    rig.post(&resize, put).await.expect(405);
    rig.get(&format!("{PODS}/missing/resize")).await.expect(404);
}

#[tokio::test]
async fn kubelet_connections_fail_with_upstreams_errors() {
    let rig = Rig::new().await;
    rig.post("/api/v1/nodes", json!({"metadata": {"name": "bare"}})).await.expect(201);
    let addresses = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
    rig.post("/api/v1/nodes", json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}}))
        .await
        .expect(201);
    pod(&rig, "free", json!({})).await;
    pod(
        &rig,
        "two",
        json!({"nodeName": "n", "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}),
    )
    .await;
    for node in ["n", "bare", "gone"] {
        pod(&rig, &format!("on-{node}"), json!({ "nodeName": node })).await;
    }
    let no_way = "dial tcp 127.0.0.1:10250: the address is not that of another machine";
    let get = format!("Get \"https://127.0.0.1:10250/containerLogs/default/on-n/c\": {no_way}");
    let dial = format!("error dialing backend: {no_way}");
    let choose = "a container name must be specified for pod two, choose one of: [a b]";
    for (path, upgrade, code, message) in [
        ("pods/free/log", false, 204, ""),
        ("pods/free/log?container=z", false, 400, "container z is not valid for pod free"),
        ("pods/two/log", false, 400, choose),
        (
            "pods/free/log?tailLines=-1",
            false,
            422,
            "PodLogOptions \"free\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("pods/on-n/log", false, 500, get.as_str()),
        ("pods/on-gone/log", false, 404, "nodes \"gone\" not found"),
        ("pods/on-bare/log", false, 500, "no preferred addresses found; known addresses: []"),
        ("pods/none/log", false, 404, "pods \"none\" not found"),
        ("pods/two/exec", true, 400, choose),
        ("pods/free/exec?command=ls", true, 400, "pod free does not have a host assigned"),
        ("pods/free/portforward", true, 400, "pod free does not have a host assigned"),
        ("pods/on-n/exec?command=ls", false, 400, "Upgrade request required"),
        ("pods/on-n/exec?command=ls", true, 500, dial.as_str()),
        ("pods/on-n/attach", true, 500, dial.as_str()),
        ("pods/on-n/portforward", true, 500, dial.as_str()),
        ("pods/on-n/proxy/x", false, 400, "address not allowed"),
        ("pods/none:80/proxy/", false, 404, "pods \"none\" not found"),
    ] {
        let headers: &[(&str, &str)] = if upgrade { &[("upgrade", "websocket")] } else { &[] };
        let target = format!("/api/v1/namespaces/default/{path}");
        let answer = rig.send("GET", &target, headers, Body::empty()).await.expect(code);
        let said = if answer.bytes.is_empty() { String::new() } else { text(&answer.json(), "/message") };
        assert_eq!(said, message, "{path}");
    }
    for (node, code) in [("n", 503), ("n:10250", 503), ("gone", 404)] {
        rig.get(&format!("/api/v1/nodes/{node}/proxy/metrics")).await.expect(code);
    }
}

#[tokio::test]
async fn deleted_controllers_orphan_their_pods_by_default() {
    const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
    let rig = Rig::new().await;
    let body = json!({
        "metadata": {"name": "a"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    for (options, finalizer) in [
        (Value::Null, Some("orphan")),
        (json!({"propagationPolicy": "Foreground"}), Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Background"}), None),
    ] {
        rig.post(CONTROLLERS, body.clone()).await.expect(201);
        let item = format!("{CONTROLLERS}/a");
        let answer = rig.delete(&item, options.clone()).await.expect(200).json();
        let Some(finalizer) = finalizer else {
            assert_eq!(answer["kind"], "Status");
            continue;
        };
        assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]), "{options}");
        let again = rig.delete(&item, Value::Null).await.expect(200).json();
        assert_eq!(again["metadata"]["finalizers"], json!([finalizer]), "a second delete changes nothing");
        rig.patch(&item, "merge", json!({"metadata": {"finalizers": null}})).await.expect(200);
        rig.get(&item).await.expect(404);
    }
}

#[tokio::test]
async fn generation_of_a_deployment_counts_spec_and_annotation_changes() {
    let rig = Rig::new().await;
    let collection = "/apis/apps/v1/namespaces/default/deployments";
    let item = format!("{collection}/a");
    let body = json!({
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    rig.post(collection, body).await.expect(201);
    for (case, target, change, generation) in [
        ("1 a label", item.clone(), json!({"metadata": {"labels": {"a": "b"}}}), 1),
        ("2 the spec", item.clone(), json!({"spec": {"paused": true}}), 2),
        ("3 an annotation", item.clone(), json!({"metadata": {"annotations": {"a": "b"}}}), 3),
        ("4 the status", format!("{item}/status"), json!({"status": {"replicas": 1}}), 3),
        (
            "5 an annotation by way of the status",
            format!("{item}/status"),
            json!({"metadata": {"annotations": {"c": "d"}}}),
            3,
        ),
        ("6 the replicas", format!("{item}/scale"), json!({"spec": {"replicas": 3}}), 4),
    ] {
        rig.patch(&target, "merge", change).await.expect(200);
        let now = rig.get(&item).await.expect(200).json();
        assert_eq!(now["metadata"]["generation"], generation, "{case}");
    }
}
