//! Volumes of pods: defaults and rules of their sources.

use serde_json::{Map, Value, json};

use super::pod_spec::defaults::{field_ref, list, object, objects, pull_policy, text, value};

/// The mode of files in volumes made of keys: 0644.
const DEFAULT_MODE: i64 = 0o644;

/// Fills in what the volumes of a pod spec leave out.
pub(super) fn defaults(volumes: &mut [Value]) {
    for volume in objects(volumes) {
        // A volume that names no source is an empty directory.
        if !volume.iter().any(|(field, value)| field != "name" && !value.is_null()) {
            volume.insert("emptyDir".into(), json!({}));
        }
        source_defaults(volume);
    }
}

fn source_defaults(volume: &mut Map<String, Value>) {
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, kind) {
            value(source, "defaultMode", DEFAULT_MODE);
        }
    }
    if let Some(downward) = object(volume, "downwardAPI") {
        files(downward);
    }
    if let Some(projected) = object(volume, "projected") {
        for source in objects(list(projected, "sources")) {
            if let Some(downward) = object(source, "downwardAPI") {
                files(downward);
            }
            if let Some(token) = object(source, "serviceAccountToken") {
                value(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(path) = object(volume, "hostPath") {
        value(path, "type", "");
    }
    if let Some(iscsi) = object(volume, "iscsi") {
        text(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = object(volume, "rbd") {
        text(rbd, "pool", "rbd");
        text(rbd, "user", "admin");
        text(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = object(volume, "azureDisk") {
        value(disk, "cachingMode", "ReadWrite");
        value(disk, "kind", "Shared");
        value(disk, "fsType", "ext4");
        value(disk, "readOnly", false);
    }
    if let Some(scale_io) = object(volume, "scaleIO") {
        text(scale_io, "storageMode", "ThinProvisioned");
        text(scale_io, "fsType", "xfs");
    }
    if let Some(image) = object(volume, "image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = pull_policy(reference);
        text(image, "pullPolicy", policy);
    }
    if let Some(claim) = object(volume, "ephemeral").and_then(|source| object(source, "volumeClaimTemplate"))
    {
        value(claim, "metadata", json!({}));
        if let Some(spec) = object(claim, "spec") {
            value(spec, "volumeMode", "Filesystem");
        }
    }
}

/// Files of the downward API.
fn files(downward: &mut Map<String, Value>) {
    for file in objects(list(downward, "items")) {
        field_ref(file);
    }
}

#[cfg(test)]
mod tests;
