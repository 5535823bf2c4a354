//! Media types of requests and responses, and tables.

use axum::http::Method;
use serde_json::{Value, json};

use super::ONLY;
use crate::harness::http::{Answer, Http};
use crate::upstream::rows::{code, compare, content_type, get_as, message, post, send};
use crate::upstream::{MAPS, PODS};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Upstream: recorded answers (Accept headers that cannot be met), apiserver `handlers/negotiation/negotiate.go`, and
/// test/integration/apiserver (missing kind).
pub(super) async fn media_types(http: &Http) {
    let map = format!("{MAPS}/a");
    let routed = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                  application/vnd.kubernetes.protobuf";
    let rows = [
        ("application/json;v=v1", ONLY),
        ("application/json;g=meta.k8s.io;v=v1", ONLY),
        ("application/json;as=Table", ONLY),
        ("application/json;stream=x", ONLY),
        ("application/json;sv=v2", ONLY),
        ("application/*", routed),
        ("*", routed),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, text/html", ONLY),
    ];
    compare(http, message, rows.map(|(accept, why)| (get_as(&map, accept), json!([406, why])))).await;
    let rows = [
        ("application/json;v=v1, application/yaml", "application/yaml"),
        ("*/*, application/yaml;q=0.1", "application/yaml"),
        ("application/*, application/yaml;v=v1", "application/json"),
        ("application/json;stream=watch", "application/json"),
        ("application/json;v=;sv=v1;export=1;profile=x", "application/json"),
    ];
    compare(http, content_type, rows.map(|(accept, want)| (get_as(&map, accept), json!([200, want])))).await;
    let indented = |answer: &Answer| json!(answer.text().contains("\n  "));
    let rows = [
        ("pretty=", "", "", false),
        ("pretty=", "curl/8", "", true),
        ("pretty=yes", "curl/8", "", false),
        ("pretty=T", "", "", true),
        ("", "", "application/json;pretty=1", true),
        ("", "", "application/json;pretty=true", false),
    ];
    let rows = rows.map(|(query, agent, accept, want)| {
        let row = get_as(&format!("{map}?{query}"), accept).header("user-agent", agent);
        (row, want)
    });
    compare(http, indented, rows).await;
    // Media types of bodies are read as Go's `mime.ParseMediaType` reads them.
    let rows = [
        ("APPLICATION/JSON", 201),
        ("application/json; charset=utf-8", 201),
        ("application/json;", 201),
        ("application/json; charset", 415),
        ("application/json; =x", 415),
        ("text/json", 415),
    ];
    let body = json!({"metadata": {"name": "d"}}).to_string();
    let create = format!("{MAPS}?dryRun=All");
    compare(http, code, rows.map(|(kind, want)| (send(Method::POST, &create, kind, &body), want))).await;
}

/// Upstream: recorded answers (includeObject, a watch of tables), apiserver `handlers/response.go`, and test/integration/apiserver.
pub(super) async fn tables(http: &Http) {
    let bad = |value: &str| {
        json!([
            400,
            format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{value}\": must be 'Metadata', \
                 'Object', 'None', or empty"
            )
        ])
    };
    let rows = [
        ("includeObject=", json!([200, null])),
        ("includeObject=None&includeObject=x", json!([200, null])),
        ("includeObject=none", bad("none")),
        ("watch=1&timeoutSeconds=1&includeObject=metadata", bad("metadata")),
    ];
    compare(http, message, rows.map(|(query, want)| (get_as(&format!("{MAPS}?{query}"), TABLE), want))).await;
    // Some paths have no table.
    let review = json!({"spec": {"token": "x"}}).to_string();
    let tableless = [
        ("/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), review.as_str()),
        (format!("{PODS}/p/binding"), "{}"),
        (format!("{PODS}/p/eviction"), "{}"),
        ("/api/v1/namespaces/default/serviceaccounts/x/token".to_owned(), "{}"),
    ];
    let rows = tableless.map(|(path, body)| (post(&path, body).header("accept", TABLE), json!([406, ONLY])));
    compare(http, message, rows).await;
    let table = get_as(MAPS, "application/yaml;as=Table;v=v1;g=meta.k8s.io");
    let shape = |answer: &Answer| {
        let text = answer.text();
        json!([
            answer.header("content-type"),
            text.contains("kind: Table"),
            text.contains("columnDefinitions:")
        ])
    };
    compare(http, shape, [(table, json!(["application/yaml", true, true]))]).await;
    // A streaming list of tables: the columns come once, and the bookmark has a row that names it.
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=1\
         &includeObject=None"
    );
    let summary = |answer: &Answer| -> Value {
        let events =
            answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        let line = |event: &Value| {
            let table = &event["object"];
            let row = &table["rows"][0];
            json!([
                event["type"],
                table["kind"],
                table["columnDefinitions"].as_array().map(Vec::len),
                row["cells"],
                row["object"]["metadata"]["annotations"]
            ])
        };
        events.iter().map(line).collect()
    };
    let end = json!({"k8s.io/initial-events-end": "true"});
    let answer = http.send(Method::GET, &path, &[("accept", TABLE)], Vec::new()).await;
    let mut events = summary(&answer);
    for event in events.as_array_mut().unwrap() {
        // The age.
        event[3][2] = Value::Null;
    }
    assert_eq!(
        events,
        json!([
            ["ADDED", "Table", 3, ["a", 0, null], null],
            ["ADDED", "Table", null, ["b", 0, null], null],
            ["BOOKMARK", "Table", null, ["", 0, null], end],
        ])
    );
}
