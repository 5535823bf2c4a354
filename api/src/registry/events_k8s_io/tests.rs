use super::super::testing::{causes, kind_now, object};
use super::*;

fn event() -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/golden", "reportingInstance": "golden-1", "action": "Testing",
        "reason": "Golden", "note": "hello", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "n", "name": "a"},
        "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
    })
}

fn with(changes: Value) -> Object {
    let mut event = event();
    for (key, value) in changes.as_object().expect("an object") {
        event[key] = value.clone();
    }
    object(event)
}

#[test]
fn conversion_round_trips() {
    let stored = json!({
        "metadata": {"name": "a", "namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "example.com/golden", "reportingInstance": "golden-1", "action": "Testing",
        "reason": "Golden", "message": "hello", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "n", "name": "a"},
        "source": {}, "firstTimestamp": null, "lastTimestamp": null,
    });
    assert_eq!(Event.to_stored(object(event())).into_value(), stored);
    assert_eq!(Event.to_shown(object(stored)).into_value(), event());

    let old = json!({
        "metadata": {"name": "a"}, "involvedObject": {}, "source": {"component": "golden"}, "count": 1,
        "firstTimestamp": "2024-01-02T03:04:05Z", "lastTimestamp": "2024-01-02T03:04:05Z",
        "eventTime": null, "reportingComponent": "", "reportingInstance": "",
    });
    let view = json!({
        "metadata": {"name": "a"}, "regarding": {}, "deprecatedSource": {"component": "golden"},
        "deprecatedCount": 1, "deprecatedFirstTimestamp": "2024-01-02T03:04:05Z",
        "deprecatedLastTimestamp": "2024-01-02T03:04:05Z", "eventTime": null,
    });
    assert_eq!(Event.to_shown(object(old.clone())).into_value(), view);
    assert_eq!(Event.to_stored(object(view)).into_value(), old);
}

#[test]
fn new_events_are_validated() {
    let unset = "Invalid value: \"\": needs to be unset";
    for (case, changes, want) in [
        ("fine", json!({}), vec![]),
        ("no time", json!({"eventTime": null}), vec![("FieldValueRequired", "eventTime", "Required value")]),
        (
            "no controller",
            json!({"reportingController": "", "eventTime": "2026-01-01T00:00:00.000000Z"}),
            vec![
                ("FieldValueRequired", "reportingController", "Required value"),
                (
                    "FieldValueInvalid",
                    "reportingController",
                    "Invalid value: \"\": name part must be non-empty",
                ),
                (
                    "FieldValueInvalid",
                    "reportingController",
                    "Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ),
            ],
        ),
        ("no reason", json!({"reason": ""}), vec![("FieldValueRequired", "reason", "Required value")]),
        (
            "type",
            json!({"type": "Odd"}),
            vec![("FieldValueInvalid", "type", "Invalid value: \"\": has invalid value: Odd")],
        ),
        (
            "note too long",
            json!({"note": "x".repeat(1025)}),
            vec![("FieldValueInvalid", "message", "Invalid value: \"\": can have at most 1024 characters")],
        ),
        ("count", json!({"deprecatedCount": 3}), vec![("FieldValueInvalid", "count", unset)]),
        (
            "source and times",
            json!({"deprecatedSource": {"host": "h"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": "2026-01-01T00:00:00Z"}),
            vec![
                ("FieldValueInvalid", "firstTimestamp", unset),
                ("FieldValueInvalid", "lastTimestamp", unset),
                ("FieldValueInvalid", "source", unset),
            ],
        ),
        (
            "series",
            json!({"series": {"count": 1, "lastObservedTime": null}}),
            vec![
                ("FieldValueInvalid", "series.count", "Invalid value: \"\": should be at least 2"),
                ("FieldValueRequired", "series.lastObservedTime", "Required value"),
            ],
        ),
    ] {
        let event = with(changes);
        let got = causes(|errors| {
            Event.validate(&event, errors);
            Event.validate_create(&event, errors);
        });
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn updates_are_validated() {
    let reason = ("FieldValueInvalid", "reason", "Invalid value: \"Other\": field is immutable");
    for (case, changes, want) in [
        (
            "series",
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}),
            vec![],
        ),
        (
            "series count",
            json!({"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}),
            vec![("FieldValueInvalid", "series.count", "Invalid value: \"\": should be at least 2")],
        ),
        (
            "note",
            json!({"note": "other"}),
            vec![("FieldValueInvalid", "message", "Invalid value: \"other\": field is immutable")],
        ),
        ("reason", json!({"reason": "Other"}), vec![reason, reason]),
        (
            "controller",
            json!({"reportingController": "b"}),
            vec![("FieldValueInvalid", "reportingController", "Invalid value: \"b\": field is immutable")],
        ),
        ("labels", json!({"metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}}}), vec![]),
    ] {
        let got = causes(|errors| Event.validate_update(&with(changes), &object(event()), errors));
        assert_eq!(got, want, "{case}");
    }
    let moved = with(json!({"regarding": {"kind": "Pod", "namespace": "n", "name": "zz"}}));
    assert_eq!(
        causes(|errors| Event.validate_update(&moved, &object(event()), errors)),
        vec![(
            "FieldValueInvalid",
            "involvedObject",
            "Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"n\",\"Name\":\"zz\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
        )]
    );
}

#[test]
fn fields_and_cells_match_the_stored_form() {
    let view = object(event());
    let stored = Event.to_stored(object(event()));
    for (name, want) in [
        ("regarding.kind", "Pod"),
        ("regarding.uid", ""),
        ("reportingController", "example.com/golden"),
        ("reason", "Golden"),
    ] {
        assert!(Event.selectable().contains(&name), "{name}");
        assert_eq!(Event.field(&view, name), want, "{name}");
        assert_eq!(Event.field(&stored, name), want, "{name}, stored");
    }
    assert_eq!(
        json!(Event.cells(&view, kind_now())),
        json!([
            "60s",
            "Normal",
            "Golden",
            "pod/a",
            "",
            "example.com/golden, golden-1",
            "hello",
            "60s",
            1,
            "a"
        ])
    );
}
