#![allow(clippy::unwrap_used)]
use super::*;
use crate::registry::KINDS;
use serde_json::json;

fn kind(plural: &str) -> KindRef {
    let found = KINDS.iter().find(|kind| kind.names().plural == plural && !kind.is_view());
    KindRef::Builtin(*found.unwrap())
}

fn formatted_changes(kind: KindRef, from: &Value, to: &Value) -> Vec<String> {
    let show = |side: &Option<Value>| side.as_ref().map_or("-".to_owned(), Value::to_string);
    let changes = changes(kind, from, to);
    changes
        .iter()
        .map(|c| format!("{} {:?} {} {}", c.path.join("."), c.op, show(&c.from), show(&c.to)))
        .collect()
}

#[test]
fn changes_are_reported_per_field() {
    for (case, from, to, want) in [
        ("1 nothing", json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), vec![]),
        (
            "2 a value",
            json!({"spec": {"volumeName": "a"}}),
            json!({"spec": {"volumeName": "b"}}),
            vec![r#"spec.volumeName Replace "a" "b""#],
        ),
        (
            "3 a member comes",
            json!({}),
            json!({"spec": {"volumeName": "b"}}),
            vec![r#"spec Add - {"volumeName":"b"}"#],
        ),
        (
            "4 a member goes",
            json!({"metadata": {"labels": {"a": "", "b": "1"}}}),
            json!({"metadata": {"labels": {"b": "1"}}}),
            vec![r#"metadata.labels.a Remove "" -"#],
        ),
        (
            "5 what is left out",
            json!({
                "kind": "A", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "managedFields": [1]},
            }),
            json!({"metadata": {"resourceVersion": "2", "managedFields": []}}),
            vec![],
        ),
        (
            "5a nor in what comes whole",
            json!({}),
            json!({"metadata": {"name": "a", "resourceVersion": "2", "managedFields": []}}),
            vec![r#"metadata Add - {"name":"a"}"#],
        ),
        (
            "6 and only there",
            json!({"spec": {"kind": "A"}}),
            json!({"spec": {"kind": "B"}}),
            vec![r#"spec.kind Replace "A" "B""#],
        ),
        (
            "7 another type",
            json!({"spec": {"a": [1]}}),
            json!({"spec": {"a": {"b": 1}}}),
            vec![r#"spec.a Replace [1] {"b":1}"#],
        ),
        (
            "8 a plain list",
            json!({"spec": {"accessModes": ["A", "B"]}}),
            json!({"spec": {"accessModes": ["A"]}}),
            vec![r#"spec.accessModes Replace ["A","B"] ["A"]"#],
        ),
        (
            "9 a set",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["b", "c"]}}),
            vec![r#"metadata.finalizers.[=a] Remove "a" -"#, r#"metadata.finalizers.[=c] Add - "c""#],
        ),
        (
            "10 a set in another order",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["b", "a"]}}),
            vec![r#"metadata.finalizers Replace ["a","b"] ["b","a"]"#],
        ),
        (
            "11 items by key",
            json!({"status": {"conditions": [
                {"type": "A", "status": "True"}, {"type": "B", "status": "True"},
            ]}}),
            json!({"status": {"conditions": [
                {"type": "C", "status": "True"}, {"type": "A", "status": "False"},
            ]}}),
            vec![
                r#"status.conditions.[type=A].status Replace "True" "False""#,
                r#"status.conditions.[type=B] Remove {"status":"True","type":"B"} -"#,
                r#"status.conditions.[type=C] Add - {"status":"True","type":"C"}"#,
            ],
        ),
        (
            "12 two of one key",
            json!({"status": {"conditions": [{"type": "A"}, {"type": "A"}]}}),
            json!({"status": {"conditions": []}}),
            vec![r#"status.conditions Replace [{"type":"A"},{"type":"A"}] []"#],
        ),
        (
            "13 no key",
            json!({"status": {"conditions": [{"status": "A"}]}}),
            json!({"status": {"conditions": [{"status": "B"}]}}),
            vec![r#"status.conditions Replace [{"status":"A"}] [{"status":"B"}]"#],
        ),
    ] {
        assert_eq!(formatted_changes(kind("persistentvolumeclaims"), &from, &to), want, "{case}");
    }
}

#[test]
fn items_are_matched_by_all_their_keys() {
    let pod = |port: Value, env: Value| json!({"spec": {"containers": [{"name": "c", "ports": [port], "env": [env]}]}});
    let from = pod(json!({"containerPort": 1, "protocol": "TCP"}), json!({"name": "E", "value": "1"}));
    let to = pod(json!({"containerPort": 1, "protocol": "UDP"}), json!({"name": "E", "value": "2"}));
    let want = [
        r#"spec.containers.[name=c].env.[name=E].value Replace "1" "2""#,
        r#"spec.containers.[name=c].ports.[containerPort=1,protocol=TCP] Remove {"containerPort":1,"protocol":"TCP"} -"#,
        r#"spec.containers.[name=c].ports.[containerPort=1,protocol=UDP] Add - {"containerPort":1,"protocol":"UDP"}"#,
    ];
    assert_eq!(formatted_changes(kind("pods"), &from, &to), want);
}

#[test]
fn change_serializes_path_op_and_values() {
    let list = changes(kind("configmaps"), &json!({"data": {"a": "1"}}), &json!({"data": {"b": "2"}}));
    let want = json!([
        {"path": ["data", "a"], "op": "remove", "from": "1"},
        {"path": ["data", "b"], "op": "add", "to": "2"},
    ]);
    assert_eq!(json!(list), want);
}
