//! `CSINode`.

use jiff::Timestamp;
use serde_json::Value;

use super::cells;
use super::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope};
use crate::object::Object;

/// The kind.
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

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::typed("Drivers", "integer", "Number of drivers on the node."), cells::AGE];
        COLUMNS
    }

    fn cells(&self, node: &Object, now: Timestamp) -> Vec<Value> {
        let drivers = node.at(&["spec", "drivers"]).and_then(Value::as_array).map_or(0, Vec::len);
        vec![cells::name(node), drivers.into(), cells::age(node, now)]
    }
}
