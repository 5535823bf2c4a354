//! Namespaces: deleting one deletes its objects (upstream: test/e2e/apimachinery/namespace.go).

use axum::http::Method;
use serde_json::json;

use super::{names, plane, pod, server, strategic};

const NAMESPACES: &str = "/api/v1/namespaces";

/// "should ensure that all pods are removed when a namespace is deleted", and the same for all other kinds
/// of objects in a namespace
#[tokio::test]
async fn deleted_namespace_deletes_its_objects() {
    let (_plane, http) = plane().await;
    let test = json!({"metadata": {"name": "nsdeletetest"}});
    http.create(NAMESPACES, &test).await;
    let space = format!("{NAMESPACES}/nsdeletetest");
    http.create(&format!("{space}/pods"), &pod("test-pod")).await;
    http.create(&format!("{space}/configmaps"), &json!({"metadata": {"name": "m"}})).await;
    http.create(&format!("{space}/secrets"), &json!({"metadata": {"name": "s"}})).await;
    let claim = json!({
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    http.create(&format!("{space}/persistentvolumeclaims"), &claim).await;
    http.delete(&space).await.expect(200);
    http.until_gone(&space).await;
    http.create(NAMESPACES, &test).await;
    for plural in ["pods", "secrets", "persistentvolumeclaims"] {
        assert_eq!(names(&http.get(&format!("{space}/{plural}")).await.expect(200)), [""; 0], "{plural}");
    }
    http.get(&format!("{space}/configmaps/m")).await.expect(404);
}

/// "should always delete fast (ALL of 100 namespaces in 150 seconds)", with fewer and in less time
#[tokio::test]
async fn many_namespaces_are_deleted_in_parallel() {
    let (_plane, http) = plane().await;
    for n in 0..30 {
        http.create(NAMESPACES, &json!({"metadata": {"name": format!("nslifetest-{n}")}})).await;
    }
    for n in 0..30 {
        http.delete(&format!("{NAMESPACES}/nslifetest-{n}")).await.expect(200);
    }
    http.until(NAMESPACES, "all of them are gone", |list| {
        !names(list).iter().any(|name| name.starts_with("nslifetest"))
    })
    .await;
}

/// "should patch a Namespace", "should apply an update to a Namespace", "should apply changes to a namespace
/// status" and "should apply a finalizer to a Namespace"
#[tokio::test]
async fn namespace_labels_conditions_and_finalizers_can_be_changed() {
    let (_plane, http) = server().await;
    http.create(NAMESPACES, &json!({"metadata": {"name": "n"}})).await;
    let path = format!("{NAMESPACES}/n");
    strategic(&http, &path, &json!({"metadata": {"labels": {"testLabel": "testValue"}}})).await.expect(200);
    let mut space = http.get(&path).await.expect(200);
    assert_eq!(
        space["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "n", "testLabel": "testValue"})
    );
    space["metadata"]["labels"]["n"] = "updated".into();
    assert_eq!(http.put(&path, &space).await.expect(200)["metadata"]["labels"]["n"], "updated");

    let status = format!("{path}/status");
    assert_eq!(http.get(&status).await.expect(200)["status"]["phase"], "Active");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "E2E", "message": "m"});
    let patch = json!({"metadata": {"annotations": {"e2e": "patched"}}, "status": {"conditions": [condition("StatusPatch")]}});
    let patched = strategic(&http, &status, &patch).await.expect(200);
    assert_eq!(patched["status"]["conditions"].as_array().unwrap().len(), 1, "{patched}");
    assert_eq!(patched["metadata"]["annotations"]["e2e"], "patched", "the status takes metadata along");
    let mut space = http.get(&path).await.expect(200);
    space["status"]["conditions"].as_array_mut().unwrap().push(condition("StatusUpdate"));
    let updated = http.put(&status, &space).await.expect(200);
    assert_eq!(updated["status"]["conditions"][1]["type"], "StatusUpdate");

    let finalize = format!("{path}/finalize");
    let mut space = updated;
    space["spec"]["finalizers"] = json!(["kubernetes", "e2e.example.com/fakeFinalizer"]);
    let finalized = http.put(&finalize, &space).await.expect(200);
    assert_eq!(finalized["spec"]["finalizers"], space["spec"]["finalizers"]);
    space["metadata"]["resourceVersion"] = finalized["metadata"]["resourceVersion"].clone();
    space["spec"]["finalizers"] = json!(["kubernetes"]);
    assert_eq!(http.put(&finalize, &space).await.expect(200)["spec"]["finalizers"], json!(["kubernetes"]));
    // A patch cannot change the finalizers of the spec.
    let answer = http.patch(&path, &json!({"spec": {"finalizers": []}})).await.expect(200);
    assert_eq!(answer["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(http.send(Method::DELETE, NAMESPACES, &[], Vec::new()).await.code, 405);
}
