//! Tests of the `PersistentVolumeClaim` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

fn claim() -> Value {
    json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "sc",
    }})
}

fn spec(patch: Value) -> Value {
    with(&claim(), &json!({"spec": patch}))
}

fn annotated(claim: &Value, class: &str) -> Value {
    with(claim, &json!({"metadata": {"annotations": {BETA_ANNOTATION: class}}}))
}

#[test]
fn missing_fields_are_defaulted() {
    let sent = with(&claim(), &json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}));
    let got = created(&PersistentVolumeClaim, &sent);
    assert_eq!(got.0["spec"], with(&claim()["spec"], &json!({"volumeMode": "Filesystem"})));
    assert_eq!(got.0["status"], json!({"phase": "Pending"}));
    let block = spec(json!({"volumeMode": "Block"}));
    assert_eq!(created(&PersistentVolumeClaim, &block).0["spec"], block["spec"]);
    let empty = defaulted(&PersistentVolumeClaim, &json!({}));
    let want = json!({"spec": {"volumeMode": "Filesystem", "resources": {}}, "status": {"phase": "Pending"}});
    assert_eq!(empty.into_value(), want);
}

#[test]
fn data_source_and_data_source_ref_are_synchronized() {
    let claim_source = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "src"});
    let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "src"});
    let foo = json!({"apiGroup": "example.com", "kind": "Foo", "name": "src"});
    let elsewhere = with(&foo, &json!({"namespace": "n"}));
    let none = Value::Null;
    for (case, old, sent, want) in [
        ("1 a claim", None, (&claim_source, &none), (&claim_source, &claim_source)),
        ("2 a snapshot", None, (&snapshot, &none), (&snapshot, &snapshot)),
        ("3 what the old field never took", None, (&foo, &none), (&none, &none)),
        ("4 the new field takes it", None, (&none, &foo), (&foo, &foo)),
        ("5 both", None, (&claim_source, &snapshot), (&claim_source, &snapshot)),
        ("6 from another namespace", None, (&none, &elsewhere), (&none, &none)),
        ("7 an old client's update keeps the source", Some((&foo, &foo)), (&foo, &none), (&foo, &foo)),
        ("8 an update of a claim without one", Some((&none, &none)), (&foo, &none), (&none, &none)),
    ] {
        let build = |(source, source_ref): (&Value, &Value)| {
            let patch = json!({"spec": {"dataSource": source, "dataSourceRef": source_ref}});
            // Merged manually: the `null` in a source is one of those that the wire format requires.
            let mut claim = Object::from_value(claim());
            for field in ["dataSource", "dataSourceRef"] {
                if patch["spec"][field].is_object() {
                    claim.set(&["spec", field], patch["spec"][field].clone());
                }
            }
            claim
        };
        let mut got = build(sent);
        match old {
            None => PersistentVolumeClaim.prepare_create(&mut got, now()),
            Some(old) => PersistentVolumeClaim.prepare_update(&mut got, &build(old), now()),
        }
        let part = |field: &str| got.at(&["spec", field]).cloned().unwrap_or_default();
        assert_eq!((&part("dataSource"), &part("dataSourceRef")), want, "{case}");
    }
}

#[test]
fn new_objects_are_validated() {
    const MODES: &str =
        "supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"";
    const NOT_A_CLAIM: &str = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    for (case, patch, want) in [
        ("1 good", json!({}), vec![]),
        (
            "2 empty",
            json!({"accessModes": null, "resources": null}),
            vec![
                "spec.accessModes: Required value: at least 1 access mode is required".to_owned(),
                "spec.resources[storage]: Required value".to_owned(),
            ],
        ),
        ("3 access mode", json!({"accessModes": ["RWO"]}), vec![format!("spec.accessModes: Unsupported value: \"RWO\": {MODES}")]),
        (
            "4 one pod, and others",
            json!({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}),
            vec!["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes".to_owned()],
        ),
        (
            "5 nothing",
            json!({"resources": {"requests": {"storage": "0"}}}),
            vec!["spec.resources[storage]: Invalid value: \"0\": must be greater than zero".to_owned()],
        ),
        (
            "6 less than nothing",
            json!({"resources": {"requests": {"storage": "-5Gi"}}}),
            vec!["spec.resources[storage]: Invalid value: \"-5Gi\": must be greater than zero".to_owned()],
        ),
        ("7 a fraction", json!({"resources": {"requests": {"storage": "1500m"}}}), vec![]),
        (
            "8 class, mode, attributes class",
            json!({"storageClassName": "Bad Class", "volumeMode": "Disk", "volumeAttributesClassName": "No_"}),
            vec![
                format!("spec.storageClassName: Invalid value: \"Bad Class\": {SUBDOMAIN}"),
                "spec.volumeMode: Unsupported value: \"Disk\": supported values: \"Block\", \"Filesystem\"".to_owned(),
                format!("spec.volumeAttributesClassName: Invalid value: \"No_\": {SUBDOMAIN}"),
            ],
        ),
        ("9 empty classes", json!({"storageClassName": "", "volumeAttributesClassName": ""}), vec![]),
        (
            "10 selector",
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}),
            vec!["spec.selector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator".to_owned()],
        ),
        (
            "11 source without a name",
            json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": ""}}),
            vec!["spec.dataSource.name: Required value".to_owned(), "spec.dataSourceRef.name: Required value".to_owned()],
        ),
        (
            "12 source without a kind",
            json!({"dataSourceRef": {"kind": "", "name": "x"}}),
            vec![
                "spec.dataSource.kind: Required value".to_owned(),
                format!("spec.dataSource: Invalid value: \"\": {NOT_A_CLAIM}"),
                "spec.dataSourceRef.kind: Required value".to_owned(),
                format!("spec.dataSourceRef: Invalid value: \"\": {NOT_A_CLAIM}"),
            ],
        ),
        (
            "13 sources that differ",
            json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "y"}}),
            vec!["spec: Invalid value: {}: must match dataSourceRef".to_owned()],
        ),
        (
            "14 bad group",
            json!({"dataSourceRef": {"kind": "A", "name": "x", "apiGroup": "Bad_Group"}}),
            vec![
                format!("spec.dataSource.apiGroup: Invalid value: \"Bad_Group\": {SUBDOMAIN}"),
                format!("spec.dataSourceRef.apiGroup: Invalid value: \"Bad_Group\": {SUBDOMAIN}"),
            ],
        ),
    ] {
        check(case, &create_errors(&PersistentVolumeClaim, &spec(patch)), &want);
    }
}

const FIXED: &str = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";

#[test]
fn updates_are_validated() {
    let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    for (case, old, new, want) in [
        ("1 nothing", json!({}), json!({}), vec![]),
        ("2 the same size in other words", json!({}), size("2048Mi"), vec![]),
        ("3 access modes", json!({}), json!({"accessModes": ["ReadOnlyMany"]}), vec![FIXED]),
        ("4 a volume comes", json!({}), json!({"volumeName": "v"}), vec![]),
        ("5 and stays", json!({"volumeName": "v"}), json!({"volumeName": "w"}), vec![FIXED]),
        ("6 the class", json!({}), json!({"storageClassName": "other"}), vec![FIXED]),
        (
            "7 a class comes later",
            json!({"storageClassName": null}),
            json!({"storageClassName": "sc"}),
            vec![],
        ),
        (
            "8 no class comes later",
            json!({"storageClassName": null}),
            json!({"storageClassName": ""}),
            vec![],
        ),
        ("9 the class goes", json!({}), json!({"storageClassName": null}), vec![FIXED]),
        ("10 an unbound claim grows", json!({}), size("3Gi"), vec![FIXED]),
        (
            "11 attributes class of an unbound claim",
            json!({}),
            json!({"volumeAttributesClassName": "a"}),
            vec![FIXED],
        ),
        (
            "12 mode",
            json!({}),
            json!({"volumeMode": "Block"}),
            vec![FIXED, "volumeMode: Invalid value: \"Block\": field is immutable"],
        ),
        ("13 limits", json!({}), json!({"resources": {"limits": {"storage": "9Gi"}}}), vec![FIXED]),
    ] {
        check(case, &update_errors(&PersistentVolumeClaim, &spec(old), &spec(new)), &want);
    }
}

#[test]
fn updates_of_bound_claims_are_validated() {
    const SMALL: &str =
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
    let in_force = |what: &str| {
        format!(
            "spec.volumeAttributesClassName: Forbidden: update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        )
    };
    let bound = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    let with_class = json!({"phase": "Bound", "currentVolumeAttributesClassName": "a"});
    let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    let a = json!({"volumeAttributesClassName": "a"});
    for (case, status, old, new, want) in [
        ("1 grows", &bound, json!({}), size("3Gi"), vec![]),
        ("2 shrinks, but has less", &bound, json!({}), size("1500Mi"), vec![]),
        ("3 shrinks to what it has", &bound, json!({}), size("1Gi"), vec![SMALL.to_owned()]),
        ("4 shrinks below", &bound, json!({}), size("512Mi"), vec![SMALL.to_owned()]),
        ("5 shrinks, and has nothing yet", &with_class, json!({}), size("1Gi"), vec![]),
        ("6 attributes class comes", &bound, json!({}), a.clone(), vec![]),
        ("7 and changes", &with_class, a.clone(), json!({"volumeAttributesClassName": "b"}), vec![]),
        ("8 but does not go", &with_class, a.clone(), json!({}), vec![FIXED.to_owned(), in_force("nil")]),
        (
            "9 nor become empty",
            &with_class,
            a,
            json!({"volumeAttributesClassName": ""}),
            vec![in_force("empty string")],
        ),
        (
            "10 access modes",
            &bound,
            json!({}),
            json!({"accessModes": ["ReadOnlyMany"]}),
            vec![FIXED.to_owned()],
        ),
    ] {
        let stored = with(&spec(old), &json!({"status": status}));
        check(case, &update_errors(&PersistentVolumeClaim, &stored, &spec(new)), &want);
    }
}

#[test]
fn storage_class_annotation_may_move_to_the_field() {
    const KEY: &str = "metadata.annotations.volume.beta.kubernetes.io/storage-class";
    let no_field = spec(json!({"storageClassName": null}));
    let old = annotated(&no_field, "sc");
    for (case, new, want) in [
        ("1 it moves to the field", claim(), vec![]),
        ("2 it is in both", annotated(&claim(), "sc"), vec![]),
        (
            "3 it changes",
            annotated(&no_field, "x"),
            vec![format!("{KEY}: Invalid value: \"x\": field is immutable")],
        ),
        ("4 it goes", no_field.clone(), vec![format!("{KEY}: Invalid value: \"\": field is immutable")]),
        (
            "5 another one moves to the field",
            spec(json!({"storageClassName": "x"})),
            vec![format!("{KEY}: Invalid value: \"\": field is immutable"), FIXED.to_owned()],
        ),
    ] {
        check(case, &update_errors(&PersistentVolumeClaim, &old, &new), &want);
    }
}

#[test]
fn status_updates_are_validated() {
    const STATES: &str = "supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"";
    for (case, status, want) in [
        ("1 good", json!({"phase": "Nonsense", "capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "1Gi", "example.com/x": "1"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"}}), vec![]),
        ("2 capacity", json!({"capacity": {"storage": "-1"}}), vec!["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity".to_owned()]),
        (
            "3 allocated",
            json!({"allocatedResources": {"storage": "-1Gi"}}),
            vec!["status.allocatedResources[storage]: Invalid value: -1073741824: must be a valid resource quantity".to_owned()],
        ),
        (
            "4 allocated of something else",
            json!({"allocatedResources": {"cpu": "-1"}}),
            vec!["status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"".to_owned()],
        ),
        (
            "5 state",
            json!({"allocatedResourceStatuses": {"storage": "Odd"}}),
            vec![format!("status.allocatedResourceStatuses: Unsupported value: \"storage\": {STATES}")],
        ),
        (
            "6 state of something else",
            json!({"allocatedResourceStatuses": {"cpu": "NodeResizePending", "kubernetes.io/x": "NodeResizePending"}}),
            vec![
                "status.allocatedResourceStatuses: Unsupported value: \"cpu\": supported values: \"storage\"".to_owned(),
                "status.allocatedResourceStatuses: Unsupported value: \"kubernetes.io/x\": supported values: \"storage\"".to_owned(),
            ],
        ),
    ] {
        check(case, &status_errors(&PersistentVolumeClaim, &claim(), &status), &want);
    }
}

#[test]
fn table_rows_show_spec_and_phase() {
    for (case, claim, want) in [
        (
            "1 new",
            created(&PersistentVolumeClaim, &claim()).into_value(),
            json!(["c", "Pending", "", "", "", "sc", "<unset>", "10s", "Filesystem"]),
        ),
        (
            "2 waits for its volume",
            spec(json!({"volumeName": "v", "volumeMode": "Block"})),
            json!(["c", "", "v", "0", "", "sc", "<unset>", "10s", "Block"]),
        ),
        (
            "3 bound, and being deleted",
            with(
                &annotated(&spec(json!({"volumeName": "v", "volumeAttributesClassName": "a"})), "beta"),
                &json!({
                    "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                    "status": {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"]},
                }),
            ),
            json!(["c", "Terminating", "v", "5Gi", "RWO,ROX", "beta", "a", "10s", "<unset>"]),
        ),
    ] {
        assert_eq!(row(&PersistentVolumeClaim, &claim), want, "{case}");
    }
}

#[test]
fn selectable_fields_are_readable() {
    let claim = with(&spec(json!({"volumeName": "v"})), &json!({"status": {"phase": "Bound"}}));
    let want = [("status.phase", "Bound"), ("spec.volumeName", "v"), ("spec.storageClassName", "sc")];
    assert_eq!(fields(&PersistentVolumeClaim, &claim), want.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(fields(&PersistentVolumeClaim, &annotated(&claim, "beta"))[2].1, "beta");
}

#[test]
fn deprecated_and_fractional_values_cause_warnings() {
    let odd = spec(json!({"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "2500m"}}}));
    check(
        "warnings",
        &warnings(&PersistentVolumeClaim, &annotated(&odd, "x")),
        &[
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
            "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            "spec.resources.limits[storage]: fractional byte value \"2500m\" is invalid, must be an integer",
        ],
    );
    check("none", &warnings(&PersistentVolumeClaim, &claim()), &[""; 0]);
}
