//! Reports why the result of a strategic merge patch does not fit its type. Upstream reads such a result from
//! maps in memory, not from JSON text (apimachinery `pkg/runtime/converter.go`). Its messages differ, and it
//! accepts a few values that are invalid in JSON text.

use orlop_openapi::{Scalar, Shape, TypeId, types};
use serde_json::Value;

use super::scalar::{self, Refused};
use super::source::{InMemory, Source};

/// The error about the first value that does not fit, or `None`.
pub(super) fn misfit(document: &Value, ty: TypeId) -> Option<String> {
    let Value::Object(members) = document else { return structure(document, ty) };
    let text = Shape::Scalar(Scalar::String);
    let type_meta = ["kind", "apiVersion"].iter().filter_map(|name| members.get(*name));
    type_meta.filter_map(|value| fault(value, &text)).next().or_else(|| structure(document, ty))
}

/// Converts numbers with a zero fraction to integers, as upstream does.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| !number.is_i64() && !number.is_u64())
                && float.fract() == 0.0
                && float.abs() < 1e15
            {
                #[expect(clippy::cast_possible_truncation, reason = "whole and far within 64 bits")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn structure(value: &Value, ty: TypeId) -> Option<String> {
    let Value::Object(members) = value else {
        return Some(format!("cannot restore struct from: {}", go_kind(value)));
    };
    let ty = types().get(ty);
    let fields = ty.order.iter().filter_map(|name| Some((ty.field(name)?, members.get(name)?)));
    fields.filter_map(|(field, value)| fault(value, &field.shape)).next()
}

fn fault(value: &Value, shape: &Shape) -> Option<String> {
    match (shape, value) {
        (_, Value::Null) | (Shape::Json, _) => None,
        // Custom kinds do not support strategic merge patches.
        (Shape::Inline(_) | Shape::Deduced, _) => None,
        (Shape::Either(id), Value::Object(_)) => structure(value, *id),
        (Shape::Either(id), Value::Array(items)) => {
            items.iter().filter_map(|item| structure(item, *id)).next()
        }
        (Shape::Either(_), Value::Bool(_) | Value::Number(_) | Value::String(_)) => None,
        (Shape::Struct(id), value) => structure(value, *id),
        (Shape::Map(inner), Value::Object(members)) => {
            members.values().filter_map(|member| fault(member, inner)).next()
        }
        (Shape::Map(_), value) => Some(format!("cannot restore map from {}", go_kind(value))),
        (Shape::List(inner), Value::Array(items)) => {
            items.iter().filter_map(|item| fault(item, inner)).next()
        }
        (Shape::List(_), value) => Some(format!("cannot restore slice from {}", go_kind(value))),
        (Shape::Scalar(scalar), value) => scalar_fault(value, *scalar),
    }
}

fn scalar_fault(value: &Value, wanted: Scalar) -> Option<String> {
    let name = scalar::type_name(wanted);
    match (wanted, value) {
        (Scalar::String, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => None,
        (Scalar::String, Value::Number(number)) if number.is_i64() => {
            Some(format!("cannot convert int64 to {name}"))
        }
        (Scalar::Float, Value::Number(_)) => None,
        // The decoder reports numbers that are out of range.
        (Scalar::Int32 | Scalar::Int64, Value::Number(number)) => {
            let is_broken = number.as_f64().is_some_and(|float| float.fract() != 0.0);
            is_broken.then(|| format!("cannot convert float64 to {name}"))
        }
        (Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float, _) => {
            Some(format!("unrecognized type: {name}"))
        }
        (Scalar::Bytes, Value::String(_)) => {
            own_fault(value, wanted).map(|text| format!("error decoding from json: {text}"))
        }
        (Scalar::Bytes, value) => Some(format!("cannot restore slice from {}", go_kind(value))),
        (Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::IntOrString, _) => {
            own_fault(value, wanted)
        }
    }
}

/// The error of a type with its own parser.
fn own_fault(value: &Value, wanted: Scalar) -> Option<String> {
    let mut token = InMemory::new(value.clone()).value().ok()?;
    match scalar::read(wanted, &mut token) {
        Ok(_) => None,
        Err(Refused::Content(text)) => Some(text),
        Err(Refused::Type(found)) => Some(format!(
            "json: cannot unmarshal {found} into Go value of type {}",
            scalar::type_name(wanted)
        )),
    }
}

/// The name of Go's kind for a value decoded from JSON.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn misfits_are_reported_with_upstream_converter_messages() {
        let ty = types().named("io.k8s.api.core.v1.Pod").unwrap();
        for (document, want) in [
            (json!({"metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": null}}), None),
            (json!({"metadata": {"finalizers": {"a": "b"}}}), Some("cannot restore slice from map")),
            (json!({"metadata": {"finalizers": "x"}}), Some("cannot restore slice from string")),
            (json!({"metadata": {"labels": 5}}), Some("cannot restore map from int64")),
            (json!({"metadata": {"labels": {"a": 5}}}), Some("cannot convert int64 to string")),
            (json!({"metadata": {"labels": {"a": true}}}), Some("unrecognized type: string")),
            (json!({"metadata": {"labels": {"a": {}}}}), Some("unrecognized type: string")),
            (json!({"kind": 5}), Some("cannot convert int64 to string")),
            (json!({"spec": "x"}), Some("cannot restore struct from: string")),
            (json!({"spec": {"containers": ["x"]}}), Some("cannot restore struct from: string")),
            (json!({"spec": {"hostNetwork": "true"}}), Some("unrecognized type: bool")),
            (json!({"spec": {"activeDeadlineSeconds": "5"}}), Some("unrecognized type: int64")),
            (json!({"spec": {"activeDeadlineSeconds": 5.5}}), Some("cannot convert float64 to int64")),
            (json!({"spec": {"activeDeadlineSeconds": 5.0}}), None),
            (
                json!({"metadata": {"creationTimestamp": 5}}),
                Some("json: cannot unmarshal number into Go value of type string"),
            ),
            (json!({"spec": {"overhead": {"cpu": "1K"}}}), Some("unable to parse quantity's suffix")),
        ] {
            assert_eq!(misfit(&document, ty).as_deref(), want, "{document}");
        }
        let secret = types().named("io.k8s.api.core.v1.Secret").unwrap();
        assert_eq!(
            misfit(&json!({"data": {"a": "!"}}), secret).as_deref(),
            Some("error decoding from json: illegal base64 data at input byte 0")
        );
    }

    #[test]
    fn zero_fractions_are_removed_from_numbers() {
        let mut value = json!({"a": [5.0, 1.5, "2.0"], "b": -3.0});
        whole_numbers(&mut value);
        assert_eq!(value, json!({"a": [5, 1.5, "2.0"], "b": -3}));
    }
}
