//! Checks how a schema identifies the items of lists and the members of maps.

use std::collections::HashSet;

use orlop_api::validate::Path;
use serde_json::Value;

use super::{Check, wrong_type};

impl Check<'_> {
    pub(super) fn lists_and_maps(&mut self, schema: &Value, path: &Path) {
        let given = schema["type"].as_str().unwrap_or_default();
        let errors = &mut *self.errors;
        match schema["x-kubernetes-map-type"].as_str() {
            None => {}
            Some("atomic" | "granular") if given == "object" => {}
            Some(kind @ ("atomic" | "granular")) => {
                let why = format!("must be object if x-kubernetes-map-type is {kind}");
                wrong_type(errors, path, given, &why);
            }
            Some(other) => {
                errors.not_supported(&path.child("x-kubernetes-map-type"), other, &["atomic", "granular"]);
            }
        }
        let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
        let list_type = schema["x-kubernetes-list-type"].as_str();
        let keys_path = path.child("x-kubernetes-list-map-keys");
        match list_type {
            None => {}
            Some("atomic" | "set" | "map") if given == "array" => {}
            Some("atomic" | "set" | "map") => {
                wrong_type(errors, path, given, "must be array if x-kubernetes-list-type is specified");
            }
            Some(other) => {
                let known = ["atomic", "map", "set"];
                errors.not_supported(&path.child("x-kubernetes-list-type"), other, &known);
            }
        }
        if list_type != Some("map") {
            if !keys.is_empty() {
                let place = path.child("x-kubernetes-list-type");
                let why = "must be map if x-kubernetes-list-map-keys is non-empty";
                match list_type {
                    None => errors.required(&place, why),
                    Some(other) => errors.invalid(&place, other, why),
                }
            }
            let item = &schema["items"];
            let is_container = item["type"] == "array" && item["x-kubernetes-list-type"] != "atomic"
                || item["type"] == "object" && item["x-kubernetes-map-type"] != "atomic";
            if list_type == Some("set") && is_container {
                let (name, why) = match item["type"] == "array" {
                    true => (
                        "x-kubernetes-list-type",
                        "must be atomic as item of a list with x-kubernetes-list-type=set",
                    ),
                    false => (
                        "x-kubernetes-map-type",
                        "must be atomic as item of a list with x-kubernetes-list-type=set",
                    ),
                };
                errors.required(&path.child("items").child(name), why);
            }
            if list_type == Some("set") && item["nullable"] == true {
                let why = "cannot be nullable when x-kubernetes-list-type is set";
                errors.forbidden(&path.child("items").child("nullable"), why);
            }
            return;
        }
        if keys.is_empty() {
            errors.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
        }
        let item = &schema["items"];
        if item["type"] != "object" {
            let found = item["type"].as_str().unwrap_or_default();
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            wrong_type(errors, &path.child("items"), found, why);
        }
        let required: HashSet<&str> =
            item["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut seen = HashSet::new();
        for (at, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            if errors.is_full() {
                return;
            }
            let property = &item["properties"][key];
            let property_path = path.child("items").child("properties").key(key);
            if !seen.insert(key) {
                errors.duplicate(&keys_path.index(at), key);
            }
            if !property.is_object() {
                let why = "entries must all be names of item properties";
                errors.invalid(&keys_path.index(at), key, why);
                continue;
            }
            if !required.contains(key) && property["default"].is_null() {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                           required property";
                errors.required(&property_path.child("default"), why);
            }
            if property["nullable"] == true {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                errors.forbidden(&property_path.child("nullable"), why);
            }
            if matches!(property["type"].as_str(), Some("object" | "array")) {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&property_path.child("type"), property["type"].clone(), why);
            }
        }
    }
}
