//! Checks that the items of sets, and the keys of the items of maps, are unique.
//!
//! An update is not checked if the stored object has such an error, wherever it is. Upstream: apiextensions-apiserver
//! `pkg/apiserver/schema/listtype`, `pkg/registry/customresource/strategy.go`.

use std::collections::HashMap;

use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::{Map, Value};

use super::{BYTES_PER_STEP, STEPS, too_many_steps};
use crate::schema::{Items, Schema, members};

/// Appends the errors of an object.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let found = |value: &Value| {
        let mut found = FieldErrors::new();
        if check(&Steps::new(STEPS), schema, &Path::default(), value, &mut found).is_err() {
            found = too_many_steps(&Path::default());
        }
        found
    };
    let new = found(value);
    if new.is_empty() || old.is_some_and(|old| !found(old).is_empty()) {
        return;
    }
    errors.extend(new);
}

fn check(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    if !schema.keyed_inside || errors.is_full() {
        return Ok(());
    }
    steps.take(1)?;
    if let Value::Array(list) = value {
        match &schema.list {
            Items::Set => unique(steps, list.to_vec(), path, errors)?,
            Items::Map(keys) => check_map(steps, keys, path, list, errors)?,
            Items::Atomic => {}
        }
        let Some(items) = &schema.items else { return Ok(()) };
        for (at, item) in list.iter().enumerate() {
            check(steps, items, &path.index(at), item, errors)?;
        }
        return Ok(());
    }
    for (name, value) in members(value) {
        if let Some(schema) = &schema.additional {
            check(steps, schema, &path.key(name), value, errors)?;
        }
        if let Some(schema) = schema.properties.get(name) {
            check(steps, schema, &path.child(name), value, errors)?;
        }
    }
    Ok(())
}

fn check_map(
    steps: &Steps,
    keys: &[String],
    path: &Path,
    list: &[Value],
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    if let Some(at) = list.iter().position(|item| !item.is_object() && !item.is_null()) {
        errors.invalid(&path.index(at), list[at].clone(), "must be an object for an array of list-type map");
        return Ok(());
    }
    steps.take(list.len().saturating_mul(keys.len()))?;
    let key = |item: &Value| {
        let members = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(members.collect::<Map<_, _>>())
    };
    unique(steps, list.iter().map(key).collect(), path, errors)
}

/// Reports the second occurrence of each item, and no later one.
fn unique(steps: &Steps, items: Vec<Value>, path: &Path, errors: &mut FieldErrors) -> Result<(), OutOfSteps> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.into_iter().enumerate() {
        let text = item.to_string();
        steps.take(1 + text.len() / BYTES_PER_STEP)?;
        let count = seen.entry(text).or_default();
        *count += 1;
        if *count == 2 {
            errors.duplicate(&path.index(at), item);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(value: &Value, old: Option<&Value>) -> Vec<String> {
        let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}});
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": {"map": keyed, "set": set,
            "sets": {"type": "object", "additionalProperties": set}}});
        let mut errors = FieldErrors::new();
        validate(&Schema::of(&schema), value, old, &mut errors);
        errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn second_occurrences_are_reported() {
        for (case, value, want) in [
            ("1 unique", json!({"map": [{"k": "a"}, {"k": "b"}], "set": [1, 2]}), vec![]),
            ("2 three times in a set", json!({"set": [1, 2, 1, 1]}), vec!["set[2]: Duplicate value: 1"]),
            (
                "3 keys",
                json!({"map": [{"k": "a", "v": 1}, {"k": "a"}]}),
                vec!["map[1]: Duplicate value: {\"k\":\"a\"}"],
            ),
            ("4 absent keys", json!({"map": [{}, {}]}), vec!["map[1]: Duplicate value: {}"]),
            ("5 below a key", json!({"sets": {"x": [1, 1]}}), vec!["sets[x][1]: Duplicate value: 1"]),
            (
                "6 no object",
                json!({"map": [7]}),
                vec!["map[0]: Invalid value: 7: must be an object for an array of list-type map"],
            ),
        ] {
            assert_eq!(errors(&value, None), want, "{case}");
        }
    }

    #[test]
    fn one_old_error_allows_all() {
        let (old, new) = (json!({"set": [1, 1]}), json!({"set": [1], "map": [{"k": "a"}, {"k": "a"}]}));
        assert_eq!(errors(&new, Some(&old)), [""; 0]);
        assert_eq!(errors(&new, Some(&json!({"set": [1]}))).len(), 1);
    }
}
