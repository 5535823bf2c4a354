//! Match conditions: expressions that must be true for a policy or a webhook to apply.
//!
//! Upstream: apiserver `pkg/admission/plugin/webhook/matchconditions`.

use orlop_api::registry::expressions::{ExpressionResult, ExpressionScope};
use orlop_crd::expression::{Compiler, CostBudget, Expression, Outcome, Values, Variables};
use serde_json::Value;

/// The match conditions of a policy or a webhook.
pub(crate) struct Conditions {
    expressions: Vec<Result<Expression, String>>,
    fails: bool,
}

impl Conditions {
    /// Compiles `matchConditions`. If `fails` is false, an error means that they do not match.
    pub(crate) fn of(value: &Value, compiler: &Compiler, scope: ExpressionScope, fails: bool) -> Self {
        let list = value.get("matchConditions").and_then(Value::as_array).into_iter().flatten();
        let text = |one: &Value| one.get("expression").and_then(Value::as_str).unwrap_or_default().to_owned();
        let expressions = list.map(|one| compiler.compile(&text(one), scope, ExpressionResult::Bool));
        Conditions { expressions: expressions.collect(), fails }
    }

    /// A condition that always fails.
    pub(crate) fn failing(why: String, fails: bool) -> Self {
        Conditions { expressions: vec![Err(why)], fails }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether all are true. A false one decides, whatever errors the others have. `budget` limits the cost.
    ///
    /// # Errors
    /// The errors, if they count.
    pub(crate) fn match_request(
        &self,
        values: &Values<'_>,
        variables: &Variables,
        budget: &mut CostBudget,
    ) -> Result<bool, String> {
        if self.expressions.is_empty() {
            return Ok(true);
        }
        let compiled: Vec<Option<&Expression>> =
            self.expressions.iter().map(|expression| expression.as_ref().ok()).collect();
        let outcomes = match values.evaluate(variables, &compiled, budget) {
            Ok(outcomes) => outcomes,
            Err(error) if self.fails => return Err(error.to_string()),
            Err(_) => return Ok(false),
        };
        let mut errors = Vec::new();
        for (expression, outcome) in self.expressions.iter().zip(outcomes) {
            match (expression, outcome) {
                (Err(why), _) => errors.push(format!("compilation error: {why}")),
                (Ok(_), Some(Err(why))) => errors.push(why),
                (Ok(_), Some(Ok(Outcome::Bool(false)))) => return Ok(false),
                (Ok(_), Some(Ok(_)) | None) => {}
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if !self.fails => Ok(false),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}
