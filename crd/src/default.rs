//! Applies the defaults of a schema where the parent object exists, on every write and read.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/defaulting`.

use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::Value;

use crate::schema::{Schema, Type};

/// The weight that an object may have together with its defaults. The largest document weighs half of it.
pub(crate) const MAX_WEIGHT: u64 = 1_500_000;

/// Fills in missing fields. A `null` that the schema does not allow counts as missing.
///
/// # Errors
/// The weight of the value and its defaults is larger than the steps. The value has some of the defaults then.
pub(crate) fn fill(schema: &Schema, value: &mut Value, steps: &Steps) -> Result<(), OutOfSteps> {
    if schema.defaults_inside {
        weigh(value, steps)?;
    }
    fill_in(schema, value, steps)
}

fn fill_in(schema: &Schema, value: &mut Value, steps: &Steps) -> Result<(), OutOfSteps> {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| {
                let schema = schema.properties.get(name).or(schema.additional.as_deref());
                !(value.is_null() && schema.is_some_and(drops_null))
            });
            for (name, property, default) in defaulted(schema) {
                if is_missing(property, map.get(name)) {
                    map.insert(name.clone(), copied(default, steps)?);
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(schema) = schema.properties.get(name).or(schema.additional.as_deref()) else {
                    continue;
                };
                if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
                    *value = copied(default, steps)?;
                }
                fill_in(schema, value, steps)?;
            }
        }
        Value::Array(list) => {
            let Some(items) = &schema.items else { return Ok(()) };
            for item in list {
                if let (true, false, Some(default)) = (item.is_null(), items.nullable, &items.default) {
                    *item = copied(default, steps)?;
                }
                fill_in(items, item, steps)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Whether a `null` for this schema counts as missing and has no default.
pub(crate) fn drops_null(schema: &Schema) -> bool {
    !schema.nullable && schema.default.is_none() && (schema.ty != Type::Any || schema.int_or_string)
}

/// Whether [`fill`] fills in all defaults. It gives the same answer for a value that `fill` has left unfinished.
pub(crate) fn fits(schema: &Schema, value: &Value) -> bool {
    let steps = Steps::new(MAX_WEIGHT);
    !schema.defaults_inside || weigh(value, &steps).and_then(|()| measure(schema, value, &steps)).is_ok()
}

/// Takes the steps of the defaults that are missing in a value.
fn measure(schema: &Schema, value: &Value, steps: &Steps) -> Result<(), OutOfSteps> {
    if !schema.defaults_inside {
        return Ok(());
    }
    let missing = |schema: &Schema, default: &Value| {
        weigh(default, steps)?;
        measure(schema, default, steps)
    };
    match value {
        Value::Object(map) => {
            for (name, property, default) in defaulted(schema) {
                if is_missing(property, map.get(name)) {
                    missing(property, default)?;
                }
            }
            for (name, value) in map {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => measure(property, value, steps)?,
                    (None, Some(values)) => match &values.default {
                        Some(default) if is_missing(values, Some(value)) => missing(values, default)?,
                        Some(_) | None => measure(values, value, steps)?,
                    },
                    (None, None) => {}
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &schema.items else { return Ok(()) };
            for item in list {
                match &items.default {
                    Some(default) if is_missing(items, Some(item)) => missing(items, default)?,
                    Some(_) | None => measure(items, item, steps)?,
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Returns the properties of a schema that have a default.
fn defaulted(schema: &Schema) -> impl Iterator<Item = (&String, &Schema, &Value)> {
    schema.defaulted.iter().filter_map(|name| {
        let property = schema.properties.get(name)?;
        Some((name, property, property.default.as_ref()?))
    })
}

fn is_missing(schema: &Schema, given: Option<&Value>) -> bool {
    given.is_none_or(|given| given.is_null() && !schema.nullable)
}

fn copied(default: &Value, steps: &Steps) -> Result<Value, OutOfSteps> {
    weigh(default, steps)?;
    Ok(default.clone())
}

/// Takes the weight of a value: about one step for 64 bytes of memory.
pub(crate) fn weigh(value: &Value, steps: &Steps) -> Result<(), OutOfSteps> {
    match value {
        // `fill` removes or replaces it.
        Value::Null => Ok(()),
        Value::Bool(_) | Value::Number(_) => steps.take(1),
        Value::String(text) => steps.take(1 + text.len() / 16),
        Value::Array(list) => {
            steps.take(1)?;
            list.iter().try_for_each(|item| weigh(item, steps))
        }
        Value::Object(map) if map.is_empty() => steps.take(1),
        Value::Object(map) => {
            steps.take(8)?;
            map.iter().try_for_each(|(name, value)| {
                steps.take(name.len() / 16)?;
                weigh(value, steps)
            })
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
            fill(&schema, &mut value, &Steps::new(MAX_WEIGHT)).unwrap();
            assert_eq!(value, want, "{case}");
            assert!(fits(&schema, &value), "{case}");
        }
    }

    #[test]
    fn weight_of_defaults_is_bounded() {
        let of = |items: Value| {
            let list = json!({"type": "array", "default": [{}, {}, {}, {}, {}], "items": items});
            json!({"type": "object", "properties": {"l": list}})
        };
        let long = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(1 << 20)}}});
        let mut nested = json!({"type": "object"});
        for _ in 0..12 {
            nested = of(nested);
        }
        for (case, schema, given) in [
            ("1 a long default in each item", of(long), json!({"l": vec![json!({}); 100_000]})),
            ("2 defaults inside defaults", nested, json!({})),
        ] {
            let schema = Schema::of(&schema);
            assert!(!fits(&schema, &given), "{case}");
            let mut value = given;
            let steps = Steps::new(MAX_WEIGHT);
            assert!(fill(&schema, &mut value, &steps).is_err(), "{case}");
            assert!(!fits(&schema, &value), "{case}: what was filled in counts, too");
        }
    }

    #[test]
    fn properties_without_defaults_cost_nothing() {
        let declared = |n: usize| -> serde_json::Map<String, Value> {
            (0..n).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect()
        };
        let items = json!({"type": "object", "properties": declared(5_000)});
        let schema =
            Schema::of(&json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}}));
        let mut value = json!({"l": vec![json!({}); 50_000]});
        let begun = orlop_apimachinery::thread_time::ThreadTime::start();
        fill(&schema, &mut value, &Steps::new(MAX_WEIGHT)).unwrap();
        assert!(begun.spent().as_secs() < 1, "{:?}", begun.spent());
    }
}
