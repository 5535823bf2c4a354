//! The responses that schemathesis accepts. As upstream, the OpenAPI documents contain only successful responses and 401, one
//! schema for each of them, and `*/*` as the media type of most bodies: this module adds the rest.

use serde_json::{Map, Value, json};

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const MEDIA: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Media types of bodies that schemathesis can write.
const BODIES: [&str; 2] = ["application/json", "application/yaml"];

const DISCOVERING: &[&str] = &["403", "406", "429"];
const READING: &[&str] = &["400", "403", "404", "406", "410", "422", "429", "503", "504"];
const WRITING: &[&str] =
    &["400", "403", "404", "406", "409", "413", "415", "422", "429", "503", "504", "507"];
const EXPIRED: &[&str] = &["410"];
/// For some of these operations, upstream returns an error without a specific code.
const UNSPECIFIC: &[&str] = &["500", "501"];

/// The paths of a document with all responses, without connections, logs and watches, which never end.
pub(crate) fn paths(document: &Value) -> Map<String, Value> {
    let items = document.as_object().expect("paths").iter();
    let is_tested = |path: &str| !path.contains("/watch/") && !path.ends_with("/log");
    let is_connection = |item: &Value| item["get"]["x-kubernetes-action"] == "connect";
    items
        .filter(|(path, item)| is_tested(path) && !is_connection(item))
        .map(|(path, item)| (path.clone(), completed(path, item.clone())))
        .collect()
}

fn completed(path: &str, mut item: Value) -> Value {
    let object = item["get"]["responses"]["200"]["content"]["application/json"]["schema"].clone();
    for (method, operation) in item.as_object_mut().expect("an item") {
        // The documents of orlop's own endpoints contain their errors.
        if method != "parameters" && operation["responses"]["403"].is_null() {
            complete(path, operation, &object);
        }
    }
    item
}

/// Completes an operation; `object` is the schema that a GET of the same path returns.
fn complete(path: &str, operation: &mut Value, object: &Value) {
    let action = operation["x-kubernetes-action"].as_str().unwrap_or_default().to_owned();
    let is_part = path.contains("{name}/");
    let codes: [&[&str]; 2] = match action.as_str() {
        "" => [DISCOVERING, &[]],
        "get" if path.contains("componentstatuses") => [READING, UNSPECIFIC],
        "get" | "list" => [READING, &[]],
        "post" if is_part => [WRITING, UNSPECIFIC],
        "deletecollection" => [WRITING, EXPIRED],
        _ => [WRITING, &[]],
    };
    let status = json!({"$ref": format!("#/components/schemas/{STATUS}")});
    let responses = operation["responses"].as_object_mut().expect("responses");
    for code in codes.into_iter().flatten().chain(&["401"]) {
        responses.insert((*code).to_owned(), response(&status));
    }
    // A completed delete returns a Status or the last state of the object; some subresources return a Status.
    for code in ["200", "201", "202"].into_iter().filter(|_| action.starts_with("delete") || action == "post")
    {
        let schemas: Vec<Value> = match responses.get(code) {
            Some(given) => {
                vec![given["content"]["application/json"]["schema"].clone(), status.clone(), object.clone()]
            }
            None => continue,
        };
        let schemas: Vec<Value> = schemas.into_iter().filter(|schema| schema.is_object()).collect();
        responses.insert(code.to_owned(), response(&json!({"anyOf": schemas})));
    }
    // Upstream describes the keys of tokens and their discovery document as texts, but they are objects.
    let content = operation.pointer_mut("/responses/200/content").and_then(Value::as_object_mut);
    for (_, content) in content.into_iter().flatten() {
        if content["schema"]["type"] == "string" {
            content["schema"] = json!({"type": "object"});
        }
    }
    let content = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut);
    let Some(content) = content else { return };
    if let Some(any) = content.remove("*/*") {
        content.extend(BODIES.map(|media| (media.to_owned(), any.clone())));
    }
    // A list of operations; the other patch formats are objects.
    if let Some(steps) = content.get_mut("application/json-patch+json") {
        steps["schema"] = json!({"type": "array", "items": {"type": "object"}});
    }
}

fn response(schema: &Value) -> Value {
    let content: Map<String, Value> =
        MEDIA.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect();
    json!({"description": "", "content": content})
}
