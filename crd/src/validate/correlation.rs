//! Matches values with their stored values.
//!
//! Items match only in lists of type `map`. A map or an object with a member that the schema does not declare counts
//! as changed, because upstream cannot match the member. Upstream: apiserver `pkg/cel/common` (`equality.go`,
//! `maplist.go`).

use std::collections::HashMap;

use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::{Map, Value};

use crate::prune::is_bare;
use crate::schema::{Items, Schema};

/// Whether a value and all values in it equal their stored values.
pub(crate) fn is_unchanged(
    schema: &Schema,
    value: &Value,
    old: &Value,
    steps: &Steps,
) -> Result<bool, OutOfSteps> {
    steps.take(1)?;
    match (value, old) {
        (Value::Array(list), Value::Array(before)) => {
            if list.len() != before.len() {
                return Ok(false);
            }
            let Items::Map(_) = &schema.list else { return Ok(list == before) };
            let twins = Twins::of(schema, Some(old), steps)?;
            let Some(items) = &schema.items else { return Ok(list.is_empty()) };
            for item in list {
                match twins.of_item(item, steps)? {
                    Some(twin) if is_unchanged(items, item, twin, steps)? => {}
                    Some(_) | None => return Ok(false),
                }
            }
            Ok(true)
        }
        (Value::Object(map), Value::Object(before)) => is_map_unchanged(schema, map, before, steps),
        (value, old) => Ok(value == old),
    }
}

fn is_map_unchanged(
    schema: &Schema,
    map: &Map<String, Value>,
    before: &Map<String, Value>,
    steps: &Steps,
) -> Result<bool, OutOfSteps> {
    if map.len() != before.len() {
        return Ok(false);
    }
    for (name, value) in map {
        let (Some(old), Some(schema)) = (before.get(name), member(schema, name)) else { return Ok(false) };
        if !is_unchanged(schema, value, old, steps)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the schema of a member; `None` for the values of `additionalProperties: true`.
pub(crate) fn member<'s>(schema: &'s Schema, name: &str) -> Option<&'s Schema> {
    let additional = || schema.additional.as_deref().filter(|additional| !is_bare(additional));
    schema.properties.get(name).or_else(additional)
}

/// The stored items of a list by their keys, if the list has keys.
pub(crate) struct Twins<'v> {
    keys: &'v [String],
    by_keys: HashMap<Vec<String>, &'v Value>,
}

impl<'v> Twins<'v> {
    pub(crate) fn of(schema: &'v Schema, old: Option<&'v Value>, steps: &Steps) -> Result<Self, OutOfSteps> {
        let Items::Map(keys) = &schema.list else {
            return Ok(Twins { keys: &[], by_keys: HashMap::new() });
        };
        let mut twins = Twins { keys, by_keys: HashMap::new() };
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            if let Some(key) = twins.key(item, steps)? {
                twins.by_keys.entry(key).or_insert(item);
            }
        }
        Ok(twins)
    }

    /// An item that lacks a key has no twin.
    fn key(&self, item: &Value, steps: &Steps) -> Result<Option<Vec<String>>, OutOfSteps> {
        steps.take(self.keys.len())?;
        Ok(self.keys.iter().map(|key| item.get(key).map(Value::to_string)).collect())
    }

    /// Returns the stored item with the same keys.
    pub(crate) fn of_item(&self, item: &Value, steps: &Steps) -> Result<Option<&'v Value>, OutOfSteps> {
        if self.by_keys.is_empty() {
            return Ok(None);
        }
        Ok(self.key(item, steps)?.and_then(|key| self.by_keys.get(&key).copied()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn unchanged_values_are_those_that_the_schema_can_match() {
        let text = json!({"type": "string"});
        let object = json!({"type": "object", "properties": {"k": text, "v": text}});
        let list = |ty: &str| json!({"type": "array", "items": object, "x-kubernetes-list-type": ty});
        let mut map_list = list("map");
        map_list["x-kubernetes-list-map-keys"] = json!(["k"]);
        let (a, b) = (json!({"k": "a", "v": "1"}), json!({"k": "b"}));
        for (case, schema, value, old, want) in [
            ("1 text", text.clone(), json!("x"), json!("x"), true),
            ("2 another text", text.clone(), json!("x"), json!("y"), false),
            ("3 object", object.clone(), a.clone(), a.clone(), true),
            ("4 an undeclared member", object.clone(), json!({"z": 1}), json!({"z": 1}), false),
            ("5 a removed member", object.clone(), b.clone(), json!({"k": "b", "v": "1"}), false),
            ("6 atomic list", list("atomic"), json!([a, b]), json!([a, b]), true),
            ("7 atomic list in another order", list("atomic"), json!([a, b]), json!([b, a]), false),
            ("8 map list in another order", map_list.clone(), json!([a, b]), json!([b, a]), true),
            ("9 map list with another key", map_list.clone(), json!([a]), json!([b]), false),
            ("10 map list without keys", map_list, json!([{"v": "1"}]), json!([{"v": "1"}]), false),
            (
                "11 map",
                json!({"type": "object", "additionalProperties": text}),
                json!({"x": "1"}),
                json!({"x": "1"}),
                true,
            ),
            (
                "12 map of anything",
                json!({"type": "object", "additionalProperties": true}),
                json!({"x": 1}),
                json!({"x": 1}),
                false,
            ),
            ("13 null", text, json!(null), json!(null), true),
        ] {
            let schema = Schema::of(&schema);
            assert_eq!(is_unchanged(&schema, &value, &old, &Steps::new(100)).unwrap(), want, "{case}");
        }
    }
}
