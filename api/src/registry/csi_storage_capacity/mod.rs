//! The `CSIStorageCapacity` kind.

#[cfg(test)]
mod tests;

use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::volume_rules::{
    IMMUTABLE, NEGATIVE, deprecated_node_label, entries, items, quantity, subdomain, text, typed,
};
use crate::kind::{Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The `CSIStorageCapacity` kind.
pub(super) struct CsiStorageCapacity;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    singular: "csistoragecapacity",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.CSIStorageCapacity",
};

impl Kind for CsiStorageCapacity {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/csistoragecapacities/"
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, ..Policy::DEFAULT }
    }

    fn validate(&self, capacity: &Object, errors: &mut FieldErrors) {
        if let Some(topology) = topology_of(capacity).and_then(typed) {
            validate_label_selector(&topology, &Path::new("nodeTopology"), errors);
        }
        subdomain(&Path::new("storageClassName"), capacity.str_at(&["storageClassName"]), errors);
        // Upstream does not validate maximumVolumeSize.
        let amount = capacity.at(&["capacity"]).and_then(quantity);
        if let Some(amount) = amount.filter(Quantity::is_negative) {
            errors.invalid(&Path::new("capacity"), amount.to_string(), NEGATIVE);
        }
    }

    fn validate_update(&self, capacity: &Object, old: &Object, errors: &mut FieldErrors) {
        let topology = topology_of(capacity);
        if topology != topology_of(old) {
            errors.invalid_shown(&Path::new("nodeTopology"), &show_topology(topology), IMMUTABLE);
        }
        let class = capacity.str_at(&["storageClassName"]);
        if class != old.str_at(&["storageClassName"]) {
            errors.invalid(&Path::new("storageClassName"), class, IMMUTABLE);
        }
    }

    fn warnings(&self, capacity: &Object, _old: Option<&Object>) -> Vec<String> {
        let Some(topology) = topology_of(capacity) else { return Vec::new() };
        let mut warnings = Vec::new();
        for (i, expression) in items(topology, "matchExpressions").iter().enumerate() {
            let key = text(expression, "key");
            if let Some(why) = deprecated_node_label(key) {
                warnings.push(format!("nodeTopology.matchExpressions[{i}]: {key} is {why}"));
            }
        }
        for (label, _) in entries(topology, "matchLabels") {
            if let Some(why) = deprecated_node_label(label) {
                warnings.push(format!("nodeTopology.matchLabels.{label}: {why}"));
            }
        }
        warnings
    }
}

fn topology_of(capacity: &Object) -> Option<&Value> {
    capacity.at(&["nodeTopology"]).filter(|topology| !topology.is_null())
}

/// A selector in upstream's format: empty fields are omitted.
fn show_topology(topology: Option<&Value>) -> String {
    let Some(topology) = topology else { return "null".to_owned() };
    let shown: Vec<String> = ["matchLabels", "matchExpressions"]
        .into_iter()
        .filter_map(|field| Some(format!("\"{field}\":{}", topology.get(field)?)))
        .collect();
    format!("{{{}}}", shown.join(","))
}
