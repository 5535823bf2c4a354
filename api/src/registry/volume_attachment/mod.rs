//! The `VolumeAttachment` kind.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::go_format::ATTACHMENT_SPEC;
use super::persistent_volume::spec;
use super::volume_rules::{IMMUTABLE, driver_name, entries, given, size, subdomain, text};
use super::volume_source;
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `VolumeAttachment` kind.
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

const VOLUME: &str = "persistentVolumeName";
const INLINE: &str = "inlineVolumeSpec";

/// The maximum size of the driver's attachment metadata, in bytes.
const METADATA_SIZE: usize = 256 * 1024;
/// The maximum length of an error message, in bytes. Upstream's message names the other limit.
const MESSAGE_SIZE: usize = 1024;

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
        // The wire format includes the field even if it is false.
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

    fn validate(&self, attachment: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let spec = attachment.at(&["spec"]).unwrap_or(&Value::Null);
        let source = given(spec, "source").unwrap_or(&Value::Null);
        driver_name(&path.child("attacher"), text(spec, "attacher"), errors);
        validate_source(source, &path.child("source"), errors);
        subdomain(&path.child("nodeName"), text(spec, "nodeName"), errors);
        status(attachment, errors);
        // Upstream validates the name of the volume last.
        if let Some(volume) = given(source, VOLUME).and_then(Value::as_str) {
            subdomain(&path.child("source").child(VOLUME), volume, errors);
        }
    }

    fn validate_update(&self, attachment: &Object, old: &Object, errors: &mut FieldErrors) {
        let spec = attachment.at(&["spec"]);
        if spec != old.at(&["spec"]) {
            errors.invalid_shown(&Path::new("spec"), &ATTACHMENT_SPEC.show(spec), IMMUTABLE);
        }
    }

    fn validate_status(&self, attachment: &Object, _old: &Object, errors: &mut FieldErrors) {
        status(attachment, errors);
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

fn validate_source(source: &Value, path: &Path, errors: &mut FieldErrors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (given(source, INLINE), given(source, VOLUME)) {
        (None, None) => errors.required(path, ONE),
        (Some(_), Some(_)) => errors.forbidden(path, ONE),
        (None, Some(volume)) if volume == "" => {
            errors.required(&path.child(VOLUME), "must specify non empty persistentVolumeName");
        }
        (None, Some(_)) => {}
        (Some(inline), None) => spec::validate_inline(inline, &path.child(INLINE), errors),
    }
}

fn status(attachment: &Object, errors: &mut FieldErrors) {
    let path = Path::new("status");
    let status = attachment.at(&["status"]).unwrap_or(&Value::Null);
    if size(entries(status, "attachmentMetadata")) > METADATA_SIZE {
        errors.too_long(&path.child("attachmentMetadata"), METADATA_SIZE);
    }
    for field in ["attachError", "detachError"] {
        let Some(error) = given(status, field) else { continue };
        let path = path.child(field);
        if text(error, "message").len() > MESSAGE_SIZE {
            errors.too_long(&path.child("message"), METADATA_SIZE);
        }
        if let Some(code) = error.get("errorCode").and_then(Value::as_i64).filter(|code| *code < 0) {
            errors.invalid(&path.child("errorCode"), code, "must be between 0 and 2147483647, inclusive");
        }
    }
}
