//! Reads fields of an answer. A missing field reads as empty.

use serde_json::Value;

/// A string field, or an empty string.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The items of a list field, or an empty slice.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A number, which the API may encode as a string.
pub(super) fn count(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// Formats an object reference: `PersistentVolumeClaim default/data`.
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
