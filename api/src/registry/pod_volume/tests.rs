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

#[test]
fn sources_are_validated() {
    use super::super::testing::causes;

    const INVALID: &str = "FieldValueInvalid";
    const REQUIRED: &str = "FieldValueRequired";
    const FORBIDDEN: &str = "FieldValueForbidden";
    let required = |field: &'static str| vec![(REQUIRED, field, "Required value")];
    let mode = "must be a number between 0 and 0777 (octal), both inclusive";
    let bad_mode = format!("Invalid value: 512: {mode}");
    for (case, source, want) in [
        ("claim", json!({"persistentVolumeClaim": {"claimName": "x"}}), vec![]),
        (
            "claim without a name",
            json!({"persistentVolumeClaim": {"claimName": ""}}),
            required("v[0].persistentVolumeClaim.claimName"),
        ),
        ("secret without a name", json!({"secret": {}}), required("v[0].secret.secretName")),
        (
            "mode",
            json!({"configMap": {"name": "x", "defaultMode": 512}}),
            vec![(INVALID, "v[0].configMap.defaultMode", bad_mode.as_str())],
        ),
        (
            "items",
            json!({"secret": {"secretName": "x", "items": [{"key": "", "path": "../a"}, {"key": "k", "path": "..a"}]}}),
            vec![
                (REQUIRED, "v[0].secret.items[0].key", "Required value"),
                (INVALID, "v[0].secret.items[0].path", "Invalid value: \"../a\": must not contain '..'"),
                (INVALID, "v[0].secret.items[1].path", "Invalid value: \"..a\": must not start with '..'"),
            ],
        ),
        (
            "two sources",
            json!({"emptyDir": {}, "hostPath": {"path": "/x"}, "csi": {"driver": "d"}}),
            vec![
                (FORBIDDEN, "v[0].hostPath", "Forbidden: may not specify more than 1 volume type"),
                (FORBIDDEN, "v[0].csi", "Forbidden: may not specify more than 1 volume type"),
            ],
        ),
        ("host path", json!({"hostPath": {"path": ""}}), required("v[0].hostPath.path")),
        (
            "nfs",
            json!({"nfs": {"server": "s", "path": "p"}}),
            vec![(INVALID, "v[0].nfs.path", "Invalid value: \"p\": must be an absolute path")],
        ),
        (
            "csi",
            json!({"csi": {"driver": "", "nodePublishSecretRef": {"name": ""}}}),
            vec![
                (REQUIRED, "v[0].csi.driver", "Required value"),
                (REQUIRED, "v[0].csi.nodePublishSecretRef.name", "Required value"),
            ],
        ),
        (
            "csi secret",
            json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": ""}}}),
            required("v[0].csi.nodePublishSecretRef.name"),
        ),
        (
            "negative size",
            json!({"emptyDir": {"sizeLimit": "-1"}}),
            vec![(
                FORBIDDEN,
                "v[0].emptyDir.sizeLimit",
                "Forbidden: SizeLimit field must be a valid resource quantity",
            )],
        ),
        (
            "projected files meet",
            json!({"projected": {"sources": [{"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                {"secret": {"name": "b", "items": [{"key": "k", "path": "p"}]}}]}}),
            vec![(INVALID, "v[0].projected", "Invalid value: \"b\": conflicting duplicate paths")],
        ),
        (
            "short token",
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}]}}),
            vec![(
                INVALID,
                "v[0].projected.sources[0].serviceAccountToken.expirationSeconds",
                "Invalid value: 599: may not specify a duration less than 10 minutes",
            )],
        ),
        (
            "two in one projection",
            json!({"projected": {"sources": [{"configMap": {"name": "a"}, "secret": {"name": "b"}}]}}),
            vec![(
                FORBIDDEN,
                "v[0].projected.sources[0]",
                "Forbidden: may not specify more than 1 volume type per source",
            )],
        ),
        (
            "file of nothing",
            json!({"downwardAPI": {"items": [{"path": "p"}]}}),
            vec![(
                REQUIRED,
                "v[0].downwardAPI",
                "Required value: one of fieldRef and resourceFieldRef is required",
            )],
        ),
        (
            "file of a container's resource without the container",
            json!({"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
            required("v[0].downwardAPI.resourceFieldRef.containerName"),
        ),
        ("image", json!({"image": {"reference": ""}}), required("v[0].image.reference")),
        ("ephemeral", json!({"ephemeral": {}}), required("v[0].ephemeral.volumeClaimTemplate")),
        (
            "ephemeral claim with metadata",
            json!({"ephemeral": {"volumeClaimTemplate": {
                "metadata": {"finalizers": ["a/b"], "name": "x", "uid": "u", "labels": {"a": "-"}, "annotations": {"": "v"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}}),
            vec![
                (
                    INVALID,
                    "v[0].ephemeral.volumeClaimTemplate.metadata.annotations",
                    "Invalid value: \"\": name part must be non-empty",
                ),
                (
                    INVALID,
                    "v[0].ephemeral.volumeClaimTemplate.metadata.annotations",
                    "Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ),
                (
                    INVALID,
                    "v[0].ephemeral.volumeClaimTemplate.metadata.labels",
                    "Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                ),
                (FORBIDDEN, "v[0].ephemeral.volumeClaimTemplate.metadata.name", "Forbidden: cannot be set"),
                (FORBIDDEN, "v[0].ephemeral.volumeClaimTemplate.metadata.uID", "Forbidden: cannot be set"),
                (
                    FORBIDDEN,
                    "v[0].ephemeral.volumeClaimTemplate.metadata.finalizers",
                    "Forbidden: cannot be set",
                ),
            ],
        ),
        (
            "ephemeral claim without size",
            json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {}}}}}),
            vec![
                (FORBIDDEN, "v[0].ephemeral.volumeClaimTemplate.metadata.name", "Forbidden: cannot be set"),
                (REQUIRED, "v[0].ephemeral.volumeClaimTemplate.spec.resources[storage]", "Required value"),
            ],
        ),
    ] {
        let mut volume = source;
        volume["name"] = json!("v");
        let mut volumes = [volume];
        defaults(&mut volumes);
        let typed: Vec<api::Volume> =
            volumes.iter().map(|volume| serde_json::from_value(volume.clone()).expect("a volume")).collect();
        let spec = json!({ "volumes": volumes });
        let got = causes(|errors| {
            validate(&spec, &typed, Owner::Pod("p"), &Path::new("v"), errors);
        });
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn volume_names_are_validated() {
    use super::super::testing::causes;

    let volumes: Vec<api::Volume> =
        serde_json::from_value(json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}, {"name": "b.c", "emptyDir": {}}]))
            .expect("volumes");
    let spec = json!({ "volumes": volumes });
    let mut sound = BTreeMap::new();
    let got = causes(|errors| sound = validate(&spec, &volumes, Owner::Template, &Path::new("v"), errors));
    assert_eq!(
        got,
        vec![
            ("FieldValueDuplicate", "v[1].name", "Duplicate value: \"a\""),
            ("FieldValueInvalid", "v[2].name", "Invalid value: \"b.c\": must not contain dots"),
        ]
    );
    assert_eq!(sound.keys().collect::<Vec<_>>(), ["a"].iter().collect::<Vec<_>>());
}
