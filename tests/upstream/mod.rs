//! Upstream's end-to-end specs for an API server and its controllers (upstream: test/e2e), except those that
//! need a kubelet. Each test names the file that it follows; text and code are original.

mod apply;
mod custom_objects;
mod discovery;
mod documents;
mod expressions;
mod fields;
mod lifecycles;
mod lists;
mod namespaces;
mod owners;
mod parameters;
mod pod_status;
mod pods;
mod protection;
mod quota_scopes;
mod rejections;
mod resource_table;
mod rows;
mod validation;
mod volumes;
mod watches;

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};

/// A server without controllers.
async fn server() -> (Plane, Http) {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    (plane, http)
}

/// A server with controllers.
async fn plane() -> (Plane, Http) {
    let plane = Plane::start().await;
    let http = plane.http();
    (plane, http)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// The collection with a label selector.
fn labelled(collection: &str, selector: &str) -> String {
    format!("{collection}?labelSelector={}", selector.replace('=', "%3D"))
}

/// A server-side apply.
async fn apply(http: &Http, path: &str, manager: &str, config: &Value) -> Answer {
    let sign = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{sign}fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    http.send(Method::PATCH, &path, &headers, config.to_string().into()).await
}

/// A strategic merge patch.
async fn strategic(http: &Http, path: &str, patch: &Value) -> Answer {
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    http.send(Method::PATCH, path, &headers, patch.to_string().into()).await
}

/// A delete with options.
async fn delete_with(http: &Http, path: &str, options: &Value) -> Answer {
    http.send(Method::DELETE, path, &[("content-type", "application/json")], options.to_string().into()).await
}

/// The object with a merge patch.
fn merged(object: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut object = if object.is_object() { object.clone() } else { json!({}) };
    for (name, patch) in patch {
        match patch {
            Value::Null => drop(object.as_object_mut().unwrap().remove(name)),
            patch => object[name] = merged(&object[name], patch),
        }
    }
    object
}

/// A pod that no node runs.
fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/pause:1"}]},
    })
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
