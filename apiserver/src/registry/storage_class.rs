//! `StorageClass`, and what else there is to know about classes: which class a volume or a claim
//! names, and which class is the default.

use jiff::Timestamp;
use serde_json::Value;

use super::cells;
use super::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope};
use crate::object::Object;

/// Where volumes and claims named their class before there was a field. Still honoured, before the
/// field.
pub(crate) const BETA_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Marks a class as the default one; any of them with the value `true`.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The class that a volume or claim names; `""` when it names none.
pub(crate) fn class_of(object: &Object) -> &str {
    object.annotation(BETA_ANNOTATION).unwrap_or_else(|| object.str_at(&["spec", "storageClassName"]))
}

/// Whether a claim says anything about its class; `""` says that it wants none.
pub(crate) fn is_named(claim: &Object) -> bool {
    claim.annotation(BETA_ANNOTATION).is_some()
        || claim.at(&["spec", "storageClassName"]).is_some_and(Value::is_string)
}

/// Whether a class is marked as the default one.
pub(crate) fn is_default(class: &Object) -> bool {
    DEFAULT_ANNOTATIONS.iter().any(|key| class.annotation(key) == Some("true"))
}

/// The kind.
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

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Provisioner", "Driver that makes the volumes of this class."),
            cells::text("ReclaimPolicy", "What becomes of a volume when its claim is gone."),
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
