//! Validation of a claim's status (upstream: ValidatePersistentVolumeClaimStatusUpdate).

use orlop_apimachinery::names;
use serde_json::Value;

use super::spec_of;
use crate::object::Object;
use crate::registry::volume_rules::{entries, items, name, resource};
use crate::validate::{FieldErrors, Path};

const STORAGE: &str = "storage";
const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub(super) fn validate(claim: &Object, errors: &mut FieldErrors) {
    if items(spec_of(claim), "accessModes").is_empty() {
        errors.required(&Path::new("Spec.accessModes"), "");
    }
    let path = Path::new("status");
    let status = claim.at(&["status"]).unwrap_or(&Value::Null);
    for (key, amount) in entries(status, "capacity") {
        resource(&path.child("capacity").key(key), amount, errors);
    }
    let states_path = path.child("allocatedResourceStatuses");
    for (key, state) in entries(status, "allocatedResourceStatuses") {
        resource_key(&states_path, key, errors);
        // Upstream prints the key instead of the value.
        if !state.as_str().is_some_and(|state| RESIZE_STATES.contains(&state)) {
            errors.not_supported(&states_path, key.as_str(), &RESIZE_STATES);
        }
    }
    let allocated_path = path.child("allocatedResources");
    for (key, amount) in entries(status, "allocatedResources") {
        if resource_key(&allocated_path, key, errors) {
            resource(&allocated_path.key(key), amount, errors);
        }
    }
}

/// The only standard resource of a claim is `storage`; other resources need a prefix.
///
/// Returns whether the key is valid.
fn resource_key(path: &Path, key: &str, errors: &mut FieldErrors) -> bool {
    let messages = names::qualified_name(key);
    if !messages.is_empty() {
        name(path, key, messages, errors);
        return false;
    }
    let is_own = !key.contains('/') || key.contains("kubernetes.io/");
    if is_own && key != STORAGE {
        errors.not_supported(path, key, &[STORAGE]);
        return false;
    }
    true
}
