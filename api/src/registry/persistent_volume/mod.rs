//! The `PersistentVolume` kind.

pub(super) mod spec;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::go_format::VOLUME_NODE_AFFINITY;
use super::storage_class::{self, BETA_ANNOTATION, BETA_ANNOTATION_WARNING};
use super::volume_rules::{IMMUTABLE, deprecated_node_label, given, items, node_label_successor, text};
use super::volume_source;
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `PersistentVolume` kind.
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

/// The annotation for mount options that preceded the field.
const MOUNT_OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const RECYCLE_WARNING: &str = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. \
                               Instead, the recommended approach is to use dynamic provisioning.";

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
        for (path, value) in [
            (["spec", "persistentVolumeReclaimPolicy"], "Retain"),
            (["spec", "volumeMode"], "Filesystem"),
            (PHASE, "Pending"),
        ] {
            volume.set_default(&path, value);
        }
        volume_source::defaults(volume.object_at(&["spec"]));
    }

    fn prepare_create(&self, volume: &mut Object, now: Timestamp) {
        volume.set(&["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": seconds(now)}));
    }

    fn prepare_status(&self, volume: &mut Object, old: &Object, now: Timestamp) {
        let (since, old_since) = (volume.at(&PHASE_SINCE).cloned(), old.at(&PHASE_SINCE).cloned());
        if volume.str_at(&PHASE) == old.str_at(&PHASE) {
            // A client that does not know the field omits it; the phase has not changed, so the old time is restored.
            if let (None, Some(old_since)) = (since, old_since) {
                volume.set(&PHASE_SINCE, old_since);
            }
        } else if since.is_none() || since == old_since {
            volume.set(&PHASE_SINCE, seconds(now));
        }
    }

    fn validate(&self, volume: &Object, errors: &mut FieldErrors) {
        let spec = spec_of(volume);
        spec::validate(spec, &Path::new("spec"), volume.name(), errors);
        if volume.annotation(MOUNT_OPTIONS_ANNOTATION).is_some() && !volume_source::takes_mount_options(spec)
        {
            let path = Path::new("metadata.annotations").child(MOUNT_OPTIONS_ANNOTATION);
            errors.forbidden(&path, "may not specify mount options for this volume type");
        }
    }

    fn validate_update(&self, volume: &Object, old: &Object, errors: &mut FieldErrors) {
        let (spec, old_spec) = (spec_of(volume), spec_of(old));
        // Upstream validates the spec once more here, and reports every error twice.
        spec::validate(spec, &Path::new("spec"), volume.name(), errors);
        source_update(spec, old_spec, errors);
        if spec.get("volumeMode") != old_spec.get("volumeMode") {
            let mode = spec.get("volumeMode").cloned().unwrap_or_default();
            errors.invalid(&Path::new("volumeMode"), mode, IMMUTABLE);
        }
        node_affinity_update(spec, old_spec, errors);
        let class = |spec| given(spec, "volumeAttributesClassName");
        if class(spec).is_none() && class(old_spec).is_some() {
            let path = Path::new("spec.volumeAttributesClassName");
            errors.forbidden(&path, "update from non-nil value to nil is forbidden");
        }
    }

    fn warnings(&self, volume: &Object, _old: Option<&Object>) -> Vec<String> {
        let spec = spec_of(volume);
        let mut warnings = Vec::new();
        if volume.annotation(BETA_ANNOTATION).is_some() {
            warnings.push(BETA_ANNOTATION_WARNING.to_owned());
        }
        if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
            warnings.push(RECYCLE_WARNING.to_owned());
        }
        warnings.extend(node_label_warnings(spec));
        warnings.extend(volume_source::warnings(spec));
        warnings
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
            cells::text("Reclaim Policy", "What happens to the volume after its claim is deleted."),
            cells::text("Status", "Phase of the volume."),
            cells::text("Claim", "Claim that the volume is bound to or reserved for."),
            cells::text("StorageClass", "Class of the volume."),
            cells::text("VolumeAttributesClass", "Attributes class of the volume."),
            cells::text("Reason", "Why the volume is in its phase."),
            cells::AGE,
            cells::wide("VolumeMode", "Whether the volume contains a file system or is a block device."),
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

/// A timestamp in the format of API objects: whole seconds, UTC.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The phase of a volume or a claim, or `Terminating` if it is being deleted.
pub(super) fn phase_cell(object: &Object) -> &str {
    if object.is_terminating() { "Terminating" } else { object.str_at(&PHASE) }
}

/// The string, or `<unset>`.
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

/// The spec; `null` if absent.
fn spec_of(volume: &Object) -> &Value {
    volume.at(&["spec"]).unwrap_or(&Value::Null)
}

/// The source is immutable, except that a secret for expansion may be added once.
fn source_update(spec: &Value, old_spec: &Value, errors: &mut FieldErrors) {
    const SECRET: &str = "controllerExpandSecretRef";
    let (mut source, old_source) = (volume_source::of(spec), volume_source::of(old_spec));
    if let (Some(Value::Object(csi)), Some(old_csi)) = (source.get_mut("csi"), old_source.get("csi"))
        && given(old_csi, SECRET).is_none()
    {
        csi.remove(SECRET);
    }
    if source != old_source {
        let path = Path::new("spec.persistentvolumesource");
        errors.forbidden(&path, "spec.persistentvolumesource is immutable after creation\n");
    }
}

/// The node affinity may be added, and is then immutable, except that beta labels may be replaced by their GA
/// names.
fn node_affinity_update(spec: &Value, old_spec: &Value, errors: &mut FieldErrors) {
    let affinity = given(spec, "nodeAffinity");
    let Some(old) = given(old_spec, "nodeAffinity") else { return };
    if affinity == Some(old) || affinity == Some(&with_new_labels(old, affinity)) {
        return;
    }
    let path = Path::new("nodeAffinity");
    let detail = "field is immutable, except for updating from beta label to GA";
    errors.invalid_shown(&path, &VOLUME_NODE_AFFINITY.show(affinity), detail);
}

/// The old affinity, with each beta label replaced whose GA name the new affinity uses.
fn with_new_labels(old: &Value, new: Option<&Value>) -> Value {
    let mut renamed = old.clone();
    let terms = renamed.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    for (i, term) in terms.into_iter().flatten().enumerate() {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for (j, expression) in expressions.into_iter().flatten().enumerate() {
            let Some(successor) = node_label_successor(text(expression, "key")) else { continue };
            let place = format!("/required/nodeSelectorTerms/{i}/matchExpressions/{j}/key");
            if new.and_then(|new| new.pointer(&place)).is_some_and(|key| key == successor) {
                expression["key"] = successor.into();
            }
        }
    }
    renamed
}

fn node_label_warnings(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let terms = spec.pointer("/nodeAffinity/required").map_or(&[][..], |r| items(r, "nodeSelectorTerms"));
    for (i, term) in terms.iter().enumerate() {
        for (j, expression) in items(term, "matchExpressions").iter().enumerate() {
            let key = text(expression, "key");
            if let Some(why) = deprecated_node_label(key) {
                warnings.push(format!(
                    "spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}]: {key} is {why}"
                ));
            }
        }
    }
    warnings
}
