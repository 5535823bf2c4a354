//! Numbers that may be percentages: `3` or `25%`.

use orlop_apimachinery::names;
use serde_json::Value;

use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// A non-negative number or a percentage.
pub(in crate::registry) fn validate(value: &Value, path: &Path, errors: &mut FieldErrors) {
    match value {
        Value::String(text) => checks::each(errors, path, text, names::percent(text)),
        _ => checks::non_negative(errors, path, value.as_i64().unwrap_or_default()),
    }
}

/// A percentage must not exceed 100%.
pub(in crate::registry) fn at_most_all(value: &Value, path: &Path, errors: &mut FieldErrors) {
    if share(value).is_some_and(|share| share > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

/// The number, or the number of a percentage. Any other value counts as 0, as in upstream's conversion.
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
    // A number with too many digits exceeds every limit.
    Some(text.strip_suffix('%')?.parse().unwrap_or(i64::MAX))
}
