//! The sources of persistent volumes: their defaults and validation. Each source is a field of
//! the spec of a `PersistentVolume`, and of the inline spec of a `VolumeAttachment`.

mod rules;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::validate::{FieldErrors, Path};

/// Validates one source: its value, its path, the name of the volume.
type Rules = fn(&Value, &Path, &str, &mut FieldErrors);

/// A kind of source.
struct Source {
    /// The field.
    field: &'static str,
    /// The name of the field in errors about more than one source; `None` for a source
    /// that upstream never rejects.
    refused_at: Option<&'static str>,
    /// The name of the field in all other errors.
    shown: &'static str,
    rules: Rules,
}

/// A source whose errors use the name of its field.
const fn source(field: &'static str, rules: Rules) -> Source {
    Source { field, refused_at: Some(field), shown: field, rules }
}

/// Every source, in upstream's order: if there are two, the later one is rejected.
const SOURCES: &[Source] = &[
    source("hostPath", rules::host_path),
    Source { shown: "persistentDisk", ..source("gcePersistentDisk", rules::gce_persistent_disk) },
    source("awsElasticBlockStore", rules::aws_elastic_block_store),
    source("glusterfs", rules::glusterfs),
    source("flocker", rules::flocker),
    source("nfs", rules::nfs),
    source("rbd", rules::rbd),
    source("quobyte", rules::quobyte),
    Source { refused_at: Some("cephFS"), ..source("cephfs", rules::ceph_fs) },
    source("iscsi", rules::iscsi),
    source("cinder", rules::cinder),
    source("fc", rules::fc),
    Source { refused_at: None, ..source("flexVolume", rules::flex_volume) },
    source("azureFile", rules::azure_file),
    source("vsphereVolume", rules::vsphere_volume),
    source("photonPersistentDisk", rules::photon_persistent_disk),
    source("portworxVolume", rules::portworx_volume),
    source("azureDisk", rules::azure_disk),
    source("scaleIO", rules::scale_io),
    source("local", rules::local),
    source("storageos", rules::storage_os),
    source("csi", rules::csi),
];

/// The sources in a spec, in the order of [`SOURCES`]. A spec has fewer fields than there are sources, so its fields are looked up in
/// the table.
fn sources_in(spec: &Value) -> Vec<(&'static Source, &Value)> {
    let fields = spec.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let place = |field: &str| SOURCES.iter().position(|source| source.field == field);
    let mut found: Vec<(usize, &Value)> =
        fields.filter_map(|(field, value)| Some((place(field)?, value))).collect();
    found.sort_unstable_by_key(|(place, _)| *place);
    found.into_iter().map(|(place, value)| (&SOURCES[place], value)).collect()
}

/// Validates that there is exactly one source, and the first source itself (upstream:
/// ValidatePersistentVolumeSpec). `path` is that of the spec, `name` the volume's, `""` inline.
pub(super) fn validate(
    spec: &Value,
    path: &Path,
    name: &str,
    has_node_affinity: bool,
    errors: &mut FieldErrors,
) {
    let mut found = false;
    for (source, value) in sources_in(spec) {
        if let (true, Some(field)) = (found, source.refused_at) {
            errors.forbidden(&path.child(field), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        (source.rules)(value, &path.child(source.shown), name, errors);
        if source.field == "local" && !has_node_affinity {
            errors.required(&path.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

/// Whether a volume with this spec may have mount options in the old annotation.
pub(super) fn takes_mount_options(spec: &Value) -> bool {
    const SOURCES: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    sources_in(spec).iter().any(|(source, _)| SOURCES.contains(&source.field))
}

/// The source of a volume's spec, extracted for comparison.
pub(super) fn of(spec: &Value) -> Map<String, Value> {
    sources_in(spec).into_iter().map(|(source, value)| (source.field.to_owned(), value.clone())).collect()
}

/// Warnings about sources that are no longer supported.
pub(super) fn warnings(spec: &Value) -> impl Iterator<Item = String> {
    const GONE: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let used = sources_in(spec);
    let is_used =
        move |(field, _, _): &(&str, &str, &str)| used.iter().any(|(source, _)| source.field == *field);
    GONE.into_iter().filter(is_used).map(|(_, shown, why)| format!("spec.{shown}: {why}"))
}

/// Defaults the fields that the client omitted from the source in a volume's spec.
pub(super) fn defaults(spec: &mut Map<String, Value>) {
    for (source, fields) in DEFAULTS {
        let Some(Value::Object(source)) = spec.get_mut(*source) else { continue };
        for (field, value) in *fields {
            if source.get(*field).is_none_or(|value| value.is_null() || value == "") {
                source.insert((*field).to_owned(), value.to_value());
            }
        }
    }
}

/// A default: a string or `false`.
enum Default {
    Text(&'static str),
    No,
}

impl Default {
    fn to_value(&self) -> Value {
        match self {
            Default::Text(text) => (*text).into(),
            Default::No => false.into(),
        }
    }
}

/// The defaults of each source's fields (upstream: pkg/apis/core/v1/defaults.go).
const DEFAULTS: &[(&str, &[(&str, Default)])] = &[
    ("hostPath", &[("type", Default::Text(""))]),
    ("iscsi", &[("iscsiInterface", Default::Text("default"))]),
    (
        "rbd",
        &[
            ("pool", Default::Text("rbd")),
            ("user", Default::Text("admin")),
            ("keyring", Default::Text("/etc/ceph/keyring")),
        ],
    ),
    (
        "azureDisk",
        &[
            ("cachingMode", Default::Text("ReadWrite")),
            ("kind", Default::Text("Shared")),
            ("fsType", Default::Text("ext4")),
            ("readOnly", Default::No),
        ],
    ),
    ("scaleIO", &[("storageMode", Default::Text("ThinProvisioned")), ("fsType", Default::Text("xfs"))]),
];
