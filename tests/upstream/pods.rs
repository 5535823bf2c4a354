//! Pods without a kubelet (upstream: test/e2e/node/pods.go and test/e2e/common/node/pods.go).

use axum::http::Method;
use serde_json::{Value, json};

use super::{PODS, delete_with, labelled, names, pod, server, strategic, version};

/// node/pods.go: "should be submitted and removed", "should set QOS class on Pods with matching resource
/// requests and limits for memory and cpu"
#[tokio::test]
async fn quality_of_service_class_is_set() {
    let (_plane, http) = server().await;
    let both = json!({"cpu": "100m", "memory": "100Mi"});
    for (name, resources, want) in [
        ("guaranteed", json!({"requests": both, "limits": both}), "Guaranteed"),
        ("limits", json!({"limits": both}), "Guaranteed"),
        ("burstable", json!({"requests": {"cpu": "100m"}}), "Burstable"),
        ("besteffort", json!({}), "BestEffort"),
    ] {
        let mut body = pod(name);
        body["spec"]["containers"][0]["resources"] = resources;
        http.create(PODS, &body).await;
        let pod = http.get(&format!("{PODS}/{name}")).await.expect(200);
        assert_eq!(pod["status"]["qosClass"], want, "{name}");
    }
}

/// common/node/pods.go: "should be submitted and removed"; node/pods.go: "Delete Grace Period"; apimachinery/
/// generated_clientset.go: "should create pods, set the deletionTimestamp and deletionGracePeriodSeconds of the pod"
#[tokio::test]
async fn submitted_pod_is_removed() {
    let (_plane, http) = server().await;
    let selected = labelled(PODS, "app=pod-submit-remove");
    let begin = http.get(&selected).await.expect(200);
    assert_eq!(names(&begin), [""; 0]);
    let mut watch = http.watch(&format!("{selected}&watch=1&resourceVersion={}", version(&begin))).await;
    let made = http.create(PODS, &pod("pod-submit-remove")).await;
    assert_eq!(watch.next().await.unwrap(), json!({"type": "ADDED", "object": made}));
    let path = format!("{PODS}/pod-submit-remove");
    let target = json!({"target": {"kind": "Node", "name": "n"}});
    http.post(&format!("{path}/binding"), &target).await.expect(201);
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["nodeName"], "n");
    // A pod on a node terminates gracefully, and exists until its end is reported.
    let ending = delete_with(&http, &path, &json!({"gracePeriodSeconds": 30})).await.expect(200);
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(watch.next().await.unwrap()["object"], ending);
    http.get(&path).await.expect(200);
    let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": made["metadata"]["uid"]}});
    delete_with(&http, &path, &now).await.expect(200);
    let events = watch.until("its end", |event| event["type"] == "DELETED").await;
    assert_eq!(events.last().unwrap()["object"]["metadata"]["uid"], made["metadata"]["uid"]);
    http.get(&path).await.expect(404);
}

/// common/node/pods.go: "should be updated" and "should allow activeDeadlineSeconds to be updated"
#[tokio::test]
async fn only_mutable_pod_fields_can_be_updated() {
    let (_plane, http) = server().await;
    http.create(PODS, &pod("p")).await;
    let path = format!("{PODS}/p");
    let mut update = http.get(&path).await.expect(200);
    update["metadata"]["labels"]["time"] = "modified".into();
    http.put(&path, &update).await.expect(200);
    assert_eq!(names(&http.get(&labelled(PODS, "time=modified")).await.expect(200)), ["p"]);
    let deadline = http.patch(&path, &json!({"spec": {"activeDeadlineSeconds": 5}})).await.expect(200);
    assert_eq!(deadline["spec"]["activeDeadlineSeconds"], 5);
    let image =
        strategic(&http, &path, &json!({"spec": {"containers": [{"name": "main", "image": "other:2"}]}}))
            .await;
    assert_eq!(image.expect(200)["spec"]["containers"][0]["image"], "other:2");
    let refused = http.patch(&path, &json!({"spec": {"hostNetwork": true}})).await.expect(422);
    assert_eq!(refused["reason"], "Invalid");
}

/// common/node/pods.go: "should run through the lifecycle of Pods and PodStatus"
#[tokio::test]
async fn pod_status_is_updated_separately() {
    let (_plane, http) = server().await;
    let mut body = pod("pod-test");
    body["metadata"]["labels"] = json!({"test-pod-static": "true"});
    let made = http.create(PODS, &body).await;
    assert_eq!(made["status"]["phase"], "Pending");
    let path = format!("{PODS}/pod-test");
    let patch = json!({
        "metadata": {"labels": {"test-pod": "patched"}},
        "spec": {"terminationGracePeriodSeconds": 30, "containers": [{"name": "main", "image": "patched:1"}]},
    });
    let patched = strategic(&http, &path, &patch).await.expect(200);
    assert_eq!(patched["metadata"]["labels"]["test-pod"], "patched");
    let status = format!("{path}/status");
    let mut read = http.get(&status).await.expect(200);
    let conditions = |ready: &str| json!([{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "E2E"}]);
    read["status"]["conditions"] = conditions("False");
    let updated = http.put(&status, &read).await.expect(200);
    assert_eq!(updated["status"]["conditions"][0]["status"], "False");
    let patched =
        strategic(&http, &status, &json!({"status": {"conditions": conditions("True")}})).await.expect(200);
    let conditions = patched["status"]["conditions"].as_array().unwrap();
    assert_eq!(
        (conditions.len(), &conditions[0]["status"]),
        (1, &json!("True")),
        "merged by type: {patched}"
    );
    // "should patch a pod status": the metadata changes too, the spec does not.
    let patch = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"nodeName": "x"}, "status": {"message": "m"}});
    let patched = strategic(&http, &status, &patch).await.expect(200);
    assert_eq!(patched["status"]["message"], "m");
    assert_eq!(patched["metadata"]["annotations"]["a"], "b");
    assert!(patched["spec"].get("nodeName").is_none(), "{patched}");
    http.delete(&labelled(PODS, "test-pod-static=true")).await.expect(200);
    http.get(&path).await.expect(404);
}

/// common/node/pods.go: "should delete a collection of pods"; across all namespaces they can be listed but
/// not deleted
#[tokio::test]
async fn collection_of_pods_is_deleted_per_namespace() {
    let (_plane, http) = server().await;
    let selected = labelled(PODS, "type=Testing");
    for n in 1..=3 {
        let mut body = pod(&format!("test-pod-{n}"));
        body["metadata"]["labels"] = json!({"type": "Testing"});
        http.create(PODS, &body).await;
    }
    http.create(PODS, &pod("other")).await;
    let everywhere = http.get(&labelled("/api/v1/pods", "type=Testing")).await.expect(200);
    assert_eq!(names(&everywhere).len(), 3);
    assert_eq!(http.send(Method::DELETE, "/api/v1/pods", &[], Vec::new()).await.code, 405);
    http.delete(&selected).await.expect(200);
    assert_eq!(names(&http.get(PODS).await.expect(200)), ["other"]);
}

/// node/pods.go: the pods of one node, by field selector
#[tokio::test]
async fn pods_can_be_selected_by_field() {
    let (_plane, http) = server().await;
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "")] {
        let mut body = pod(name);
        if !node.is_empty() {
            body["spec"]["nodeName"] = node.into();
        }
        http.create(PODS, &body).await;
    }
    let by = async |field: &str| -> Value {
        http.get(&format!("/api/v1/pods?fieldSelector={field}")).await.expect(200)
    };
    assert_eq!(names(&by("spec.nodeName%3Dn1").await), ["a"]);
    assert_eq!(names(&by("spec.nodeName%3D").await), ["c"]);
    assert_eq!(names(&by("spec.nodeName%21%3Dn1%2Cstatus.phase%21%3DFailed").await), ["b", "c"]);
    assert_eq!(names(&by("metadata.name%3Db").await), ["b"]);
}
