//! Validation of `metadata.ownerReferences`.

use serde_json::Value;

use crate::validate::{FieldErrors, Path};

/// The fields of an owner reference, in upstream's order.
const MEMBERS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// The owners of an object. As in upstream, paths do not include the index of the owner.
pub(super) fn validate(owners: &[Value], path: &Path, errors: &mut FieldErrors) {
    let mut controller: Option<String> = None;
    // Written for the first error: each error shows all owners.
    let mut all: Option<String> = None;
    for owner in owners {
        if errors.is_full() {
            return;
        }
        validate_one(owner, path, errors);
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            None => controller = Some(name),
            Some(first) => errors.invalid_shown(
                path,
                all.get_or_insert_with(|| {
                    format!("[{}]", owners.iter().map(shown).collect::<Vec<_>>().join(","))
                }),
                &format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for \
                     {first} and {name}"
                ),
            ),
        }
    }
}

fn validate_one(owner: &Value, path: &Path, errors: &mut FieldErrors) {
    let api_version = text(owner, "apiVersion");
    let version = match api_version.split_once('/') {
        None => api_version,
        // Not a valid version.
        Some((_, rest)) if rest.contains('/') => "",
        Some((_, version)) => version,
    };
    if version.is_empty() {
        errors.invalid(&path.child("apiVersion"), api_version, "version must not be empty");
    }
    for member in ["kind", "name", "uid"] {
        if text(owner, member).is_empty() {
            errors.invalid(&path.child(member), "", "must not be empty");
        }
    }
    // Events expire; the objects that they own would be deleted with them.
    if api_version == "v1" && text(owner, "kind") == "Event" {
        errors.invalid_shown(path, &shown(owner), "/v1, Kind=Event is disallowed from being an owner");
    }
}

fn text<'a>(owner: &'a Value, member: &str) -> &'a str {
    owner.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// An owner as JSON, with the fields in upstream's order.
fn shown(owner: &Value) -> String {
    let members: Vec<String> = MEMBERS
        .into_iter()
        .enumerate()
        .filter_map(|(i, member)| match owner.get(member) {
            Some(Value::Null) | None if i < 4 => Some(format!("\"{member}\":\"\"")),
            Some(Value::Null) | None => None,
            Some(value) => Some(format!("\"{member}\":{value}")),
        })
        .collect();
    format!("{{{}}}", members.join(","))
}
