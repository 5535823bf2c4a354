//! Checks that a schema is structural: every value has a type, and value validations do not define structure. The
//! error messages are upstream's.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/validation.go` and
//! `pkg/apis/apiextensions/validation`.

use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::Steps;
use serde_json::{Map, Value};

use crate::pattern::{compile, compile_effort};
use crate::rules::{self, Occurrence, RuleCosts, limit};
use crate::schema::{Schema, Type, members};
use crate::{coerce, default, prune, validate as values};

mod lists;
mod value_validations;

/// Maximum depth of a schema.
const MAX_DEPTH: usize = 64;
/// Maximum number of parts of a schema.
const MAX_NODES: usize = 40_000;
/// Number of parts that a pattern or a rule counts as, because it must be compiled.
const COMPILED: usize = 20;
/// Length of a rule that counts as one more part, bytes.
const BYTES_PER_NODE: usize = 8;
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
    if schema["nullable"] == true {
        errors.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    let form = Schema::without_rules(schema);
    let mut costs = RuleCosts::default();
    let mut check = Check {
        found: Found::default(),
        work,
        costs: &mut costs,
        default_forbidden: None,
        untraceable: None,
        is_structural: true,
    };
    check.schema(schema, &form, path, SchemaPosition::Root, Occurrence::once());
    let (is_structural, mut found) = (check.is_structural, check.found);
    if !is_structural {
        // Unsupported fields have an error of their own.
        errors.extend(found.schema);
        return;
    }
    found.form.sort();
    let has_form = found.form.is_empty();
    let is_sound = has_form && found.defaults.is_empty();
    errors.extend(found.form);
    if has_form {
        errors.extend(found.defaults);
    }
    errors.extend(found.schema);
    if is_sound {
        errors.extend(found.rules);
        costs.check(path, errors);
    }
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

/// The errors of a schema, in upstream's groups. Errors in the form of a schema hide those of its defaults, and both hide
/// those of its rules.
#[derive(Default)]
struct Found {
    form: FieldErrors,
    defaults: FieldErrors,
    schema: FieldErrors,
    rules: FieldErrors,
}

impl Found {
    fn is_full(&self) -> bool {
        [&self.form, &self.defaults, &self.schema, &self.rules].into_iter().any(FieldErrors::is_full)
    }
}

struct Check<'e> {
    found: Found,
    work: &'e Work,
    costs: &'e mut RuleCosts,
    /// Why the schema may not have a default; `None` if it may.
    default_forbidden: Option<String>,
    /// The list or map above whose values cannot be matched with their old values.
    untraceable: Option<Path>,
    /// False if the schema contains a field that structural schemas do not support.
    is_structural: bool,
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
        if self.found.is_full() {
            return;
        }
        let before = self.found.schema.len();
        let rules = schema["x-kubernetes-validations"].as_array().map_or(&[][..], Vec::as_slice);
        self.supported(schema, path);
        self.form(schema, path, place);
        if form.limits.pattern.is_none() {
            self.pattern(schema, path);
        }
        let is_root_like = place == SchemaPosition::Root || schema["x-kubernetes-embedded-resource"] == true;
        let occurrence = occurrence.declared(form, !rules.is_empty(), is_root_like);
        let elements = || occurrence.element(limit(schema));
        if let (true, Some(values)) = (schema["additionalProperties"].is_object(), form.additional.as_deref())
        {
            let path = path.child("additionalProperties");
            self.schema(&schema["additionalProperties"], values, &path, SchemaPosition::Field, elements());
        }
        for (name, property) in members(&schema["properties"]) {
            let Some(form) = form.properties.get(name) else { continue };
            let (parent, path) = (path, path.child("properties").key(name));
            let is_meta = is_root_like && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            let outer = (self.default_forbidden.clone(), self.untraceable.clone());
            if self.untraceable.is_none() && schema["x-kubernetes-map-type"] == "atomic" {
                self.untraceable = Some(parent.clone());
            }
            if is_meta {
                self.type_or_metadata(name, property, &path, place);
                self.default_forbidden = Some(match place {
                    SchemaPosition::Root => format!("must not be set in top-level {name}"),
                    SchemaPosition::Field | SchemaPosition::Item => "must not be set in metadata".to_owned(),
                });
            }
            self.schema(property, form, &path, SchemaPosition::Field, occurrence.property(name));
            (self.default_forbidden, self.untraceable) = outer;
        }
        self.combinations(schema, schema, path, path);
        if let Some(items) = form.items.as_deref() {
            let is_traceable = schema["x-kubernetes-list-type"] == "map";
            let outer = self.untraceable.clone();
            if self.untraceable.is_none() && !is_traceable {
                self.untraceable = Some(path.clone());
            }
            self.schema(&schema["items"], items, &path.child("items"), SchemaPosition::Item, elements());
            self.untraceable = outer;
        }
        self.lists_and_maps(schema, path);
        self.default(schema, form, path);
        let rules_path = path.child("x-kubernetes-validations");
        for (at, rule) in rules.iter().enumerate() {
            rules::validate_fields(rule, form, &rules_path.index(at), &mut self.found.schema);
        }
        // Expressions are compiled only for a valid schema.
        if rules.is_empty() || self.found.schema.len() > before {
            return;
        }
        if !occurrence.is_declared() {
            let why = "failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema \
                       to CEL declarations";
            return self.found.rules.invalid_unshown(&rules_path, why);
        }
        for (at, rule) in rules.iter().enumerate() {
            let errors = &mut self.found.rules;
            let path = rules_path.index(at);
            rules::validate_expressions(
                rule,
                self.untraceable.as_ref(),
                &occurrence,
                &path,
                self.costs,
                errors,
            );
        }
    }

    /// Checks the schema of `apiVersion`, `kind` or `metadata`. That of metadata restricts only `name` and
    /// `generateName`.
    fn type_or_metadata(&mut self, name: &str, schema: &Value, path: &Path, place: SchemaPosition) {
        let given = schema["type"].as_str().unwrap_or_default();
        let wanted = if name == "metadata" { "object" } else { "string" };
        if given != wanted {
            self.found.form.invalid(&path.child("type"), given, &format!("must be {wanted}"));
        }
        let is_name = |name: &String| matches!(name.as_str(), "name" | "generateName");
        let only = members(schema).all(|(name, value)| match name.as_str() {
            "type" | "description" | "default" => true,
            "properties" => members(value).all(|(name, _)| is_name(name)),
            _ => false,
        });
        if name == "metadata" && place == SchemaPosition::Root && !only {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly \
                       specified";
            self.found.form.forbidden(path, why);
        }
    }

    /// Checks for fields that structural schemas do not support, and for values that no schema may have.
    fn supported(&mut self, schema: &Value, path: &Path) {
        let errors = &mut self.found.schema;
        let given = schema["type"].as_str().unwrap_or_default();
        if Type::parse(given).is_none() {
            let types = ["array", "boolean", "integer", "number", "object", "string"];
            errors.not_supported(&path.child("type"), given, &types);
        }
        if let Some(why) = self.default_forbidden.as_ref().filter(|_| !schema["default"].is_null()) {
            errors.forbidden(&path.child("default"), why);
        }
        for name in
            ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "$schema"]
        {
            let value = &schema[name];
            let is_empty = value.is_null() || value == "" || value.as_object().is_some_and(Map::is_empty);
            if !is_empty {
                self.is_structural = false;
                errors.forbidden(&path.child(name), &format!("{name} is not supported"));
            }
        }
        if given == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            errors.forbidden(&path.child("type"), why);
        }
        if schema["items"].is_array() {
            self.is_structural = false;
            errors.forbidden(&path.child("items"), "items must be a schema object and not an array");
        }
        if schema["uniqueItems"] == true {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.forbidden(&path.child("uniqueItems"), why);
        }
        let additional = &schema["additionalProperties"];
        if !additional.is_null() && additional != true && members(&schema["properties"]).next().is_some() {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.forbidden(&path.child("additionalProperties"), why);
        }
    }

    /// Checks that a pattern compiles.
    fn pattern(&mut self, schema: &Value, path: &Path) {
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = compile(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {error}");
            self.found.form.invalid(&path.child("pattern"), pattern, &why);
        }
    }

    /// Checks the fields that define the structure of a value.
    fn form(&mut self, schema: &Value, path: &Path, place: SchemaPosition) {
        let errors = &mut self.found.form;
        let flag = |name: &str| schema[name] == true;
        let (either, keeps, embeds) = (
            flag("x-kubernetes-int-or-string"),
            flag("x-kubernetes-preserve-unknown-fields"),
            flag("x-kubernetes-embedded-resource"),
        );
        let given = schema["type"].as_str().unwrap_or_default();
        let additional = path.child("additionalProperties");
        let has_additional = !schema["additionalProperties"].is_null();
        if given == "array" && !schema["items"].is_object() && !schema["items"].is_array() {
            errors.required(&path.child("items"), "must be specified");
        }
        if place == SchemaPosition::Root && has_additional {
            errors.forbidden(&additional, "must not be used at the root");
        }
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if either && flag(name) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(&path.child(name), true, why);
            }
        }
        if embeds && given != "object" {
            wrong_type(errors, path, given, "must be object if x-kubernetes-embedded-resource is true");
        } else if given.is_empty() && !either && !keeps {
            let why = match place {
                SchemaPosition::Root => "must not be empty at the root",
                SchemaPosition::Field => "must not be empty for specified object fields",
                SchemaPosition::Item => "must not be empty for specified array items",
            };
            errors.required(&path.child("type"), why);
        }
        if embeds && has_additional {
            errors.forbidden(&additional, "must not be used if x-kubernetes-embedded-resource is set");
        }
        if place == SchemaPosition::Root && !given.is_empty() && given != "object" {
            errors.invalid(&path.child("type"), given, "must be object at the root");
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
        if given.is_null() || self.default_forbidden.is_some() {
            return;
        }
        let errors = &mut self.found.defaults;
        let path = path.child("default");
        if default::weigh(given, &self.work.weight).is_err() {
            return errors.forbidden(&path, "the defaults are too large");
        }
        let (mut value, mut dropped) = (given.clone(), Vec::new());
        prune::prune(form, &mut value, form.embedded, &mut dropped);
        if !dropped.is_empty() {
            errors.invalid(&path, given.clone(), "must not have unknown fields");
        }
        // Upstream ignores the unknown fields of embedded metadata here.
        if let Err(mistyped) = coerce::coerce(form, &path, &mut value, &mut Vec::new()) {
            return errors.invalid(&mistyped.path, mistyped.value, &mistyped.why);
        }
        if default::fill(form, &mut value, &self.work.weight).is_err() {
            return errors.forbidden(&path, "the defaults are too large");
        }
        // The messages contain the place within the default.
        let mut found = FieldErrors::new();
        values::embedded::validate(form, &Path::default(), &value, &mut found);
        if found.is_empty() {
            values::validate_within(&self.work.steps, form, &Path::default(), &value, None, &mut found);
        }
        errors.extend_below(&path, found);
    }
}

fn wrong_type(errors: &mut FieldErrors, path: &Path, given: &str, why: &str) {
    let path = path.child("type");
    if given.is_empty() { errors.required(&path, why) } else { errors.invalid(&path, given, why) }
}

#[cfg(test)]
mod tests;
