//! Objects of custom kinds (upstream: apiextensions-apiserver `test/integration`: `ratcheting_test.go`, `validation_test.go`,
//! `fieldselector_test.go`, `pruning_test.go`, `listtype_test.go`, `table_test.go`; test/e2e/apimachinery/field_validation.go).

mod definitions;
mod ratcheting;

use axum::http::Method;
use serde_json::{Value, json};

use super::{merged, names, server};
use crate::harness::http::{Answer, Http};
use crate::harness::wait;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A definition; `version` is merged into its version, and has no schema for the spec yet.
fn definition(spec: &Value, version: &Value) -> Value {
    let status =
        json!({"type": "object", "properties": {"phase": {"type": "string"}, "note": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let own = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [merged(&own, version)]},
    })
}

async fn define(http: &Http, definition: &Value) {
    http.create(DEFINITIONS, definition).await;
    http.until("/apis/example.com/v1", "served", |group| group["resources"].is_array()).await;
}

/// Changes the definition, and waits until `probe` has the expected code.
async fn redefine(http: &Http, definition: &Value, probe: &Value, code: u16) {
    let path = format!("{DEFINITIONS}/things.example.com");
    let patch = json!({"spec": {"versions": definition["spec"]["versions"]}});
    http.patch(&path, &patch).await.expect(200);
    wait::until("the changed definition is served", async || {
        let answer = http.post(&format!("{THINGS}?dryRun=All"), probe).await;
        if answer.code == code { Ok(()) } else { Err(answer.text()) }
    })
    .await;
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

async fn get_as(http: &Http, path: &str, accept: &str) -> Value {
    http.send(Method::GET, path, &[("accept", accept)], Vec::new()).await.expect(200)
}

/// The message of a rejection, without the name of the object; empty for success.
fn why(answer: &Answer) -> String {
    if answer.code < 300 {
        return String::new();
    }
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    message.split_once("is invalid: ").map_or(message.clone(), |(_, why)| why.to_owned())
}

fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    all.map(|value| value.to_str().unwrap().trim_start_matches("299 - ").to_owned()).collect()
}

/// Upstream: `UnstructuredList.SetContinue` sets the field even if it is empty; the types of built-in lists omit it.
#[tokio::test]
async fn only_lists_of_custom_objects_have_an_empty_continue() {
    let (_plane, http) = server().await;
    define(&http, &definition(&json!({"type": "object"}), &json!({}))).await;
    let token = |list: &Value| list["metadata"].get("continue").cloned();
    for path in [
        THINGS,
        "/apis/example.com/v1/things",
        &format!("{THINGS}?resourceVersion=0"),
        &format!("{THINGS}?limit=5"),
    ] {
        assert_eq!(token(&http.get(path).await.expect(200)), Some("".into()), "{path}");
    }
    for name in ["a", "b"] {
        http.create(THINGS, &thing(name, json!({}))).await;
    }
    let first = http.get(&format!("{THINGS}?limit=1")).await.expect(200);
    assert!(token(&first).is_some_and(|token| token != ""), "{first}");
    for (path, accept) in [
        (THINGS, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        (THINGS, "application/json;as=Table;g=meta.k8s.io;v=v1"),
        ("/api/v1/configmaps", "application/json"),
        (DEFINITIONS, "application/json"),
    ] {
        assert_eq!(token(&get_as(&http, path, accept).await), None, "{path} {accept}");
    }
    assert_eq!(token(&http.delete(THINGS).await.expect(200)), Some("".into()));
}

/// Upstream: `pkg/apis/apiextensions/validation` (`getCostErrorMessage`), cel-go `checker/cost.go`.
#[tokio::test]
async fn costly_rules_are_refused_at_definition() {
    let (_plane, http) = server().await;
    let text = json!({"type": "string"});
    let list = |more: Value| merged(&json!({"type": "array", "items": text}), &more);
    let map = |more: Value| merged(&json!({"type": "object", "additionalProperties": text}), &more);
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    let rule = |factor: &str| {
        format!("{place}: Forbidden: estimated rule cost exceeds budget by factor of {factor} {advice}")
    };
    let total = |factor: &str| {
        format!(
            "[{}, {place}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema, \
             spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 \
             schema exceeds budget by factor of {factor} {advice}]",
            rule("more than 100x")
        )
    };
    let pairs = "self.v.all(x, self.v.all(y, x == y))";
    let part = "self.v.all(x, x.contains('ab'))";
    for (case, expression, schema, want) in [
        ("1 no limit", pairs, list(json!({})), total("more than 100x")),
        ("2 limits", pairs, list(json!({"maxItems": 10, "items": {"maxLength": 10}})), String::new()),
        ("3 items without a limit", part, list(json!({"maxItems": 100})), rule("3.1x")),
        (
            "4 items with a limit",
            part,
            list(json!({"maxItems": 100, "items": {"maxLength": 1000}})),
            String::new(),
        ),
        ("5 list without a limit", part, list(json!({"items": {"maxLength": 1}})), String::new()),
        (
            "6 map with a limit",
            "self.v.all(k, self.v[k].contains('ab'))",
            map(json!({"maxProperties": 10})),
            String::new(),
        ),
    ] {
        let rules = json!([{"rule": expression}]);
        let spec = json!({"type": "object", "properties": {"v": schema}, "x-kubernetes-validations": rules});
        let answer = http.post(&format!("{DEFINITIONS}?dryRun=All"), &definition(&spec, &json!({}))).await;
        assert_eq!(why(&answer), want, "{case}");
    }
}

/// field_validation.go: "should detect unknown and duplicate fields", "should detect unknown metadata fields"
#[tokio::test]
async fn unknown_and_duplicate_fields_are_reported() {
    let (_plane, http) = server().await;
    let inner = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "list": {"type": "array", "items": inner},
        "map": {"type": "object", "additionalProperties": inner},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": inner}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": inner}}}});
    define(&http, &definition(&spec, &json!({}))).await;
    let unknown = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "u", "bogus": 1}, "extra": 1,
        "spec": {"zz": 1, "list": [{"x": 1}, {"u": 1}], "map": {"k": {"u": 1}}, "open": {"free": 1, "known": {"u": 1}},
            "embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "bogus": 1}, "spec": {"u": 1}, "data": 1}},
    })
    .to_string();
    let duplicate = r#"{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "u", "labels": {"a": "b", "a": "c"}},
        "spec": {"a": "x", "a": "y", "embedded": {"apiVersion": "v1", "kind": "K", "kind": "L", "spec": {"x": 1, "x": 2}}}}"#;
    let unknown_fields = [
        "unknown field \"metadata.bogus\"",
        "unknown field \"extra\"",
        "unknown field \"spec.embedded.data\"",
        "unknown field \"spec.embedded.spec.u\"",
        "unknown field \"spec.list[1].u\"",
        "unknown field \"spec.map.k.u\"",
        "unknown field \"spec.open.known.u\"",
        "unknown field \"spec.zz\"",
        "unknown field \"spec.embedded.metadata.bogus\"",
    ];
    let duplicate_fields = [
        "duplicate field \"metadata.labels.a\"",
        "duplicate field \"spec.a\"",
        "duplicate field \"spec.embedded.kind\"",
        "duplicate field \"spec.embedded.spec.x\"",
    ];
    for (body, fields) in [(unknown.as_str(), &unknown_fields[..]), (duplicate, &duplicate_fields[..])] {
        let send = async |mode: &str| {
            let path = format!("{THINGS}?dryRun=All{mode}");
            let json = [("content-type", "application/json")];
            http.send(Method::POST, &path, &json, body.as_bytes().to_vec()).await
        };
        let strict = send("&fieldValidation=Strict").await;
        let want = format!(
            "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: {}",
            fields.join(", ")
        );
        assert_eq!((strict.code, why(&strict)), (400, want));
        let quoted: Vec<String> = fields.iter().map(|field| format!("{field:?}")).collect();
        for mode in ["&fieldValidation=Warn", ""] {
            let warned = send(mode).await;
            assert_eq!((warned.code, warnings(&warned)), (201, quoted.clone()), "{mode}");
        }
        let ignored = send("&fieldValidation=Ignore").await;
        assert_eq!((ignored.code, warnings(&ignored)), (201, vec![]));
        let spec = &ignored.json()["spec"];
        assert_eq!(spec.get("zz"), None, "{spec}");
    }
}

/// Upstream: `pkg/apiserver/schema/{defaulting,pruning}`
#[tokio::test]
async fn nested_defaults_and_pruning_apply_to_stored_objects() {
    let (_plane, http) = server().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(&http, &definition(&free, &json!({}))).await;
    let sent = json!({"list": [{"k": "a", "z": 1}], "odd": 1, "null": null, "d": {}});
    http.create(THINGS, &thing("a", sent)).await;
    let spec = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {
            "k": {"type": "string"}, "port": {"type": "string", "default": "TCP"}}}},
        "d": {"type": "object", "default": {}, "properties": {"e": {"type": "object", "default": {}, "properties": {
            "f": {"type": "integer", "default": 3}}}}},
        "null": {"type": "string", "default": "n"},
        "no": {"type": "object", "properties": {"f": {"type": "integer", "default": 3}}},
    }});
    redefine(&http, &definition(&spec, &json!({})), &thing("x", json!({"list": 1})), 422).await;
    let want = json!({"list": [{"k": "a", "port": "TCP"}], "d": {"e": {"f": 3}}, "null": "n"});
    assert_eq!(http.get(&format!("{THINGS}/a")).await.expect(200)["spec"], want);
    assert_eq!(http.get(THINGS).await.expect(200)["items"][0]["spec"], want);
    let mut watch = http.watch(&format!("{THINGS}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"], want);
    let made = http.create(THINGS, &thing("b", json!({"no": {}}))).await;
    assert_eq!(made["spec"], json!({"d": {"e": {"f": 3}}, "null": "n", "no": {"f": 3}}));
}

/// fieldselector_test.go, table_test.go: each type of column, and values that do not have it
#[tokio::test]
async fn columns_and_selectable_fields_show_values_of_each_type() {
    let (_plane, http) = server().await;
    let scalar = |ty: &str| json!({"type": ty});
    let spec = json!({"type": "object", "properties": {
        "text": scalar("string"), "when": {"type": "string", "format": "date-time"}, "number": scalar("number"),
        "integer": scalar("integer"), "flag": scalar("boolean"), "list": {"type": "array", "items": scalar("string")}}});
    let column =
        |ty: &str, name: &str| json!({"name": name, "type": ty, "jsonPath": format!(".spec.{name}")});
    let mut second = column("integer", "integer");
    second["priority"] = json!(1);
    let version = json!({
        "additionalPrinterColumns": [column("date", "when"), column("number", "number"), second, column("boolean", "flag"),
            column("string", "list"), {"name": "odd", "type": "integer", "jsonPath": ".spec.text"}],
        "selectableFields": [{"jsonPath": ".spec.text"}, {"jsonPath": ".spec.integer"}, {"jsonPath": ".spec.flag"}],
    });
    define(&http, &definition(&spec, &version)).await;
    let full = json!({"text": "t", "when": "2020-01-01T00:00:00Z", "number": 1.5, "integer": 7, "flag": false, "list": ["a", "b"]});
    http.create(THINGS, &thing("full", full)).await;
    http.create(THINGS, &thing("none", json!({}))).await;
    let table = get_as(&http, THINGS, "application/json;as=Table;g=meta.k8s.io;v=v1").await;
    let columns: Vec<Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| json!([column["name"], column["type"], column["priority"]]))
        .collect();
    assert_eq!(
        json!(columns),
        json!([
            ["Name", "string", 0],
            ["when", "date", 0],
            ["number", "number", 0],
            ["integer", "integer", 1],
            ["flag", "boolean", 0],
            ["list", "string", 0],
            ["odd", "integer", 0]
        ])
    );
    let mut cells = table["rows"][0]["cells"].clone();
    assert!(cells[1].as_str().is_some_and(|age| age.contains('y')), "an age in years: {cells}");
    cells[1] = Value::Null;
    assert_eq!(cells, json!(["full", null, 1.5, 7, false, "[\"a\",\"b\"]", null]));
    assert_eq!(table["rows"][1]["cells"], json!(["none", null, null, null, null, null, null]));

    for (selector, want) in [
        ("spec.text=t", &["full"][..]),
        ("spec.integer=7", &["full"]),
        ("spec.integer!=7", &["none"]),
        ("spec.flag=false", &["full"]),
        ("spec.text=", &["none"]),
        ("spec.text=t,metadata.name=none", &[]),
    ] {
        let path = format!("{THINGS}?fieldSelector={}", selector.replace('=', "%3D").replace('!', "%21"));
        assert_eq!(names(&http.get(&path).await.expect(200)), want, "{selector}");
    }
    let refused = http.get(&format!("{THINGS}?fieldSelector=spec.number%3D1.5")).await;
    assert_eq!((refused.code, why(&refused).as_str()), (400, "field label not supported: spec.number"));
    let mut watch = http.watch(&format!("{THINGS}?watch=1&fieldSelector=spec.text%3Dt")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "full");
    // An object that no longer matches is deleted for the watch.
    http.patch(&format!("{THINGS}/full"), &json!({"spec": {"text": "u"}})).await.expect(200);
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
}
