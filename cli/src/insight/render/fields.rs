//! Reads fields of an answer. A missing field is empty.

use serde_json::Value;

/// A text of an answer, or nothing.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The items of a list of an answer, or none.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A number that the API may write as text.
pub(super) fn count(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// `PersistentVolumeClaim default/data`.
pub(super) fn reference(reference: &Value) -> String {
    let kind = match (text(reference, "kind"), text(reference, "resource")) {
        ("", resource) => resource,
        (kind, _) => kind,
    };
    let name = match (text(reference, "namespace"), text(reference, "name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    format!("{kind} {name}").trim().to_owned()
}
