//! Removes the values of secrets, but not their keys, from all output of this group.

use bytes::Bytes;
use orlop_store::Key;
use serde_json::{Map, Value};

use super::changes::Change;
use crate::encode::stored;
use crate::registry::{Kind, by_storage_prefix};
use orlop_api::object::Object;

/// The topic of the Secrets in the store.
const SECRETS: &str = "/registry/secrets/";
/// The annotation in which kubectl stores the applied object, including the values.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether values of objects of the kind are hidden.
pub(super) fn is_secret(kind: &dyn Kind) -> bool {
    kind.names().group.is_empty() && kind.names().plural == "secrets"
}

/// Removes the values of a secret.
pub(super) fn object(value: &mut Value) {
    for member in ["data", "stringData"] {
        if let Some(data) = value.get_mut(member).and_then(Value::as_object_mut) {
            blank_all(data);
        }
    }
    if let Some(annotations) = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        blank_annotation(annotations);
    }
}

/// The redacted form of the stored value of a former version: a Secret with its metadata and the names of its values, any other object
/// with its metadata without annotations. `None` if the value is no object of a built-in kind.
pub fn former_version(key: &Key, value: &Bytes) -> Option<Bytes> {
    let mut stored: Value = serde_json::from_slice(value).ok()?;
    if key.topic() == SECRETS {
        object(&mut stored);
    } else {
        stored.as_object_mut()?.retain(|name, _| name == "metadata");
        stored.get_mut("metadata")?.as_object_mut()?.remove("annotations");
    }
    stored.get("metadata")?.get("uid")?;
    let kind = by_storage_prefix(key.topic())?;
    Some(stored::encode(kind, &Object::from_value(stored)).0)
}

fn blank_all(data: &mut Map<String, Value>) {
    data.values_mut().for_each(|value| *value = Value::String(String::new()));
}

fn blank_annotation(annotations: &mut Map<String, Value>) {
    if let Some(applied) = annotations.get_mut(LAST_APPLIED) {
        *applied = Value::String(String::new());
    }
}

/// Removes the values from the changes of a secret; the fact that a field changed remains.
pub(super) fn changes(changes: &mut [Change]) {
    for change in changes {
        let path: Vec<&str> = change.path.iter().map(String::as_str).collect();
        let sides = [&mut change.from, &mut change.to];
        for side in sides.into_iter().flatten() {
            match (path.as_slice(), side) {
                ([], side) => object(side),
                (["metadata"], Value::Object(metadata)) => {
                    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
                    {
                        blank_annotation(annotations);
                    }
                }
                (["data" | "stringData"], Value::Object(data)) => blank_all(data),
                (["metadata", "annotations"], Value::Object(annotations)) => blank_annotation(annotations),
                (["data" | "stringData", ..], side) => *side = Value::String(String::new()),
                (["metadata", "annotations", LAST_APPLIED, ..], side) => *side = Value::String(String::new()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::insight::changes::Op;

    #[test]
    fn all_values_of_a_secret_are_removed() {
        let mut value = json!({
            "metadata": {"annotations": {LAST_APPLIED: "HIDE", "a": "b"}},
            "data": {"k": "HIDE"}, "stringData": {"l": "HIDE"}, "type": "Opaque",
        });
        object(&mut value);
        let want = json!({
            "metadata": {"annotations": {LAST_APPLIED: "", "a": "b"}},
            "data": {"k": ""}, "stringData": {"l": ""}, "type": "Opaque",
        });
        assert_eq!(value, want);
    }

    #[test]
    fn redacted_versions_contain_only_the_identity() {
        let value = |text: &str| Bytes::from(text.to_owned());
        for (key, stored, want) in [
            (
                "/registry/secrets/n/a",
                r#"{"metadata":{"name":"a","uid":"u","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"HIDE","x":"y"}},"data":{"k":"HIDE"},"type":"Opaque"}"#,
                Some(
                    r#"{"metadata":{"name":"a","uid":"u","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"","x":"y"}},"data":{"k":""},"type":"Opaque"}"#,
                ),
            ),
            (
                "/registry/configmaps/n/a",
                r#"{"metadata":{"name":"a","uid":"u","annotations":{"x":"HIDE"}},"data":{"k":"HIDE"}}"#,
                Some(r#"{"metadata":{"name":"a","uid":"u"}}"#),
            ),
            ("/registry/orlop.serviceaccountkeys/current", r#"{"pkcs8":"HIDE"}"#, None),
            ("/registry/secrets/n/a", "k8s:enc:HIDE", None),
            ("/registry/secrets/n/a", r#"["HIDE"]"#, None),
        ] {
            let left = former_version(&Key::from(key), &value(stored));
            let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or_default();
            let (left, want) = (left.as_deref().map(parsed), want.map(|want| parsed(want.as_bytes())));
            assert_eq!(left, want, "{key}");
        }
    }

    #[test]
    fn changes_of_a_secret_have_no_values() {
        for (path, from, to, want_from, want_to) in [
            (vec!["data", "k"], json!("HIDE"), json!("HIDE2"), json!(""), json!("")),
            (vec!["data"], json!({"k": "HIDE"}), json!({"l": "HIDE"}), json!({"k": ""}), json!({"l": ""})),
            (
                vec!["metadata"],
                json!({"annotations": {LAST_APPLIED: "HIDE", "a": "b"}, "name": "n"}),
                json!({"name": "n"}),
                json!({"annotations": {LAST_APPLIED: "", "a": "b"}, "name": "n"}),
                json!({"name": "n"}),
            ),
            (vec![], json!({"data": {"k": "HIDE"}}), json!({}), json!({"data": {"k": ""}}), json!({})),
            (
                vec!["metadata", "annotations", LAST_APPLIED],
                json!("HIDE"),
                json!("HIDE"),
                json!(""),
                json!(""),
            ),
            (
                vec!["metadata", "annotations"],
                json!({LAST_APPLIED: "HIDE"}),
                json!({"a": "b"}),
                json!({LAST_APPLIED: ""}),
                json!({"a": "b"}),
            ),
            (vec!["metadata", "labels", "data"], json!("x"), json!("y"), json!("x"), json!("y")),
        ] {
            let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
            let mut list = [Change { path, op: Op::Replace, from: Some(from), to: Some(to) }];
            changes(&mut list);
            assert_eq!(
                (&list[0].from, &list[0].to),
                (&Some(want_from), &Some(want_to)),
                "{:?}",
                list[0].path
            );
        }
    }
}
