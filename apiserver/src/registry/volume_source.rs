//! The sources of persistent volumes: what they default to, and their rules. They stand side by
//! side in the spec of a `PersistentVolume`, and in the inline spec of a `VolumeAttachment`.

use serde_json::{Map, Value};

/// Fills in what the client left out of the source in a volume's spec.
pub(super) fn defaults(spec: &mut Map<String, Value>) {
    for (source, fields) in DEFAULTS {
        let Some(Value::Object(source)) = spec.get_mut(*source) else { continue };
        for (field, value) in *fields {
            let is_set = source.get(*field).is_some_and(|value| !value.is_null() && value != "");
            if !is_set {
                source.insert((*field).to_owned(), value.to_value());
            }
        }
    }
}

/// A default: text or a boolean.
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

/// Per source, what its fields default to (upstream: pkg/apis/core/v1/defaults.go).
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
