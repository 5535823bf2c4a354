//! Validation of a container's volume mounts and volume devices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as api;

use super::{items, text};
use crate::registry::checks;
use crate::registry::field_refs::descending_path;
use crate::validate::{FieldErrors, Path};

/// The volume mounts of a container.
pub(super) fn mounts(
    container: &api::Container,
    volumes: &BTreeMap<&str, &api::Volume>,
    list: &Path,
    errors: &mut FieldErrors,
) {
    let devices = items(&container.volume_devices);
    let mut points = BTreeSet::new();
    let device_names: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let device_paths: BTreeSet<&str> = devices.iter().map(|device| device.device_path.as_str()).collect();
    for (i, mount) in items(&container.volume_mounts).iter().enumerate() {
        let path = list.index(i);
        checks::required(errors, &path.child("name"), &mount.name);
        let volume = volumes.get(mount.name.as_str());
        if volume.is_none() {
            errors.not_found(&path.child("name"), mount.name.as_str());
        }
        checks::required(errors, &path.child("mountPath"), &mount.mount_path);
        if !points.insert(&mount.mount_path) {
            errors.invalid(&path.child("mountPath"), mount.mount_path.as_str(), "must be unique");
        }
        if device_names.contains(mount.name.as_str()) {
            let text = "must not already exist in volumeDevices";
            errors.invalid(&path.child("name"), mount.name.as_str(), text);
        }
        if device_paths.contains(mount.mount_path.as_str()) {
            let text = "must not already exist as a path in volumeDevices";
            errors.invalid(&path.child("mountPath"), mount.mount_path.as_str(), text);
        }
        sub_paths(mount, &path, list, errors);
        // From here on upstream uses the path of the whole list.
        propagation(mount, container, &list.child("mountPropagation"), errors);
        recursive_read_only(mount, &list.child("recursiveReadOnly"), errors);
    }
}

fn sub_paths(mount: &api::VolumeMount, path: &Path, list: &Path, errors: &mut FieldErrors) {
    let (plain, expression) = (text(&mount.sub_path), text(&mount.sub_path_expr));
    if !plain.is_empty() {
        descending_path(plain, &list.child("subPath"), errors);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            let text = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), expression, text);
        }
        descending_path(expression, &list.child("subPathExpr"), errors);
    }
}

fn propagation(mount: &api::VolumeMount, container: &api::Container, path: &Path, errors: &mut FieldErrors) {
    let mode = mount.mount_propagation.as_deref();
    checks::one_of(errors, path, mode, &["Bidirectional", "HostToContainer", "None"]);
    let privileged =
        container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
    if mode == Some("Bidirectional") && !privileged {
        let text = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(path, text);
    }
}

fn recursive_read_only(mount: &api::VolumeMount, path: &Path, errors: &mut FieldErrors) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
                let text = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(path, text);
            }
        }
        Some(other) => errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// The volume devices of a container.
pub(super) fn devices(
    container: &api::Container,
    volumes: &BTreeMap<&str, &api::Volume>,
    list: &Path,
    errors: &mut FieldErrors,
) {
    let mounts = items(&container.volume_mounts);
    let mount_names: BTreeSet<&str> = mounts.iter().map(|mount| mount.name.as_str()).collect();
    let mount_paths: BTreeSet<&str> = mounts.iter().map(|mount| mount.mount_path.as_str()).collect();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in items(&container.volume_devices).iter().enumerate() {
        let (at_name, at_path) = (list.index(i).child("name"), list.index(i).child("devicePath"));
        let (name, path) = (device.name.as_str(), device.device_path.as_str());
        checks::required(errors, &at_name, name);
        if names.contains(name) {
            errors.invalid(&at_name, name, "must be unique");
        }
        match volumes.get(name) {
            Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
                let text =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&at_name, name, text);
            }
            Some(_) => {}
            None => errors.not_found(&at_name, name),
        }
        checks::required(errors, &at_path, path);
        if paths.contains(path) {
            errors.invalid(&at_path, path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            errors.invalid(&at_path, path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mount_names.contains(name) {
            errors.invalid(&at_name, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            errors.invalid(&at_path, path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
