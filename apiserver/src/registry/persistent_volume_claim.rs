//! `PersistentVolumeClaim`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::cells;
use super::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use super::persistent_volume::{phase_cell, set_or_unset};
use super::storage_class;
use crate::object::Object;

/// The kind.
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
            cells::wide("VolumeMode", "Whether the claim wants a file system or a block device."),
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

/// Brings `dataSource` and its successor `dataSourceRef` in line (upstream:
/// pkg/api/persistentvolumeclaim/util.go). A source that the old field never took is dropped, as
/// it always was; what one field says, the other says too.
fn data_sources(claim: &mut Object, old: Option<&Object>) {
    let had = |path: &[&str]| old.is_some_and(|old| old.at(path).is_some());
    // Sources in other namespaces are not served.
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
