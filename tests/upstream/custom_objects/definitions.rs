//! The conditions of definitions, and the documents that describe their kinds.

use serde_json::{Value, json};

use super::super::server;
use super::{DEFINITIONS, THINGS, define, definition, thing};

/// Upstream: apiextensions-apiserver `pkg/controller/{status,establish,finalizer}`
#[tokio::test]
async fn conditions_and_watches_follow_the_definition() {
    let (_plane, http) = server().await;
    let one = definition(&json!({"type": "object"}), &json!({}));
    define(&http, &one).await;
    let path = format!("{DEFINITIONS}/things.example.com");
    let shown = |definition: &Value| -> Vec<Value> {
        let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let part = |condition: &Value| {
            json!([condition["type"], condition["status"], condition["reason"], condition["message"]])
        };
        conditions.iter().map(part).collect()
    };
    let accepted = [
        json!(["NamesAccepted", "True", "NoConflicts", "no conflicts found"]),
        json!(["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"]),
    ];
    let definition = http.until(&path, "established", |definition| shown(definition).len() == 2).await;
    assert_eq!(shown(&definition), accepted);
    assert_eq!(
        definition["status"]["acceptedNames"],
        json!({"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"})
    );
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));

    let mut other = one.clone();
    other["metadata"]["name"] = "others.example.com".into();
    other["spec"]["names"] =
        json!({"plural": "others", "singular": "other", "kind": "Thing", "listKind": "Others"});
    http.create(DEFINITIONS, &other).await;
    let refused = http
        .until(&format!("{DEFINITIONS}/others.example.com"), "judged", |definition| {
            shown(definition).len() == 2
        })
        .await;
    assert_eq!(
        shown(&refused),
        [
            json!(["NamesAccepted", "False", "KindConflict", "\"Thing\" is already in use"]),
            json!(["Established", "False", "NotAccepted", "not all names are accepted"]),
        ]
    );

    let mut held = thing("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    http.create(THINGS, &held).await;
    let mut watch = http.watch(&format!("{THINGS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    http.delete(&path).await.expect(200);
    assert_eq!(watch.next().await.unwrap()["type"], "MODIFIED");
    let is_in_progress = |definition: &Value| {
        shown(definition).get(2).is_some_and(|shown| shown[2] == "InstanceDeletionInProgress")
    };
    let ending = http.until(&path, "its objects are deleted", is_in_progress).await;
    assert_eq!(
        shown(&ending)[2],
        json!([
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress"
        ])
    );
    http.patch(&format!("{THINGS}/a"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    assert!(watch.next().await.is_none(), "the watch ends");
    http.until_gone(&path).await;
    http.until_gone(THINGS).await;
}

/// Upstream: apiextensions-apiserver `pkg/controller/openapi/{builder,v2}`; test/e2e/apimachinery/crd_publish_openapi.go
#[tokio::test]
async fn documents_describe_custom_kinds() {
    let (_plane, http) = server().await;
    let text = json!({"type": "string", "default": "d"});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"type": "object", "properties": {
        "text": text, "null": {"type": "string", "nullable": true}, "open": open,
        "port": {"x-kubernetes-int-or-string": true}}});
    define(&http, &definition(&spec, &json!({}))).await;
    let gvk = |kind: &str| json!([{"group": "example.com", "version": "v1", "kind": kind}]);
    let v3 = http
        .until("/openapi/v3/apis/example.com/v1", "described", |document| document["components"].is_object())
        .await;
    let v2 = http
        .until("/openapi/v2", "described", |document| {
            document["definitions"]["com.example.v1.Thing"].is_object()
        })
        .await;
    for (kind, schemas) in [("v3", &v3["components"]["schemas"]), ("v2", &v2["definitions"])] {
        for name in ["Thing", "ThingList"] {
            let schema = &schemas[format!("com.example.v1.{name}")];
            assert_eq!(schema["x-kubernetes-group-version-kind"], gvk(name), "{kind} {name}");
        }
    }
    let properties = &v3["components"]["schemas"]["com.example.v1.Thing"]["properties"]["spec"]["properties"];
    let port =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    let nullable = json!({"type": "string", "nullable": true});
    assert_eq!(*properties, json!({"text": text, "null": nullable, "open": open, "port": port}));
    // kubectl cannot read values that may be null, or whose fields are unknown, so that they have no type.
    let properties = &v2["definitions"]["com.example.v1.Thing"]["properties"]["spec"]["properties"];
    assert_eq!(
        *properties,
        json!({"text": {"type": "string"}, "null": {}, "open": {"x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true}})
    );
    let protocol = |schemas: &Value| {
        schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["default"].clone()
    };
    assert_eq!(protocol(&v2["definitions"]), Value::Null);
    let core = http.get("/openapi/v3/api/v1").await.expect(200);
    assert_eq!(protocol(&core["components"]["schemas"]), "TCP");
}
