//! The `VolumeAttributesClass` kind.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::cells;
use super::volume_rules::{parameters, provisioner};
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `VolumeAttributesClass` kind.
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

    fn validate(&self, class: &Object, errors: &mut FieldErrors) {
        provisioner(&Path::new("driverName"), class.str_at(&["driverName"]), errors);
        let path = Path::new("parameters");
        let given = class.at(&["parameters"]);
        parameters(&path, given, errors);
        if given.and_then(Value::as_object).is_none_or(Map::is_empty) {
            errors.required(&path, "must contain at least one key/value pair");
        }
    }

    fn validate_update(&self, class: &Object, old: &Object, errors: &mut FieldErrors) {
        for field in ["driverName", "parameters"] {
            if class.at(&[field]) != old.at(&[field]) {
                errors.forbidden(&Path::new(field), &format!("updates to {field} are forbidden."));
            }
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::volume_testing::*;

    fn class() -> Value {
        json!({"metadata": {"name": "x"}, "driverName": "d.example.com", "parameters": {"iops": "100"}})
    }

    #[test]
    fn new_classes_are_validated() {
        for (case, patch, want) in [
            ("1 good", json!({}), vec![]),
            ("2 no driver", json!({"driverName": ""}), vec!["driverName: Required value".to_owned()]),
            (
                "3 bad driver",
                json!({"driverName": "a b"}),
                vec![format!("driverName: Invalid value: \"a b\": {NAME_PART}")],
            ),
            (
                "4 no parameters",
                json!({"parameters": null}),
                vec!["parameters: Required value: must contain at least one key/value pair".to_owned()],
            ),
            (
                "5 empty parameter",
                json!({"parameters": {"": "x"}}),
                vec!["parameters: Invalid value: \"\": field can not be empty.".to_owned()],
            ),
        ] {
            check(case, &create_errors(&VolumeAttributesClass, &with(&class(), &patch)), &want);
        }
    }

    #[test]
    fn driver_and_parameters_are_immutable() {
        let changed = with(&class(), &json!({"driverName": "z", "parameters": {"iops": "200"}}));
        check(
            "fixed",
            &update_errors(&VolumeAttributesClass, &class(), &changed),
            &[
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ],
        );
        let labelled = with(&class(), &json!({"metadata": {"labels": {"a": "b"}}}));
        check("free", &update_errors(&VolumeAttributesClass, &class(), &labelled), &[""; 0]);
    }

    #[test]
    fn table_row_shows_the_driver() {
        assert_eq!(row(&VolumeAttributesClass, &class()), json!(["x", "d.example.com", "10s"]));
    }
}
