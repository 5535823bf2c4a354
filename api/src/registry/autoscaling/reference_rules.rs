//! The rules for references to objects: the target of an autoscaler, and the objects that metrics describe.

use orlop_apimachinery::names;
use serde_json::Value;

use crate::registry::checks;
use crate::registry::workload::text;
use crate::validate::{FieldErrors, Path};

/// What a reference may contain, which depends on the stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReferenceRules {
    /// Whether the API version may lack a group, as `v1` does.
    pub(super) empty_group: bool,
    /// Whether the API version is not validated.
    pub(super) any_version: bool,
}

/// Validates a reference to an object of any kind.
pub(super) fn reference(reference: &Value, rules: ReferenceRules, path: &Path, errors: &mut FieldErrors) {
    for field in ["kind", "name"] {
        let (value, at) = (text(reference, field), path.child(field));
        if checks::required(errors, &at, value) {
            checks::each(errors, &at, value, names::path_segment(value));
        }
    }
    let version = text(reference, "apiVersion");
    if let Some(why) = version_problem(version, rules) {
        errors.invalid(&path.child("apiVersion"), version, &why);
    }
}

/// Why an API version is invalid.
pub(super) fn version_problem(version: &str, rules: ReferenceRules) -> Option<String> {
    if rules.any_version {
        return None;
    }
    let group = match version.matches('/').count() {
        0 => "",
        1 => version.split_once('/').map_or("", |(group, _)| group),
        _ => return Some(format!("unexpected GroupVersion string: {version}")),
    };
    (group.is_empty() && !rules.empty_group).then(|| "apiVersion must specify API group".to_owned())
}
