//! `Event` of the core group: the form in which events are stored.
//!
//! The same objects are served as events.k8s.io events, see [`super::events_k8s_io`]; the rules
//! and the cells here serve both.

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::Value;

use super::kind::{Column, Kind, NameRule, Names, Policy, Scope, UnknownField};
use super::{cells, checks};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The kind.
pub(super) struct Event;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Event",
    plural: "events",
    singular: "event",
    short: &["ev"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Event",
};

/// Columns of events of both groups.
pub(super) const COLUMNS: &[Column] = &[
    cells::text("Last Seen", "Time since the event was last seen."),
    cells::text("Type", "Normal or Warning."),
    cells::text("Reason", "Why this event was made, one word."),
    cells::text("Object", "The object that the event is about."),
    cells::wide("Subobject", "The part of the object that the event is about."),
    cells::wide("Source", "Who reported the event."),
    cells::text("Message", "What happened."),
    cells::wide("First Seen", "Time since the event was first seen."),
    cells::wide("Count", "How often the event was seen."),
    Column {
        name: "Name",
        kind: "string",
        format: "name",
        description: cells::NAME_DESCRIPTION,
        priority: 1,
    },
];

/// How events of both groups are written.
pub(super) const POLICY: Policy = Policy { create_on_update: true, ..Policy::DEFAULT };

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
        Policy { names: NameRule::PathSegment, ..POLICY }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        validate(object, "reportingComponent", errors);
    }

    fn selectable(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn field(&self, object: &Object, name: &str) -> String {
        if name == "source" {
            let component = object.str_at(&["source", "component"]);
            return cells::or(component, object.str_at(&["reportingComponent"])).to_owned();
        }
        let path: Vec<&str> = name.split('.').collect();
        object.str_at(&path).to_owned()
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        event_cells(object, now)
    }
}

/// The rules that hold for events of both groups, in the stored form. `controller` is what the
/// reporting controller is called in error texts.
pub(super) fn validate(object: &Object, controller: &str, errors: &mut FieldErrors) {
    let namespace = object.namespace();
    let involved = object.str_at(&["involvedObject", "namespace"]);
    let has_time = object.at(&["eventTime"]).is_some_and(Value::is_string);
    let agrees = match (has_time, involved.is_empty()) {
        // Events about cluster-scoped objects live in the namespace default.
        (false, true) => matches!(namespace, "" | "default"),
        (false, false) => namespace == involved,
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (true, false) => true,
    };
    if !agrees {
        let path = Path::new("involvedObject.namespace");
        errors.invalid(&path, involved, "does not match event.namespace");
    }
    if has_time {
        let reporter = object.str_at(&["reportingComponent"]);
        let path = Path::new(controller);
        checks::required(errors, &path, reporter);
        checks::each(errors, &path, reporter, names::qualified_name(reporter));
        for name in ["reportingInstance", "action", "reason"] {
            let text = object.str_at(&[name]);
            checks::required(errors, &Path::new(name), text);
            at_most(errors, name, text, 128);
        }
        at_most(errors, "message", object.str_at(&["message"]), 1024);
    }
    checks::subdomain(errors, &Path::new("namespace"), namespace);
}

/// Upstream shows an empty value for texts that are too long here.
fn at_most(errors: &mut FieldErrors, name: &str, text: &str, max: usize) {
    if text.len() > max {
        errors.invalid(&Path::new(name), "", &format!("can have at most {max} characters"));
    }
}

/// The cells of an event in the stored form.
pub(super) fn event_cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let event_time = object.str_at(&["eventTime"]);
    let first_time = cells::or(object.str_at(&["firstTimestamp"]), event_time);
    let has_series = object.at(&["series"]).is_some_and(Value::is_object);
    let last_time = if has_series {
        object.str_at(&["series", "lastObservedTime"])
    } else {
        cells::or(object.str_at(&["lastTimestamp"]), first_time)
    };
    let count = if has_series { object.at(&["series", "count"]) } else { object.at(&["count"]) };
    let count = count.and_then(Value::as_i64).unwrap_or_default();

    let kind = object.str_at(&["involvedObject", "kind"]).to_lowercase();
    let name = object.str_at(&["involvedObject", "name"]);
    let about = if name.is_empty() { kind } else { format!("{kind}/{name}") };

    let component =
        cells::or(object.str_at(&["source", "component"]), object.str_at(&["reportingComponent"]));
    let host = cells::or(object.str_at(&["source", "host"]), object.str_at(&["reportingInstance"]));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };

    vec![
        cells::since(last_time, now).into(),
        object.str_at(&["type"]).into(),
        object.str_at(&["reason"]).into(),
        about.into(),
        object.str_at(&["involvedObject", "fieldPath"]).into(),
        source.into(),
        object.str_at(&["message"]).trim().into(),
        cells::since(first_time, now).into(),
        if !has_series && count == 0 { 1.into() } else { count.into() },
        cells::name(object),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{causes, kind_now, object};
    use super::*;

    const PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    #[test]
    fn validation() {
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
            (
                "none in kube-system",
                json!({"metadata": {"namespace": "kube-system"}}),
                namespace(none.as_str()),
            ),
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
    fn fields() {
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
    fn cells() {
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
                json!([
                    "10s",
                    "Warning",
                    "R",
                    "persistentvolumeclaim/a",
                    "f",
                    "kubelet, h",
                    "m",
                    "60s",
                    5,
                    "t"
                ]),
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
}
