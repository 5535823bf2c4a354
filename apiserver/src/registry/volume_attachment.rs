//! `VolumeAttachment`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use super::volume_source;
use crate::object::Object;

/// The kind.
pub(super) struct VolumeAttachment;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "VolumeAttachment",
    plural: "volumeattachments",
    singular: "volumeattachment",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.VolumeAttachment",
};

impl Kind for VolumeAttachment {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/volumeattachments/"
    }

    fn policy(&self) -> Policy {
        Policy {
            unconditional_update: false,
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::StatusOnly,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, attachment: &mut Object) {
        // The wire format prints it also when it is false.
        attachment.set_default(&["status", "attached"], false);
        if let Some(Value::Object(spec)) =
            attachment.object_at(&["spec"]).get_mut("source").and_then(|s| s.get_mut("inlineVolumeSpec"))
        {
            volume_source::defaults(spec);
        }
    }

    fn prepare_create(&self, attachment: &mut Object, _now: Timestamp) {
        attachment.set(&["status"], json!({"attached": false}));
    }

    fn extra_selectable(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.attacher", "spec.source.persistentVolumeName"]
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            Column { format: "name", ..cells::text("Attacher", "Driver that attaches the volume.") },
            cells::text("PV", "Volume that is attached; empty when it stands in the object itself."),
            cells::text("Node", "Node that the volume is attached to."),
            cells::typed("Attached", "boolean", "Whether the volume is attached."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, attachment: &Object, now: Timestamp) -> Vec<Value> {
        vec![
            cells::name(attachment),
            attachment.str_at(&["spec", "attacher"]).into(),
            attachment.str_at(&["spec", "source", "persistentVolumeName"]).into(),
            attachment.str_at(&["spec", "nodeName"]).into(),
            attachment.at(&["status", "attached"]).and_then(Value::as_bool).unwrap_or_default().into(),
            cells::age(attachment, now),
        ]
    }
}
