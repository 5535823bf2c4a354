//! Reconciliation preserves the additions of an administrator and restores missing parts of the bootstrap object.

use serde_json::{Value, json};

use super::super::{AUTO_UPDATE, must_recreate, reconcile};

/// A role with these rules.
fn role(rules: Value) -> Value {
    json!({ "metadata": { "name": "r", "labels": { "l": "1" }, "annotations": { "a": "1" } }, "rules": rules })
}

/// A binding of a role with these subjects.
fn binding(role: &str, subjects: Value) -> Value {
    json!({
        "metadata": { "name": "b", "labels": { "l": "1" } },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": subjects,
    })
}

/// A user as a subject.
fn user(name: &str) -> Value {
    json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name })
}

/// An aggregated role that selects these labels.
fn aggregated(labels: &[&str]) -> Value {
    let selectors: Vec<Value> =
        labels.iter().map(|label| json!({ "matchLabels": { *label: "true" } })).collect();
    json!({
        "metadata": { "name": "a" },
        "rules": null,
        "aggregationRule": { "clusterRoleSelectors": selectors },
    })
}

/// A copy with another value at a pointer.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("the parent exists")[field] = value;
    object
}

#[test]
fn bootstrap_objects_are_created_and_protected_objects_stay() {
    let expected = role(json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]));
    assert_eq!(reconcile(None, &expected), Some(expected.clone()), "1 no object");
    assert_eq!(reconcile(Some(&expected), &expected), None, "2 equal");
    let off = json!({ AUTO_UPDATE: "false" });
    let protected = with(role(json!([])), "/metadata/annotations", off.clone());
    assert_eq!(reconcile(Some(&protected), &expected), None, "3 protected role");
    let protected = with(binding("x", json!([])), "/metadata/annotations", off);
    assert_eq!(reconcile(Some(&protected), &binding("y", json!([]))), None, "4 protected binding");
    assert!(!must_recreate(&protected, &binding("y", json!([]))), "5 protected binding");
}

#[test]
fn missing_rules_are_added_and_extra_rules_stay() {
    let pods = |verbs: &[&str]| json!({ "verbs": verbs, "apiGroups": [""], "resources": ["pods"] });
    let named = |name: &str| {
        let mut rule = pods(&["get"]);
        rule["resourceNames"] = json!([name]);
        rule
    };
    let scale = |resource: &str| json!({ "verbs": ["get"], "apiGroups": ["*"], "resources": [resource] });
    let path = |path: &str| json!({ "verbs": ["get"], "nonResourceURLs": [path] });
    let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    let deployments = json!({ "verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"] });
    for (case, stored, expected, added) in [
        ("1 equal", json!([pods(&["get"])]), json!([pods(&["get"])]), json!([])),
        ("2 one verb", json!([pods(&["get"])]), json!([pods(&["get", "list"])]), json!([pods(&["list"])])),
        (
            "3 a rule for each verb",
            json!(null),
            json!([pods(&["get", "list"])]),
            json!([pods(&["get"]), pods(&["list"])]),
        ),
        ("4 wider", json!([all]), json!([pods(&["get", "list"])]), json!([])),
        ("5 extra", json!([pods(&["delete"])]), json!([pods(&["get"])]), json!([pods(&["get"])])),
        (
            "6 in two rules",
            json!([pods(&["get"]), pods(&["list"])]),
            json!([pods(&["get", "list"])]),
            json!([]),
        ),
        ("7 any name", json!([pods(&["get"])]), json!([named("a")]), json!([])),
        ("8 another name", json!([named("b")]), json!([named("a")]), json!([named("a")])),
        ("9 only a name", json!([named("b")]), json!([pods(&["get"])]), json!([pods(&["get"])])),
        ("10 any resource's scale", json!([scale("*/scale")]), json!([deployments]), json!([])),
        ("11 another subresource", json!([scale("*/status")]), json!([deployments]), json!([deployments])),
        ("12 path prefix", json!([path("/api/*")]), json!([path("/api/v1")]), json!([])),
        ("13 below the path", json!([path("/api")]), json!([path("/api/*")]), json!([path("/api/*")])),
        ("14 a path is no resource", json!([all]), json!([path("/api")]), json!([path("/api")])),
    ] {
        let mut rules = stored.as_array().cloned().unwrap_or_default();
        let added = added.as_array().expect("a list");
        rules.extend(added.iter().cloned());
        let want = (!added.is_empty()).then(|| role(Value::Array(rules)));
        assert_eq!(reconcile(Some(&role(stored)), &role(expected)), want, "{case}");
    }
}

#[test]
fn labels_and_annotations_are_merged() {
    let expected = role(json!([]));
    for (case, pointer, value, want) in [
        ("1 no labels", "/metadata/labels", json!(null), Some(json!({ "l": "1" }))),
        ("2 missing label", "/metadata/labels", json!({ "m": "2" }), Some(json!({ "l": "1", "m": "2" }))),
        ("3 the stored value wins", "/metadata/labels", json!({ "l": "2" }), None),
        (
            "4 missing annotation",
            "/metadata/annotations",
            json!({ "b": "2" }),
            Some(json!({ "a": "1", "b": "2" })),
        ),
        ("5 extra annotation", "/metadata/annotations", json!({ "a": "1", "b": "2" }), None),
    ] {
        let stored = with(expected.clone(), pointer, value);
        let want = want.map(|merged| with(stored.clone(), pointer, merged));
        assert_eq!(reconcile(Some(&stored), &expected), want, "{case}");
    }
}

#[test]
fn missing_subjects_are_added_and_extra_subjects_stay() {
    let account = |namespace: &str| json!({ "kind": "ServiceAccount", "name": "x", "namespace": namespace });
    for (case, stored, expected, want) in [
        ("1 equal", json!([user("x")]), json!([user("x")]), None),
        ("2 missing", json!([user("y")]), json!([user("x")]), Some(json!([user("y"), user("x")]))),
        ("3 no subjects", json!(null), json!([user("x"), user("x")]), Some(json!([user("x")]))),
        ("4 extra", json!([user("x"), user("y")]), json!([user("x")]), None),
        ("5 expects none", json!([user("x")]), json!(null), None),
        (
            "6 another namespace",
            json!([account("a")]),
            json!([account("b")]),
            Some(json!([account("a"), account("b")])),
        ),
    ] {
        let want = want.map(|subjects| binding("r", subjects));
        assert_eq!(reconcile(Some(&binding("r", stored)), &binding("r", expected)), want, "{case}");
    }
}

#[test]
fn binding_of_another_role_is_recreated() {
    let expected = binding("new", json!([user("x")]));
    let stored = with(binding("old", json!([user("y")])), "/metadata/uid", json!("u"));
    assert!(must_recreate(&stored, &expected), "1 another role");
    assert_eq!(reconcile(Some(&stored), &expected), Some(expected.clone()), "2 no old subjects, no uid");
    let stored = with(binding("new", json!([user("y")])), "/roleRef/kind", json!("Role"));
    assert!(must_recreate(&stored, &expected), "3 another kind");
    assert!(!must_recreate(&expected, &expected), "4 equal");
    assert!(!must_recreate(&role(json!([])), &role(json!([]))), "5 roles");
}

#[test]
fn aggregation_selectors_are_merged() {
    let plain = with(aggregated(&[]), "/aggregationRule", json!(null));
    let filled = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]);
    for (case, stored, expected, want) in [
        ("1 equal", aggregated(&["x"]), aggregated(&["x"]), None),
        ("2 missing", aggregated(&["y"]), aggregated(&["x"]), Some(aggregated(&["y", "x"]))),
        ("3 extra", aggregated(&["x", "y"]), aggregated(&["x"]), None),
        ("4 not aggregated", plain.clone(), aggregated(&["x"]), Some(aggregated(&["x"]))),
        ("5 computed rules stay", with(aggregated(&["x"]), "/rules", filled), aggregated(&["x"]), None),
    ] {
        assert_eq!(reconcile(Some(&stored), &expected), want, "{case}");
    }
    let removed = reconcile(Some(&aggregated(&["x"])), &plain).expect("a change");
    assert_eq!(removed.get("aggregationRule"), None, "6 not expected");
}
