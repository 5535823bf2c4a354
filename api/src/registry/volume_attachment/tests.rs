//! Tests of the `VolumeAttachment` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

fn attachment() -> Value {
    json!({"metadata": {"name": "x"}, "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}})
}

#[test]
fn status_is_reset_on_create() {
    let sent = with(&attachment(), &json!({"status": {"attached": true, "attachmentMetadata": {"a": "b"}}}));
    assert_eq!(created(&VolumeAttachment, &sent).0["status"], json!({"attached": false}));
    assert_eq!(defaulted(&VolumeAttachment, &attachment()).0["status"], json!({"attached": false}));
    assert_eq!(defaulted(&VolumeAttachment, &sent).0["status"], sent["status"]);
}

#[test]
fn new_attachments_are_validated() {
    let source = |source: Value| json!({"spec": {"source": source}});
    let inline = |spec: Value| source(json!({"persistentVolumeName": null, "inlineVolumeSpec": spec}));
    let csi = json!({"driver": "d", "volumeHandle": "h"});
    let long = "d".repeat(64);
    for (case, patch, want) in [
        ("1 good", json!({}), vec![]),
        (
            "2 no attacher",
            json!({"spec": {"attacher": ""}}),
            vec![
                "spec.attacher: Required value".to_owned(),
            ],
        ),
        (
            "3 a long attacher",
            json!({"spec": {"attacher": long}}),
            vec!["spec.attacher: Too long: may not be more than 63 bytes".to_owned()],
        ),
        (
            "4 no source",
            source(json!(null)),
            vec!["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName".to_owned()],
        ),
        (
            "5 two sources",
            source(json!({"inlineVolumeSpec": {}})),
            vec!["spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName".to_owned()],
        ),
        (
            "6 a volume without a name",
            source(json!({"persistentVolumeName": ""})),
            vec![
                "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName".to_owned(),
                format!("spec.source.persistentVolumeName: Invalid value: \"\": {SUBDOMAIN}"),
            ],
        ),
        (
            "7 no node",
            json!({"spec": {"nodeName": null}}),
            vec![format!("spec.nodeName: Invalid value: \"\": {SUBDOMAIN}")],
        ),
        ("8 inline", inline(json!({"accessModes": ["ReadWriteOnce"], "csi": csi})), vec![]),
        (
            "9 inline, and all that may not be there",
            inline(json!({
                "claimRef": {"name": "c"}, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"},
                "persistentVolumeReclaimPolicy": "Delete", "nodeAffinity": {}, "storageClassName": "s", "volumeMode": "Block",
            })),
            vec![
                "spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline volumes".to_owned(),
                "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes".to_owned(),
                "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes".to_owned(),
                "spec.source.inlineVolumeSpec.accessModes: Required value".to_owned(),
                "spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes".to_owned(),
                "spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: may not be specified in the context of inline volumes".to_owned(),
                "spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes".to_owned(),
                "spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes".to_owned(),
            ],
        ),
    ] {
        check(case, &create_errors(&VolumeAttachment, &with(&attachment(), &patch)), &want);
    }
}

#[test]
fn spec_is_immutable() {
    for (case, patch, want) in [
        ("1 metadata", json!({"metadata": {"labels": {"a": "b"}}}), vec![]),
        (
            "2 the node",
            json!({"spec": {"nodeName": "n2"}}),
            vec![
                "spec: Invalid value: {\"Attacher\":\"d\",\"Source\":{\"PersistentVolumeName\":\"pv\",\"InlineVolumeSpec\":null},\"NodeName\":\"n2\"}: field is immutable",
            ],
        ),
    ] {
        check(case, &update_errors(&VolumeAttachment, &attachment(), &with(&attachment(), &patch)), &want);
    }
}

#[test]
fn statuses_are_validated() {
    for (case, status, want) in [
        (
            "1 good",
            json!({"attached": true, "attachmentMetadata": {"a": "b"}, "attachError": {"message": "m", "errorCode": 7}}),
            vec![],
        ),
        (
            "2 large metadata",
            json!({"attachmentMetadata": {"a": "x".repeat(262_144)}}),
            vec!["status.attachmentMetadata: Too long: may not be more than 262144 bytes"],
        ),
        (
            "3 errors",
            json!({"attachError": {"message": "x".repeat(1025)}, "detachError": {"message": "x".repeat(1024), "errorCode": -1}}),
            vec![
                "status.attachError.message: Too long: may not be more than 262144 bytes",
                "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
    ] {
        check(case, &status_errors(&VolumeAttachment, &attachment(), &status), &want);
    }
}

#[test]
fn table_rows_and_selectable_fields_are_readable() {
    assert_eq!(row(&VolumeAttachment, &attachment()), json!(["x", "d", "pv", "n", false, "10s"]));
    let inline = json!({"metadata": {"name": "x"}, "spec": {"source": {"inlineVolumeSpec": {}}}, "status": {"attached": true}});
    assert_eq!(row(&VolumeAttachment, &inline), json!(["x", "", "", "", true, "10s"]));
    let fields = fields(&VolumeAttachment, &attachment());
    let want = [("spec.nodeName", "n"), ("spec.attacher", "d"), ("spec.source.persistentVolumeName", "pv")];
    assert_eq!(fields, want.map(|(name, value)| (name, value.to_owned())));
}
