//! Defaults of single JSON fields.

use serde_json::{Map, Value};

/// Sets a string unless the field has a non-empty one.
pub(super) fn text(map: &mut Map<String, Value>, field: &str, default: &str) {
    if map.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
        map.insert(field.to_owned(), default.into());
    }
}

/// Sets a number unless the field has a non-zero one.
pub(super) fn number(map: &mut Map<String, Value>, field: &str, default: i64) {
    if map.get(field).and_then(Value::as_i64).unwrap_or_default() == 0 {
        map.insert(field.to_owned(), default.into());
    }
}

/// Sets a value unless the field already has one, whatever it is.
pub(super) fn value(map: &mut Map<String, Value>, field: &str, default: impl Into<Value>) {
    let entry = map.entry(field.to_owned()).or_insert(Value::Null);
    if entry.is_null() {
        *entry = default.into();
    }
}

/// A field that is an object.
pub(super) fn object<'a>(map: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(field).and_then(Value::as_object_mut)
}

/// A field that is a list; empty if absent.
pub(super) fn list<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut [Value] {
    map.get_mut(field).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The objects of a list.
pub(super) fn objects(list: &mut [Value]) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.iter_mut().filter_map(Value::as_object_mut)
}
