//! Validates the rules of schemas (`x-kubernetes-validations`) and evaluates them on values.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/cel`.

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
    let mut judge = Judge { budget: Budget::new(), errors, exhausted: false, steps: Steps::new(STEPS) };
    judge.value(schema, &Path::default(), value, old);
}

struct Judge<'e> {
    budget: Budget,
    errors: &'e mut FieldErrors,
    exhausted: bool,
    /// For the keys of lists.
    steps: Steps,
}

impl Judge<'_> {
    fn value(&mut self, schema: &Schema, path: &Path, value: &Value, old: Option<&Value>) {
        if !schema.rules_inside || value.is_null() || self.exhausted || self.errors.is_full() {
            return;
        }
        let changed = old != Some(value);
        for rule in &schema.rules {
            let asks_old = rule.program.uses_old;
            // Unchanged values are not validated again, except by transition rules.
            let due = if asks_old { old.is_some() || rule.old_is_optional } else { changed };
            if due && !self.exhausted {
                self.rule(rule, schema, path, value, old);
            }
        }
        match value {
            Value::Object(_) => {
                for (name, inner) in members(value) {
                    let Some(schema) = schema.properties.get(name).or(schema.additional.as_deref()) else {
                        continue;
                    };
                    self.value(schema, &path.child(name), inner, old.and_then(|old| old.get(name)));
                }
            }
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                if self.items(items, schema, path, list, old).is_err() {
                    self.out_of_budget(path, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn items(
        &mut self,
        items: &Schema,
        schema: &Schema,
        path: &Path,
        list: &[Value],
        old: Option<&Value>,
    ) -> Result<(), OutOfSteps> {
        let twins = Twins::of(schema, old, &self.steps)?;
        for (at, item) in list.iter().enumerate() {
            let twin = twins.of_item(item, &self.steps)?;
            self.value(items, &path.index(at), item, twin);
        }
        Ok(())
    }

    fn out_of_budget(&mut self, path: &Path, value: &Value) {
        let why =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.wrong(path, value, why);
        self.exhausted = true;
    }

    fn rule(&mut self, rule: &Rule, schema: &Schema, path: &Path, value: &Value, old: Option<&Value>) {
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
                self.broken(rule, &place, value, &why);
            }
            Ok(_) => {
                let why = format!("the rule has no truth as its value: {}", rule.shown());
                self.wrong(path, value, &why);
            }
            Err(Failure::Error(why)) => {
                self.wrong(path, value, &format!("{why} evaluating rule: {}", rule.shown()));
            }
            Err(Failure::RuleTooCostly) => {
                let why = format!(
                    "no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.shown()
                );
                self.wrong(path, value, &why);
                self.exhausted = true;
            }
            Err(Failure::ObjectTooCostly) => self.out_of_budget(path, value),
        }
    }

    /// Returns the computed message, or the static one.
    fn message<'v>(&mut self, rule: &'v Rule, input: &'v Input<'v>) -> String {
        let Some(program) = &rule.message_program else { return rule.fallback() };
        match program.run(input, &mut self.budget) {
            Ok(Val::Text(text)) if !text.trim().is_empty() && !text.contains('\n') => text.trim().to_owned(),
            Ok(_) | Err(_) => rule.fallback(),
        }
    }

    fn broken(&mut self, rule: &Rule, path: &Path, value: &Value, why: &str) {
        match rule.reason.as_str() {
            "FieldValueRequired" => self.errors.required(path, why),
            "FieldValueForbidden" => self.errors.forbidden(path, why),
            "FieldValueDuplicate" => self.errors.duplicate(path, value.clone()),
            _ => self.wrong(path, value, why),
        }
    }

    /// Reports an invalid value. Objects and lists are too long for the message.
    fn wrong(&mut self, path: &Path, value: &Value, why: &str) {
        match value {
            Value::Object(_) | Value::Array(_) => self.errors.invalid_unshown(path, why),
            value => self.errors.invalid(path, value.clone(), why),
        }
    }
}

#[cfg(test)]
mod tests;
