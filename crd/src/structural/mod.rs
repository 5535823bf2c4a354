//! Checks that a schema is structural: every value has a type, and value validations do not define structure. The
//! error messages are upstream's.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/validation.go` and
//! `pkg/apis/apiextensions/validation`.

use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use crate::pattern::compile;
use crate::rules;
use crate::schema::{Schema, Type, members};
use crate::{default, prune, validate as values};

/// Maximum depth of a schema.
const MAX_DEPTH: usize = 64;
/// Maximum number of parts of a schema.
const MAX_NODES: usize = 40_000;
/// Number of parts that a pattern or a rule counts as, because it must be compiled.
const COMPILED: usize = 20;

/// The position of a schema.
#[derive(Clone, Copy, PartialEq)]
enum SchemaPosition {
    Root,
    Field,
    Item,
}

/// Validates the schema of a version.
pub(crate) fn validate(schema: &Value, path: &Path, errors: &mut FieldErrors) {
    let mut nodes = 0;
    if let Err(why) = measure(schema, 0, &mut nodes) {
        return errors.forbidden(path, &why);
    }
    let mut check = Check { errors, in_metadata: false, is_traceable: true };
    check.schema(schema, path, SchemaPosition::Root);
}

fn measure(schema: &Value, depth: usize, nodes: &mut usize) -> Result<(), String> {
    *nodes += 1;
    let rules = schema["x-kubernetes-validations"].as_array().map_or(0, Vec::len);
    *nodes += COMPILED * (rules + usize::from(schema["pattern"].is_string()));
    if *nodes > MAX_NODES {
        return Err(format!("the schema may not have more than {MAX_NODES} parts"));
    }
    if depth > MAX_DEPTH {
        return Err(format!("the schema may not be nested more than {MAX_DEPTH} levels deep"));
    }
    for (name, value) in members(schema) {
        match (name.as_str(), value) {
            ("properties" | "patternProperties" | "definitions" | "dependencies", Value::Object(map)) => {
                map.values().try_for_each(|value| measure(value, depth + 1, nodes))?;
            }
            ("allOf" | "anyOf" | "oneOf" | "items", Value::Array(list)) => {
                list.iter().try_for_each(|value| measure(value, depth + 1, nodes))?;
            }
            ("items" | "additionalProperties" | "not" | "additionalItems", Value::Object(_)) => {
                measure(value, depth + 1, nodes)?;
            }
            _ => {}
        }
    }
    Ok(())
}

struct Check<'e> {
    errors: &'e mut FieldErrors,
    in_metadata: bool,
    /// False below items of lists without keys, because these items cannot be matched with their old values.
    is_traceable: bool,
}

impl Check<'_> {
    fn schema(&mut self, schema: &Value, path: &Path, place: SchemaPosition) {
        self.plain(schema, path);
        self.form(schema, path, place);
        let is_root_like = place == SchemaPosition::Root || schema["x-kubernetes-embedded-resource"] == true;
        for (name, property) in members(&schema["properties"]) {
            let path = path.child("properties").key(name);
            if is_root_like && name == "metadata" {
                self.metadata(property, &path);
                let outer = std::mem::replace(&mut self.in_metadata, true);
                self.schema(property, &path, SchemaPosition::Field);
                self.in_metadata = outer;
                continue;
            }
            if is_root_like && matches!(name.as_str(), "apiVersion" | "kind") && property["type"] != "string"
            {
                let given = property["type"].as_str().unwrap_or_default();
                self.errors.invalid(&path.child("type"), given, "must be string");
            }
            self.schema(property, &path, SchemaPosition::Field);
        }
        if schema["items"].is_object() {
            let traceable = self.is_traceable && schema["x-kubernetes-list-type"] == "map";
            let outer = std::mem::replace(&mut self.is_traceable, traceable);
            self.schema(&schema["items"], &path.child("items"), SchemaPosition::Item);
            self.is_traceable = outer;
        }
        if schema["additionalProperties"].is_object() {
            self.schema(
                &schema["additionalProperties"],
                &path.child("additionalProperties"),
                SchemaPosition::Field,
            );
        }
        self.combinations(schema, schema, path);
        self.default(schema, path);
        let rules = schema["x-kubernetes-validations"].as_array().map_or(&[][..], Vec::as_slice);
        if rules.is_empty() {
            return;
        }
        let form = Schema::without_rules(schema);
        for (at, rule) in rules.iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(at);
            rules::validate(rule, &form, self.is_traceable, &path, self.errors);
        }
    }

    /// Checks that the schema of metadata restricts only `name` and `generateName`.
    fn metadata(&mut self, schema: &Value, path: &Path) {
        let only = members(schema).all(|(name, value)| match name.as_str() {
            "type" | "description" => true,
            "properties" => members(value).all(|(name, _)| matches!(name.as_str(), "name" | "generateName")),
            _ => false,
        });
        if !only {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly \
                       specified";
            self.errors.forbidden(path, why);
        }
    }

    /// Checks the rules for every schema, regardless of its position.
    fn plain(&mut self, schema: &Value, path: &Path) {
        for name in ["definitions", "dependencies", "patternProperties"] {
            if members(&schema[name]).next().is_some() {
                self.errors.forbidden(&path.child(name), &format!("{name} is not supported"));
            }
        }
        for name in ["id", "$schema", "$ref", "additionalItems"] {
            if !schema[name].is_null() && schema[name] != "" {
                self.errors.forbidden(&path.child(name), &format!("{name} is not supported"));
            }
        }
        if schema["uniqueItems"] == true {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.forbidden(&path.child("uniqueItems"), why);
        }
        if schema["additionalProperties"] == false {
            let why = "additionalProperties cannot be set to false";
            self.errors.forbidden(&path.child("additionalProperties"), why);
        }
        if !schema["additionalProperties"].is_null() && members(&schema["properties"]).next().is_some() {
            let why = "additionalProperties and properties are mutual exclusive";
            self.errors.forbidden(&path.child("additionalProperties"), why);
        }
        if schema["items"].is_array() {
            let why = "items must be a schema object and not an array";
            self.errors.forbidden(&path.child("items"), why);
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = compile(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {error}");
            self.errors.invalid(&path.child("pattern"), pattern, &why);
        }
        let given = schema["type"].as_str().unwrap_or_default();
        if Type::parse(given).is_none() {
            let types = ["array", "boolean", "integer", "number", "object", "string"];
            self.errors.not_supported(&path.child("type"), given, &types);
        }
        self.lists_and_maps(schema, path);
    }

    fn lists_and_maps(&mut self, schema: &Value, path: &Path) {
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
        for (at, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            let property = &item["properties"][key];
            let property_path = path.child("items").child("properties").key(key);
            if keys[..at].iter().any(|other| other == key) {
                errors.duplicate(&keys_path.index(at), key);
            }
            if !property.is_object() {
                let why = "entries must all be names of item properties";
                errors.invalid(&keys_path.index(at), key, why);
                continue;
            }
            let is_required =
                item["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key));
            if !is_required && property["default"].is_null() {
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

    /// Checks the fields that define the structure of a value.
    fn form(&mut self, schema: &Value, path: &Path, place: SchemaPosition) {
        let errors = &mut *self.errors;
        let flag = |name: &str| schema[name] == true;
        let (either, keeps, embeds) = (
            flag("x-kubernetes-int-or-string"),
            flag("x-kubernetes-preserve-unknown-fields"),
            flag("x-kubernetes-embedded-resource"),
        );
        let given = schema["type"].as_str().unwrap_or_default();
        if given == "array" && !schema["items"].is_object() && !schema["items"].is_array() {
            errors.required(&path.child("items"), "must be specified");
        }
        if place == SchemaPosition::Root && !schema["additionalProperties"].is_null() {
            errors.forbidden(&path.child("additionalProperties"), "must not be used at the root");
        }
        if either {
            for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if flag(name) {
                    let why = "must be false if x-kubernetes-int-or-string is true";
                    errors.invalid(&path.child(name), true, why);
                }
            }
        } else if embeds && given != "object" {
            wrong_type(errors, path, given, "must be object if x-kubernetes-embedded-resource is true");
        } else if place == SchemaPosition::Root && given != "object" {
            match given {
                "" => errors.required(&path.child("type"), "must not be empty at the root"),
                other => errors.invalid(&path.child("type"), other, "must be object at the root"),
            }
        } else if given.is_empty() && !keeps {
            let why = match place {
                SchemaPosition::Root => "must not be empty at the root",
                SchemaPosition::Field => "must not be empty for specified object fields",
                SchemaPosition::Item => "must not be empty for specified array items",
            };
            errors.required(&path.child("type"), why);
        }
        if embeds && !keeps && members(&schema["properties"]).next().is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
            errors.required(&path.child("properties"), why);
        }
    }

    /// Checks that `allOf`, `anyOf`, `oneOf` and `not` only validate values and do not define structure.
    fn combinations(&mut self, schema: &Value, form: &Value, path: &Path) {
        let either = form["x-kubernetes-int-or-string"] == true;
        for name in ["allOf", "anyOf", "oneOf"] {
            for (at, part) in schema[name].as_array().into_iter().flatten().enumerate() {
                let is_either_list = either && matches!(name, "anyOf" | "allOf");
                self.judging(part, form, &path.child(name).index(at), is_either_list);
            }
        }
        if schema["not"].is_object() {
            self.judging(&schema["not"], form, &path.child("not"), false);
        }
    }

    fn judging(&mut self, part: &Value, form: &Value, path: &Path, may_have_type: bool) {
        self.plain_part(part, path, may_have_type);
        for (name, property) in members(&part["properties"]) {
            let below = &form["properties"][name];
            let path = path.child("properties").key(name);
            let is_open = form["x-kubernetes-preserve-unknown-fields"] == true;
            if !below.is_object() && !is_open {
                self.errors
                    .required(&path, "because it is defined in a value validation, but not in the structure");
                continue;
            }
            self.judging(property, below, &path, false);
        }
        if part["items"].is_object() {
            self.judging(&part["items"], &form["items"], &path.child("items"), false);
        }
        self.combinations(part, form, path);
    }

    fn plain_part(&mut self, part: &Value, path: &Path, may_have_type: bool) {
        let errors = &mut *self.errors;
        if !may_have_type && part["type"].as_str().is_some_and(|ty| !ty.is_empty()) {
            errors.forbidden(&path.child("type"), "must be empty to be structural");
        }
        for name in ["default", "additionalProperties", "x-kubernetes-preserve-unknown-fields"] {
            if !part[name].is_null() {
                errors.forbidden(&path.child(name), "must be undefined to be structural");
            }
        }
        for name in ["nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"] {
            if part[name] == true {
                errors.forbidden(&path.child(name), "must be false to be structural");
            }
        }
        for name in ["title", "description"] {
            if part[name].as_str().is_some_and(|text| !text.is_empty()) {
                errors.forbidden(&path.child(name), "must be empty to be structural");
            }
        }
        if part["x-kubernetes-validations"].as_array().is_some_and(|rules| !rules.is_empty()) {
            errors.forbidden(&path.child("x-kubernetes-validations"), "must be empty to be structural");
        }
        if let Some(pattern) = part["pattern"].as_str()
            && let Err(error) = compile(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {error}");
            errors.invalid(&path.child("pattern"), pattern, &why);
        }
    }

    /// Checks that a default is valid for its schema.
    fn default(&mut self, schema: &Value, path: &Path) {
        let given = &schema["default"];
        if given.is_null() {
            return;
        }
        let path = path.child("default");
        if self.in_metadata {
            return self.errors.forbidden(&path, "must not be set in metadata");
        }
        let schema = Schema::without_rules(schema);
        let (mut value, mut dropped) = (given.clone(), Vec::new());
        prune::prune(&schema, &mut value, schema.embedded, &mut dropped);
        if !dropped.is_empty() {
            let why = "must not have unknown fields";
            return self.errors.invalid(&path, given.clone(), &format!("{why}: {}", dropped.join(", ")));
        }
        default::fill(&schema, &mut value);
        values::validate(&schema, &path, &value, None, self.errors);
        if value.is_null() && !schema.nullable {
            self.errors.invalid(&path, given.clone(), "must not be null");
        }
    }
}

fn wrong_type(errors: &mut FieldErrors, path: &Path, given: &str, why: &str) {
    let path = path.child("type");
    if given.is_empty() { errors.required(&path, why) } else { errors.invalid(&path, given, why) }
}

#[cfg(test)]
mod tests;
