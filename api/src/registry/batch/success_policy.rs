//! The success policy of an indexed job: which indexes must succeed.

use serde_json::Value;

use super::indexes::count_indexes;
use crate::registry::checks;
use crate::registry::go_format::Shape;
use crate::registry::workload::given;
use crate::validate::{FieldErrors, Path};

const MOST_RULES: usize = 20;
/// Maximum length of a list of indexes, bytes.
const LONGEST_INDEXES: usize = 64 * 1024;

/// A policy in the format of upstream's error messages.
pub(super) const SUCCESS_POLICY: Shape = Shape::Pointer(&[(
    "Rules",
    "rules",
    Shape::Items(&Shape::Struct(&[
        ("SucceededIndexes", "succeededIndexes", Shape::Plain),
        ("SucceededCount", "succeededCount", Shape::Plain),
    ])),
)]);

/// Validates a policy.
pub(super) fn validate(policy: &Value, completions: Option<i64>, path: &Path, errors: &mut FieldErrors) {
    let rules = policy.get("rules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let path = path.child("rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&path, why);
    }
    if rules.len() > MOST_RULES {
        errors.too_many(&path, rules.len(), MOST_RULES);
    }
    for (at, rule) in rules.iter().enumerate() {
        validate_rule(rule, completions.unwrap_or_default(), &path.index(at), errors);
    }
}

fn validate_rule(rule: &Value, completions: i64, path: &Path, errors: &mut FieldErrors) {
    let indexes = given(rule, "succeededIndexes").and_then(Value::as_str);
    let count = given(rule, "succeededCount").and_then(Value::as_i64);
    if indexes.is_none() && count.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut named = 0;
    if let Some(indexes) = indexes {
        let path = path.child("succeededIndexes");
        if indexes.len() > LONGEST_INDEXES {
            errors.too_long(&path, LONGEST_INDEXES);
        }
        match count_indexes(indexes, completions) {
            Ok(count) => named = count,
            Err(why) => {
                errors.invalid(&path, indexes, &format!("error parsing succeededIndexes: {why}"));
            }
        }
    }
    let Some(count) = count else { return };
    let path = path.child("succeededCount");
    checks::non_negative(errors, &path, count);
    if count > completions {
        let why =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&path, count, &why);
    }
    if indexes.is_some() && count > named {
        let why = format!(
            "must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&path, count, &why);
    }
}
