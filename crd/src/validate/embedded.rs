//! Validates the type and the metadata of embedded objects, whether they have changed or not.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/objectmeta`.

use orlop_api::object::Object;
use orlop_api::registry::NameRule;
use orlop_api::validate::meta::validate_meta;
use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::{Map, Value};

use super::{STEPS, too_many_steps};
use crate::format::{LABEL_1035, is_label_1035};
use crate::schema::{Schema, members};

/// Appends the errors of the embedded objects in a value.
pub(crate) fn validate(schema: &Schema, path: &Path, value: &Value, errors: &mut FieldErrors) {
    let mut found = FieldErrors::new();
    if check_all(&Steps::new(STEPS), schema, path, value, &mut found).is_err() {
        found = too_many_steps(path);
    }
    errors.extend(found);
}

fn check_all(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    if !schema.embeds_inside || errors.is_full() {
        return Ok(());
    }
    steps.take(1)?;
    if schema.embedded && value.is_object() {
        check(path, value, errors);
    }
    for (name, value) in members(value) {
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) => check_all(steps, property, &path.child(name), value, errors)?,
            (None, Some(additional)) => check_all(steps, additional, &path.key(name), value, errors)?,
            (None, None) => {}
        }
    }
    let Some(items) = &schema.items else { return Ok(()) };
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        check_all(steps, items, &path.index(at), item, errors)?;
    }
    Ok(())
}

/// Appends the errors of an embedded object.
fn check(path: &Path, value: &Value, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let path = path.child(name);
        match value.get(name) {
            None => errors.required(&path, ""),
            Some(Value::String(text)) if text.is_empty() => errors.invalid(&path, "", "must not be empty"),
            Some(Value::String(text)) if name == "apiVersion" => check_version(&path, text, errors),
            Some(Value::String(text)) => check_kind(&path, text, errors),
            Some(other) => errors.invalid(&path, other.clone(), "must be a string"),
        }
    }
    let Some(Value::Object(metadata)) = value.get("metadata") else { return };
    let mut metadata = metadata.clone();
    let is_named = metadata.get("name").is_some_and(|name| name != "");
    if !is_named {
        // An embedded object needs no name.
        metadata.insert("name".to_owned(), "fakename".into());
    }
    let is_namespaced = metadata.get("namespace").is_some_and(|namespace| namespace != "");
    let object = Object(Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]));
    let mut found = FieldErrors::new();
    validate_meta(&object, NameRule::PathSegment, is_namespaced, &mut found);
    errors.extend_below(path, found);
}

fn check_version(path: &Path, text: &str, errors: &mut FieldErrors) {
    if text.matches('/').count() > 1 {
        errors.invalid(path, text, &format!("unexpected GroupVersion string: {text}"));
    }
}

fn check_kind(path: &Path, text: &str, errors: &mut FieldErrors) {
    if !is_label_1035(&text.to_lowercase()) {
        let why = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
        errors.invalid(path, text, &why);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn embedded_objects_have_a_type_and_valid_metadata() {
        for (case, object, want) in [
            (
                "1 complete",
                json!({"apiVersion": "apps/v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}}),
                vec![],
            ),
            ("2 empty", json!({}), vec!["o.apiVersion: Required value", "o.kind: Required value"]),
            (
                "3 version",
                json!({"apiVersion": "a/b/c", "kind": "Pod"}),
                vec!["o.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"],
            ),
            (
                "4 name",
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A_/"}}),
                vec!["o.metadata.name: Invalid value: \"A_/\": may not contain '/'"],
            ),
            (
                "5 texts",
                json!({"apiVersion": 1, "kind": ""}),
                vec![
                    "o.apiVersion: Invalid value: 1: must be a string",
                    "o.kind: Invalid value: \"\": must not be empty",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            check(&Path::new("o"), &object, &mut errors);
            let found: Vec<String> =
                errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            assert_eq!(found, want, "{case}");
        }
        let schema = json!({"type": "object", "additionalProperties": {"type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": true}}});
        let mut errors = FieldErrors::new();
        validate(&Schema::of(&schema), &Path::new("m"), &json!({"k": [{"kind": "K"}]}), &mut errors);
        assert_eq!(errors.causes()[0].field, "m[k][0].apiVersion");
        let mut errors = FieldErrors::new();
        let labels = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}});
        check(&Path::new("o"), &labels, &mut errors);
        assert_eq!(errors.causes()[0].field, "o.metadata.labels");
    }
}
