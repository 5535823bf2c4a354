//! `VolumeAttributesClass`.

use jiff::Timestamp;
use serde_json::Value;

use super::cells;
use super::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope};
use crate::object::Object;

/// The kind.
pub(super) struct VolumeAttributesClass;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "VolumeAttributesClass",
    plural: "volumeattributesclasses",
    singular: "volumeattributesclass",
    short: &["vac"],
    categories: &[],
    schema: "io.k8s.api.storage.v1.VolumeAttributesClass",
};

impl Kind for VolumeAttributesClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/volumeattributesclasses/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, ..Policy::DEFAULT }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::text("DriverName", "Driver that the attributes are for."), cells::AGE];
        COLUMNS
    }

    fn cells(&self, class: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(class), class.str_at(&["driverName"]).into(), cells::age(class, now)]
    }
}
