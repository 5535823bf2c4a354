//! Validation of a volume's spec: that of a `PersistentVolume`, and the inline spec of a
//! `VolumeAttachment` (upstream: ValidatePersistentVolumeSpec).

use serde_json::Value;

use crate::registry::volume_rules::{
    access_modes, given, items, positive, resource, subdomain, text, typed, volume_mode,
};
use crate::registry::volume_source;
use crate::validate::node_selector::validate_volume_node_affinity;
use crate::validate::{FieldErrors, Path};

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";

/// Validates the spec of a `PersistentVolume` with this name.
pub(in crate::registry) fn validate(spec: &Value, path: &Path, name: &str, errors: &mut FieldErrors) {
    if items(spec, "accessModes").is_empty() {
        errors.required(&path.child("accessModes"), "");
    }
    access_modes(path, spec, errors);
    capacity(spec, &path.child("capacity"), errors);
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !RECLAIM_POLICIES.contains(&policy) {
        errors.not_supported(&policy_path, policy, &RECLAIM_POLICIES);
    }
    let affinity = given(spec, "nodeAffinity");
    if let Some(affinity) = affinity.and_then(typed) {
        validate_volume_node_affinity(&affinity, &path.child("nodeAffinity"), errors);
    }
    volume_source::validate(spec, path, name, affinity.is_some(), errors);
    // Recycling removes everything below the path.
    if policy == "Recycle" && given(spec, "hostPath").is_some_and(|host| is_root(text(host, "path"))) {
        errors.forbidden(&policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        subdomain(&path.child("storageClassName"), class, errors);
    }
    volume_mode(path, spec, errors);
    attributes_class(spec, path, errors);
}

/// Validates the inline volume spec of an attachment.
pub(in crate::registry) fn validate_inline(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    for (field, is_given) in [
        ("claimRef", given(spec, "claimRef").is_some()),
        ("capacity", spec["capacity"].as_object().is_some_and(|capacity| !capacity.is_empty())),
    ] {
        if is_given {
            errors.forbidden(&path.child(field), NOT_INLINE);
        }
    }
    if given(spec, "csi").is_none() {
        errors.required(&path.child("csi"), "has to be specified in the context of inline volumes");
    }
    if items(spec, "accessModes").is_empty() {
        errors.required(&path.child("accessModes"), "");
    }
    access_modes(path, spec, errors);
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let detail = "may only be Retain in the context of inline volumes";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
    if given(spec, "nodeAffinity").is_some() {
        errors.forbidden(&path.child("nodeAffinity"), NOT_INLINE);
    }
    volume_source::validate(spec, path, "", false, errors);
    if !text(spec, "storageClassName").is_empty() {
        errors.forbidden(&path.child("storageClassName"), NOT_INLINE);
    }
    if given(spec, "volumeMode").is_some_and(|mode| mode != "Filesystem") {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(&path.child("volumeMode"), detail);
    }
}

fn capacity(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let capacity = given(spec, "capacity").and_then(Value::as_object);
    let given = capacity.into_iter().flatten();
    let count = capacity.map_or(0, |capacity| capacity.len());
    if count == 0 {
        errors.required(path, "");
    }
    if count != 1 || capacity.is_some_and(|capacity| !capacity.contains_key("storage")) {
        errors.not_supported(path, capacity.cloned().map_or(Value::Null, Value::Object), &["storage"]);
    }
    for (name, amount) in given {
        resource(&path.key(name), amount, errors);
        positive(&path.key(name), amount, errors);
    }
}

fn attributes_class(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(class) = given(spec, "volumeAttributesClassName").and_then(Value::as_str) else { return };
    let at = path.child("volumeAttributesClassName");
    if class.is_empty() {
        errors.required(&at, "an empty string is disallowed");
    } else {
        subdomain(&at, class, errors);
    }
    if given(spec, "csi").is_none() {
        errors.required(&path.child("csi"), "has to be specified when using volumeAttributesClassName");
    }
}

/// Whether a path, in any spelling, is `/`.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}
