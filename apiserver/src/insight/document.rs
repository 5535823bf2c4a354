//! Discovery and OpenAPI documents of the group. The group has paths but no kinds, so that clients that enumerate
//! kinds find nothing to list, watch or delete.

use std::sync::LazyLock;

use orlop_openapi::Document;
use serde_json::{Map, Value, json};

use super::plan::VERBS;

/// The path of the document.
pub(crate) const PATH: &str = "apis/orlop.dev/v1";

/// Reads without an object: path, kind and description of the response.
const READS: &[(&str, &str, &str)] = &[
    ("capture", "Stream", "A file to keep: the state at a revision and all changes since."),
    ("revisions", "Revisions", "Which revision it was at a time, and how far back is known."),
    ("stream", "Stream", "All objects at one revision and then all changes, as lines of JSON."),
    ("timeline", "Timeline", "One line of JSON per write, without the object."),
];

/// Reads of an object: path and description.
const OF_OBJECTS: &[(&str, &str)] = &[
    ("diff", "What differs between two revisions of an object, field by field."),
    ("history", "The writes of an object that are still known, newest first."),
    ("impact", "What a deletion of the object would take with it."),
    ("why", "Why the object is in the state that it is in, and what would end it."),
];

/// The description of a verb.
fn of_verb(verb: &str) -> String {
    let does = match verb {
        "reclaim" => "Makes a released or failed volume available again, with its data or scrubbed.",
        "recover" => "Brings back the volume of a lost claim.",
        "transfer" => "Moves a bound claim with its volume to another namespace or name.",
        "release" => "Deletes an attachment whose node or driver no longer responds.",
        "unblock" => "Removes the orphaned finalizers of a deleted object.",
        _ => "Brings a deleted object back as it was at a revision.",
    };
    format!("{does} With dryRun=All only the plan is made.")
}

/// The paths of objects, and the matching part of operation IDs.
const PLACES: [(&str, &str); 2] =
    [("{resource}/{name}", ""), ("namespaces/{namespace}/{resource}/{name}", "Namespaced")];

/// The resources in the format of unaggregated discovery.
pub(crate) fn resources() -> Vec<Value> {
    let entry = |(name, kind, _): &(&str, &str, &str)| json!({"name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["get"]});
    READS.iter().map(entry).collect()
}

/// The resources in the format of aggregated discovery.
pub(crate) fn discovered() -> Vec<Value> {
    let entry = |(name, kind, _): &(&str, &str, &str)| {
        json!({
            "resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Cluster",
            "singularResource": "", "verbs": ["get"],
        })
    };
    READS.iter().map(entry).collect()
}

/// The OpenAPI document (v3).
pub(crate) fn document() -> &'static Document {
    static DOCUMENT: LazyLock<Document> = LazyLock::new(|| Document::new(openapi().to_string().into_bytes()));
    &DOCUMENT
}

fn openapi() -> Value {
    let mut paths = Map::new();
    let text = |name: &str, description: &str| json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}});
    let in_path =
        |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let operation = |description: &str, id: &str, media: &str, parameters: Vec<Value>| {
        let schema =
            if media == "application/json" { json!({"type": "object"}) } else { json!({"type": "string"}) };
        let mut content = Map::new();
        content.insert(media.to_owned(), json!({"schema": schema}));
        json!({"get": {
            "description": description, "operationId": id, "tags": ["orlopDev_v1"], "parameters": parameters,
            "responses": {
                "200": {"description": "OK", "content": content},
                "401": {"description": "Unauthorized"},
                "410": {"description": "The requested revision or time is older than the oldest one retained"},
            },
        }})
    };
    let resource = || text("resource", "Only these resources, with commas between them");
    let managed = || text("managedFields", "true: with metadata.managedFields");
    for (name, _, description) in READS {
        let (media, parameters) = match *name {
            "revisions" => {
                ("application/json", vec![text("at", "A time (RFC 3339) or a revision; absent: now")])
            }
            "timeline" => (
                "application/x-ndjson",
                vec![
                    text("after", "Writes after this revision or time; absent: from the oldest on"),
                    text("limit", "Maximum number of lines"),
                    resource(),
                ],
            ),
            "capture" => (
                "application/x-ndjson",
                vec![
                    text("from", "The state at this revision or time first; absent: the oldest"),
                    text("until", "The last revision or time; absent: now"),
                    resource(),
                    managed(),
                ],
            ),
            _ => (
                "application/x-ndjson",
                vec![
                    text("from", "Only changes after this revision"),
                    text("at", "The state at this revision or time first; absent: now"),
                    text("until", "The last revision or time"),
                    text("follow", "false: the state alone, or what has happened since"),
                    resource(),
                    managed(),
                ],
            ),
        };
        let id = format!("getOrlopDevV1{}{}", name[..1].to_uppercase(), &name[1..]);
        paths.insert(format!("/{PATH}/{name}"), operation(description, &id, media, parameters));
    }
    for (name, description) in OF_OBJECTS {
        for (place, scope) in PLACES {
            let mut parameters = match *name {
                "diff" => vec![
                    text("from", "The revision or time to compare from"),
                    text("to", "The revision or time to compare with; absent: now"),
                ],
                "impact" | "why" => Vec::new(),
                _ => vec![
                    text("limit", "Maximum number of writes"),
                    text("continue", "Where an earlier answer ended"),
                    text("objects", "true: every write with the whole object"),
                ],
            };
            if !scope.is_empty() {
                parameters.push(in_path("namespace"));
            }
            parameters.extend([in_path("resource"), in_path("name")]);
            let id = format!("getOrlopDevV1{scope}Object{}{}", name[..1].to_uppercase(), &name[1..]);
            let entry = operation(description, &id, "application/json", parameters);
            paths.insert(format!("/{PATH}/{place}/{name}"), entry);
        }
    }
    for verb in VERBS {
        for (place, scope) in PLACES {
            let mut parameters = vec![text("dryRun", "All: only the plan is made, nothing is done")];
            if !scope.is_empty() {
                parameters.push(in_path("namespace"));
            }
            parameters.extend([in_path("resource"), in_path("name")]);
            let id = format!("postOrlopDevV1{scope}Object{}{}", verb[..1].to_uppercase(), &verb[1..]);
            let mut entry = operation(&of_verb(verb), &id, "application/json", parameters);
            let mut post = entry["get"].take();
            post["requestBody"] = json!({"content": {"application/json": {"schema": {"type": "object"}}}});
            post["responses"]["409"] =
                json!({"description": "The state does not allow it, or is not what the plan was made from"});
            paths.insert(format!("/{PATH}/{place}/{verb}"), json!({"post": post}));
        }
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "orlop", "version": "v1"}, "paths": paths,
        "components": {"schemas": {}},
    })
}
