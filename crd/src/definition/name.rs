//! Validates the names of a definition.

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use super::versions;
use crate::format::{LABEL_1035, is_label_1035};
use crate::names;

/// Maximum number of short names, and of categories. The process keeps these names until it ends.
pub(crate) const MAX_NAMES: usize = 32;

/// Validates the names of the kind.
pub(super) fn validate(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let text = |name: &str| object.str_at(&["spec", "names", name]);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(name).is_empty() {
            errors.required(&path.child(name), "");
        }
    }
    for name in ["plural", "singular"] {
        if !text(name).is_empty() && !is_label_1035(text(name)) {
            errors.invalid(&path.child(name), text(name), LABEL_1035);
        }
    }
    for name in ["kind", "listKind"] {
        if !text(name).is_empty() && !is_label_1035(&text(name).to_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
            errors.invalid(&path.child(name), text(name), &why);
        }
    }
    for name in ["shortNames", "categories"] {
        if name == "categories" && !text("kind").is_empty() && text("kind") == text("listKind") {
            let why = "kind and listKind may not be the same";
            errors.invalid(&path.child("listKind"), text("listKind"), why);
        }
        let list = object.at(&["spec", "names", name]).and_then(Value::as_array);
        let count = list.map_or(0, Vec::len);
        if count > MAX_NAMES {
            errors.too_many(&path.child(name), count, MAX_NAMES);
            continue;
        }
        for (at, given) in list.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            if !is_label_1035(given) {
                errors.invalid(&path.child(name).index(at), given, LABEL_1035);
            }
        }
    }
}

/// Checks that the process can keep the names that a definition adds.
pub(super) fn validate_room(object: &Object, old: Option<&Object>, spec: &Path, errors: &mut FieldErrors) {
    if !names::has_room() && old.is_none_or(|old| kept_names(object) != kept_names(old)) {
        errors.forbidden(spec, TOO_MANY_NAMES);
    }
}

/// Checks that the process has memory for more accepted names.
pub(super) fn validate_accepted_room(object: &Object, old: &Object, errors: &mut FieldErrors) {
    let path = &["status", "acceptedNames"];
    if !names::has_room() && object.at(path) != old.at(path) {
        errors.forbidden(&Path::new("status.acceptedNames"), TOO_MANY_NAMES);
    }
}

const TOO_MANY_NAMES: &str = "the definitions have had too many different names since the server was started";

fn kept_names(object: &Object) -> (Option<&Value>, Vec<(&Value, &Value)>) {
    let versions = versions(object).iter();
    let versions = versions.map(|version| (&version["name"], &version["selectableFields"])).collect();
    (object.at(&["spec", "names"]), versions)
}
