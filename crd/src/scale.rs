//! The fields that the scale of a custom object shows.
//!
//! Upstream: apiextensions-apiserver `pkg/registry/customresource/validator.go`, apimachinery
//! `pkg/apis/meta/v1/unstructured/helpers.go`.

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

/// The paths of the fields.
#[derive(Debug)]
pub(crate) struct ScaleMembers {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

impl ScaleMembers {
    /// Appends the errors of the fields of the spec.
    pub(crate) fn check_spec(&self, object: &Object, errors: &mut FieldErrors) {
        check_replicas(&self.spec_replicas, object, errors);
    }

    /// Appends the errors of the fields of the status.
    pub(crate) fn check_status(&self, object: &Object, errors: &mut FieldErrors) {
        check_replicas(&self.status_replicas, object, errors);
        let Some(path) = &self.selector else { return };
        let wrong = match nested(object, path) {
            Ok(None | Some(Value::String(_))) => return,
            Ok(Some(other)) => mistyped(path, other, "string"),
            Err(why) => why,
        };
        errors.invalid(&Path::new(&shown(path)), "", &wrong);
    }
}

fn check_replicas(path: &[String], object: &Object, errors: &mut FieldErrors) {
    let shown_path = Path::new(&shown(path));
    let value = match nested(object, path) {
        Ok(None) => return,
        Ok(Some(value)) => value,
        Err(why) => return errors.invalid(&shown_path, 0, &why),
    };
    match value.as_i64() {
        Some(replicas) if replicas < 0 => {
            errors.invalid(&shown_path, replicas, "should be a non-negative integer");
        }
        Some(replicas) if replicas > i64::from(i32::MAX) => {
            let why = format!("should be less than or equal to {}", i32::MAX);
            errors.invalid(&shown_path, replicas, &why);
        }
        Some(_) => {}
        None => errors.invalid(&shown_path, 0, &mistyped(path, value, "int64")),
    }
}

fn shown(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// The value at a path; an error if a value above is no object.
fn nested<'o>(object: &'o Object, path: &[String]) -> Result<Option<&'o Value>, String> {
    let Some((first, below)) = path.split_first() else { return Ok(None) };
    let mut value = object.0.get(first);
    for (at, name) in below.iter().enumerate() {
        value = match value {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(map)) => map.get(name),
            Some(other) => return Err(mistyped(&path[..at + 2], other, "map[string]interface{}")),
        };
    }
    Ok(value)
}

fn mistyped(path: &[String], value: &Value, wanted: &str) -> String {
    let ty = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("{} accessor error: {} is of the type {ty}, expected {wanted}", shown(path), plain(value))
}

/// A value in the default format of Go.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_the_types_of_a_scale() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let scale = ScaleMembers {
            spec_replicas: path("spec.n"),
            status_replicas: path("status.n"),
            selector: Some(path("status.s")),
        };
        for (case, object, want) in [
            ("1 absent", json!({"spec": {}, "status": null}), vec![]),
            ("2 valid", json!({"spec": {"n": 0}, "status": {"n": 1, "s": ""}}), vec![]),
            (
                "3 negative",
                json!({"spec": {"n": -1}}),
                vec![".spec.n: Invalid value: -1: should be a non-negative integer"],
            ),
            (
                "4 large",
                json!({"status": {"n": 2_147_483_648_u32}}),
                vec![".status.n: Invalid value: 2147483648: should be less than or equal to 2147483647"],
            ),
            (
                "5 text and null",
                json!({"spec": {"n": "x"}, "status": {"n": null, "s": 5}}),
                vec![
                    ".spec.n: Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64",
                    ".status.n: Invalid value: 0: .status.n accessor error: <nil> is of the type <nil>, expected int64",
                    ".status.s: Invalid value: \"\": .status.s accessor error: 5 is of the type int64, expected string",
                ],
            ),
            (
                "6 no object above",
                json!({"spec": ["a", {"b": 1.5}]}),
                vec![
                    ".spec.n: Invalid value: 0: .spec.n accessor error: [a map[b:1.5]] is of the type []interface {}, \
                     expected map[string]interface{}",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            let object = Object::from_value(object);
            scale.check_spec(&object, &mut errors);
            scale.check_status(&object, &mut errors);
            let found: Vec<String> =
                errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            assert_eq!(found, want, "{case}");
        }
    }
}
