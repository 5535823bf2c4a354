//! The nodes that can access the devices of a slice, or one of its devices.

use k8s_openapi::api::core::v1::NodeSelector;
use serde::Deserialize;
use serde_json::Value;

use super::collection::items;
use crate::registry::checks;
use crate::registry::go_format::SELECTOR_TERMS;
use crate::registry::workload::given;
use crate::validate::node_selector::validate_node_selector;
use crate::validate::{FieldErrors, Path};

const ONE_OF: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const MANY_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but \
                       multiple fields are set";

/// Checks that exactly one field selects the nodes that can access the devices.
pub(super) fn validate_nodes(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let mut set = Vec::new();
    match given(spec, "nodeName").and_then(Value::as_str) {
        None => {}
        Some("") => {
            errors.invalid(&path.child("nodeName"), "", "must be either unset or set to a non-empty string");
        }
        Some(name) => {
            set.push("`nodeName`");
            checks::subdomain(errors, &path.child("nodeName"), name);
        }
    }
    if let Some(selector) = given(spec, "nodeSelector") {
        set.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        validate_selector(selector, &path, errors);
        let terms = selector.get("nodeSelectorTerms");
        if items(selector, "nodeSelectorTerms").len() != 1 {
            let why = "must have exactly one node selector term";
            errors.invalid_shown(&path.child("nodeSelectorTerms"), &SELECTOR_TERMS.show(terms), why);
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match given(spec, field).and_then(Value::as_bool) {
            None => {}
            Some(true) => set.push(shown),
            Some(false) => {
                errors.invalid(&path.child(field), false, "must be either unset or set to true");
            }
        }
    }
    match set.as_slice() {
        [] => errors.required(path, ONE_OF),
        [_] => {}
        many => errors.invalid(path, format!("{{{}}}", many.join(", ")), MANY_OF),
    }
}

/// A node selector in JSON.
pub(super) fn validate_selector(selector: &Value, path: &Path, errors: &mut FieldErrors) {
    // The decoder of the object has rejected JSON of any other structure.
    if let Ok(selector) = NodeSelector::deserialize(selector) {
        validate_node_selector(&selector, path, errors);
    }
}
