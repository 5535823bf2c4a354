use super::*;

#[test]
fn source_defaults_are_filled_in() {
    for (case, given, want) in [
        ("none", json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})),
        (
            "configMap",
            json!({"configMap": {"name": "x"}}),
            json!({"configMap": {"name": "x", "defaultMode": 420}}),
        ),
        ("secret", json!({"secret": {"defaultMode": 0}}), json!({"secret": {"defaultMode": 0}})),
        ("hostPath", json!({"hostPath": {"path": "/x"}}), json!({"hostPath": {"path": "/x", "type": ""}})),
        (
            "hostPath with a type",
            json!({"hostPath": {"path": "/x", "type": "File"}}),
            json!({"hostPath": {"path": "/x", "type": "File"}}),
        ),
        (
            "downwardAPI",
            json!({"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
            json!({"downwardAPI": {"items": [{"path": "l", "fieldRef": {
                "apiVersion": "v1", "fieldPath": "metadata.labels"}}], "defaultMode": 420}}),
        ),
        (
            "projected",
            json!({"projected": {"sources": [{"configMap": {"name": "x"}}, {"serviceAccountToken": {"path": "t"}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}),
            json!({"projected": {"sources": [{"configMap": {"name": "x"}},
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {
                    "apiVersion": "v1", "fieldPath": "metadata.name"}}]}}], "defaultMode": 420}}),
        ),
        ("iscsi", json!({"iscsi": {"lun": 0}}), json!({"iscsi": {"lun": 0, "iscsiInterface": "default"}})),
        (
            "rbd",
            json!({"rbd": {"image": "i"}}),
            json!({"rbd": {"image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}}),
        ),
        (
            "azureDisk",
            json!({"azureDisk": {"diskName": "d"}}),
            json!({"azureDisk": {"diskName": "d", "cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4",
                "readOnly": false}}),
        ),
        (
            "scaleIO",
            json!({"scaleIO": {"system": "s"}}),
            json!({"scaleIO": {"system": "s", "storageMode": "ThinProvisioned", "fsType": "xfs"}}),
        ),
        (
            "image",
            json!({"image": {"reference": "example.com/x:latest"}}),
            json!({"image": {"reference": "example.com/x:latest", "pullPolicy": "Always"}}),
        ),
        (
            "ephemeral",
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}),
            json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}}}}),
        ),
        (
            "claim",
            json!({"persistentVolumeClaim": {"claimName": "x"}}),
            json!({"persistentVolumeClaim": {"claimName": "x"}}),
        ),
    ] {
        let mut volumes = [given];
        defaults(&mut volumes);
        assert_eq!(volumes, [want], "{case}");
    }
}
