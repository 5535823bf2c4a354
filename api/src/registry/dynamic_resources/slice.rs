//! `ResourceSlice`: devices that a driver publishes for a node, some nodes, or all nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::GROUP;
use super::device::prepare_devices;
use super::slice_spec::validate_spec;
use crate::kind::{Column, DeleteAnswer, Generation, Kind, Names, Policy, Scope, UnknownField};
use crate::object::Object;
use crate::registry::cells;
use crate::registry::workload::spec;
use crate::validate::FieldErrors;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "ResourceSlice",
    plural: "resourceslices",
    singular: "resourceslice",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.resource.v1.ResourceSlice",
};

const DRIVER: [&str; 2] = ["spec", "driver"];

/// The `ResourceSlice` kind.
#[derive(Clone, Copy, Debug)]
pub struct ResourceSlice;

impl Kind for ResourceSlice {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/resourceslices/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn prepare_create(&self, slice: &mut Object, now: Timestamp) {
        prepare_devices(slice.object_at(&["spec"]), now);
    }

    fn prepare_update(&self, slice: &mut Object, _old: &Object, now: Timestamp) {
        prepare_devices(slice.object_at(&["spec"]), now);
    }

    fn validate_create(&self, slice: &Object, errors: &mut FieldErrors) {
        validate_spec(spec(slice), None, errors);
    }

    fn validate_update(&self, slice: &Object, old: &Object, errors: &mut FieldErrors) {
        validate_spec(spec(slice), Some(spec(old)), errors);
    }

    fn warnings(&self, slice: &Object, _old: Option<&Object>) -> Vec<String> {
        let driver = slice.str_at(&DRIVER);
        if driver.to_lowercase() == driver {
            return Vec::new();
        }
        vec![format!(
            "spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"
        )]
    }

    fn selectable(&self) -> &[&'static str] {
        &["spec.nodeName", "spec.driver"]
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupportedByVersion
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Node", "The node that has the devices."),
            cells::text("Driver", "The driver of the devices."),
            cells::text("Pool", "The pool that the devices belong to."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, slice: &Object, now: Timestamp) -> Vec<Value> {
        let node = slice.at(&["spec", "nodeName"]).and_then(Value::as_str);
        vec![
            cells::name(slice),
            node.unwrap_or("<unset>").into(),
            slice.str_at(&DRIVER).into(),
            slice.str_at(&["spec", "pool", "name"]).into(),
            cells::age(slice, now),
        ]
    }
}
