//! Fields of JSON values, and the values that several kinds share.

use serde_json::Value;

/// The API group.
pub const GROUP: &str = "admissionregistration.k8s.io";

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];

/// The items of a list; empty if it is absent.
pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A text; empty if it is absent.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list.
pub(super) fn texts<'v>(value: &'v Value, name: &str) -> Vec<&'v str> {
    list(value, name).iter().filter_map(Value::as_str).collect()
}

/// Whether a field is set.
pub(super) fn is_set(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|value| !value.is_null())
}

/// Sets an absent field.
pub(super) fn set_default(value: &mut Value, name: &str, default: impl Into<Value>) {
    if let Value::Object(map) = value
        && map.get(name).is_none_or(Value::is_null)
    {
        map.insert(name.to_owned(), default.into());
    }
}
