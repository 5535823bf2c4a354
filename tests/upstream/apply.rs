//! Server-side apply (upstream: test/e2e/apimachinery/apply.go). Instead of upstream's Deployments, these tests
//! use pods, claims and config maps, which have the same kinds of fields.

use serde_json::{Value, json};

use super::{MAPS, PODS, apply, server};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn pod(more: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "test-pod"},
        "spec": {"containers": [{"name": "test-container", "image": "test-image"}]},
    });
    for (name, value) in more.as_object().unwrap() {
        pod[name] = value.clone();
    }
    pod
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

/// The fields of a manager that applies.
fn fields<'o>(object: &'o Value, manager: &str) -> &'o Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
    &own.unwrap_or_else(|| panic!("{manager} owns nothing: {object}"))["fieldsV1"]
}

/// "should create an applied object if it does not already exist"
#[tokio::test]
async fn missing_object_is_created_and_shared() {
    let (_plane, http) = server().await;
    let path = format!("{PODS}/test-pod");
    let config = pod(json!({}));
    apply(&http, &path, "apply_test", &config).await.expect(201);
    http.get(&path).await.expect(200);
    let both = apply(&http, &path, "apply_test_2", &config).await.expect(200);
    let owned = json!({"f:spec": {"f:containers": {
        "k:{\"name\":\"test-container\"}": {".": {}, "f:image": {}, "f:name": {}},
    }}});
    for manager in ["apply_test", "apply_test_2"] {
        assert_eq!(fields(&both, manager), &owned, "{manager}");
    }
}

/// "should work for subresources"
#[tokio::test]
async fn status_is_applied_through_its_subresource() {
    let (_plane, http) = server().await;
    let path = format!("{PODS}/test-pod");
    apply(&http, &path, "apply_test", &pod(json!({}))).await.expect(201);
    let config = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "test-pod"},
        "status": {"conditions": [{"type": "MyStatus", "status": "True"}]},
    });
    let has = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "MyStatus")
    };
    apply(&http, &path, "apply_test2", &config).await.expect(200);
    assert!(!has(&http.get(&path).await.expect(200)), "the status is not written through the pod");
    apply(&http, &format!("{path}/status"), "apply_test2", &config).await.expect(200);
    assert!(has(&http.get(&path).await.expect(200)));
}

/// "should remove a field if it is owned but removed in the apply request" and "should not remove a field
/// if an owner unsets the field but other managers still have ownership of the field"
#[tokio::test]
async fn field_without_owner_is_removed() {
    let (_plane, http) = server().await;
    let path = format!("{MAPS}/m");
    apply(&http, &path, "one", &map(json!({"a": "1", "b": "2"}))).await.expect(201);
    let object = apply(&http, &path, "one", &map(json!({"a": "1"}))).await.expect(200);
    assert_eq!(object["data"], json!({"a": "1"}));

    apply(&http, &path, "one", &map(json!({"a": "1", "shared": "x"}))).await.expect(200);
    apply(&http, &path, "two", &map(json!({"shared": "x"}))).await.expect(200);
    let object = apply(&http, &path, "one", &map(json!({"a": "1"}))).await.expect(200);
    assert_eq!(object["data"], json!({"a": "1", "shared": "x"}), "the other still wants it");
    let object = apply(&http, &path, "two", &map(json!({}))).await.expect(200);
    assert_eq!(object["data"], json!({"a": "1"}));

    // The same for items of lists with map keys.
    let path = format!("{PODS}/test-pod");
    let volumes = |names: &[&str]| {
        let volumes: Vec<Value> = names.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
        pod(json!({"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}}))
    };
    apply(&http, &format!("{path}?dryRun=All"), "one", &volumes(&["v", "w"])).await.expect(201);
    http.get(&path).await.expect(404);
}

/// "should ignore conflict errors if force apply is used"
#[tokio::test]
async fn conflicts_are_reported_and_can_be_forced() {
    let (_plane, http) = server().await;
    let path = format!("{MAPS}/m");
    let config = map(json!({"replicas": "3"}));
    apply(&http, &path, "apply_test", &config).await.expect(201);
    http.patch(&path, &json!({"data": {"replicas": "5"}})).await.expect(200);
    let refused = apply(&http, &path, "apply_test", &config).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    let [cause] = refused["details"]["causes"].as_array().unwrap().as_slice() else { panic!("{refused}") };
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&json!("FieldManagerConflict"), &json!(".data.replicas"))
    );
    let forced = apply(&http, &format!("{path}?force=true"), "apply_test", &config).await.expect(200);
    assert_eq!(forced["data"]["replicas"], "3");
}

/// "should give up ownership of a field if forced applied by a controller"
#[tokio::test]
async fn update_takes_over_a_field() {
    let (_plane, http) = server().await;
    let path = format!("{CLAIMS}/c");
    let config = |labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    apply(&http, &path, "test_applier", &config(json!({"replicas": "3"}))).await.expect(201);
    let mut claim = http.get(&path).await.expect(200);
    claim["metadata"]["labels"]["replicas"] = "4".into();
    http.put(&path, &claim).await.expect(200);
    let claim = apply(&http, &path, "test_applier", &config(json!({}))).await.expect(200);
    assert_eq!(claim["metadata"]["labels"]["replicas"], "4", "it is the other's now: {claim}");
}

/// "should work for CRDs", the part about lists: finalizers are a set that two managers share
#[tokio::test]
async fn set_is_shared_by_two_managers() {
    let (_plane, http) = server().await;
    let path = format!("{MAPS}/m");
    let mut config = map(json!({}));
    config["metadata"]["finalizers"] = json!(["example.com/one"]);
    apply(&http, &path, "apply_test", &config).await.expect(201);
    let both = json!({"metadata": {"finalizers": ["example.com/one", "example.com/another"]}});
    http.patch(&path, &both).await.expect(200);
    let object = apply(&http, &path, "apply_test", &config).await.expect(200);
    assert_eq!(object["metadata"]["finalizers"], both["metadata"]["finalizers"]);
    // "create on update should fail with notFound"
    http.put(&format!("{MAPS}/should-not-exist"), &json!({"metadata": {"name": "should-not-exist"}}))
        .await
        .expect(404);
}
