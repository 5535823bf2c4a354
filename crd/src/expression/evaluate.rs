//! Evaluates expressions on a request.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::compile::{Expression, Variables};
use crate::cel::access_question::{Access, AccessTarget, DecidesAccess};
use crate::cel::json::{check_names, to_json};
use crate::cel::types::JSON_PATCH;
use crate::cel::{Budget, Failure, Input, Memo, Val};

/// The text of cel-go for an expression that exceeds the limit of one call.
const CALL_TOO_COSTLY: &str = "operation cancelled: actual cost limit exceeded";

/// The remaining cost of all expressions of a policy and binding, or of all match conditions.
pub struct CostBudget(Budget);

impl CostBudget {
    /// For the expressions of a policy (upstream: `RuntimeCELCostBudget`).
    pub fn of_policy() -> Self {
        CostBudget(Budget::of(10_000_000))
    }

    /// For match conditions (upstream: `RuntimeCELCostBudgetMatchConditions`).
    pub fn of_match_conditions() -> Self {
        CostBudget(Budget::of(2_500_000))
    }

    /// For all policies, or all webhooks, of a request. Upstream has no such limit.
    pub fn of_request() -> Self {
        CostBudget(Budget::of(100_000_000))
    }

    /// This budget, but not more than what is left of another one.
    #[must_use]
    pub fn within(self, other: &CostBudget) -> Self {
        CostBudget(Budget::of(self.left().min(other.left())))
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.0.left()
    }

    /// Takes the cost of work outside an evaluation.
    ///
    /// # Errors
    /// Too little is left. Then nothing remains.
    pub fn take(&mut self, cost: u64) -> Result<(), OutOfBudget> {
        let fits = cost <= self.left();
        self.0.take(cost);
        if fits { Ok(()) } else { Err(OutOfBudget) }
    }
}

/// The approximate size of a document: the number of its values, and its texts in units of 16 bytes. Sizes above 1,000,000 are not
/// counted.
pub fn weight(document: &Value) -> u64 {
    Val::of(document, None).weight()
}

/// The parts of a request that expressions use.
#[derive(Clone, Copy, Default)]
pub struct Values<'v> {
    /// `object`; `None` for a delete.
    pub object: Option<&'v Value>,
    /// `oldObject`; `None` for a create.
    pub old_object: Option<&'v Value>,
    /// `request`.
    pub request: Option<&'v Value>,
    /// `params`.
    pub params: Option<&'v Value>,
    /// `namespaceObject`; `None` for cluster-scoped kinds.
    pub namespace_object: Option<&'v Value>,
    /// `authorizer`.
    pub access: Option<&'v dyn DecidesAccess>,
    /// `authorizer.requestResource`.
    pub request_resource: Option<&'v AccessTarget>,
}

/// The text of upstream for an exhausted budget.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The budget is exhausted: no further expressions are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{OUT_OF_BUDGET}")]
pub struct OutOfBudget;

/// The result of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// `null`.
    Null,
    /// Another value; contains the name of its type.
    Other(&'static str),
}

impl<'v> Values<'v> {
    fn input(&self, variables: &'v Variables) -> Input<'v> {
        let value = |value: Option<&'v Value>| value.map_or(Val::Null, |value| Val::of(value, None));
        let mut input = Input::default();
        input.set("object", value(self.object));
        input.set("oldObject", value(self.old_object));
        input.set("request", value(self.request));
        input.set("params", value(self.params));
        input.set("namespaceObject", value(self.namespace_object));
        if let Some(access) = self.access {
            input.set_decides(access);
            input.set("authorizer", Val::Access(Rc::new(Access::Authorizer(None))));
        }
        if let Some(target) = self.request_resource {
            input
                .set("authorizer.requestResource", Val::Access(Rc::new(Access::Check(None, target.clone()))));
        }
        input.set_lazy(&variables.0);
        input
    }

    /// Evaluates expressions in order. The values of `variables` are computed at most once.
    ///
    /// # Errors
    /// [`OutOfBudget`] if the expressions together cost too much.
    pub fn evaluate(
        &self,
        variables: &Variables,
        expressions: &[Option<&Expression>],
        budget: &mut CostBudget,
    ) -> Result<Vec<Option<Result<Outcome, String>>>, OutOfBudget> {
        let input = self.input(variables);
        let mut memo = Memo::default();
        let mut outcomes = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let Some(expression) = expression else {
                outcomes.push(None);
                continue;
            };
            let result = expression.program.run_with(&input, &mut memo, &mut budget.0);
            let outcome = match result {
                Ok(Val::Bool(flag)) => Ok(Outcome::Bool(flag)),
                Ok(Val::Text(text)) => Ok(Outcome::Text(text.to_string())),
                Ok(Val::Null) => Ok(Outcome::Null),
                Ok(value) => Ok(Outcome::Other(value.type_name())),
                Err(failure) => Err(failed(expression, failure)?),
            };
            outcomes.push(Some(outcome));
        }
        Ok(outcomes)
    }

    /// Evaluates an expression that makes an apply configuration.
    ///
    /// # Errors
    /// Why there is none.
    pub fn apply_configuration(
        &self,
        variables: &Variables,
        expression: &Expression,
        budget: &mut CostBudget,
    ) -> Result<Value, String> {
        self.made(variables, expression, budget, |value| {
            match_names(value, "Object")?;
            to_json(value)
        })
    }

    /// Evaluates an expression that makes the operations of a JSON patch.
    ///
    /// # Errors
    /// Why there are none.
    pub fn json_patch(
        &self,
        variables: &Variables,
        expression: &Expression,
        budget: &mut CostBudget,
    ) -> Result<Vec<Value>, String> {
        self.made(variables, expression, budget, |value| {
            let Val::List(operations) = value else {
                return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
            };
            operations.iter().map(operation).collect()
        })
    }

    fn made<T>(
        &self,
        variables: &Variables,
        expression: &Expression,
        budget: &mut CostBudget,
        read: impl FnOnce(&Val<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let input = self.input(variables);
        let mut memo = Memo::default();
        match expression.program.run_with(&input, &mut memo, &mut budget.0) {
            Ok(value) => read(&value),
            Err(failure) => Err(failed(expression, failure).unwrap_or_else(|error| error.to_string())),
        }
    }
}

/// Maximum number of wrong names that an error lists.
const MAX_NAMES: usize = 16;

/// Describes a failure, unless it ends all evaluations.
fn failed(expression: &Expression, failure: Failure) -> Result<String, OutOfBudget> {
    let why = match failure {
        Failure::Error(why) => why,
        Failure::RuleTooCostly => CALL_TOO_COSTLY.to_owned(),
        Failure::ObjectTooCostly => return Err(OutOfBudget),
    };
    Ok(format!("expression '{}' resulted in error: {why}", expression.text()))
}

fn match_names(value: &Val<'_>, path: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    check_names(value, &mut path.to_owned(), MAX_NAMES, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n"))) }
}

/// Converts an operation of a JSON patch.
fn operation(value: &Val<'_>) -> Result<Value, String> {
    let mismatch = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
    let Val::Made(JSON_PATCH, fields) = value else { return Err(mismatch.to_owned()) };
    let mut map = Map::new();
    // Both are always there.
    map.insert("op".to_owned(), "".into());
    map.insert("path".to_owned(), "".into());
    for (name, value) in fields.iter() {
        if let Val::Made(made, _) = value {
            match_names(value, made)?;
        }
        let value = to_json(value).map_err(|why| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })?;
        if *name != "from" || value != "" {
            map.insert((*name).to_owned(), value);
        }
    }
    Ok(Value::Object(map))
}
