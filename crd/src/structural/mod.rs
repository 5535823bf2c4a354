//! Checks that a schema is structural: every value has a type, and value validations do not define structure. The
//! error messages are upstream's.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/validation.go` and
//! `pkg/apis/apiextensions/validation`.

use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::Steps;
use serde_json::Value;

use crate::pattern::{compile, compile_effort};
use crate::rules::{self, Occurrence, RuleCosts, limit};
use crate::schema::{Schema, Type, members};
use crate::{default, prune, validate as values};

mod lists;
mod value_validations;

/// Maximum depth of a schema.
const MAX_DEPTH: usize = 64;
/// Maximum number of parts of a schema.
const MAX_NODES: usize = 40_000;
/// Number of parts that a pattern or a rule counts as, because it must be compiled.
const COMPILED: usize = 20;
/// Length of a rule that counts as one more part, bytes.
const BYTES_PER_NODE: usize = 32;
/// The effort of compiling a pattern that counts as one more part.
const EFFORT_PER_NODE: usize = 50;
/// Maximum number of parts of the schemas of all versions.
const MAX_ALL_NODES: usize = 2 * MAX_NODES;

/// The position of a schema.
#[derive(Clone, Copy, PartialEq)]
enum SchemaPosition {
    Root,
    Field,
    Item,
}

/// The work that the schemas of all versions of a definition may cause together.
pub(crate) struct Work {
    nodes: usize,
    /// Steps for the validation of the defaults.
    steps: Steps,
    /// Weight of the defaults and their own defaults.
    weight: Steps,
}

impl Work {
    pub(crate) fn new() -> Self {
        Work { nodes: 0, steps: Steps::new(values::STEPS), weight: Steps::new(default::MAX_WEIGHT) }
    }
}

/// Validates the schema of a version.
pub(crate) fn validate(schema: &Value, path: &Path, work: &mut Work, errors: &mut FieldErrors) {
    let mut nodes = 0;
    if let Err(why) = measure(schema, 0, &mut nodes) {
        return errors.forbidden(path, &why);
    }
    work.nodes += nodes;
    if work.nodes > MAX_ALL_NODES {
        let why = format!("the schemas of all versions may not have more than {MAX_ALL_NODES} parts");
        return errors.forbidden(path, &why);
    }
    let form = Schema::without_rules(schema);
    let mut costs = RuleCosts::default();
    let mut check = Check { errors, work, costs: &mut costs, in_metadata: false, is_traceable: true };
    check.schema(schema, &form, path, SchemaPosition::Root, Occurrence::once());
    costs.check(path, errors);
}

fn measure(schema: &Value, depth: usize, nodes: &mut usize) -> Result<(), String> {
    *nodes += 1;
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let length = |name: &str| rule[name].as_str().map_or(0, str::len);
        *nodes += COMPILED + (length("rule") + length("messageExpression")) / BYTES_PER_NODE;
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        *nodes += COMPILED + compile_effort(pattern) / EFFORT_PER_NODE;
    }
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
    work: &'e Work,
    costs: &'e mut RuleCosts,
    in_metadata: bool,
    /// False below items of lists without keys, because these items cannot be matched with their old values.
    is_traceable: bool,
}

impl Check<'_> {
    /// `form` is the same schema without its rules.
    fn schema(
        &mut self,
        schema: &Value,
        form: &Schema,
        path: &Path,
        place: SchemaPosition,
        occurrence: Occurrence,
    ) {
        if self.errors.is_full() {
            return;
        }
        let rules = schema["x-kubernetes-validations"].as_array().map_or(&[][..], Vec::as_slice);
        self.plain(schema, form, path);
        self.form(schema, path, place);
        let is_root_like = place == SchemaPosition::Root || schema["x-kubernetes-embedded-resource"] == true;
        let occurrence = occurrence.declared(form, !rules.is_empty(), is_root_like);
        for (name, property) in members(&schema["properties"]) {
            let Some(form) = form.properties.get(name) else { continue };
            let path = path.child("properties").key(name);
            if is_root_like && name == "metadata" {
                self.metadata(property, &path);
                let outer = std::mem::replace(&mut self.in_metadata, true);
                self.schema(property, form, &path, SchemaPosition::Field, occurrence.property(name));
                self.in_metadata = outer;
                continue;
            }
            if is_root_like && matches!(name.as_str(), "apiVersion" | "kind") && property["type"] != "string"
            {
                let given = property["type"].as_str().unwrap_or_default();
                self.errors.invalid(&path.child("type"), given, "must be string");
            }
            self.schema(property, form, &path, SchemaPosition::Field, occurrence.property(name));
        }
        let elements = || occurrence.element(limit(schema));
        if let Some(items) = form.items.as_deref() {
            let traceable = self.is_traceable && schema["x-kubernetes-list-type"] == "map";
            let outer = std::mem::replace(&mut self.is_traceable, traceable);
            self.schema(&schema["items"], items, &path.child("items"), SchemaPosition::Item, elements());
            self.is_traceable = outer;
        }
        if let (true, Some(values)) = (schema["additionalProperties"].is_object(), form.additional.as_deref())
        {
            self.schema(
                &schema["additionalProperties"],
                values,
                &path.child("additionalProperties"),
                SchemaPosition::Field,
                elements(),
            );
        }
        self.combinations(schema, schema, path);
        self.default(schema, form, path);
        let rules_path = path.child("x-kubernetes-validations");
        if !rules.is_empty() && !occurrence.is_declared() {
            let why = "failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema \
                       to CEL declarations";
            return self.errors.invalid_unshown(&rules_path, why);
        }
        for (at, rule) in rules.iter().enumerate() {
            let path = rules_path.index(at);
            rules::validate(rule, form, self.is_traceable, &occurrence, &path, self.costs, self.errors);
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
    fn plain(&mut self, schema: &Value, form: &Schema, path: &Path) {
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
            && form.limits.pattern.is_none()
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

    /// Checks that a default is valid for its schema.
    fn default(&mut self, schema: &Value, form: &Schema, path: &Path) {
        let given = &schema["default"];
        if given.is_null() {
            return;
        }
        let path = path.child("default");
        if self.in_metadata {
            return self.errors.forbidden(&path, "must not be set in metadata");
        }
        if default::weigh(given, &self.work.weight).is_err() {
            return self.errors.forbidden(&path, "the defaults are too large");
        }
        let (mut value, mut dropped) = (given.clone(), Vec::new());
        prune::prune(form, &mut value, form.embedded, &mut dropped);
        if !dropped.is_empty() {
            let why = "must not have unknown fields";
            return self.errors.invalid(&path, given.clone(), &format!("{why}: {}", dropped.join(", ")));
        }
        if default::fill(form, &mut value, &self.work.weight).is_err() {
            return self.errors.forbidden(&path, "the defaults are too large");
        }
        values::validate_within(&self.work.steps, form, &path, &value, None, self.errors);
        if value.is_null() && !form.nullable {
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
