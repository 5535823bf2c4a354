//! Creates and restores the flow schemas and priority levels that every cluster has, and reports in each schema whether its
//! priority level exists.
//!
//! Upstream: pkg/registry/flowcontrol/ensurer, apiserver pkg/util/flowcontrol/apf_controller.go.

use std::sync::Arc;

use orlop_store::{Snapshot, Write};
use serde_json::Value;

use super::repair::{Checked, repair};
use super::{creation, readable, replacement};
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::flow_control::bootstrap::{AUTO_UPDATE, BootstrapObject, flow_schemas, priority_levels};
use crate::registry::flow_control::dangling_condition;
use crate::registry::{Kind, flow_control_kinds};
use crate::state::Inner;
use orlop_api::object::Object;

/// The only level whose shares users may change.
const EXEMPT: &str = "exempt";

/// What the last rounds have checked.
#[derive(Debug, Default)]
pub(super) struct Progress {
    objects: Checked,
    conditions: Checked,
}

/// Creates and restores the objects.
///
/// # Errors
/// A message for the log if the objects cannot be written.
pub(super) async fn keep(server: &Arc<Inner>, progress: &mut Progress) -> Result<(), String> {
    let Some((levels, schemas)) = flow_control_kinds() else { return Ok(()) };
    let prefixes = [levels.storage_prefix(), schemas.storage_prefix()];
    let of = server.clone();
    let objects = move |head: &Snapshot<Projection>| {
        let mut writes = wanted(&of, head, levels, &priority_levels());
        writes.extend(wanted(&of, head, schemas, &flow_schemas()));
        writes
    };
    repair(&server.store, &mut progress.objects, &prefixes, Arc::new(objects)).await?;
    keep_conditions(server, progress).await
}

/// Updates the conditions of the schemas.
///
/// # Errors
/// A message for the log if they cannot be written.
pub(super) async fn keep_conditions(server: &Arc<Inner>, progress: &mut Progress) -> Result<(), String> {
    let Some((levels, schemas)) = flow_control_kinds() else { return Ok(()) };
    let prefixes = [levels.storage_prefix(), schemas.storage_prefix()];
    let of = server.clone();
    let updates = move |head: &Snapshot<Projection>| conditions(head, levels, schemas, of.now());
    repair(&server.store, &mut progress.conditions, &prefixes, Arc::new(updates)).await
}

/// The writes that create missing objects and restore changed ones.
fn wanted(
    server: &Inner,
    head: &Snapshot<Projection>,
    kind: &'static dyn Kind,
    objects: &[BootstrapObject],
) -> Vec<Write<Projection>> {
    let write = |wanted: &BootstrapObject| {
        let mut object = Object::from_value(wanted.object.clone());
        let Some(record) = head.get(&dispatch::key(kind, "", object.name())) else {
            object.set(&["metadata", "annotations", AUTO_UPDATE], "true");
            return Some(creation(server, kind, object));
        };
        // An object that cannot be read stays unchanged.
        let old = stored::decode(record).ok()?;
        Some(replacement(kind, record, restored(kind, &old, wanted)?))
    };
    objects.iter().filter_map(write).collect()
}

/// The stored object with the spec of every cluster; `None` if it has this spec, or if users maintain it.
fn restored(kind: &dyn Kind, stored: &Object, wanted: &BootstrapObject) -> Option<Object> {
    if !wanted.mandatory && stored.annotation(AUTO_UPDATE) != Some("true") {
        return None;
    }
    let mut next = Object::from_value(wanted.object.clone());
    if next.name() == EXEMPT
        && let Some(exempt) = stored.at(&["spec", "exempt"])
    {
        next.set(&["spec", "exempt"], exempt.clone());
    }
    kind.defaults(&mut next);
    let mut object = stored.clone();
    object.copy_member(&next, "spec");
    if object.at(&["spec"]) == stored.at(&["spec"]) {
        return None;
    }
    let generation = stored.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    object.set(&["metadata", "generation"], generation + 1);
    Some(object)
}

/// The writes that update the conditions of schemas. A level that cannot be read exists.
fn conditions(
    head: &Snapshot<Projection>,
    levels: &dyn Kind,
    schemas: &dyn Kind,
    now: jiff::Timestamp,
) -> Vec<Write<Projection>> {
    let exists = |level: &str| head.get(&dispatch::key(levels, "", level)).is_some();
    let stored = readable(head, schemas);
    stored
        .filter_map(|(record, mut schema)| {
            let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
            let condition = dangling_condition(&schema, exists(level), now)?;
            let list =
                schema.object_at(&["status"]).entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
            let list = list.as_array_mut()?;
            list.retain(|other| other["type"] != condition["type"]);
            list.push(condition);
            Some(replacement(schemas, record, schema))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(name: &str, spec: &Value, automatic: &str) -> Object {
        Object::from_value(json!({
            "metadata": {"name": name, "generation": 3, "annotations": {AUTO_UPDATE: automatic}}, "spec": spec,
        }))
    }

    #[test]
    fn changed_specs_are_restored_unless_users_maintain_them() {
        let kind = flow_control_kinds().expect("built-in kinds").0;
        let levels = priority_levels();
        let of = |name: &str| {
            levels.iter().find(|level| level.object["metadata"]["name"] == name).expect("a level").clone()
        };
        let limited = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
        let shares =
            json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 7, "lendablePercent": 0}});
        for (case, name, spec, automatic, is_restored) in [
            ("1 unchanged", "system", &of("system").object["spec"], "true", false),
            ("2 changed", "system", &limited, "true", true),
            ("3 maintained by users", "system", &limited, "false", false),
            ("4 mandatory", "catch-all", &limited, "false", true),
            ("5 shares of the exempt level", "exempt", &shares, "true", false),
            ("6 type of the exempt level", "exempt", &limited, "true", true),
        ] {
            let got = restored(kind, &stored(name, spec, automatic), &of(name));
            assert_eq!(got.is_some(), is_restored, "{case}");
            if let Some(object) = got {
                assert_eq!(object.at(&["metadata", "generation"]), Some(&json!(4)), "{case}");
                assert_eq!(object.at(&["spec"]), Some(&of(name).object["spec"]), "{case}");
            }
        }
    }
}
