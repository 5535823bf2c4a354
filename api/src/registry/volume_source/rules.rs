//! Validation of each source (upstream: pkg/apis/core/validation/validation.go). The arguments of each function
//! are the source, its path and the name of the volume.

use orlop_apimachinery::names;
use serde_json::Value;

use crate::registry::volume_rules::{driver_name, entries, given, items, name, required, text};
use crate::validate::{FieldErrors, Path};

const LUN: &str = "must be between 0 and 255, inclusive";
/// Upstream's message; 0, which means the whole disk, is valid.
const PARTITION: &str = "must be between 1 and 255, inclusive";
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

pub(super) fn host_path(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    let at = path.child("path");
    if text(source, "path").is_empty() {
        errors.required(&at, "");
        return;
    }
    no_backsteps(&at, text(source, "path"), errors);
    if let Some(kind) = given(source, "type").and_then(Value::as_str)
        && !HOST_PATH_TYPES.contains(&kind)
    {
        errors.not_supported(&path.child("type"), kind, &HOST_PATH_TYPES);
    }
}

pub(super) fn local(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    let at = path.child("path");
    if text(source, "path").is_empty() {
        errors.required(&at, "");
        return;
    }
    no_backsteps(&at, text(source, "path"), errors);
}

fn no_backsteps(path: &Path, value: &str, errors: &mut FieldErrors) {
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

pub(super) fn nfs(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "server", errors);
    required(path, source, "path", errors);
    if !text(source, "path").starts_with('/') {
        errors.invalid(&path.child("path"), text(source, "path"), "must be an absolute path");
    }
}

pub(super) fn csi(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    driver_name(&path.child("driver"), text(source, "driver"), errors);
    required(path, source, "volumeHandle", errors);
    // Upstream does not validate nodeStageSecretRef.
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if let Some(secret) = given(source, field) {
            csi_secret(secret, &path.child(field), errors);
        }
    }
}

fn csi_secret(secret: &Value, path: &Path, errors: &mut FieldErrors) {
    type Check = fn(&str) -> Vec<String>;
    let checks: [(&str, Check); 2] = [("name", names::dns_subdomain), ("namespace", names::dns_label)];
    for (field, check) in checks {
        let (at, value) = (path.child(field), text(secret, field));
        if value.is_empty() {
            errors.required(&at, "");
        } else {
            name(&at, value, check(value), errors);
        }
    }
}

pub(super) fn iscsi(source: &Value, path: &Path, volume: &str, errors: &mut FieldErrors) {
    required(path, source, "targetPortal", errors);
    let (portal, initiator) = (text(source, "targetPortal"), given(source, "initiatorName"));
    if initiator.is_some() && volume.len() + 1 + portal.len() > 64 {
        errors.invalid(
            &path.child("targetportal"),
            portal,
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
             iscsi.initiatorName is specified.",
        );
    }
    required(path, source, "iqn", errors);
    if !text(source, "iqn").is_empty() {
        iscsi_name(&path.child("iqn"), text(source, "iqn"), errors);
    }
    let lun = source.get("lun").and_then(Value::as_i64).unwrap_or_default();
    if !(0..=255).contains(&lun) {
        errors.invalid(&path.child("lun"), lun, LUN);
    }
    let is_on = |flag: &str| source.get(flag).and_then(Value::as_bool).unwrap_or_default();
    match given(source, "secretRef") {
        Some(secret) => required(&path.child("secretRef"), secret, "name", errors),
        None if is_on("chapAuthDiscovery") || is_on("chapAuthSession") => {
            errors.required(&path.child("secretRef"), "");
        }
        None => {}
    }
    if let Some(initiator) = initiator.and_then(Value::as_str) {
        iscsi_name(&path.child("initiatorname"), initiator, errors);
    }
}

fn iscsi_name(path: &Path, value: &str, errors: &mut FieldErrors) {
    let is_valid = match value.get(..3) {
        Some("iqn") => is_iqn(value),
        // The type, any character, and this number of letters and digits.
        Some("eui") => is_id(value, 16),
        Some("naa") => is_id(value, 32),
        Some(_) | None => {
            errors.invalid(path, value, "must be valid format starting with iqn, eui, or naa");
            return;
        }
    };
    if !is_valid {
        errors.invalid(path, value, "must be valid format");
    }
}

fn is_id(value: &str, length: usize) -> bool {
    let rest: Vec<char> = value.chars().skip(4).collect();
    rest.len() == length && rest.iter().all(char::is_ascii_alphanumeric)
}

/// An iSCSI qualified name, such as `iqn.2001-04.com.example:storage.disk1`.
fn is_iqn(value: &str) -> bool {
    let Some((authority, target)) = value.split_once(':') else { return false };
    let mut parts = authority.splitn(3, '.');
    let (Some("iqn"), Some(date), Some(host)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_date = |year: &str, month: &str| {
        year.len() == 4
            && month.len() == 2
            && [year, month].iter().all(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    date.split_once('-').is_some_and(|(year, month)| is_date(year, month))
        && !host.is_empty()
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
        && !target.is_empty()
        && !target.contains(|c: char| ",;*&$|".contains(c) || c.is_whitespace())
}

pub(super) fn fc(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    let (wwns, wwids) = (items(source, "targetWWNs"), items(source, "wwids"));
    let at = path.child("targetWWNs");
    if wwns.is_empty() && wwids.is_empty() {
        errors.required(&at, "must specify either targetWWNs or wwids, but not both");
    }
    if !wwns.is_empty() && !wwids.is_empty() {
        errors.invalid(&at, wwns.to_vec(), "targetWWNs and wwids can not be specified simultaneously");
    }
    if wwns.is_empty() {
        return;
    }
    match source.get("lun").and_then(Value::as_i64) {
        None => errors.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) if !(0..=255).contains(&lun) => errors.invalid(&path.child("lun"), lun, LUN),
        Some(_) => {}
    }
}

pub(super) fn gce_persistent_disk(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "pdName", errors);
    partition(source, path, errors);
}

pub(super) fn aws_elastic_block_store(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "volumeID", errors);
    partition(source, path, errors);
}

fn partition(source: &Value, path: &Path, errors: &mut FieldErrors) {
    let partition = source.get("partition").and_then(Value::as_i64).unwrap_or_default();
    if !(0..=255).contains(&partition) {
        errors.invalid(&path.child("partition"), partition, PARTITION);
    }
}

pub(super) fn glusterfs(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "endpoints", errors);
    required(path, source, "path", errors);
    let Some(namespace) = given(source, "endpointsNamespace").and_then(Value::as_str) else { return };
    let at = path.child("endpointsNamespace");
    if namespace.is_empty() {
        errors.invalid(&at, "", "if the endpointnamespace is set, it must be a valid namespace name");
    } else {
        name(&at, namespace, names::dns_label(namespace), errors);
    }
}

pub(super) fn flocker(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    let (dataset, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if dataset.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !dataset.is_empty() && !uuid.is_empty() {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if dataset.contains('/') {
        errors.invalid(&path.child("datasetName"), dataset, "must not contain '/'");
    }
}

pub(super) fn rbd(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    monitors(source, path, errors);
    required(path, source, "image", errors);
}

pub(super) fn ceph_fs(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    monitors(source, path, errors);
}

fn monitors(source: &Value, path: &Path, errors: &mut FieldErrors) {
    if items(source, "monitors").is_empty() {
        errors.required(&path.child("monitors"), "");
    }
}

pub(super) fn quobyte(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        errors.required(&path.child("registry"), PAIRS);
    } else if text(source, "tenant").len() >= 65 {
        errors.required(&path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.invalid(&path.child("registry"), registry, PAIRS);
        }
    }
    required(path, source, "volume", errors);
}

/// A host, a colon, a port; the host may be an IPv6 address in brackets.
fn is_host_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let plain = |text: &str| !text.contains(['[', ']']);
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => plain(inner) && plain(port),
        None => plain(host) && !host.contains(':') && plain(port),
    }
}

pub(super) fn cinder(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "volumeID", errors);
    secret_in_namespace(source, path, errors);
}

fn secret_in_namespace(source: &Value, path: &Path, errors: &mut FieldErrors) {
    if let Some(secret) = given(source, "secretRef") {
        required(&path.child("secretRef"), secret, "name", errors);
        required(&path.child("secretRef"), secret, "namespace", errors);
    }
}

pub(super) fn flex_volume(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "driver", errors);
    for (key, _) in entries(source, "options") {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let at = path.child("options").key(key);
            errors.invalid(&at, key.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(super) fn azure_file(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "secretName", errors);
    required(path, source, "shareName", errors);
    if given(source, "secretNamespace").is_some() {
        required(path, source, "secretNamespace", errors);
    }
}

pub(super) fn azure_disk(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    required(path, source, "diskName", errors);
    required(path, source, "diskURI", errors);
    for (field, allowed) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if let Some(value) = given(source, field).and_then(Value::as_str)
            && !allowed.contains(&value)
        {
            errors.not_supported(&path.child(field), value, &allowed);
        }
    }
    let uri = text(source, "diskURI");
    let (prefix, shown) = match given(source, "kind").and_then(Value::as_str) {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.starts_with(prefix) {
        errors.not_supported(&path.child("diskURI"), uri, &[shown]);
    }
}

pub(super) fn vsphere_volume(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "volumePath", errors);
}

pub(super) fn photon_persistent_disk(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "pdID", errors);
}

pub(super) fn portworx_volume(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "volumeID", errors);
}

pub(super) fn scale_io(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    required(path, source, "gateway", errors);
    required(path, source, "system", errors);
    required(path, source, "volumeName", errors);
}

pub(super) fn storage_os(source: &Value, path: &Path, _: &str, errors: &mut FieldErrors) {
    let volume = text(source, "volumeName");
    if volume.is_empty() {
        errors.required(&path.child("volumeName"), "");
    } else {
        name(&path.child("volumeName"), volume, names::dns_label(volume), errors);
    }
    let namespace = text(source, "volumeNamespace");
    if !namespace.is_empty() {
        name(&path.child("volumeNamespace"), namespace, names::dns_label(namespace), errors);
    }
    secret_in_namespace(source, path, errors);
}
