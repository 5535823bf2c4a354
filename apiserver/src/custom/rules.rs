//! Rules of schemas (`x-kubernetes-validations`).

use serde_json::Value;

use super::schema::Schema;
use crate::validate::{FieldErrors, Path};

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule;

impl Rule {
    pub(super) fn all(_rules: &Value) -> Vec<Self> {
        Vec::new()
    }
}

pub(super) fn validate(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    let text = rule["rule"].as_str().unwrap_or_default();
    errors.invalid(&path.child("rule"), text, "rules are not supported");
}

pub(super) fn judge(_schema: &Schema, _value: &Value, _old: Option<&Value>, _errors: &mut FieldErrors) {}
