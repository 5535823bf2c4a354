//! Kinds of definitions are served like built-in ones.

use axum::http::Method;
use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, apply, define, definition, message, server, widget};

#[tokio::test]
async fn custom_kind_is_served_like_a_built_in_one() {
    let (_plane, http) = server().await;
    assert_eq!(http.get(WIDGETS).await.code, 404);
    define(&http, &definition()).await;
    // A kind can be used as soon as its definition is Established.
    let made = http.create(WIDGETS, &widget("a", json!({"size": 3, "free": {"x": [1]}}))).await;
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("Widget"), &json!("example.com/v1")));
    assert_eq!(made["spec"], json!({"size": 3, "color": "red", "free": {"x": [1]}}));
    assert_eq!(made["metadata"]["generation"], 1);

    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = http.watch(&format!("{WIDGETS}?watch=1&resourceVersion={revision}")).await;
    let path = format!("{WIDGETS}/a");
    let patched =
        http.patch(&path, &json!({"spec": {"size": 4}, "status": {"phase": "no"}})).await.expect(200);
    assert_eq!((&patched["metadata"]["generation"], patched.get("status")), (&json!(2), None));
    let status = json!({"spec": {"size": 9}, "status": {"phase": "Ready", "replicas": 2, "selector": "a=b"}});
    let patched = http.patch(&format!("{path}/status"), &status).await.expect(200);
    assert_eq!((&patched["metadata"]["generation"], &patched["spec"]["size"]), (&json!(2), &json!(4)));
    assert_eq!(patched["status"]["phase"], "Ready");

    let list = http.get(WIDGETS).await.expect(200);
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("WidgetList"), &json!("Widget")));
    for (selector, want) in [("spec.color=red", 1), ("spec.color=blue", 0), ("metadata.name=a", 1)] {
        let list = http.get(&format!("{WIDGETS}?fieldSelector={selector}")).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), want, "{selector}");
    }
    let refused = http.get(&format!("{WIDGETS}?fieldSelector=spec.size=4")).await;
    assert_eq!((refused.code, message(&refused).as_str()), (400, "field label not supported: spec.size"));

    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = http.send(Method::GET, &path, &table, Vec::new()).await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 4, null]));
    let names: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Size", "Part"]);

    let scale = http.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!((&scale["kind"], &scale["spec"]), (&json!("Scale"), &json!({"replicas": 4})));
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
    let scaled = http.patch(&format!("{path}/scale"), &json!({"spec": {"replicas": 7}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    let object = http.get(&path).await.expect(200);
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(7), &json!(3)));

    for (accept, code, content_type) in [
        ("application/vnd.kubernetes.protobuf,application/json", 200, "application/json"),
        ("application/vnd.kubernetes.protobuf", 406, "application/vnd.kubernetes.protobuf"),
    ] {
        let answer = http.send(Method::GET, &path, &[("accept", accept)], Vec::new()).await;
        assert_eq!((answer.code, answer.header("content-type")), (code, content_type), "{accept}");
    }

    let gone = http.delete(&path).await.expect(200);
    assert_eq!((&gone["kind"], &gone["details"]["kind"]), (&json!("Status"), &json!("widgets")));
    let events = watch.until("the end", |event| event["type"] == "DELETED").await;
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]);
    assert!(events.iter().all(|event| event["object"]["kind"] == "Widget"));
}

#[tokio::test]
async fn managers_share_an_object_by_its_schema() {
    let (_plane, http) = server().await;
    define(&http, &definition()).await;
    let one = widget("a", json!({"size": 1, "parts": [{"name": "p", "count": 2}]}));
    assert_eq!(apply(&http, "one", &one).await.code, 201);
    let two = widget("a", json!({"parts": [{"name": "q"}], "free": {"k": {"x": 1}}}));
    let both = apply(&http, "two", &two).await.expect(200);
    assert_eq!(both["spec"]["parts"], json!([{"name": "p", "count": 2}, {"name": "q", "count": 1}]));
    let conflict = apply(&http, "two", &widget("a", json!({"size": 2}))).await;
    let want = "Apply failed with 1 conflict: conflict with \"one\": .spec.size";
    assert_eq!((conflict.code, message(&conflict).as_str()), (409, want));
    // Fields that are no longer applied are removed, item by item and key by key.
    let left = apply(&http, "two", &widget("a", json!({"free": {}}))).await.expect(200);
    assert_eq!(left["spec"]["parts"], json!([{"name": "p", "count": 2}]));
    let again = apply(&http, "one", &one).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
    let unknown = apply(&http, "one", &widget("a", json!({"odd": 1}))).await;
    assert_eq!(unknown.code, 500);
    assert!(message(&unknown).ends_with(".spec.odd: field not declared in schema"), "{}", message(&unknown));
}

#[tokio::test]
async fn openapi_and_versions_follow_the_definition() {
    let (_plane, http) = server().await;
    let index = async || http.get("/openapi/v3").await.expect(200)["paths"]["apis/example.com/v1"].clone();
    assert_eq!(index().await, Value::Null);
    define(&http, &definition()).await;
    let before = index().await;
    let document = http.get("/openapi/v3/apis/example.com/v1").await.expect(200);
    let shown = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(shown["properties"]["spec"]["properties"]["size"]["description"], "How large it is.");
    let old = http.get("/openapi/v2").await.expect(200);
    assert!(
        old["definitions"]["com.example.v1.Widget"].is_object()
            && old["definitions"]["io.k8s.api.core.v1.Pod"].is_object()
    );
    let group = http.get("/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = http.get("/apis/example.com/v1").await.expect(200);
    let names: Vec<&Value> =
        resources["resources"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    let headers = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let all = http.send(Method::GET, "/apis", &headers, Vec::new()).await.expect(200);
    let names: Vec<&Value> =
        all["items"].as_array().unwrap().iter().map(|group| &group["metadata"]["name"]).collect();
    assert_eq!(
        names[names.len() - 3..],
        ["example.com", "groupsnapshot.storage.k8s.io", "snapshot.storage.k8s.io"],
        "behind all given groups"
    );

    http.create(WIDGETS, &widget("a", json!({}))).await;
    // A second version, and a default that also applies to existing objects.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut next = http.get(&path).await.expect(200);
    next["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["weight"] =
        json!({"type": "integer", "default": 5});
    let mut second = next["spec"]["versions"][0].clone();
    second["name"] = "v2beta1".into();
    second["storage"] = false.into();
    next["spec"]["versions"].as_array_mut().unwrap().push(second);
    let mut watch = http.watch(&format!("{WIDGETS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    http.put(&path, &next).await.expect(200);
    assert_eq!(watch.next().await, None, "what is watched is another kind now");
    let second = "/apis/example.com/v2beta1/namespaces/default/widgets/a";
    let object = http.until(second, "served", |object| object["spec"]["weight"] == 5).await;
    assert_eq!(object["apiVersion"], "example.com/v2beta1");
    assert_eq!(http.get(&format!("{WIDGETS}/a")).await.expect(200)["apiVersion"], "example.com/v1");
    assert_ne!(index().await, before, "the document has changed, and its hash");
    let group = http.get("/apis/example.com").await.expect(200);
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
    assert_eq!(group["preferredVersion"]["version"], "v1");
}
