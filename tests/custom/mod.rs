//! Custom resources: definitions are accepted, their kinds are served like built-in ones, and both can be
//! deleted.

mod deletion;
mod kubectl;
mod serving;
mod validation;

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn server() -> (Plane, Http) {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    (plane, http)
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "!has(self.size) || self.size != 13", "message": "13 is unlucky"},
                {"rule": "!has(oldSelf.color) || self.color == oldSelf.color", "message": "color is immutable"},
            ],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 100, "description": "How large it is."},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "parts": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "count": {"type": "integer", "default": 1}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        },
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }})
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema()},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Part", "type": "string", "jsonPath": ".spec.parts[?(@.count>1)].name", "priority": 1},
                ],
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }],
        },
    })
}

/// Creates a definition and waits until its kind is served.
async fn define(http: &Http, definition: &Value) {
    http.create(DEFINITIONS, definition).await;
    let name = definition["metadata"]["name"].as_str().unwrap();
    established(http, name).await;
}

async fn established(http: &Http, name: &str) -> Value {
    let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    let path = format!("{DEFINITIONS}/{name}");
    http.until(&path, "Established", |object| {
        object["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is))
    })
    .await
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn apply(http: &Http, manager: &str, object: &Value) -> Answer {
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("{WIDGETS}/{name}?fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    http.send(Method::PATCH, &path, &headers, object.to_string().into()).await
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}
