//! Tests of the `PersistentVolume` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

fn volume() -> Value {
    json!({"metadata": {"name": "x"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"},
    }})
}

fn spec(patch: Value) -> Value {
    with(&volume(), &json!({"spec": patch}))
}

#[test]
fn missing_fields_are_defaulted() {
    let sent = with(&volume(), &json!({"status": {"phase": "Bound", "message": "m"}}));
    let got = created(&PersistentVolume, &sent);
    let want = json!({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"});
    assert_eq!(got.0["spec"], with(&volume()["spec"], &want));
    assert_eq!(
        got.0["status"],
        json!({"phase": "Pending", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"})
    );
    let own = spec(json!({"persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Block"}));
    assert_eq!(created(&PersistentVolume, &own).0["spec"], own["spec"]);
    let host = json!({"spec": {"hostPath": {"path": "/x"}}});
    assert_eq!(defaulted(&PersistentVolume, &host).at(&["spec", "hostPath", "type"]), Some(&json!("")));
}

#[test]
fn phase_change_sets_the_transition_time() {
    let then = "2025-01-01T00:00:00Z";
    let now = "2026-01-02T03:04:05Z";
    for (case, old, status, want) in [
        (
            "1 as it was",
            json!({"phase": "A", "lastPhaseTransitionTime": then}),
            json!({"phase": "A"}),
            json!(then),
        ),
        (
            "2 another phase",
            json!({"phase": "A", "lastPhaseTransitionTime": then}),
            json!({"phase": "B"}),
            json!(now),
        ),
        (
            "3 another phase, the old time sent back",
            json!({"phase": "A", "lastPhaseTransitionTime": then}),
            json!({"phase": "B", "lastPhaseTransitionTime": then}),
            json!(now),
        ),
        (
            "4 another phase, and the client knows when",
            json!({"phase": "A", "lastPhaseTransitionTime": then}),
            json!({"phase": "B", "lastPhaseTransitionTime": "2025-06-01T00:00:00Z"}),
            json!("2025-06-01T00:00:00Z"),
        ),
        (
            "5 the same phase, there never was a time",
            json!({"phase": "A"}),
            json!({"phase": "A"}),
            json!(null),
        ),
    ] {
        let old = Object::from_value(json!({"status": old}));
        let mut new = Object::from_value(json!({"status": status}));
        PersistentVolume.prepare_status(&mut new, &old, super::super::volume_testing::now());
        assert_eq!(new.at(&PHASE_SINCE).cloned().unwrap_or_default(), want, "{case}");
    }
}

#[test]
fn new_objects_are_validated() {
    const MODES: &str =
        "supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"";
    for (case, patch, want) in [
        ("1 good", json!({}), vec![]),
        (
            "2 empty",
            json!({"capacity": null, "accessModes": null, "csi": null}),
            vec![
                "spec.accessModes: Required value".to_owned(),
                "spec.capacity: Required value".to_owned(),
                "spec.capacity: Unsupported value: null: supported values: \"storage\"".to_owned(),
                "spec: Required value: must specify a volume type".to_owned(),
            ],
        ),
        (
            "3 capacity of something else",
            json!({"capacity": {"storage": null, "cpu": "1"}}),
            vec!["spec.capacity: Unsupported value: {\"cpu\":\"1\"}: supported values: \"storage\"".to_owned()],
        ),
        (
            "4 capacity of two things",
            json!({"capacity": {"iops": "5"}}),
            vec!["spec.capacity: Unsupported value: {\"iops\":\"5\",\"storage\":\"1Gi\"}: supported values: \"storage\"".to_owned()],
        ),
        (
            "5 nothing",
            json!({"capacity": {"storage": "0"}}),
            vec!["spec.capacity[storage]: Invalid value: \"0\": must be greater than zero".to_owned()],
        ),
        (
            "6 less than nothing",
            json!({"capacity": {"storage": "-1Gi"}}),
            vec![
                "spec.capacity[storage]: Invalid value: -1073741824: must be a valid resource quantity".to_owned(),
                "spec.capacity[storage]: Invalid value: \"-1Gi\": must be greater than zero".to_owned(),
            ],
        ),
        ("7 a fraction", json!({"capacity": {"storage": "1500m"}}), vec![]),
        (
            "8 access mode",
            json!({"accessModes": ["Odd"]}),
            vec![format!("spec.accessModes: Unsupported value: \"Odd\": {MODES}")],
        ),
        (
            "9 one pod, and others",
            json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}),
            vec!["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes".to_owned()],
        ),
        (
            "10 policy and mode",
            json!({"persistentVolumeReclaimPolicy": "Keep", "volumeMode": "Raw"}),
            vec![
                "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: \"Delete\", \"Recycle\", \"Retain\"".to_owned(),
                "spec.volumeMode: Unsupported value: \"Raw\": supported values: \"Block\", \"Filesystem\"".to_owned(),
            ],
        ),
        (
            "11 class",
            json!({"storageClassName": "Bad_Class"}),
            vec![format!("spec.storageClassName: Invalid value: \"Bad_Class\": {SUBDOMAIN}")],
        ),
        (
            "12 attributes class, empty",
            json!({"volumeAttributesClassName": ""}),
            vec!["spec.volumeAttributesClassName: Required value: an empty string is disallowed".to_owned()],
        ),
        (
            "13 attributes class, bad, without csi",
            json!({"volumeAttributesClassName": "Bad_", "csi": null, "nfs": {"server": "s", "path": "/"}}),
            vec![
                format!("spec.volumeAttributesClassName: Invalid value: \"Bad_\": {SUBDOMAIN}"),
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName".to_owned(),
            ],
        ),
        (
            "14 nodes, none required",
            json!({"nodeAffinity": {}}),
            vec!["spec.nodeAffinity.required: Required value: must specify required node constraints".to_owned()],
        ),
        (
            "15 nodes, no term",
            json!({"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}),
            vec!["spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term".to_owned()],
        ),
        (
            "16 everything below / recycled",
            json!({"csi": null, "hostPath": {"path": "/./"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            vec!["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'".to_owned()],
        ),
        (
            "17 something below / recycled",
            json!({"csi": null, "hostPath": {"path": "/x"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            vec![],
        ),
    ] {
        check(case, &create_errors(&PersistentVolume, &spec(patch)), &want);
    }
}

#[test]
fn mount_options_annotation_is_validated() {
    let annotated = json!({"metadata": {"annotations": {MOUNT_OPTIONS_ANNOTATION: "ro"}}});
    check(
        "csi takes none",
        &create_errors(&PersistentVolume, &with(&volume(), &annotated)),
        &[
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type",
        ],
    );
    let nfs = spec(json!({"csi": null, "nfs": {"server": "s", "path": "/"}}));
    check("nfs does", &create_errors(&PersistentVolume, &with(&nfs, &annotated)), &[""; 0]);
}

#[test]
fn updates_are_validated() {
    const SOURCE: &str =
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n";
    const AFFINITY: &str = "field is immutable, except for updating from beta label to GA";
    let on = |key: &str| {
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": key, "operator": "In", "values": ["1"]}]}]}}})
    };
    let secret = json!({"csi": {"controllerExpandSecretRef": {"name": "s", "namespace": "n"}}});
    let other_secret = json!({"csi": {"controllerExpandSecretRef": {"name": "t", "namespace": "n"}}});
    for (case, old, new, want) in [
        ("1 the driver", json!({}), json!({"csi": {"driver": "other"}}), vec![SOURCE.to_owned()]),
        ("2 another source", json!({}), json!({"csi": null, "nfs": {"server": "s", "path": "/"}}), vec![SOURCE.to_owned()]),
        ("3 attributes", json!({}), json!({"csi": {"volumeAttributes": {"a": "b"}}}), vec![SOURCE.to_owned()]),
        ("4 a secret for expansion comes", json!({}), secret.clone(), vec![]),
        ("5 and may not go", secret.clone(), json!({}), vec![SOURCE.to_owned()]),
        ("6 nor change", secret, other_secret, vec![SOURCE.to_owned()]),
        (
            "7 mode",
            json!({}),
            json!({"volumeMode": "Block"}),
            vec!["volumeMode: Invalid value: \"Block\": field is immutable".to_owned()],
        ),
        ("8 nodes come", json!({}), on("z"), vec![]),
        ("9 and may not go", on("z"), json!({}), vec![format!("nodeAffinity: Invalid value: null: {AFFINITY}")]),
        (
            "10 nor change",
            on("z"),
            on("y"),
            vec![format!("nodeAffinity: Invalid value: {{\"Required\":{{\"NodeSelectorTerms\":[{{\"MatchExpressions\":[{{\"Key\":\"y\",\"Operator\":\"In\",\"Values\":[\"1\"]}}],\"MatchFields\":null}}]}}}}: {AFFINITY}")],
        ),
        ("11 but labels may get their new names", on("failure-domain.beta.kubernetes.io/zone"), on("topology.kubernetes.io/zone"), vec![]),
        (
            "12 the attributes class goes",
            json!({"volumeAttributesClassName": "a"}),
            json!({}),
            vec!["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden".to_owned()],
        ),
        ("13 the attributes class changes", json!({"volumeAttributesClassName": "a"}), json!({"volumeAttributesClassName": "b"}), vec![]),
        (
            "14 what is free",
            json!({}),
            json!({"capacity": {"storage": "512Mi"}, "accessModes": ["ReadWriteMany"], "persistentVolumeReclaimPolicy": "Delete",
                "mountOptions": ["ro"], "storageClassName": "s2", "claimRef": {"name": "c"}}),
            vec![],
        ),
        (
            "15 the rules of a create count once more",
            json!({}),
            json!({"persistentVolumeReclaimPolicy": "X"}),
            vec!["spec.persistentVolumeReclaimPolicy: Unsupported value: \"X\": supported values: \"Delete\", \"Recycle\", \"Retain\"".to_owned()],
        ),
    ] {
        check(case, &update_errors(&PersistentVolume, &spec(old), &spec(new)), &want);
    }
}

#[test]
fn table_rows_show_spec_and_phase() {
    for (case, volume, want) in [
        (
            "1 new",
            created(&PersistentVolume, &volume()).into_value(),
            json!(["x", "1Gi", "RWO", "Retain", "Pending", "", "", "<unset>", "", "10s", "Filesystem"]),
        ),
        (
            "2 everything",
            json!({
                "metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {BETA_ANNOTATION: "beta"}},
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "volumeMode": "Block",
                    "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "n", "name": "c"},
                    "storageClassName": "sc", "volumeAttributesClassName": "vac",
                },
                "status": {"phase": "Failed", "reason": "why"},
            }),
            json!([
                "x",
                "1Gi",
                "RWO,RWX",
                "Delete",
                "Terminating",
                "n/c",
                "beta",
                "vac",
                "why",
                "10s",
                "Block"
            ]),
        ),
        (
            "3 nothing",
            json!({"metadata": {"name": "x"}}),
            json!(["x", "0", "", "", "", "", "", "<unset>", "", "10s", "<unset>"]),
        ),
    ] {
        assert_eq!(row(&PersistentVolume, &volume), want, "{case}");
    }
}

#[test]
fn selectable_fields_are_readable() {
    let volume = json!({
        "spec": {"storageClassName": "sc", "claimRef": {"namespace": "n", "name": "c"}}, "status": {"phase": "Bound"},
    });
    let want = [
        ("status.phase", "Bound"),
        ("spec.storageClassName", "sc"),
        ("spec.claimRef.name", "c"),
        ("spec.claimRef.namespace", "n"),
    ];
    assert_eq!(fields(&PersistentVolume, &volume), want.map(|(name, value)| (name, value.to_owned())));
    let annotated = with(&volume, &json!({"metadata": {"annotations": {BETA_ANNOTATION: "beta"}}}));
    assert_eq!(fields(&PersistentVolume, &annotated)[1].1, "beta");
}

#[test]
fn deprecated_fields_cause_warnings() {
    let old = spec(json!({
        "csi": null, "rbd": {}, "persistentVolumeReclaimPolicy": "Recycle",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "beta.kubernetes.io/os", "operator": "Exists"}]}]}},
    }));
    let old = with(&old, &json!({"metadata": {"annotations": {BETA_ANNOTATION: "a"}}}));
    check(
        "warnings",
        &warnings(&PersistentVolume, &old),
        &[
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ],
    );
    check("none", &warnings(&PersistentVolume, &volume()), &[""; 0]);
}
