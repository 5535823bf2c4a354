//! Numbers that may be shares: `3` or `25%`.

use orlop_apimachinery::names;
use serde_json::Value;

use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// A number that is not below zero, or a share.
pub(in crate::registry) fn validate(value: &Value, path: &Path, errors: &mut FieldErrors) {
    match value {
        Value::String(text) => checks::each(errors, path, text, names::percent(text)),
        _ => checks::non_negative(errors, path, value.as_i64().unwrap_or_default()),
    }
}

/// A share must not be more than the whole.
pub(in crate::registry) fn at_most_all(value: &Value, path: &Path, errors: &mut FieldErrors) {
    if share(value).is_some_and(|share| share > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

/// The number, or the number of a share. What is neither counts as upstream's conversion has it: 0.
pub(in crate::registry) fn amount(value: &Value) -> i64 {
    share(value).unwrap_or_else(|| match value {
        Value::String(text) => text.parse().unwrap_or_default(),
        _ => value.as_i64().unwrap_or_default(),
    })
}

fn share(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    // More digits than a number has are more than everything.
    Some(text.strip_suffix('%')?.parse().unwrap_or(i64::MAX))
}
