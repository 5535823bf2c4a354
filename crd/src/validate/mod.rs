//! Validates values against their schema, with upstream's error messages.
//!
//! Values that equal the stored ones are not validated again: the schema may have become stricter since.
//! Upstream: kube-openapi `pkg/validation/validate`, apiextensions-apiserver
//! `pkg/apiserver/validation` and `pkg/apiserver/schema/{listtype,objectmeta}`.

use std::collections::HashMap;

use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use crate::format;
use crate::schema::{Items, Schema, Type, members};

/// Validates a value against its schema; `old` is the stored value, if there is one.
pub(crate) fn validate(
    schema: &Schema,
    path: &Path,
    value: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && schema.nullable {
        return;
    }
    let before = errors.len();
    let fits = check_type(schema, path, value, errors);
    check_combinations(schema, path, value, errors);
    if fits {
        check_limits(schema, path, value, errors);
    }
    check_allowed(schema, path, value, errors);
    if !fits {
        return;
    }
    match value {
        Value::Object(_) => check_object(schema, path, value, old, errors),
        Value::Array(list) => {
            let twins = Twins::of(schema, old);
            for (at, item) in list.iter().enumerate() {
                if let Some(items) = &schema.items {
                    validate(items, &path.index(at), item, twins.of_item(item), errors);
                }
            }
            check_list(schema, path, list, errors);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if schema.embedded && errors.len() == before {
        check_embedded(path, value, errors);
    }
}

/// The stored items of a list by their keys, if the list has keys.
pub(crate) struct Twins<'v> {
    keys: &'v [String],
    by_keys: HashMap<Vec<Option<String>>, &'v Value>,
}

impl<'v> Twins<'v> {
    pub(crate) fn of(schema: &'v Schema, old: Option<&'v Value>) -> Self {
        let Items::Map(keys) = &schema.list else { return Twins { keys: &[], by_keys: HashMap::new() } };
        let mut twins = Twins { keys, by_keys: HashMap::new() };
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            let key = twins.key(item);
            twins.by_keys.entry(key).or_insert(item);
        }
        twins
    }

    fn key(&self, item: &Value) -> Vec<Option<String>> {
        self.keys.iter().map(|key| item.get(key).map(Value::to_string)).collect()
    }

    /// Returns the stored item with the same keys.
    pub(crate) fn of_item(&self, item: &Value) -> Option<&'v Value> {
        if self.by_keys.is_empty() { None } else { self.by_keys.get(&self.key(item)).copied() }
    }
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

/// Formats a path for error messages.
fn place(path: &Path) -> String {
    let text = path.to_string();
    if text == "<nil>" { "in body".to_owned() } else { format!("{text} in body") }
}

fn check_limits(schema: &Schema, path: &Path, value: &Value, errors: &mut FieldErrors) {
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
            let length = text.chars().count() as u64;
            if let Some(min) = limits.min_length.filter(|min| length < *min) {
                wrong(format!("should be at least {min} chars long"));
            }
            if let Some((pattern, shown)) = &limits.pattern
                && !pattern.is_match(text)
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
}

/// `enum`.
fn check_allowed(schema: &Schema, path: &Path, value: &Value, errors: &mut FieldErrors) {
    let allowed = &schema.limits.allowed;
    if allowed.is_empty() || allowed.contains(value) {
        return;
    }
    let shown: Vec<String> =
        allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    errors.not_supported(path, value.clone(), &shown);
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
fn check_combinations(schema: &Schema, path: &Path, value: &Value, errors: &mut FieldErrors) {
    let judge = |schema: &Schema| {
        let mut errors = FieldErrors::new();
        validate(schema, path, value, None, &mut errors);
        errors
    };
    let root = Path::default();
    let name = match path.to_string() {
        name if name == "<nil>" => String::new(),
        name => name,
    };
    let mut wrong = |why: String, best: Option<FieldErrors>| {
        errors.invalid(&root, "", &format!("{name:?} {why}"));
        errors.extend(best.unwrap_or_default());
    };
    let best = |found: Vec<FieldErrors>| found.into_iter().min_by_key(FieldErrors::len);
    if !schema.any_of.is_empty() && !schema.int_or_string {
        let found: Vec<FieldErrors> = schema.any_of.iter().map(judge).collect();
        if !found.iter().any(FieldErrors::is_empty) {
            wrong("must validate at least one schema (anyOf)".to_owned(), best(found));
        }
    }
    if !schema.one_of.is_empty() {
        let found: Vec<FieldErrors> = schema.one_of.iter().map(judge).collect();
        let fitting = found.iter().filter(|errors| errors.is_empty()).count();
        if fitting == 0 {
            let why = "must validate one and only one schema (oneOf). Found none valid";
            wrong(why.to_owned(), best(found));
        } else if fitting > 1 {
            let why =
                format!("must validate one and only one schema (oneOf). Found {fitting} valid alternatives");
            wrong(why, None);
        }
    }
    let found: Vec<FieldErrors> = schema.all_of.iter().map(judge).collect();
    if found.iter().any(|errors| !errors.is_empty()) {
        let none_fits = found.iter().all(|errors| !errors.is_empty());
        let more = if none_fits { ". None validated" } else { "" };
        wrong(format!("must validate all the schemas (allOf){more}"), None);
        found.into_iter().for_each(|found| errors.extend(found));
    }
    if let Some(not) = &schema.not
        && judge(not).is_empty()
    {
        errors.invalid(&root, "", &format!("{name:?} must not validate the schema (not)"));
    }
}

fn check_object(schema: &Schema, path: &Path, value: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    for name in &schema.limits.required {
        if value.get(name).is_none() {
            errors.required(&path.child(name), "");
        }
    }
    for (name, value) in members(value) {
        let old = old.and_then(|old| old.get(name));
        match (schema.properties.get(name), &schema.additional) {
            (Some(schema), _) => validate(schema, &path.child(name), value, old, errors),
            (None, Some(schema)) => validate(schema, &path.child(name), value, old, errors),
            (None, None) => {}
        }
    }
}

/// Checks that the items of sets and maps are unique.
fn check_list(schema: &Schema, path: &Path, list: &[Value], errors: &mut FieldErrors) {
    let shown = |item: &Value| match &schema.list {
        Items::Map(keys) => {
            keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
        }
        Items::Set | Items::Atomic => item.clone(),
    };
    if schema.list == Items::Atomic {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for (at, item) in list.iter().enumerate() {
        let keys = shown(item);
        if !seen.insert(keys.to_string()) {
            errors.duplicate(&path.index(at), keys);
        }
    }
}

/// Checks that an embedded object has an apiVersion and a kind.
fn check_embedded(path: &Path, value: &Value, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        match value.get(name) {
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(Value::String(_)) | None => errors.required(&path.child(name), "must not be empty"),
            Some(other) => errors.type_invalid(
                &path.child(name),
                kind(other),
                &format!("{} must be of type string: {:?}", place(&path.child(name)), kind(other)),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
