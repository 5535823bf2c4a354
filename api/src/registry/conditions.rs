//! Validation of `metav1.Condition` (upstream: apimachinery metav1/validation).

use std::collections::HashSet;

use serde_json::Value;

use super::checks;
use super::volume_rules::text;
use crate::validate::label_selector::validate_label_key;
use crate::validate::{FieldErrors, Path};

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;
const BAD_REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
                          alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' \
                          (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
                          'ReasonA:ReasonB', regex used for validation is \
                          '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// A list of conditions; each type may occur once.
pub(super) fn validate(conditions: &[Value], path: &Path, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if !seen.insert(kind) {
            errors.duplicate(&path.index(i).child("type"), kind);
        }
        one(condition, &path.index(i), errors);
    }
}

fn one(condition: &Value, path: &Path, errors: &mut FieldErrors) {
    validate_label_key(text(condition, "type"), &path.child("type"), errors);
    checks::one_of(errors, &path.child("status"), Some(text(condition, "status")), &STATUSES);
    let generation = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.invalid(&path.child("observedGeneration"), generation, why);
    }
    if text(condition, "lastTransitionTime").is_empty() {
        errors.required(&path.child("lastTransitionTime"), "must be set");
    }
    let reason = text(condition, "reason");
    if reason.is_empty() {
        errors.required(&path.child("reason"), "must be set");
    } else {
        if !like_reason(reason) {
            errors.invalid(&path.child("reason"), reason, BAD_REASON);
        }
        if reason.len() > REASON_MAX {
            errors.too_long(&path.child("reason"), REASON_MAX);
        }
    }
    if text(condition, "message").len() > MESSAGE_MAX {
        errors.too_long(&path.child("message"), MESSAGE_MAX);
    }
}

fn like_reason(reason: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(word)
        && reason.chars().all(|c| word(c) || matches!(c, ',' | ':'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::causes;
    use super::*;

    #[test]
    fn invalid_conditions_are_rejected() {
        let good = json!({
            "type": "Ready", "status": "True", "reason": "All_fine", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let with = |key: &str, value: Value| {
            let mut condition = good.clone();
            condition[key] = value;
            condition
        };
        let bad_reason = format!("Invalid value: \"no way\": {BAD_REASON}");
        type Row<'a> = (&'a str, &'a str, &'a str);
        let cases: [(&str, Vec<Value>, &[Row<'_>]); 8] = [
            ("1 good", vec![good.clone()], &[]),
            (
                "2 twice",
                vec![good.clone(), good.clone()],
                &[("FieldValueDuplicate", "c[1].type", "Duplicate value: \"Ready\"")],
            ),
            (
                "3 status",
                vec![with("status", json!("Maybe"))],
                &[(
                    "FieldValueNotSupported",
                    "c[0].status",
                    "Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                )],
            ),
            (
                "4 generation",
                vec![with("observedGeneration", json!(-1))],
                &[(
                    "FieldValueInvalid",
                    "c[0].observedGeneration",
                    "Invalid value: -1: must be greater than or equal to zero",
                )],
            ),
            (
                "5 time",
                vec![with("lastTransitionTime", Value::Null)],
                &[("FieldValueRequired", "c[0].lastTransitionTime", "Required value: must be set")],
            ),
            (
                "6 no reason",
                vec![with("reason", json!(""))],
                &[("FieldValueRequired", "c[0].reason", "Required value: must be set")],
            ),
            (
                "7 a bad reason",
                vec![with("reason", json!("no way"))],
                &[("FieldValueInvalid", "c[0].reason", &bad_reason)],
            ),
            (
                "8 a long message",
                vec![with("message", json!("x".repeat(MESSAGE_MAX + 1)))],
                &[("FieldValueTooLong", "c[0].message", "Too long: may not be more than 32768 bytes")],
            ),
        ];
        for (case, conditions, want) in cases {
            assert_eq!(causes(|errors| validate(&conditions, &Path::new("c"), errors)), want, "{case}");
        }
        for (reason, want) in
            [("a", true), ("A1:b", true), ("a,", false), ("1a", false), ("_a", false), ("a b", false)]
        {
            assert_eq!(like_reason(reason), want, "{reason}");
        }
    }
}
