//! Objects that do not match the schema of their definition are rejected.

use axum::http::Method;
use serde_json::{Value, json};

use super::{DEFINITIONS, WIDGETS, define, definition, message, server, widget};

#[tokio::test]
async fn invalid_custom_objects_are_rejected() {
    let (_plane, http) = server().await;
    define(&http, &definition()).await;
    let one = "Widget.example.com \"x\" is invalid: ";
    for (case, spec, want) in [
        (
            "1 type",
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            "2 limit",
            json!({"size": 101}),
            "spec.size: Invalid value: 101: spec.size in body should be less than or equal to 100",
        ),
        (
            "3 enum",
            json!({"color": "green"}),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        ("4 required", json!({"parts": [{"count": 2}]}), "spec.parts[0].name: Required value"),
        (
            "5 twice",
            json!({"parts": [{"name": "p"}, {"name": "p"}]}),
            "spec.parts[1]: Duplicate value: {\"name\":\"p\"}",
        ),
        ("6 rule", json!({"size": 13}), "spec: Invalid value: 13 is unlucky"),
    ] {
        let answer = http.post(WIDGETS, &widget("x", spec)).await;
        assert_eq!(answer.code, 422, "{case}: {}", answer.text());
        assert!(message(&answer).starts_with(one), "{case}: {}", message(&answer));
        assert!(message(&answer).contains(want), "{case}: {}", message(&answer));
        let unchecked = message(&answer).contains("some validation rules were not checked");
        let blocks = ["1 type", "3 enum", "4 required"].contains(&case);
        assert_eq!(unchecked, blocks, "{case}: {}", message(&answer));
    }

    let mut loose = widget("x", json!({"size": 1, "odd": 1}));
    let strict = http.post(&format!("{WIDGETS}?fieldValidation=Strict"), &loose).await;
    let want = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.odd\"";
    assert_eq!((strict.code, message(&strict).as_str()), (400, want));
    let warned = http.post(WIDGETS, &loose).await;
    assert_eq!((warned.code, warned.header("warning")), (201, "299 - \"unknown field \\\"spec.odd\\\"\""));
    assert_eq!(warned.json()["spec"].get("odd"), None);
    loose["kind"] = Value::Null;
    assert_eq!(http.post(WIDGETS, &loose).await.code, 400);

    let path = format!("{WIDGETS}/x");
    let mut object = http.get(&path).await.expect(200);
    object["spec"]["color"] = "blue".into();
    let answer = http.put(&path, &object).await;
    assert_eq!(answer.code, 422);
    assert!(message(&answer).contains("spec: Invalid value: color is immutable"), "{}", message(&answer));
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let answer = http.put(&path, &object).await;
    let want = "widgets.example.com \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!((answer.code, message(&answer).as_str()), (422, want));
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(http.send(Method::PATCH, &path, &headers, b"{}".to_vec()).await.code, 415);

    for (case, change, want) in [
        ("1 an expression", json!({"rule": "self.size >"}), "compilation failed"),
        ("2 a function", json!({"rule": "frob(self)"}), "undeclared reference to 'frob'"),
    ] {
        let mut bad = definition();
        bad["metadata"]["name"] = "gadgets.example.com".into();
        bad["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
        bad["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([change]);
        let answer = http.post(DEFINITIONS, &bad).await;
        let place = "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule";
        assert_eq!(answer.code, 422, "{case}");
        assert!(
            message(&answer).contains(place) && message(&answer).contains(want),
            "{case}: {}",
            message(&answer)
        );
    }
}

#[tokio::test]
async fn nesting_is_limited_to_a_hundred_levels() {
    let (_plane, http) = server().await;
    define(&http, &definition()).await;
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let widget = |levels: usize| widget("a", json!({"free": {"x": nested(levels)}}));
    // The widget, its spec and the free field add three levels around the lists.
    let (fits, deep) = (98, 101);
    http.create(WIDGETS, &widget(fits)).await;
    let path = format!("{WIDGETS}/a");
    let read = http.get(&path).await.expect(200);
    assert_eq!(read["spec"]["free"]["x"], nested(fits));
    let mut changed = read.clone();
    changed["spec"]["free"]["x"] = nested(deep);
    let change = json!([{"op": "add", "path": "/spec/free/x", "value": nested(deep)}]);
    for (door, method, path, content, body) in [
        ("create", Method::POST, WIDGETS, "application/json", widget(deep)),
        ("create in YAML", Method::POST, WIDGETS, "application/yaml", widget(deep)),
        ("update", Method::PUT, &path, "application/json", changed.clone()),
        ("update of the status", Method::PUT, &format!("{path}/status"), "application/json", changed),
        ("merge patch", Method::PATCH, &path, "application/merge-patch+json", widget(deep)),
        ("JSON patch", Method::PATCH, &path, "application/json-patch+json", change),
        (
            "apply",
            Method::PATCH,
            &format!("{path}?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            widget(deep),
        ),
    ] {
        let answer = http.send(method, path, &[("content-type", content)], body.to_string().into()).await;
        assert!((400..500).contains(&answer.code), "{door}: {}", answer.text());
        // YAML has its own limit, which is reached first.
        let is_yaml = content.ends_with("yaml");
        let want = if is_yaml { "is too deep" } else { "a value is nested more than 100 levels deep" };
        assert!(message(&answer).contains(want), "{door}: {}", message(&answer));
    }
    assert_eq!(http.get(&path).await.expect(200), read, "nothing of it is stored");
}
