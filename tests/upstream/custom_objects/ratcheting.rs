//! Definitions that become stricter: which errors of stored objects an update may repeat (upstream: apiextensions-apiserver
//! `test/integration/ratcheting_test.go`, `pkg/registry/customresource/strategy.go`).

use axum::http::Method;
use serde_json::{Value, json};

use super::super::{apply, merged, server};
use super::{THINGS, define, definition, redefine, thing, warnings, why};

/// Definitions become stricter after objects exist. Upstream: apiextensions-apiserver
/// `pkg/registry/customresource/strategy.go`, `pkg/apiserver/validation/ratcheting.go`, `pkg/apiserver/schema/cel`.
#[tokio::test]
async fn errors_of_unchanged_values_are_let_through() {
    let (_plane, http) = server().await;
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
        "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}});
    let properties = json!({
        "note": {"type": "string"}, "size": {"type": "integer"}, "keyed": keyed,
        "atomic": {"type": "array", "items": {"type": "integer"}},
        "box": {"type": "object", "properties": {"w": {"type": "integer"}}},
        "boxes": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "integer"}}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    let spec = |properties: &Value| json!({"type": "object", "properties": properties});
    let status = json!({"subresources": {"status": {}}});
    define(&http, &definition(&spec(&properties), &status)).await;
    let path = format!("{THINGS}/a");
    http.create(
        THINGS,
        &thing(
            "a",
            json!({"size": 99, "keyed": [{"k": "a", "v": 9}], "atomic": [9], "box": {"w": 9}, "boxes": [{"w": 9}],
                "open": {"x": 1}}),
        ),
    )
    .await;
    http.patch(&format!("{path}/status"), &json!({"status": {"phase": "Odd"}})).await.expect(200);

    let small = json!({"maximum": 5});
    let narrow = json!({"x-kubernetes-validations": [{"rule": "self.w < 5", "message": "too wide"}]});
    let strict = merged(
        &properties,
        &json!({
            "size": small, "keyed": {"items": {"properties": {"v": small}}}, "atomic": {"items": small},
            "box": narrow, "boxes": {"items": narrow}, "open": {"minProperties": 2},
        }),
    );
    let mut stricter = definition(&spec(&strict), &status);
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["phase"] =
        json!({"type": "string", "enum": ["Even"]});
    redefine(&http, &stricter, &thing("b", json!({"size": 99})), 422).await;

    // Upstream cannot match the members of `open`, so that its error blocks all updates until it is corrected.
    let open = "spec.open: Invalid value: {\"x\":1}: spec.open in body should have at least 2 properties";
    let dry = format!("{path}?dryRun=All");
    assert_eq!(why(&http.patch(&dry, &json!({"spec": {"note": "n"}})).await), open);
    http.patch(&path, &json!({"spec": {"open": {"y": 1}}})).await.expect(200);

    let wide = ["\"spec.box: Invalid value: too wide\"", "\"spec.boxes[0]: Invalid value: too wide\""];
    let above = |place: &str, value: i32| {
        format!("{place}: Invalid value: {value}: {place} in body should be less than or equal to 5")
    };
    for (case, patch, want, warned) in [
        ("1 another field", json!({"spec": {"note": "n"}}), String::new(), &wide[..]),
        ("2 metadata", json!({"metadata": {"labels": {"a": "b"}}}), String::new(), &wide[..]),
        ("3 the field", json!({"spec": {"size": 98}}), above("spec.size", 98), &wide[..]),
        (
            "4 another item of a map",
            json!({"spec": {"keyed": [{"k": "b", "v": 1}, {"k": "a", "v": 9}]}}),
            String::new(),
            &wide[..],
        ),
        (
            "5 the item of a map",
            json!({"spec": {"keyed": [{"k": "a", "v": 8}]}}),
            above("spec.keyed[0].v", 8),
            &wide[..],
        ),
        (
            "6 another item of an atomic list",
            json!({"spec": {"atomic": [9, 1]}}),
            above("spec.atomic[0]", 9),
            &wide[..],
        ),
        (
            "7 a value with a rule",
            json!({"spec": {"box": {"w": 8}}}),
            "spec.box: Invalid value: too wide".to_owned(),
            &wide[1..],
        ),
        (
            "8 another item of a list with rules",
            json!({"spec": {"boxes": [{"w": 9}, {"w": 1}]}}),
            "spec.boxes[0]: Invalid value: too wide".to_owned(),
            &wide[..1],
        ),
    ] {
        let answer = http.patch(&dry, &patch).await;
        assert_eq!(why(&answer), want, "{case}");
        assert_eq!(warnings(&answer), warned, "{case}");
    }
    // All kinds of updates.
    let mut object = http.get(&path).await.expect(200);
    object["spec"]["note"] = "put".into();
    assert_eq!(warnings(&http.put(&dry, &object).await), wide);
    let change = json!([{"op": "add", "path": "/spec/note", "value": "json"}]).to_string();
    let json_patch = [("content-type", "application/json-patch+json")];
    http.send(Method::PATCH, &dry, &json_patch, change.into()).await.expect(200);
    let config = thing("a", json!({"note": "applied", "size": 99}));
    assert_eq!(warnings(&apply(&http, &dry, "m", &config).await), wide);
    let status = format!("{path}/status?dryRun=All");
    http.patch(&status, &json!({"status": {"note": "n"}})).await.expect(200);
    let phase = "status.phase: Unsupported value: \"New\": supported values: \"Even\"";
    let refused = why(&http.patch(&status, &json!({"status": {"phase": "New"}})).await);
    assert!(refused.contains(phase), "{refused}");
}

#[tokio::test]
async fn transition_rules_and_failing_rules_apply_to_unchanged_values() {
    let (_plane, http) = server().await;
    let text = json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}});
    let with = |rule: Value| merged(&text, &json!({"x-kubernetes-validations": [rule]}));
    let spec = |up: Value, once: Value, fails: Value| {
        let note = json!({"type": "string"});
        json!({"type": "object", "properties": {"note": note, "up": up, "once": once, "fails": fails, "size": {"type": "integer"}}})
    };
    define(&http, &definition(&spec(text.clone(), text.clone(), text.clone()), &json!({}))).await;
    for name in ["up", "once", "fails"] {
        http.create(THINGS, &thing(name, json!({name: {"n": 1}}))).await;
    }
    let mut strict = spec(
        with(json!({"rule": "self.n > oldSelf.n", "message": "up"})),
        with(
            json!({"rule": "!oldSelf.hasValue() || self.n > 1", "optionalOldSelf": true, "reason": "FieldValueDuplicate"}),
        ),
        with(json!({"rule": "self.n < self.m"})),
    );
    strict["properties"]["size"]["maximum"] = json!(5);
    redefine(&http, &definition(&strict, &json!({})), &thing("x", json!({"size": 9})), 422).await;
    for (name, want) in [
        ("up", "spec.up: Invalid value: up"),
        ("once", "spec.once: Duplicate value"),
        ("fails", "spec.fails: Invalid value: \"object\": no such key: m evaluating rule: self.n < self.m"),
    ] {
        let answer = http.patch(&format!("{THINGS}/{name}"), &json!({"spec": {"note": "n"}})).await;
        assert_eq!((answer.code, why(&answer).as_str()), (422, want), "{name}");
    }
    // Without an old value, a transition rule is not evaluated.
    http.create(THINGS, &thing("new", json!({"up": {"n": 1}, "once": {"n": 1}}))).await;
    http.patch(&format!("{THINGS}/up"), &json!({"spec": {"up": {"n": 2}}})).await.expect(200);
}

/// Upstream checks lists only if the stored object has no duplicates at all, and embedded objects always.
#[tokio::test]
async fn sets_and_embedded_objects_have_their_own_ratcheting() {
    let (_plane, http) = server().await;
    let list = json!({"type": "array", "items": {"type": "string"}});
    let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = |set: &Value, embedded: &Value| {
        json!({"type": "object", "properties": {"note": {"type": "string"}, "one": set, "two": set,
            "map": {"type": "object", "additionalProperties": set}, "embedded": embedded}})
    };
    define(&http, &definition(&spec(&list, &object), &json!({}))).await;
    http.create(THINGS, &thing("lists", json!({"one": ["a", "a"]}))).await;
    http.create(THINGS, &thing("good", json!({}))).await;
    http.create(THINGS, &thing("embedded", json!({"embedded": {"kind": "K"}}))).await;
    let set = merged(&list, &json!({"x-kubernetes-list-type": "set"}));
    let embedded = merged(&object, &json!({"x-kubernetes-embedded-resource": true}));
    let probe = thing("x", json!({"embedded": {}}));
    redefine(&http, &definition(&spec(&set, &embedded), &json!({})), &probe, 422).await;
    for (name, patch, want) in [
        ("lists", json!({"note": "n", "two": ["b", "b"]}), ""),
        ("good", json!({"two": ["b", "c", "b", "b"]}), "spec.two[2]: Duplicate value: \"b\""),
        ("good", json!({"map": {"k": ["b", "b"]}}), "spec.map[k][1]: Duplicate value: \"b\""),
        ("embedded", json!({"note": "n"}), "spec.embedded.apiVersion: Required value"),
    ] {
        let answer = http.patch(&format!("{THINGS}/{name}?dryRun=All"), &json!({"spec": patch})).await;
        assert_eq!(why(&answer), want, "{name}");
    }
}
