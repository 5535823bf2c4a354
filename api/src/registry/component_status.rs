//! `ComponentStatus`: the health of a component of the control plane.
//!
//! The objects are not stored: `verbs/component_status.rs` of the API server builds them. Upstream:
//! pkg/registry/core/componentstatus.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use crate::kind::{Column, Kind, Names, Scope};
use crate::object::Object;

/// The `ComponentStatus` kind.
pub(super) struct ComponentStatus;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ComponentStatus",
    plural: "componentstatuses",
    singular: "componentstatus",
    short: &["cs"],
    categories: &[],
    schema: "io.k8s.api.core.v1.ComponentStatus",
};

const COLUMNS: &[Column] = &[
    cells::NAME,
    cells::text("Status", "Healthy or Unhealthy; Unknown without a condition."),
    cells::text("Message", "The result of the check."),
    cells::text("Error", "Why the server cannot check the component."),
];

impl Kind for ComponentStatus {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    /// Nothing is stored under this prefix.
    fn storage_prefix(&self) -> &'static str {
        "/registry/componentstatuses/"
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["get", "list"]
    }

    fn deprecated(&self) -> Option<&str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: Timestamp) -> Vec<Value> {
        let conditions = object.at(&["conditions"]).and_then(Value::as_array).into_iter().flatten();
        let healthy = conditions.into_iter().find(|condition| condition["type"] == "Healthy");
        let text = |name: &str| healthy.and_then(|condition| condition[name].as_str()).unwrap_or_default();
        let status = match text("status") {
            "True" => "Healthy",
            "" => "Unknown",
            _ => "Unhealthy",
        };
        vec![cells::name(object), json!(status), json!(text("message")), json!(text("error"))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_the_condition_healthy() {
        for (conditions, want) in [
            (json!([{"type": "Healthy", "status": "True", "message": "ok"}]), ["c", "Healthy", "ok", ""]),
            (json!([{"type": "Healthy", "status": "False", "message": "no"}]), ["c", "Unhealthy", "no", ""]),
            (
                json!([{"type": "Healthy", "status": "Unknown", "error": "why"}]),
                ["c", "Unhealthy", "", "why"],
            ),
            (json!([]), ["c", "Unknown", "", ""]),
        ] {
            let object = Object::from_value(json!({"metadata": {"name": "c"}, "conditions": conditions}));
            assert_eq!(ComponentStatus.cells(&object, Timestamp::UNIX_EPOCH), want);
        }
    }
}
