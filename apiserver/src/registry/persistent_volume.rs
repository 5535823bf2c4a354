//! `PersistentVolume`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use super::storage_class;
use super::volume_source;
use crate::object::Object;

/// The kind.
pub(super) struct PersistentVolume;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    singular: "persistentvolume",
    short: &["pv"],
    categories: &[],
    schema: "io.k8s.api.core.v1.PersistentVolume",
};

const PHASE: [&str; 2] = ["status", "phase"];
const PHASE_SINCE: [&str; 2] = ["status", "lastPhaseTransitionTime"];

impl Kind for PersistentVolume {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/persistentvolumes/"
    }

    fn policy(&self) -> Policy {
        Policy {
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::WithMetadata,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, volume: &mut Object) {
        volume.set_default(&["spec", "persistentVolumeReclaimPolicy"], "Retain");
        volume.set_default(&["spec", "volumeMode"], "Filesystem");
        volume_source::defaults(volume.object_at(&["spec"]));
    }

    fn prepare_create(&self, volume: &mut Object, now: Timestamp) {
        volume.set(&["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": seconds(now)}));
    }

    fn prepare_status(&self, volume: &mut Object, old: &Object, now: Timestamp) {
        let (since, old_since) = (volume.at(&PHASE_SINCE).cloned(), old.at(&PHASE_SINCE).cloned());
        if volume.str_at(&PHASE) == old.str_at(&PHASE) {
            // A client that does not know the field would drop it; nothing has happened to it.
            if let (None, Some(old_since)) = (since, old_since) {
                volume.set(&PHASE_SINCE, old_since);
            }
        } else if since.is_none() || since == old_since {
            volume.set(&PHASE_SINCE, seconds(now));
        }
    }

    fn extra_selectable(&self) -> &'static [&'static str] {
        &["status.phase", "spec.storageClassName", "spec.claimRef.name", "spec.claimRef.namespace"]
    }

    fn field(&self, volume: &Object, name: &str) -> String {
        if name == "spec.storageClassName" {
            return storage_class::class_of(volume).to_owned();
        }
        let path: Vec<&str> = name.split('.').collect();
        volume.str_at(&path).to_owned()
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Capacity", "Size of the volume."),
            cells::text("Access Modes", "Ways in which the volume can be mounted."),
            cells::text("Reclaim Policy", "What becomes of the volume when its claim is gone."),
            cells::text("Status", "Phase of the volume."),
            cells::text("Claim", "Claim that the volume is bound to, or kept for."),
            cells::text("StorageClass", "Class of the volume."),
            cells::text("VolumeAttributesClass", "Attributes class of the volume."),
            cells::text("Reason", "Why the volume is in its phase."),
            cells::AGE,
            cells::wide("VolumeMode", "Whether the volume holds a file system or is a block device."),
        ];
        COLUMNS
    }

    fn cells(&self, volume: &Object, now: Timestamp) -> Vec<Value> {
        let spec = |field: &str| volume.str_at(&["spec", field]);
        vec![
            cells::name(volume),
            cells::or(volume.str_at(&["spec", "capacity", "storage"]), "0").into(),
            cells::access_modes(volume.at(&["spec", "accessModes"])).into(),
            spec("persistentVolumeReclaimPolicy").into(),
            phase_cell(volume).into(),
            claim_cell(volume).into(),
            storage_class::class_of(volume).into(),
            set_or_unset(volume.at(&["spec", "volumeAttributesClassName"])),
            volume.str_at(&["status", "reason"]).into(),
            cells::age(volume, now),
            set_or_unset(volume.at(&["spec", "volumeMode"])),
        ]
    }
}

/// A time as objects carry it: whole seconds, UTC.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The phase of a volume or a claim, unless it is being deleted.
pub(super) fn phase_cell(object: &Object) -> &str {
    if object.is_terminating() { "Terminating" } else { object.str_at(&PHASE) }
}

/// Text, or a word for none.
pub(super) fn set_or_unset(text: Option<&Value>) -> Value {
    text.filter(|text| text.is_string()).cloned().unwrap_or_else(|| "<unset>".into())
}

fn claim_cell(volume: &Object) -> String {
    let part = |name: &str| volume.str_at(&["spec", "claimRef", name]);
    if volume.at(&["spec", "claimRef"]).is_some_and(Value::is_object) {
        format!("{}/{}", part("namespace"), part("name"))
    } else {
        String::new()
    }
}
