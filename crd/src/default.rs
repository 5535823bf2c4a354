//! Applies the defaults of a schema where the parent object exists, on every write and read.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/defaulting`.

use serde_json::Value;

use crate::schema::{Schema, Type};

/// Fills in missing fields. A `null` that the schema does not allow counts as missing.
pub(crate) fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| {
                let schema = schema.properties.get(name).or(schema.additional.as_deref());
                let is_stray = |schema: &Schema| {
                    !schema.nullable
                        && schema.default.is_none()
                        && (schema.ty != Type::Any || schema.int_or_string)
                };
                !(value.is_null() && schema.is_some_and(is_stray))
            });
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let left_out = match map.get(name) {
                    None => true,
                    Some(given) => given.is_null() && !property.nullable,
                };
                if left_out {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(schema) = schema.properties.get(name).or(schema.additional.as_deref()) else {
                    continue;
                };
                if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
                    *value = default.clone();
                }
                fill(schema, value);
            }
        }
        Value::Array(list) => {
            let Some(items) = &schema.items else { return };
            for item in list {
                if let (true, false, Some(default)) = (item.is_null(), items.nullable, &items.default) {
                    *item = default.clone();
                }
                fill(items, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_fields_of_existing_objects_receive_defaults() {
        let schema = Schema::of(&json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "n": {"type": "string", "nullable": true, "default": "y"},
            "o": {"type": "object", "properties": {"b": {"type": "integer", "default": 0}}},
            "d": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 3}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {
                "p": {"type": "string", "default": "TCP"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string", "default": "z"}},
        }}));
        for (case, given, want) in [
            ("1 nothing there", json!({}), json!({"a": "x", "n": "y", "d": {"c": 3}})),
            (
                "2 only where an object is",
                json!({"o": {}, "l": [{}, {"p": "UDP"}]}),
                json!({"a": "x", "n": "y", "d": {"c": 3}, "o": {"b": 0}, "l": [{"p": "TCP"}, {"p": "UDP"}]}),
            ),
            (
                "3 nulls",
                json!({"a": null, "n": null, "m": {"k": null}, "d": {"c": 1}}),
                json!({"a": "x", "n": null, "m": {"k": "z"}, "d": {"c": 1}}),
            ),
            (
                "5 nulls that mean nothing",
                json!({"o": null, "l": [{"p": null}], "d": {"c": null}}),
                json!({"a": "x", "n": "y", "d": {"c": 3}, "l": [{"p": "TCP"}]}),
            ),
            ("4 empty is something", json!({"a": ""}), json!({"a": "", "n": "y", "d": {"c": 3}})),
        ] {
            let mut value = given;
            fill(&schema, &mut value);
            assert_eq!(value, want, "{case}");
        }
    }
}
