//! `StorageClass`, and functions about classes: which class a volume or a claim
//! uses, and which class is the default.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::Value;

use super::cells;
use super::volume_rules::{IMMUTABLE, deprecated_node_label, items, name, parameters, provisioner, text};
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The annotation for the class of volumes and claims that preceded the field. It takes precedence over the
/// field.
pub const BETA_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The warning about [`BETA_ANNOTATION`].
pub(super) const BETA_ANNOTATION_WARNING: &str = "metadata.annotations[volume.beta.kubernetes.io/storage-class]: \
     deprecated since v1.8; use \"storageClassName\" attribute instead";

/// The annotations that mark the default class; one of them with the value `true` is sufficient.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The class of a volume or claim; `""` if it has none.
pub fn class_of(object: &Object) -> &str {
    object.annotation(BETA_ANNOTATION).unwrap_or_else(|| object.str_at(&["spec", "storageClassName"]))
}

/// Whether a claim sets its class; `""` explicitly requests none.
pub fn is_named(claim: &Object) -> bool {
    claim.annotation(BETA_ANNOTATION).is_some()
        || claim.at(&["spec", "storageClassName"]).is_some_and(Value::is_string)
}

/// Whether a class is marked as the default.
pub fn is_default(class: &Object) -> bool {
    DEFAULT_ANNOTATIONS.iter().any(|key| class.annotation(key) == Some("true"))
}

/// The `StorageClass` kind.
pub(super) struct StorageClass;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "StorageClass",
    plural: "storageclasses",
    singular: "storageclass",
    short: &["sc"],
    categories: &[],
    schema: "io.k8s.api.storage.v1.StorageClass",
};

const RECLAIM_POLICIES: [&str; 2] = ["Delete", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

impl Kind for StorageClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/storageclasses/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, ..Policy::DEFAULT }
    }

    fn defaults(&self, class: &mut Object) {
        class.set_default(&["reclaimPolicy"], "Delete");
        class.set_default(&["volumeBindingMode"], "Immediate");
    }

    fn validate(&self, class: &Object, errors: &mut FieldErrors) {
        provisioner(&Path::new("provisioner"), class.str_at(&["provisioner"]), errors);
        parameters(&Path::new("parameters"), class.at(&["parameters"]), errors);
        let policy = class.str_at(&["reclaimPolicy"]);
        if !policy.is_empty() && !RECLAIM_POLICIES.contains(&policy) {
            errors.not_supported(&Path::new("reclaimPolicy"), policy, &RECLAIM_POLICIES);
        }
        match class.at(&["volumeBindingMode"]).and_then(Value::as_str) {
            None => errors.required(&Path::new("volumeBindingMode"), ""),
            Some(mode) if !BINDING_MODES.contains(&mode) => {
                errors.not_supported(&Path::new("volumeBindingMode"), mode, &BINDING_MODES);
            }
            Some(_) => {}
        }
        topologies(topologies_of(class), errors);
    }

    fn validate_update(&self, class: &Object, old: &Object, errors: &mut FieldErrors) {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            let (new, old) = (class.at(&[field]), old.at(&[field]));
            if new != old {
                errors.invalid(&Path::new(field), new.cloned().unwrap_or_default(), IMMUTABLE);
            }
        }
    }

    fn warnings(&self, class: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, term) in topologies_of(class).iter().enumerate() {
            for (j, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
                if let Some(why) = deprecated_node_label(text(expression, "key")) {
                    warnings.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}]: {why}"));
                }
            }
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Provisioner", "Driver that makes the volumes of this class."),
            cells::text("ReclaimPolicy", "What happens to a volume after its claim is deleted."),
            cells::text("VolumeBindingMode", "When claims of this class are bound."),
            cells::text("AllowVolumeExpansion", "Whether claims of this class may grow."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, class: &Object, now: Timestamp) -> Vec<Value> {
        let name =
            if is_default(class) { format!("{} (default)", class.name()) } else { class.name().into() };
        vec![
            name.into(),
            class.str_at(&["provisioner"]).into(),
            cells::or(class.str_at(&["reclaimPolicy"]), "Delete").into(),
            cells::or(class.str_at(&["volumeBindingMode"]), "Immediate").into(),
            class.at(&["allowVolumeExpansion"]).and_then(Value::as_bool).unwrap_or_default().into(),
            cells::age(class, now),
        ]
    }
}

fn topologies_of(class: &Object) -> &[Value] {
    class.at(&["allowedTopologies"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn topologies(terms: &[Value], errors: &mut FieldErrors) {
    // Upstream compares each term with as many empty ones as there are terms, and with the previous
    // ones, so an empty term counts as a duplicate.
    let mut seen = BTreeMap::from([(BTreeMap::new(), terms.len())]);
    for (i, term) in terms.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = Path::new("allowedTopologies").index(i).child("matchLabelExpressions");
        let term = topology(items(term, "matchLabelExpressions"), &path, errors);
        let count = seen.entry(term).or_default();
        for _ in 0..(*count).min(terms.len()) {
            if errors.is_full() {
                return;
            }
            errors.duplicate(&path, "");
        }
        *count += 1;
    }
}

/// Validates one term, and returns the values of each of its keys.
fn topology<'a>(
    expressions: &'a [Value],
    path: &Path,
    errors: &mut FieldErrors,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut term = BTreeMap::new();
    for (i, expression) in expressions.iter().enumerate() {
        let (path, key) = (path.index(i), text(expression, "key"));
        let mut values = BTreeSet::new();
        if items(expression, "values").is_empty() {
            errors.required(&path.child("values"), "");
        }
        for (k, value) in items(expression, "values").iter().filter_map(Value::as_str).enumerate() {
            if !values.insert(value) {
                errors.duplicate(&path.child("values").index(k), value);
            }
        }
        name(&path.child("key"), key, names::qualified_name(key), errors);
        if term.insert(key, values).is_some() {
            errors.duplicate(&path.child("key"), key);
        }
    }
    term
}
