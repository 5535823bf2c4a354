//! Checks how a schema identifies the items of lists and the members of maps.

use std::collections::HashSet;

use orlop_api::validate::Path;
use serde_json::Value;

use super::{Check, wrong_type};

impl Check<'_> {
    pub(super) fn lists_and_maps(&mut self, schema: &Value, path: &Path) {
        let given = schema["type"].as_str().unwrap_or_default();
        let errors = &mut self.found.schema;
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            errors.invalid(&path, false, "must be true or undefined");
        }
        if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
            if given != "object" {
                wrong_type(errors, path, given, "must be object if x-kubernetes-map-type is specified");
            }
            if !matches!(map_type, "atomic" | "granular") {
                let path = path.child("x-kubernetes-map-type");
                errors.not_supported(&path, map_type, &["atomic", "granular"]);
            }
        }
        let list_type = schema["x-kubernetes-list-type"].as_str();
        let item = &schema["items"];
        if list_type.is_some() && given != "array" {
            wrong_type(errors, path, given, "must be array if x-kubernetes-list-type is specified");
        } else if list_type == Some("set") {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let item_type = &item["x-kubernetes-list-type"];
            if item["type"] == "array" && !item_type.is_null() && item_type != "atomic" {
                let path = path.child("items").child("x-kubernetes-list-type");
                errors.invalid(&path, item_type.clone(), why);
            }
            if item["type"] == "object" && item["x-kubernetes-map-type"] != "atomic" {
                let path = path.child("items").child("x-kubernetes-map-type");
                errors.invalid(&path, item_type.clone(), why);
            }
        }
        let list_type_path = path.child("x-kubernetes-list-type");
        if let Some(other) = list_type.filter(|ty| !matches!(*ty, "atomic" | "set" | "map")) {
            errors.not_supported(&list_type_path, other, &["atomic", "set", "map"]);
        }
        let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
        if !keys.is_empty() && list_type != Some("map") {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            match list_type {
                None => errors.required(&list_type_path, why),
                Some(other) => errors.invalid(&list_type_path, other, why),
            }
        }
        if list_type == Some("map") {
            self.keys(schema, keys, path);
        }
        if let Some(list_type @ ("set" | "map")) = list_type
            && item["nullable"] == true
        {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.found.schema.forbidden(&path.child("items").child("nullable"), &why);
        }
        if list_type == Some("map") {
            self.key_properties(item, keys, path);
        }
    }

    /// Checks that the keys of a list are properties of its items.
    fn keys(&mut self, schema: &Value, keys: &[Value], path: &Path) {
        let errors = &mut self.found.schema;
        let keys_path = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            errors.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
        }
        let item = &schema["items"];
        if item.is_null() {
            let why = "must have a schema if x-kubernetes-list-type is map";
            return errors.required(&path.child("items"), why);
        }
        let found = item["type"].as_str().unwrap_or_default();
        if found != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            return errors.invalid(&path.child("items").child("type"), found, why);
        }
        let mut seen = HashSet::new();
        for key in keys.iter().filter_map(Value::as_str) {
            if errors.is_full() {
                return;
            }
            let property = &item["properties"][key];
            if !property.is_object() {
                let why = "entries must all be names of item properties";
                errors.invalid(&keys_path, Value::from(keys), why);
            } else if matches!(property["type"].as_str(), Some("object" | "array")) {
                let path = path.child("items").child("properties").key(key).child("type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&path, found, why);
            }
            if !seen.insert(key) {
                errors.invalid(&keys_path, Value::from(keys), "must not contain duplicate entries");
            }
        }
    }

    /// Checks that every item has its keys.
    fn key_properties(&mut self, item: &Value, keys: &[Value], path: &Path) {
        let errors = &mut self.found.schema;
        let required: HashSet<&str> =
            item["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for key in keys.iter().filter_map(Value::as_str) {
            let property = &item["properties"][key];
            if errors.is_full() {
                return;
            }
            if !property.is_object() {
                continue;
            }
            let path = path.child("items").child("properties").key(key);
            if !required.contains(key) && property["default"].is_null() {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                           required property";
                errors.required(&path.child("default"), why);
            }
            if property["nullable"] == true {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                errors.forbidden(&path.child("nullable"), why);
            }
        }
    }
}
