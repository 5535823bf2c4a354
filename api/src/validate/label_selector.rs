//! Validation of label selectors inside objects, and of label sets. Upstream: `metav1/validation`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::names;

use super::{FieldErrors, Path};

/// A label selector; `path` is the path of the selector.
pub fn validate_label_selector(selector: &LabelSelector, path: &Path, errors: &mut FieldErrors) {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    validate_labels(labels, &path.child("matchLabels"), errors);
    for (i, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "In" | "NotIn" => require_values(values, &path, errors),
            "Exists" | "DoesNotExist" => forbid_values(values, &path, errors),
            other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
        validate_label_key(&expression.key, &path.child("key"), errors);
        validate_label_values(values, &path.child("values"), errors);
    }
}

/// Labels; every error has the path `path` itself.
pub fn validate_labels<'a>(
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (key, value) in labels {
        validate_label_key(key, path, errors);
        for text in names::label_value(value) {
            errors.invalid(path, value, &text);
        }
    }
}

/// The key of a label.
pub fn validate_label_key(key: &str, path: &Path, errors: &mut FieldErrors) {
    for text in names::qualified_name(key) {
        errors.invalid(path, key, &text);
    }
}

/// Label values of an expression; `path` is that of the list.
pub(super) fn validate_label_values(values: &[String], path: &Path, errors: &mut FieldErrors) {
    for (i, value) in values.iter().enumerate() {
        for text in names::label_value(value) {
            errors.invalid(&path.index(i), value.as_str(), &text);
        }
    }
}

pub(super) fn require_values(values: &[String], path: &Path, errors: &mut FieldErrors) {
    if values.is_empty() {
        errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
    }
}

pub(super) fn forbid_values(values: &[String], path: &Path, errors: &mut FieldErrors) {
    if !values.is_empty() {
        let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        errors.forbidden(&path.child("values"), why);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn invalid_selectors_are_rejected() {
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), vec![]),
            (json!({"matchLabels": {"example.com/a": "b"}}), vec![]),
            (expression("a", "In", json!(["x"])), vec![]),
            (expression("a", "Exists", Value::Null), vec![]),
            (
                json!({"matchLabels": {"/a": "-"}}),
                vec![
                    ("s.matchLabels", "Invalid value: \"/a\": prefix part must be non-empty"),
                    ("s.matchLabels", "Invalid value: \"-\": a valid label must be an empty string"),
                ],
            ),
            (
                expression("a", "In", json!([])),
                vec![(
                    "s.matchExpressions[0].values",
                    "Required value: must be specified when `operator` is 'In' or 'NotIn'",
                )],
            ),
            (
                expression("a", "DoesNotExist", json!(["x"])),
                vec![(
                    "s.matchExpressions[0].values",
                    "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )],
            ),
            (
                expression("/a", "Gt", json!(["ok", "-"])),
                vec![
                    (
                        "s.matchExpressions[0].operator",
                        "Invalid value: \"Gt\": not a valid selector operator",
                    ),
                    ("s.matchExpressions[0].key", "Invalid value: \"/a\": prefix part must be non-empty"),
                    (
                        "s.matchExpressions[0].values[1]",
                        "Invalid value: \"-\": a valid label must be an empty string",
                    ),
                ],
            ),
        ] {
            let typed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            let mut errors = FieldErrors::new();
            validate_label_selector(&typed, &Path::new("s"), &mut errors);
            assert_eq!(errors.len(), expected.len(), "{selector}: {errors:?}");
            for (cause, (field, message)) in errors.causes().iter().zip(expected) {
                assert_eq!(cause.field, field, "{selector}");
                assert!(cause.message.starts_with(message), "{selector}: {}", cause.message);
            }
        }
    }
}
