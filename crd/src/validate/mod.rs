//! Validates values against their schema, with upstream's error messages.
//!
//! Unchanged values ([`is_unchanged`]) are not validated again: the schema may have become stricter since.
//! [`embedded`] and [`list_types`] are separate passes, which upstream applies to the whole object.
//! Upstream: kube-openapi `pkg/validation/validate`, apiextensions-apiserver `pkg/apiserver/validation`.

use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::{Map, Value};

use crate::format;
use crate::schema::{Schema, Type, members};

mod combinations;
mod correlation;
pub(crate) mod embedded;
pub(crate) mod list_types;

pub(crate) use correlation::{Twins, is_unchanged, member};

/// The steps of one validation. A step is one value that one schema is applied to, or some text: the time of a
/// validation is the product of the sizes of the schema and the value, and each may be large.
pub(crate) const STEPS: u64 = 10_000_000;
/// How much text counts as one step, bytes.
const BYTES_PER_STEP: usize = 64;
/// How much work of a pattern counts as one step: the positions of the pattern times the bytes of the text.
const MATCHED_PER_STEP: usize = 100;

/// Validates a value against its schema; `old` is the stored value, if there is one.
pub(crate) fn validate(
    schema: &Schema,
    path: &Path,
    value: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) {
    validate_within(&Steps::new(STEPS), schema, path, value, old, errors);
}

/// Like [`validate`], with the steps of a larger operation.
pub(crate) fn validate_within(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) {
    let mut found = FieldErrors::new();
    if check(steps, schema, path, value, old, &mut found).is_err() {
        found = too_many_steps(path);
    }
    errors.extend(found);
}

fn too_many_steps(path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.invalid_unshown(path, "the validation takes too many steps");
    errors
}

/// Appends the errors of a value, unless there are enough already.
fn check(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    if errors.is_full() {
        return Ok(());
    }
    steps.take(1)?;
    if let Some(old) = old
        && is_unchanged(schema, value, old, steps)?
    {
        return Ok(());
    }
    if value.is_null() && schema.nullable {
        return Ok(());
    }
    let fits = check_type(schema, path, value, errors);
    combinations::check(steps, schema, path, value, errors)?;
    if fits {
        check_limits(steps, schema, path, value, errors)?;
    }
    check_allowed(steps, schema, path, value, errors)?;
    if !fits {
        return Ok(());
    }
    match value {
        Value::Object(_) => check_object(steps, schema, path, value, old, errors)?,
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                let twins = Twins::of(schema, old, steps)?;
                for (at, item) in list.iter().enumerate() {
                    check(steps, items, &path.index(at), item, twins.of_item(item, steps)?, errors)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Returns the name of a value's type.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn check_type(schema: &Schema, path: &Path, value: &Value, errors: &mut FieldErrors) -> bool {
    let found = kind(value);
    let fits = if schema.int_or_string {
        matches!(found, "integer" | "string")
    } else {
        match schema.ty {
            Type::Any => return true,
            Type::Object => found == "object",
            Type::Array => found == "array",
            Type::String => found == "string",
            Type::Integer => found == "integer",
            Type::Number => matches!(found, "integer" | "number"),
            Type::Boolean => found == "boolean",
        }
    };
    if !fits {
        let wanted = if schema.int_or_string { "integer,string" } else { schema.ty.text() };
        errors.type_invalid(path, found, &format!("{} must be of type {wanted}: {found:?}", place(path)));
    }
    fits
}

/// Formats a path for error messages. The root has an empty name.
fn place(path: &Path) -> String {
    let text = path.to_string();
    if text == "<nil>" { " in body".to_owned() } else { format!("{text} in body") }
}

fn check_limits(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    let limits = &schema.limits;
    let mut wrong = |why: String| errors.invalid(path, value.clone(), &format!("{} {why}", place(path)));
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            if let Some(maximum) = limits.maximum {
                if limits.exclusive_maximum && number >= maximum {
                    wrong(format!("should be less than {maximum}"));
                } else if number > maximum {
                    wrong(format!("should be less than or equal to {maximum}"));
                }
            }
            if let Some(minimum) = limits.minimum {
                if limits.exclusive_minimum && number <= minimum {
                    wrong(format!("should be greater than {minimum}"));
                } else if number < minimum {
                    wrong(format!("should be greater than or equal to {minimum}"));
                }
            }
            if let Some(step) = limits.multiple_of
                && step > 0.0
                && (number / step).fract() != 0.0
            {
                wrong(format!("should be a multiple of {step}"));
            }
            if schema.ty == Type::Integer && limits.format == "int32" && number.abs() > f64::from(i32::MAX) {
                wrong("must be of type int32".to_owned());
            }
        }
        Value::String(text) => {
            steps.take(text.len() / BYTES_PER_STEP)?;
            let positions = limits.pattern.as_ref().map_or(0, |(pattern, _)| pattern.positions);
            steps.take(text.len().saturating_mul(positions) / MATCHED_PER_STEP)?;
            let length = text.chars().count() as u64;
            if let Some(min) = limits.min_length.filter(|min| length < *min) {
                wrong(format!("should be at least {min} chars long"));
            }
            if let Some((pattern, shown)) = &limits.pattern
                && !pattern.regex.is_match(text)
            {
                wrong(format!("should match '{shown}'"));
            }
            if let Some(max) = limits.max_length.filter(|max| length > *max) {
                errors.too_long(path, usize::try_from(max).unwrap_or(usize::MAX));
            }
            if !limits.format.is_empty() && !schema.int_or_string && !format::fits(&limits.format, text) {
                let why = format!("{} must be of type {}: {text:?}", place(path), limits.format);
                errors.invalid(path, text.as_str(), &why);
            }
        }
        Value::Array(list) => {
            let count = list.len() as u64;
            if let Some(min) = limits.min_items.filter(|min| count < *min) {
                wrong(format!("should have at least {min} items"));
            }
            if let Some(max) = limits.max_items.filter(|max| count > *max) {
                errors.too_many(path, list.len(), usize::try_from(max).unwrap_or(usize::MAX));
            }
        }
        Value::Object(map) => {
            let count = map.len() as u64;
            if let Some(min) = limits.min_properties.filter(|min| count < *min) {
                wrong(format!("should have at least {min} properties"));
            }
            if let Some(max) = limits.max_properties.filter(|max| count > *max) {
                errors.too_many(path, map.len(), usize::try_from(max).unwrap_or(usize::MAX));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    Ok(())
}

/// `enum`.
fn check_allowed(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    let allowed = &schema.limits.allowed;
    if allowed.is_empty() || schema.limits.allows(value, steps)? || errors.is_full() {
        return Ok(());
    }
    let shown: Vec<String> =
        allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    errors.not_supported(path, value.clone(), &shown);
    Ok(())
}

fn check_object(
    steps: &Steps,
    schema: &Schema,
    path: &Path,
    value: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) -> Result<(), OutOfSteps> {
    steps.take(schema.limits.required.len())?;
    for name in &schema.limits.required {
        if value.get(name).is_none() {
            errors.required(&path.child(name), "");
        }
    }
    steps.take(value.as_object().map_or(0, Map::len))?;
    for (name, value) in members(value) {
        let old = old.and_then(|old| old.get(name));
        if let Some(schema) = schema.properties.get(name).or(schema.additional.as_deref()) {
            check(steps, schema, &path.child(name), value, old, errors)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
