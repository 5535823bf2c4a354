//! `Event` of events.k8s.io: a view of the core events with stricter validation.
//!
//! Error messages use the field names of the stored form, as upstream's do.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::checks;
use super::event::{self, COLUMNS, POLICY};
use super::go_format::{Fields, Shape};
use crate::kind::{Column, Kind, Names, Policy, Scope, UnknownField};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Event` kind of events.k8s.io.
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

/// Field names in this view and in the stored form.
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
            // Upstream leaves the value empty; the message contains it.
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
        // Upstream validates the reason twice, and reports two causes.
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
            errors.invalid_shown(&Path::new(path), &shown(name, new), checks::IMMUTABLE);
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

    fn to_shown(&self, mut object: Object) -> Object {
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

/// Fields that this view serializes even if they are empty.
fn always(object: &mut Object, members: &[(&str, Value)]) {
    for (name, empty) in members {
        object.0.entry((*name).to_owned()).or_insert_with(|| empty.clone());
    }
}

/// Validates a series: at least two events, and a time for the last one.
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

const REFERENCE: Fields = &[
    ("Kind", "kind", Shape::Text),
    ("Namespace", "namespace", Shape::Text),
    ("Name", "name", Shape::Text),
    ("UID", "uid", Shape::Text),
    ("APIVersion", "apiVersion", Shape::Text),
    ("ResourceVersion", "resourceVersion", Shape::Text),
    ("FieldPath", "fieldPath", Shape::Text),
];

const SOURCE: Fields = &[("Component", "component", Shape::Text), ("Host", "host", Shape::Text)];

/// A value in the format of upstream's error messages.
fn shown(name: &str, value: Option<&Value>) -> String {
    match name {
        "involvedObject" => Shape::Struct(REFERENCE).show(value),
        "related" => Shape::Pointer(REFERENCE).show(value),
        "source" => Shape::Struct(SOURCE).show(value),
        "firstTimestamp" | "lastTimestamp" | "eventTime" => Shape::Plain.show(value),
        "count" => value.map_or_else(|| "0".to_owned(), Value::to_string),
        _ => Shape::Text.show(value),
    }
}

#[cfg(test)]
mod tests;
