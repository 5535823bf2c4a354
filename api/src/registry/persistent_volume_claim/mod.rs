//! The `PersistentVolumeClaim` kind.

mod status;
#[cfg(test)]
mod tests;
mod update;

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::{Map, Value, json};

use super::cells;
use super::persistent_volume::{phase_cell, set_or_unset};
use super::storage_class::{self, BETA_ANNOTATION, BETA_ANNOTATION_WARNING};
use super::volume_rules::{
    access_modes, given, items, name, positive, quantity, required, subdomain, text, typed, volume_mode,
};
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The `PersistentVolumeClaim` kind.
pub(super) struct PersistentVolumeClaim;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    singular: "persistentvolumeclaim",
    short: &["pvc"],
    categories: &[],
    schema: "io.k8s.api.core.v1.PersistentVolumeClaim",
};

const SOURCE: [&str; 2] = ["spec", "dataSource"];
const SOURCE_REF: [&str; 2] = ["spec", "dataSourceRef"];

impl Kind for PersistentVolumeClaim {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn first_update_writes(&self) -> bool {
        true
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/persistentvolumeclaims/"
    }

    fn policy(&self) -> Policy {
        Policy {
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::WithMetadata,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, claim: &mut Object) {
        claim.set_default(&["spec", "volumeMode"], "Filesystem");
        claim.set_default(&["spec", "resources"], Map::new());
        claim.set_default(&["status"], Map::new());
        claim.set_default(&["status", "phase"], "Pending");
    }

    fn prepare_create(&self, claim: &mut Object, _now: Timestamp) {
        claim.set(&["status"], json!({"phase": "Pending"}));
        data_sources(claim, None);
    }

    fn prepare_update(&self, claim: &mut Object, old: &Object, _now: Timestamp) {
        data_sources(claim, Some(old));
    }

    fn validate(&self, claim: &Object, errors: &mut FieldErrors) {
        validate_spec(spec_of(claim), &Path::new("spec"), errors);
    }

    fn validate_update(&self, claim: &Object, old: &Object, errors: &mut FieldErrors) {
        update::validate(claim, old, errors);
    }

    fn validate_status(&self, claim: &Object, _old: &Object, errors: &mut FieldErrors) {
        status::validate(claim, errors);
    }

    fn warnings(&self, claim: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if claim.annotation(BETA_ANNOTATION).is_some() {
            warnings.push(BETA_ANNOTATION_WARNING.to_owned());
        }
        warnings.extend(fractional(spec_of(claim), &Path::new("spec")));
        warnings
    }

    fn extra_selectable(&self) -> &'static [&'static str] {
        &["status.phase", "spec.volumeName", "spec.storageClassName"]
    }

    fn field(&self, claim: &Object, name: &str) -> String {
        if name == "spec.storageClassName" {
            return storage_class::class_of(claim).to_owned();
        }
        let path: Vec<&str> = name.split('.').collect();
        claim.str_at(&path).to_owned()
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Status", "Phase of the claim."),
            cells::text("Volume", "Volume that the claim is bound to, or waits for."),
            cells::text("Capacity", "Size of the volume behind the claim."),
            cells::text("Access Modes", "Ways in which the volume behind the claim can be mounted."),
            cells::text("StorageClass", "Class of the claim."),
            cells::text("VolumeAttributesClass", "Attributes class of the claim."),
            cells::AGE,
            cells::wide("VolumeMode", "Whether the claim requests a file system or a block device."),
        ];
        COLUMNS
    }

    fn cells(&self, claim: &Object, now: Timestamp) -> Vec<Value> {
        let volume = claim.str_at(&["spec", "volumeName"]);
        let (capacity, modes) = if volume.is_empty() {
            ("", String::new())
        } else {
            let capacity = claim.str_at(&["status", "capacity", "storage"]);
            (cells::or(capacity, "0"), cells::access_modes(claim.at(&["status", "accessModes"])))
        };
        vec![
            cells::name(claim),
            phase_cell(claim).into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            storage_class::class_of(claim).into(),
            set_or_unset(claim.at(&["spec", "volumeAttributesClassName"])),
            cells::age(claim, now),
            set_or_unset(claim.at(&["spec", "volumeMode"])),
        ]
    }
}

/// Copies `dataSource` to its successor `dataSourceRef` and vice versa (upstream:
/// pkg/api/persistentvolumeclaim/util.go). A source that the old field never supported is dropped, as
/// before.
fn data_sources(claim: &mut Object, old: Option<&Object>) {
    let had = |path: &[&str]| old.is_some_and(|old| old.at(path).is_some());
    // Sources in other namespaces are not supported.
    if !claim.str_at(&["spec", "dataSourceRef", "namespace"]).is_empty() && !had(&SOURCE_REF) {
        claim.remove(&SOURCE_REF);
    }
    let old_client = claim.at(&SOURCE_REF).is_none() && !had(&SOURCE) && !had(&SOURCE_REF);
    if old_client && !is_claim_or_snapshot(claim) {
        claim.remove(&SOURCE);
    }
    match (claim.at(&SOURCE).cloned(), claim.at(&SOURCE_REF).cloned()) {
        (Some(source), None) => claim.set(&SOURCE_REF, source),
        (None, Some(Value::Object(mut source))) => {
            let namespace = source.remove("namespace");
            if namespace.and_then(|name| Some(name.as_str()?.is_empty())).unwrap_or(true) {
                claim.set(&SOURCE, source);
            }
        }
        (None, Some(_) | None) | (Some(_), Some(_)) => {}
    }
}

fn is_claim_or_snapshot(claim: &Object) -> bool {
    let part = |name: &str| claim.str_at(&["spec", "dataSource", name]);
    matches!(
        (part("apiGroup"), part("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

/// Warnings about fractional byte values in the claim's spec at a path.
pub(super) fn fractional(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for amounts in ["requests", "limits"] {
        let amount = spec.pointer(&format!("/resources/{amounts}/storage")).and_then(quantity);
        if let Some(amount) = amount.filter(|amount| !amount.is_integer()) {
            let path = path.child("resources").child(amounts).key("storage");
            found.push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
        }
    }
    found
}

/// The spec; `null` if absent.
fn spec_of(claim: &Object) -> &Value {
    claim.at(&["spec"]).unwrap_or(&Value::Null)
}

/// Validates a claim's spec (upstream: ValidatePersistentVolumeClaimSpec).
pub(super) fn validate_spec(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    if items(spec, "accessModes").is_empty() {
        errors.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    if let Some(selector) = given(spec, "selector").and_then(typed) {
        validate_label_selector(&selector, &path.child("selector"), errors);
    }
    access_modes(path, spec, errors);
    let requested = spec.pointer("/resources/requests/storage");
    // Upstream's path omits `requests`.
    let requested_path = path.child("resources").key("storage");
    match requested {
        None => errors.required(&requested_path, ""),
        Some(amount) => positive(&requested_path, amount, errors),
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        subdomain(&path.child("storageClassName"), class, errors);
    }
    volume_mode(path, spec, errors);
    validate_sources(spec, path, errors);
    let attributes = text(spec, "volumeAttributesClassName");
    if !attributes.is_empty() {
        subdomain(&path.child("volumeAttributesClassName"), attributes, errors);
    }
}

fn validate_sources(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let (source, source_ref) = (given(spec, "dataSource"), given(spec, "dataSourceRef"));
    for (field, source) in [("dataSource", source), ("dataSourceRef", source_ref)] {
        if let Some(source) = source {
            validate_source(source, &path.child(field), errors);
        }
    }
    let (Some(source), Some(source_ref)) = (source, source_ref) else { return };
    if !text(source_ref, "namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(path, Map::new(), detail);
    } else if ["apiGroup", "kind", "name"].iter().any(|part| given(source, part) != given(source_ref, part)) {
        errors.invalid(path, Map::new(), "must match dataSourceRef");
    }
}

fn validate_source(source: &Value, path: &Path, errors: &mut FieldErrors) {
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    required(path, source, "name", errors);
    required(path, source, "kind", errors);
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, kind, detail);
    }
    if !group.is_empty() {
        subdomain(&path.child("apiGroup"), group, errors);
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        name(&path.child("namespace"), namespace, names::dns_label(namespace), errors);
    }
}
