//! `Event` of events.k8s.io: another view of the core events, with stricter rules of its own.
//!
//! Error texts name the fields as the stored form does, as upstream's do.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::checks;
use super::event::{self, COLUMNS, POLICY};
use super::kind::{Column, Kind, Names, Policy, Scope, UnknownField};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The kind.
pub(super) struct Event;

const NAMES: Names = Names {
    group: "events.k8s.io",
    version: "v1",
    kind: "Event",
    plural: "events",
    singular: "event",
    short: &["ev"],
    categories: &[],
    schema: "io.k8s.api.events.v1.Event",
};

/// Names of fields here and in the stored form.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

impl Kind for Event {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/events/"
    }

    fn has_dependents(&self) -> bool {
        false
    }

    fn policy(&self) -> Policy {
        POLICY
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        event::validate(&self.to_stored(object.clone()), "reportingController", errors);
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        let event = self.to_stored(object.clone());
        validate_series(&event, errors);
        let has_text = |name| event.at(&[name]).is_some_and(Value::is_string);
        if !has_text("eventTime") {
            errors.required(&Path::new("eventTime"), "");
        }
        let kind = event.str_at(&["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            // The value stays empty upstream; the text names it.
            errors.invalid(&Path::new("type"), "", &format!("has invalid value: {kind}"));
        }
        let has_count = event.at(&["count"]).and_then(Value::as_i64).unwrap_or_default() != 0;
        let has_source = ["component", "host"].iter().any(|name| !event.str_at(&["source", name]).is_empty());
        for (name, set) in [
            ("firstTimestamp", has_text("firstTimestamp")),
            ("lastTimestamp", has_text("lastTimestamp")),
            ("count", has_count),
            ("source", has_source),
        ] {
            if set {
                errors.invalid(&Path::new(name), "", "needs to be unset");
            }
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        let (new, old) = (self.to_stored(object.clone()), self.to_stored(old.clone()));
        if new.at(&["series"]) != old.at(&["series"]) {
            validate_series(&new, errors);
        }
        // Upstream checks the reason twice, and answers with two causes.
        for name in [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "reason",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        ] {
            let (new, old) = (new.at(&[name]), old.at(&[name]));
            if new == old {
                continue;
            }
            let path = if name == "reportingComponent" { "reportingController" } else { name };
            errors.invalid(&Path::new(path), shown(name, new), checks::IMMUTABLE);
        }
    }

    fn selectable(&self) -> &'static [&'static str] {
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ]
    }

    fn field(&self, object: &Object, name: &str) -> String {
        let mut path: Vec<&str> = name.split('.').collect();
        let here = object.str_at(&path);
        if !here.is_empty() {
            return here.to_owned();
        }
        // The object may be in the stored form.
        if let Some((_, stored)) = RENAMED.iter().find(|(name, _)| *name == path[0]) {
            path[0] = stored;
        }
        object.str_at(&path).to_owned()
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        event::event_cells(&self.to_stored(object.clone()), now)
    }

    fn is_view(&self) -> bool {
        true
    }

    fn to_stored(&self, mut object: Object) -> Object {
        for (here, stored) in RENAMED {
            if let Some(value) = object.0.remove(here) {
                object.0.insert(stored.to_owned(), value);
            }
        }
        if object.at(&["series", "count"]).and_then(Value::as_i64) == Some(0) {
            object.remove(&["series", "count"]);
        }
        always(
            &mut object,
            &[
                ("involvedObject", json!({})),
                ("source", json!({})),
                ("firstTimestamp", Value::Null),
                ("lastTimestamp", Value::Null),
                ("eventTime", Value::Null),
                ("reportingComponent", json!("")),
                ("reportingInstance", json!("")),
            ],
        );
        object
    }

    fn from_stored(&self, mut object: Object) -> Object {
        for (here, stored) in RENAMED {
            if let Some(value) = object.0.remove(stored) {
                object.0.insert(here.to_owned(), value);
            }
        }
        for name in ["reportingController", "reportingInstance"] {
            if object.at(&[name]).and_then(Value::as_str) == Some("") {
                object.remove(&[name]);
            }
        }
        if object.at(&["series"]).is_some_and(Value::is_object) {
            object.set_default(&["series", "count"], 0);
        }
        always(
            &mut object,
            &[
                ("regarding", json!({})),
                ("deprecatedSource", json!({})),
                ("deprecatedFirstTimestamp", Value::Null),
                ("deprecatedLastTimestamp", Value::Null),
                ("eventTime", Value::Null),
            ],
        );
        object
    }
}

/// Members that this form writes even when they are empty.
fn always(object: &mut Object, members: &[(&str, Value)]) {
    for (name, empty) in members {
        object.0.entry((*name).to_owned()).or_insert_with(|| empty.clone());
    }
}

/// The rules of a series: at least two events, the last one at a known time.
fn validate_series(event: &Object, errors: &mut FieldErrors) {
    if !event.at(&["series"]).is_some_and(Value::is_object) {
        return;
    }
    if event.at(&["series", "count"]).and_then(Value::as_i64).unwrap_or_default() < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if event.str_at(&["series", "lastObservedTime"]).is_empty() {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// A value as upstream's error texts show it: object references with all fields and upstream's
/// capital letters, everything else as it is.
fn shown(name: &str, value: Option<&Value>) -> Value {
    const REFERENCE: [(&str, &str); 7] = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    const SOURCE: [(&str, &str); 2] = [("Component", "component"), ("Host", "host")];
    let fields: &[(&str, &str)] = match name {
        "involvedObject" | "related" => &REFERENCE,
        "source" => &SOURCE,
        "count" => return value.cloned().unwrap_or(json!(0)),
        _ => return value.cloned().unwrap_or_default(),
    };
    let Some(value) = value else {
        return Value::Null;
    };
    let text = |field: &str| value.get(field).cloned().unwrap_or(json!(""));
    Value::Object(
        fields.iter().map(|(shown, field)| ((*shown).to_owned(), text(field))).collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
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
    fn conversion_there_and_back() {
        let stored = json!({
            "metadata": {"name": "a", "namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "example.com/golden", "reportingInstance": "golden-1", "action": "Testing",
            "reason": "Golden", "message": "hello", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "n", "name": "a"},
            "source": {}, "firstTimestamp": null, "lastTimestamp": null,
        });
        assert_eq!(Event.to_stored(object(event())).into_value(), stored);
        assert_eq!(Event.from_stored(object(stored)).into_value(), event());

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
        assert_eq!(Event.from_stored(object(old.clone())).into_value(), view);
        assert_eq!(Event.to_stored(object(view)).into_value(), old);
    }

    #[test]
    fn creation() {
        let unset = "Invalid value: \"\": needs to be unset";
        for (case, changes, want) in [
            ("fine", json!({}), vec![]),
            (
                "no time",
                json!({"eventTime": null}),
                vec![("FieldValueRequired", "eventTime", "Required value")],
            ),
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
                vec![(
                    "FieldValueInvalid",
                    "message",
                    "Invalid value: \"\": can have at most 1024 characters",
                )],
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
    fn updates() {
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
                vec![(
                    "FieldValueInvalid",
                    "reportingController",
                    "Invalid value: \"b\": field is immutable",
                )],
            ),
            ("labels", json!({"metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}}}), vec![]),
        ] {
            let got = causes(|errors| Event.validate_update(&with(changes), &object(event()), errors));
            assert_eq!(got, want, "{case}");
        }
        let moved = with(json!({"regarding": {"kind": "Pod", "namespace": "n", "name": "zz"}}));
        let mut errors = FieldErrors::new();
        Event.validate_update(&moved, &object(event()), &mut errors);
        assert_eq!(errors.causes()[0].field, "involvedObject");
        assert!(errors.causes()[0].message.contains("\"Name\":\"zz\""), "{errors:?}");
    }

    #[test]
    fn fields_and_cells() {
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
}
