//! `/ephemeralcontainers`: containers for debugging a running pod. They can be added, but not
//! removed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{MIRROR, WHOLE_POD, validate_annotation_changes};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

const LIST: [&str; 2] = ["spec", "ephemeralContainers"];

/// Copies only the list of ephemeral containers.
pub(in crate::registry) fn take(given: &Object, pod: &mut Object) {
    match given.at(&LIST) {
        Some(list) => pod.set(&LIST, list.clone()),
        None => drop(pod.remove(&LIST)),
    }
}

/// Validates a change of the list.
pub(in crate::registry) fn validate(pod: &Object, old: &Object, errors: &mut FieldErrors) {
    validate_annotation_changes(pod, old, errors);
    if old.annotation(MIRROR).is_some() {
        *errors = FieldErrors::new();
        errors.forbidden(&Path::new(WHOLE_POD), "static pods do not support ephemeral containers");
        return;
    }
    let path = Path::new("spec.ephemeralContainers");
    let mut by_name: BTreeMap<Option<&str>, &Value> = BTreeMap::new();
    for one in containers(pod) {
        by_name.entry(one.get("name").and_then(Value::as_str)).or_insert(one);
    }
    for before in containers(old) {
        let name = before.get("name").and_then(Value::as_str).unwrap_or_default();
        // The order of the list is not significant: patches insert new containers at the front.
        match by_name.get(&before.get("name").and_then(Value::as_str)).copied() {
            None => {
                let text = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.forbidden(&path, &text);
            }
            Some(after) if after != before => {
                let text = format!(
                    "existing ephemeral containers {name:?} may not be changed\nchanged: {}",
                    changed(after, before)
                );
                errors.forbidden(&path, &text);
            }
            Some(_) => {}
        }
    }
}

fn containers(pod: &Object) -> impl Iterator<Item = &Value> {
    pod.at(&LIST).and_then(Value::as_array).into_iter().flatten()
}

/// The names of the changed fields.
fn changed(after: &Value, before: &Value) -> String {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (after, before) = (members(after), members(before));
    let mut names: Vec<&str> = after
        .keys()
        .chain(before.keys())
        .filter(|name| after.get(*name) != before.get(*name))
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
