//! The `CSINode` kind.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::Value;

use super::cells;
use super::go_format::CSI_NODE_DRIVER;
use super::volume_rules::{IMMUTABLE, NEGATIVE, driver_name, items, name, text};
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `CSINode` kind.
pub(super) struct CsiNode;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "CSINode",
    plural: "csinodes",
    singular: "csinode",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.CSINode",
};

impl Kind for CsiNode {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/csinodes/"
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, delete_answer: DeleteAnswer::Object, ..Policy::DEFAULT }
    }

    fn validate(&self, node: &Object, errors: &mut FieldErrors) {
        let mut names = BTreeSet::new();
        for (i, driver) in drivers_of(node).iter().enumerate() {
            let path = Path::new("spec.drivers").index(i);
            driver_name(&path.child("name"), text(driver, "name"), errors);
            node_id(&path.child("nodeID"), text(driver, "nodeID"), errors);
            let count = driver.pointer("/allocatable/count").and_then(Value::as_i64);
            if let Some(count) = count.filter(|count| *count < 0) {
                errors.invalid(&path.child("allocatable").child("count"), count, NEGATIVE);
            }
            if !names.insert(text(driver, "name")) {
                errors.duplicate(&path.child("name"), text(driver, "name"));
            }
            topology_keys(&path, driver, errors);
        }
    }

    fn validate_update(&self, node: &Object, old: &Object, errors: &mut FieldErrors) {
        let without_limits = |driver: &Value| {
            let mut driver = driver.clone();
            driver.as_object_mut().map(|driver| driver.remove("allocatable"));
            driver
        };
        let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for new in drivers_of(node) {
            by_name.entry(text(new, "name")).or_default().push(new);
        }
        for old in drivers_of(old) {
            for new in by_name.get(text(old, "name")).into_iter().flatten() {
                if errors.is_full() {
                    return;
                }
                let new = without_limits(new);
                if new != without_limits(old) {
                    let shown = CSI_NODE_DRIVER.show(Some(&new));
                    errors.invalid_shown(&Path::new("spec.drivers"), &shown, IMMUTABLE);
                }
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::typed("Drivers", "integer", "Number of drivers on the node."), cells::AGE];
        COLUMNS
    }

    fn cells(&self, node: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(node), drivers_of(node).len().into(), cells::age(node, now)]
    }
}

fn drivers_of(node: &Object) -> &[Value] {
    node.at(&["spec", "drivers"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn node_id(path: &Path, id: &str, errors: &mut FieldErrors) {
    if id.is_empty() {
        errors.required(path, "");
    }
    if id.len() > 256 {
        errors.invalid(path, id, "must be 256 characters or less");
    }
}

/// Upstream uses the driver as the value in these errors, not the key.
fn topology_keys(path: &Path, driver: &Value, errors: &mut FieldErrors) {
    let mut keys = BTreeSet::new();
    for key in items(driver, "topologyKeys").iter().filter_map(Value::as_str) {
        if key.is_empty() {
            errors.required(path, "");
        }
        if !keys.insert(key) {
            errors.duplicate(path, key);
        }
        name(path, key, names::qualified_name(key), errors);
    }
}
