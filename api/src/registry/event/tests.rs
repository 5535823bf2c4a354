use serde_json::json;

use super::super::testing::{causes, kind_now, object};
use super::*;

const PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn namespace_and_reporting_controller_are_validated() {
    let differs = |value: &str| format!("Invalid value: {value:?}: does not match event.namespace");
    let (none, zz) = (differs(""), differs("zz"));
    let namespace = |text| vec![("FieldValueInvalid", "involvedObject.namespace", text)];
    let part = format!("Invalid value: \"\": {PART}");
    for (case, body, want) in [
        ("same", json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "n"}}), vec![]),
        (
            "other",
            json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "zz"}}),
            namespace(zz.as_str()),
        ),
        ("none", json!({"metadata": {"namespace": "n"}}), namespace(none.as_str())),
        ("none in default", json!({"metadata": {"namespace": "default"}}), vec![]),
        ("none in kube-system", json!({"metadata": {"namespace": "kube-system"}}), namespace(none.as_str())),
        (
            "with a time, none in kube-system, bare",
            json!({"metadata": {"namespace": "kube-system"}, "eventTime": "2026-01-01T00:00:00.000000Z"}),
            vec![
                ("FieldValueRequired", "reportingComponent", "Required value"),
                (
                    "FieldValueInvalid",
                    "reportingComponent",
                    "Invalid value: \"\": name part must be non-empty",
                ),
                ("FieldValueInvalid", "reportingComponent", part.as_str()),
                ("FieldValueRequired", "reportingInstance", "Required value"),
                ("FieldValueRequired", "action", "Required value"),
                ("FieldValueRequired", "reason", "Required value"),
            ],
        ),
        (
            "too long",
            json!({"metadata": {"namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingComponent": "example.com/x", "reportingInstance": "i".repeat(129), "action": "a",
                "reason": "r", "message": "m".repeat(1025)}),
            vec![
                (
                    "FieldValueInvalid",
                    "reportingInstance",
                    "Invalid value: \"\": can have at most 128 characters",
                ),
                ("FieldValueInvalid", "message", "Invalid value: \"\": can have at most 1024 characters"),
            ],
        ),
    ] {
        assert_eq!(causes(|errors| Event.validate(&object(body), errors)), want, "{case}");
    }
}

#[test]
fn selectable_fields_are_readable() {
    let event = object(json!({
        "involvedObject": {"kind": "Pod", "fieldPath": "spec.containers{c}"},
        "reportingComponent": "example.com/c", "type": "Normal",
    }));
    for (name, want) in [
        ("involvedObject.kind", "Pod"),
        ("involvedObject.fieldPath", "spec.containers{c}"),
        ("involvedObject.uid", ""),
        ("source", "example.com/c"),
        ("reportingComponent", "example.com/c"),
        ("type", "Normal"),
    ] {
        assert!(Event.selectable().contains(&name), "{name}");
        assert_eq!(Event.field(&event, name), want, "{name}");
    }
    let old = object(json!({"source": {"component": "kubelet"}, "reportingComponent": "x"}));
    assert_eq!(Event.field(&old, "source"), "kubelet");
}

#[test]
fn table_rows_show_count_and_age() {
    for (case, body, want) in [
        (
            "recorder",
            json!({
                "metadata": {"name": "t"}, "type": "Warning", "reason": "R",
                "involvedObject": {"kind": "PersistentVolumeClaim", "name": "a", "fieldPath": "f"},
                "source": {"component": "kubelet", "host": "h"}, "message": "m \n", "count": 5,
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:50Z",
                "eventTime": null,
            }),
            json!(["10s", "Warning", "R", "persistentvolumeclaim/a", "f", "kubelet, h", "m", "60s", 5, "t"]),
        ),
        (
            "with a time",
            json!({
                "metadata": {"name": "t"}, "eventTime": "2026-01-01T00:00:00.000000Z",
                "involvedObject": {"kind": "Pod"}, "reportingComponent": "c/x", "reportingInstance": "i",
            }),
            json!(["60s", "", "", "pod", "", "c/x, i", "", "60s", 1, "t"]),
        ),
        (
            "series",
            json!({
                "metadata": {"name": "t"}, "eventTime": "2026-01-01T00:00:00.000000Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-01T00:00:30.000000Z"},
            }),
            json!(["30s", "", "", "", "", "", "", "60s", 7, "t"]),
        ),
        ("empty", json!({}), json!(["<unknown>", "", "", "", "", "", "", "<unknown>", 1, ""])),
    ] {
        assert_eq!(json!(Event.cells(&object(body), kind_now())), want, "{case}");
    }
}
