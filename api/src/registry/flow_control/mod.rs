//! `FlowSchema` and `PriorityLevelConfiguration`: how the server limits requests (docs/overload.md).
//!
//! Upstream: pkg/apis/flowcontrol, pkg/registry/flowcontrol.

pub mod bootstrap;
mod flow_rules;
mod flow_schema;
mod priority_level;
mod spec_format;

pub(super) use flow_schema::FlowSchema;
pub use flow_schema::dangling_condition;
pub(super) use priority_level::PriorityLevelConfiguration;

use std::collections::HashSet;

use serde_json::Value;

use super::workload::text;
use crate::kind::{Generation, Policy, StatusSubresource};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The API group.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The policy of both kinds.
const POLICY: Policy = Policy {
    unconditional_update: false,
    status: StatusSubresource::StatusOnly,
    generation: Generation::Spec,
    ..Policy::DEFAULT
};

/// The items of a list; empty if absent.
fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Validates the conditions of a status: each has a type, which occurs once.
fn validate_status(object: &Object, errors: &mut FieldErrors) {
    let path = Path::new("status.conditions");
    let mut seen = HashSet::new();
    for (at, condition) in
        items(object.at(&["status"]).unwrap_or(&Value::Null), "conditions").iter().enumerate()
    {
        let (kind, path) = (text(condition, "type"), path.index(at).child("type"));
        if !seen.insert(kind) {
            errors.duplicate(&path, kind);
        }
        if kind.is_empty() {
            errors.required(&path, "must not be empty");
        }
    }
}

#[cfg(test)]
mod tests;
