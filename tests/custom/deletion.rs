//! Objects are deleted with their definition, namespace or owner.

use serde_json::json;

use super::{DEFINITIONS, WIDGETS, define, definition, established, message, server, widget};
use crate::harness::plane::Plane;

#[tokio::test]
async fn deleted_definition_deletes_its_objects() {
    let (mut plane, http) = server().await;
    define(&http, &definition()).await;
    http.create(WIDGETS, &widget("a", json!({}))).await;
    let mut held = widget("b", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    http.create(WIDGETS, &held).await;
    // I4
    plane.kill_and_restart().await;
    let http = plane.http();
    assert_eq!(http.get(WIDGETS).await.expect(200)["items"].as_array().unwrap().len(), 2);

    let mut other = definition();
    other["metadata"]["name"] = "others.example.com".into();
    other["spec"]["names"] = json!({"plural": "others", "kind": "Other", "shortNames": ["wd"]});
    http.create(DEFINITIONS, &other).await;
    let refused = http
        .until(&format!("{DEFINITIONS}/others.example.com"), "judged", |object| {
            object["status"]["conditions"].as_array().is_some_and(|conditions| conditions.len() == 2)
        })
        .await;
    assert_eq!(refused["status"]["conditions"][0]["reason"], "ShortNamesConflict");

    let path = format!("{DEFINITIONS}/widgets.example.com");
    let ending = http.delete(&path).await.expect(200);
    assert_eq!(ending["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    http.until_gone(&format!("{WIDGETS}/a")).await;
    let held =
        http.until(&format!("{WIDGETS}/b"), "ends", |b| b["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(held["kind"], "Widget");
    let answer = http.post(WIDGETS, &widget("c", json!({}))).await;
    let want = "create not allowed while custom resource definition is terminating";
    assert_eq!((answer.code, message(&answer).as_str()), (405, want));
    http.patch(&format!("{WIDGETS}/b"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    http.until_gone(&path).await;
    http.until_gone(WIDGETS).await;
    // The name of the deleted kind can be used again.
    let freed = established(&http, "others.example.com").await;
    assert_eq!(freed["status"]["acceptedNames"]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn custom_objects_are_deleted_with_namespace_or_owner() {
    let plane = Plane::start().await;
    let http = plane.http();
    define(&http, &definition()).await;
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "old"}})).await;
    let old = WIDGETS.replace("/default/", "/old/");
    http.create(&old, &widget("a", json!({}))).await;
    let owner = http.create(WIDGETS, &widget("owner", json!({}))).await;
    let mut owned = json!({"metadata": {"name": "owned", "ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}]}});
    http.create("/api/v1/namespaces/default/configmaps", &owned).await;
    owned["apiVersion"] = "example.com/v1".into();
    owned["kind"] = "Widget".into();
    http.create(WIDGETS, &owned).await;
    http.delete("/api/v1/namespaces/old").await.expect(200);
    http.until_gone("/api/v1/namespaces/old").await;
    assert_eq!(http.get(&old).await.expect(200)["items"], json!([]));
    http.delete(&format!("{WIDGETS}/owner")).await.expect(200);
    http.until_gone("/api/v1/namespaces/default/configmaps/owned").await;
    http.until_gone(&format!("{WIDGETS}/owned")).await;
}
