//! `Event` of the core group: the stored form of events.
//!
//! The same objects are served as events.k8s.io events, see [`super::events_k8s_io`]; both
//! share this validation and these cells.

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::Value;

use super::{cells, checks};
use crate::kind::{Column, Kind, NameRule, Names, Policy, Scope, UnknownField};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Event` kind of the core group.
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
    cells::wide("Source", "Component that reported the event."),
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

/// The write policy of events of both groups.
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

/// Validates events of both groups, in the stored form. `controller` is the name of the
/// reporting controller's field in error messages.
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

/// Upstream prints an empty value for strings that are too long.
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
mod tests;
