//! Values in the format of upstream's error messages: its internal structs as JSON, with Go's field
//! names, in the order of the struct, including empty fields.

use serde_json::Value;

use crate::go_json;

/// How a value is printed, and the substitute for a missing one.
pub(super) enum Shape {
    /// A string; missing is `""`.
    Text,
    /// A boolean; missing is `false`.
    Flag,
    /// A number, or a number or a percentage; missing is `0`.
    Count,
    /// A pointer, a map or a list of plain values, printed unchanged; missing or empty is `null`.
    Plain,
    /// A list; missing or empty is `null`.
    List(&'static Shape),
    /// A list; missing or empty is `[]`.
    Items(&'static Shape),
    /// A struct: for each field, Go's name, the JSON name, and its shape. Printed even if it is empty.
    Struct(Fields),
    /// A pointer to a struct; missing is `null`.
    Pointer(Fields),
    /// A struct that begins with the fields of `metadata`. They have their JSON names, and empty ones are omitted.
    WithMetadata(Fields),
}

/// Go's name, the JSON name, and the shape of each field.
pub(super) type Fields = &'static [(&'static str, &'static str, Shape)];

impl Shape {
    /// The printed form of a value.
    pub(super) fn show(&self, value: Option<&Value>) -> String {
        let value = value.filter(|value| !value.is_null());
        match self {
            Shape::Text => value.map_or_else(|| "\"\"".to_owned(), go_json::encode),
            Shape::Count => value.map_or_else(|| "0".to_owned(), Value::to_string),
            Shape::Flag => value.map_or_else(|| "false".to_owned(), Value::to_string),
            Shape::Plain => value.filter(|v| !is_empty(v)).map_or_else(null, go_json::encode),
            Shape::List(item) => {
                let items = value.and_then(Value::as_array).filter(|items| !items.is_empty());
                items.map_or_else(null, |items| show_list(item, items))
            }
            Shape::Items(item) => show_list(item, value.and_then(Value::as_array).map_or(&[], Vec::as_slice)),
            Shape::Struct(fields) => show_fields(fields, value),
            Shape::Pointer(fields) => value.map_or_else(null, |value| show_fields(fields, Some(value))),
            Shape::WithMetadata(fields) => show_with_metadata(fields, value),
        }
    }
}

/// The fields of metadata that templates can have, in the order of upstream's struct.
const METADATA: [&str; 7] =
    ["name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers"];

fn show_with_metadata(fields: Fields, value: Option<&Value>) -> String {
    let metadata = value.and_then(|value| value.get("metadata"));
    let set =
        |name: &&str| metadata.and_then(|metadata| metadata.get(*name)).filter(|value| !is_empty(value));
    let mut shown: Vec<String> = METADATA
        .iter()
        .filter_map(|name| set(name).map(|value| format!("\"{name}\":{}", go_json::encode(value))))
        .collect();
    shown.extend(shown_fields(fields, value));
    format!("{{{}}}", shown.join(","))
}

fn show_list(item: &Shape, items: &[Value]) -> String {
    let shown: Vec<String> = items.iter().map(|value| item.show(Some(value))).collect();
    format!("[{}]", shown.join(","))
}

fn show_fields(fields: Fields, value: Option<&Value>) -> String {
    let shown: Vec<String> = shown_fields(fields, value).collect();
    format!("{{{}}}", shown.join(","))
}

fn shown_fields(fields: Fields, value: Option<&Value>) -> impl Iterator<Item = String> {
    let shown = move |(go, ours, shape): &(&str, &str, Shape)| {
        format!("\"{go}\":{}", shape.show(value.and_then(|value| value.get(*ours))))
    };
    fields.iter().map(shown)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn null() -> String {
    "null".to_owned()
}

/// The scope selector of a quota.
pub(super) const SCOPE_SELECTOR: Shape = Shape::Pointer(&[(
    "MatchExpressions",
    "matchExpressions",
    Shape::List(&Shape::Struct(&[
        ("ScopeName", "scopeName", Shape::Text),
        ("Operator", "operator", Shape::Text),
        ("Values", "values", Shape::Plain),
    ])),
)]);

const SELECTOR_REQUIREMENT: Shape = Shape::Struct(&[
    ("Key", "key", Shape::Text),
    ("Operator", "operator", Shape::Text),
    ("Values", "values", Shape::Plain),
]);

/// A taint of a node.
pub(super) const TAINT: Shape = Shape::Struct(&[
    ("Key", "key", Shape::Text),
    ("Value", "value", Shape::Text),
    ("Effect", "effect", Shape::Text),
    ("TimeAdded", "timeAdded", Shape::Plain),
]);

/// A toleration of a pod.
pub(super) const TOLERATION: Shape = Shape::Struct(&[
    ("Key", "key", Shape::Text),
    ("Operator", "operator", Shape::Text),
    ("Value", "value", Shape::Text),
    ("Effect", "effect", Shape::Text),
    ("TolerationSeconds", "tolerationSeconds", Shape::Plain),
]);

/// The tolerations of a pod or of a request for devices.
pub(super) const TOLERATION_LIST: Shape = Shape::List(&TOLERATION);

/// An address of a node.
pub(super) const NODE_ADDRESS: Shape =
    Shape::Struct(&[("Type", "type", Shape::Text), ("Address", "address", Shape::Text)]);

/// The terms of a node selector.
pub(super) const SELECTOR_TERMS: Shape = Shape::List(&SELECTOR_TERM);

/// One term of a node selector.
pub(super) const SELECTOR_TERM: Shape = Shape::Struct(&[
    ("MatchExpressions", "matchExpressions", Shape::List(&SELECTOR_REQUIREMENT)),
    ("MatchFields", "matchFields", Shape::List(&SELECTOR_REQUIREMENT)),
]);

const NODE_AFFINITY_FIELDS: Fields = &[(
    "Required",
    "required",
    Shape::Pointer(&[("NodeSelectorTerms", "nodeSelectorTerms", Shape::List(&SELECTOR_TERM))]),
)];

/// The node affinity of a volume.
pub(super) const VOLUME_NODE_AFFINITY: Shape = Shape::Pointer(NODE_AFFINITY_FIELDS);

/// A driver on a CSINode.
pub(super) const CSI_NODE_DRIVER: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("NodeID", "nodeID", Shape::Text),
    ("TopologyKeys", "topologyKeys", Shape::Plain),
    ("Allocatable", "allocatable", Shape::Pointer(&[("Count", "count", Shape::Plain)])),
]);

/// The spec of a VolumeAttachment.
pub(super) const ATTACHMENT_SPEC: Shape = Shape::Struct(&[
    ("Attacher", "attacher", Shape::Text),
    (
        "Source",
        "source",
        Shape::Struct(&[
            ("PersistentVolumeName", "persistentVolumeName", Shape::Plain),
            ("InlineVolumeSpec", "inlineVolumeSpec", Shape::Pointer(VOLUME_SPEC)),
        ]),
    ),
    ("NodeName", "nodeName", Shape::Text),
]);

/// A pod's claim for devices.
pub(super) const RESOURCE_CLAIM: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("ResourceClaimName", "resourceClaimName", Shape::Plain),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName", Shape::Plain),
]);

const LOCAL_PROFILE: Shape =
    Shape::Pointer(&[("Type", "type", Shape::Text), ("LocalhostProfile", "localhostProfile", Shape::Plain)]);

/// The security context of a container.
pub(super) const SECURITY_CONTEXT: Shape = Shape::Struct(&[
    (
        "Capabilities",
        "capabilities",
        Shape::Pointer(&[("Add", "add", Shape::Plain), ("Drop", "drop", Shape::Plain)]),
    ),
    ("Privileged", "privileged", Shape::Plain),
    (
        "SELinuxOptions",
        "seLinuxOptions",
        Shape::Pointer(&[
            ("User", "user", Shape::Text),
            ("Role", "role", Shape::Text),
            ("Type", "type", Shape::Text),
            ("Level", "level", Shape::Text),
        ]),
    ),
    (
        "WindowsOptions",
        "windowsOptions",
        Shape::Pointer(&[
            ("GMSACredentialSpecName", "gmsaCredentialSpecName", Shape::Plain),
            ("GMSACredentialSpec", "gmsaCredentialSpec", Shape::Plain),
            ("RunAsUserName", "runAsUserName", Shape::Plain),
            ("HostProcess", "hostProcess", Shape::Plain),
        ]),
    ),
    ("RunAsUser", "runAsUser", Shape::Plain),
    ("RunAsGroup", "runAsGroup", Shape::Plain),
    ("RunAsNonRoot", "runAsNonRoot", Shape::Plain),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", Shape::Plain),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", Shape::Plain),
    ("ProcMount", "procMount", Shape::Plain),
    ("SeccompProfile", "seccompProfile", LOCAL_PROFILE),
    ("AppArmorProfile", "appArmorProfile", LOCAL_PROFILE),
]);

const SECRET: Shape =
    Shape::Pointer(&[("Name", "name", Shape::Text), ("Namespace", "namespace", Shape::Text)]);

/// The inline volume spec of an attachment. The only source that is valid there is `csi`, so
/// only that one is described; the others are printed unchanged.
const VOLUME_SPEC: Fields = &[
    ("Capacity", "capacity", Shape::Plain),
    ("GCEPersistentDisk", "gcePersistentDisk", Shape::Plain),
    ("AWSElasticBlockStore", "awsElasticBlockStore", Shape::Plain),
    ("HostPath", "hostPath", Shape::Plain),
    ("Glusterfs", "glusterfs", Shape::Plain),
    ("NFS", "nfs", Shape::Plain),
    ("RBD", "rbd", Shape::Plain),
    ("Quobyte", "quobyte", Shape::Plain),
    ("ISCSI", "iscsi", Shape::Plain),
    ("FlexVolume", "flexVolume", Shape::Plain),
    ("Cinder", "cinder", Shape::Plain),
    ("CephFS", "cephfs", Shape::Plain),
    ("FC", "fc", Shape::Plain),
    ("Flocker", "flocker", Shape::Plain),
    ("AzureFile", "azureFile", Shape::Plain),
    ("VsphereVolume", "vsphereVolume", Shape::Plain),
    ("AzureDisk", "azureDisk", Shape::Plain),
    ("PhotonPersistentDisk", "photonPersistentDisk", Shape::Plain),
    ("PortworxVolume", "portworxVolume", Shape::Plain),
    ("ScaleIO", "scaleIO", Shape::Plain),
    ("Local", "local", Shape::Plain),
    ("StorageOS", "storageos", Shape::Plain),
    (
        "CSI",
        "csi",
        Shape::Pointer(&[
            ("Driver", "driver", Shape::Text),
            ("VolumeHandle", "volumeHandle", Shape::Text),
            ("ReadOnly", "readOnly", Shape::Flag),
            ("FSType", "fsType", Shape::Text),
            ("VolumeAttributes", "volumeAttributes", Shape::Plain),
            ("ControllerPublishSecretRef", "controllerPublishSecretRef", SECRET),
            ("NodeStageSecretRef", "nodeStageSecretRef", SECRET),
            ("NodePublishSecretRef", "nodePublishSecretRef", SECRET),
            ("ControllerExpandSecretRef", "controllerExpandSecretRef", SECRET),
            ("NodeExpandSecretRef", "nodeExpandSecretRef", SECRET),
        ]),
    ),
    ("AccessModes", "accessModes", Shape::Plain),
    ("ClaimRef", "claimRef", Shape::Plain),
    ("PersistentVolumeReclaimPolicy", "persistentVolumeReclaimPolicy", Shape::Text),
    ("StorageClassName", "storageClassName", Shape::Text),
    ("MountOptions", "mountOptions", Shape::Plain),
    ("VolumeMode", "volumeMode", Shape::Plain),
    ("NodeAffinity", "nodeAffinity", VOLUME_NODE_AFFINITY),
    ("VolumeAttributesClassName", "volumeAttributesClassName", Shape::Plain),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structs_print_every_field_in_order() {
        let spec = json!({"nodeName": "n2", "attacher": "a", "source": {"persistentVolumeName": "pv-1"}});
        assert_eq!(
            ATTACHMENT_SPEC.show(Some(&spec)),
            r#"{"Attacher":"a","Source":{"PersistentVolumeName":"pv-1","InlineVolumeSpec":null},"NodeName":"n2"}"#
        );
        let driver = json!({"name": "d", "nodeID": "n", "topologyKeys": null, "allocatable": {"count": 3}});
        assert_eq!(
            CSI_NODE_DRIVER.show(Some(&driver)),
            r#"{"Name":"d","NodeID":"n","TopologyKeys":null,"Allocatable":{"Count":3}}"#
        );
        let affinity = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]}]}});
        assert_eq!(
            VOLUME_NODE_AFFINITY.show(Some(&affinity)),
            r#"{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"z","Operator":"In","Values":["1"]}],"MatchFields":null}]}}"#
        );
        assert_eq!(VOLUME_NODE_AFFINITY.show(None), "null");
    }

    #[test]
    fn inline_volume_spec_is_printed_with_all_fields() {
        let spec = json!({"source": {"inlineVolumeSpec": {"csi": {"driver": "d", "volumeHandle": "h"}}}});
        let shown = ATTACHMENT_SPEC.show(Some(&spec));
        assert!(shown.starts_with(r#"{"Attacher":"","Source":{"PersistentVolumeName":null,"#), "{shown}");
        assert!(shown.contains(r#""CSI":{"Driver":"d","VolumeHandle":"h","ReadOnly":false,"#), "{shown}");
        assert!(shown.contains(r#""StorageClassName":"","MountOptions":null,"VolumeMode":null"#), "{shown}");
    }
}
