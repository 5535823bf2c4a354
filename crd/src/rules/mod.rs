//! Validates the rules of schemas (`x-kubernetes-validations`) and evaluates them on values.
//!
//! A broken rule of an unchanged value ([`correlation`]) is a warning, unless the rule compares with the old value.
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/cel`.

mod correlation;
mod cost_limits;
mod declared;

pub(crate) use cost_limits::{Occurrence, RuleCosts, limit};
pub(crate) use declared::{shown, validate_expressions, validate_fields};

use orlop_api::validate::{FieldErrors, Path};
use orlop_apimachinery::steps::{OutOfSteps, Steps};
use serde_json::Value;

use crate::cel::{Budget, Failure, Input, Program, Val};
use crate::columns::simple_path;
use crate::rule::Rule;
use crate::schema::{Schema, members};
use crate::validate::{STEPS, Twins};
use correlation::Correlation;

impl Schema {
    /// Reads the schema in a `JSONSchemaProps`. Invalid parts are ignored: either the validation of the definition
    /// has rejected them, or another server wrote the store.
    pub(crate) fn of(props: &Value) -> Self {
        Schema::read(props, Rule::all)
    }
}

impl Rule {
    /// Compiles the rules of a schema. Rules that do not compile are ignored; the validation of the definition
    /// rejects them.
    pub(crate) fn all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().filter_map(Rule::of).collect()
    }

    fn of(rule: &Value) -> Option<Self> {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        Some(Rule {
            text: text("rule").trim().to_owned(),
            program: Program::parse(text("rule")).ok()?,
            message: text("message").trim().to_owned(),
            message_program: Some(text("messageExpression"))
                .filter(|text| !text.is_empty())
                .and_then(|text| Program::parse(text).ok()),
            reason: text("reason").to_owned(),
            field_path: field_path(text("fieldPath")),
            old_is_optional: rule["optionalOldSelf"] == true,
        })
    }

    /// Returns the message of a broken rule, or a default one if the rule has none.
    fn fallback(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.text) } else { self.message.clone() }
    }

    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }
}

/// Parses a field path: `.spec.color`, or one that starts with `['a.b']`.
fn field_path(text: &str) -> Option<Vec<String>> {
    let text = if text.starts_with('[') { format!(".{text}") } else { text.to_owned() };
    simple_path(&text)
}

/// Evaluates every rule of a schema on a value and, if there is one, the old value.
pub(crate) fn judge(schema: &Schema, value: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let steps = Steps::new(STEPS);
    let mut judge = Judge { budget: Budget::new(), errors, exhausted: false, steps: &steps };
    let correlation = old.map_or_else(Correlation::default, |old| Correlation::root(schema, value, old));
    judge.value(schema, &Path::default(), value, old, correlation);
}

struct Judge<'e> {
    budget: Budget,
    errors: &'e mut FieldErrors,
    exhausted: bool,
    /// For the keys of lists, and the comparison of values.
    steps: &'e Steps,
}

impl Judge<'_> {
    fn value<'v>(
        &mut self,
        schema: &'v Schema,
        path: &Path,
        value: &'v Value,
        old: Option<&'v Value>,
        correlation: Correlation<'v>,
    ) {
        if !schema.rules_inside || value.is_null() || self.exhausted || self.errors.is_full() {
            return;
        }
        for rule in &schema.rules {
            let is_due = !rule.program.uses_old || old.is_some() || rule.old_is_optional;
            if is_due && !self.exhausted {
                self.rule(rule, schema, path, value, old, correlation);
            }
        }
        match value {
            Value::Object(_) => {
                for (name, inner) in members(value) {
                    let (schema, path) = match (schema.properties.get(name), schema.additional.as_deref()) {
                        (Some(property), _) => (property, path.child(name)),
                        (None, Some(additional)) => (additional, path.key(name)),
                        (None, None) => continue,
                    };
                    let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                    self.value(schema, &path, inner, old, correlation.member(name));
                }
            }
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                if self.items(items, schema, path, list, old, correlation).is_err() {
                    self.out_of_budget(schema, path);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn items<'v>(
        &mut self,
        items: &'v Schema,
        schema: &'v Schema,
        path: &Path,
        list: &'v [Value],
        old: Option<&'v Value>,
        correlation: Correlation<'v>,
    ) -> Result<(), OutOfSteps> {
        let twins = Twins::of(schema, old, self.steps)?;
        for (at, item) in list.iter().enumerate() {
            let twin = twins.of_item(item, self.steps)?;
            self.value(items, &path.index(at), item, twin, correlation.item(items, item, twin));
        }
        Ok(())
    }

    fn rule(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        path: &Path,
        value: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_>,
    ) {
        let read = [Some(value), old].into_iter().flatten();
        read.for_each(|value| self.budget.take(Val::reading_cost(value, Some(schema))));
        let before = old.map(|old| Val::of(old, Some(schema)));
        let old = match rule.old_is_optional {
            true => Some(Val::Optional(before.map(std::rc::Rc::new))),
            false => before,
        };
        let input = Input::of_rule(Val::of(value, Some(schema)), old);
        match rule.program.run(&input, &mut self.budget) {
            Ok(Val::Bool(true)) => {}
            Ok(Val::Bool(false)) => {
                let why = self.message(rule, &input);
                let place =
                    rule.field_path.iter().flatten().fold(path.clone(), |path, step| path.child(step));
                let mut found = FieldErrors::new();
                broken(rule, &place, value, &why, &mut found);
                match rule.program.uses_old {
                    false if correlation.is_unchanged(self.steps) => self.errors.extend_warnings(found),
                    _ => self.errors.extend(found),
                }
            }
            Ok(_) => {
                self.failed(schema, path, &format!("the rule has no truth as its value: {}", rule.shown()))
            }
            Err(Failure::Error(why)) => {
                self.failed(schema, path, &format!("{why} evaluating rule: {}", rule.shown()));
            }
            Err(Failure::RuleTooCostly) => {
                let why = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                     call cost exceeds limit for rule: {}",
                    rule.shown()
                );
                self.failed(schema, path, &why);
                self.exhausted = true;
            }
            Err(Failure::ObjectTooCostly) => self.out_of_budget(schema, path),
        }
    }

    fn out_of_budget(&mut self, schema: &Schema, path: &Path) {
        let why =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.failed(schema, path, why);
        self.exhausted = true;
    }

    /// Reports a rule without a result. Upstream prints the type instead of the value.
    fn failed(&mut self, schema: &Schema, path: &Path, why: &str) {
        let ty = if schema.int_or_string { "" } else { schema.ty.text() };
        self.errors.invalid(path, ty, why);
    }

    /// Returns the computed message, or the static one.
    fn message<'v>(&mut self, rule: &'v Rule, input: &'v Input<'v>) -> String {
        let Some(program) = &rule.message_program else { return rule.fallback() };
        match program.run(input, &mut self.budget) {
            Ok(Val::Text(text)) if !text.trim().is_empty() && !text.contains('\n') => text.trim().to_owned(),
            Ok(_) | Err(_) => rule.fallback(),
        }
    }
}

/// Reports a broken rule. Objects and lists are too long for the message.
fn broken(rule: &Rule, path: &Path, value: &Value, why: &str, errors: &mut FieldErrors) {
    let is_long = value.is_object() || value.is_array();
    match rule.reason.as_str() {
        "FieldValueRequired" => errors.required(path, why),
        "FieldValueForbidden" => errors.forbidden(path, why),
        "FieldValueDuplicate" if is_long => errors.duplicate_unshown(path),
        "FieldValueDuplicate" => errors.duplicate(path, value.clone()),
        _ if is_long => errors.invalid_unshown(path, why),
        _ => errors.invalid(path, value.clone(), why),
    }
}

#[cfg(test)]
mod tests;
