//! Limits on the expressions of one object. Upstream limits only their cost.

use serde_json::Value;

use super::fields::{list, text};
use crate::validate::{FieldErrors, Path};

/// Maximum number of expressions of a policy or a webhook configuration.
pub const MOST_EXPRESSIONS: usize = 1_000;
/// Maximum length of these expressions and of the names of the variables together, bytes.
pub const MOST_EXPRESSION_BYTES: usize = 256 << 10;

/// An object has more expressions than the server compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyExpressions {
    /// More than [`MOST_EXPRESSIONS`]; contains their number.
    #[error("{0} expressions are more than {MOST_EXPRESSIONS}")]
    Number(usize),
    /// More than [`MOST_EXPRESSION_BYTES`].
    #[error("the expressions have more than {MOST_EXPRESSION_BYTES} bytes")]
    Length,
}

impl TooManyExpressions {
    pub(super) fn report(self, path: &Path, errors: &mut FieldErrors) {
        match self {
            TooManyExpressions::Number(count) => errors.too_many(path, count, MOST_EXPRESSIONS),
            TooManyExpressions::Length => errors.too_long(path, MOST_EXPRESSION_BYTES),
        }
    }
}

/// Checks the number and the length of the expressions in the `spec` of a policy.
///
/// # Errors
/// A limit is exceeded.
pub fn check_policy(spec: &Value) -> Result<(), TooManyExpressions> {
    let mut sum = Sum::default();
    for variable in list(spec, "variables") {
        sum.bytes += text(variable, "name").len();
        sum.add(variable, "expression");
    }
    for validation in list(spec, "validations") {
        sum.add(validation, "expression");
        if !text(validation, "messageExpression").is_empty() {
            sum.add(validation, "messageExpression");
        }
    }
    for annotation in list(spec, "auditAnnotations") {
        sum.add(annotation, "valueExpression");
    }
    for mutation in list(spec, "mutations") {
        let patches = ["applyConfiguration", "jsonPatch"].into_iter().filter_map(|name| mutation.get(name));
        patches.for_each(|patch| sum.add(patch, "expression"));
    }
    sum.add_conditions(spec);
    sum.check()
}

/// Checks the number and the length of the match conditions of all webhooks of a configuration.
///
/// # Errors
/// A limit is exceeded.
pub fn check_webhooks(webhooks: &[Value]) -> Result<(), TooManyExpressions> {
    let mut sum = Sum::default();
    webhooks.iter().for_each(|webhook| sum.add_conditions(webhook));
    sum.check()
}

#[derive(Default)]
struct Sum {
    count: usize,
    bytes: usize,
}

impl Sum {
    fn add(&mut self, owner: &Value, field: &str) {
        self.bytes += text(owner, field).len();
        self.count += 1;
    }

    fn add_conditions(&mut self, owner: &Value) {
        list(owner, "matchConditions").iter().for_each(|condition| self.add(condition, "expression"));
    }

    fn check(&self) -> Result<(), TooManyExpressions> {
        match self {
            Sum { count, .. } if *count > MOST_EXPRESSIONS => Err(TooManyExpressions::Number(*count)),
            Sum { bytes, .. } if *bytes > MOST_EXPRESSION_BYTES => Err(TooManyExpressions::Length),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_expressions_of_an_object_count() {
        let many = |count: usize, value: Value| Value::from(vec![value; count]);
        let long = "x".repeat(MOST_EXPRESSION_BYTES / 2);
        let condition = json!({"name": "n", "expression": "true"});
        for (case, spec, want) in [
            ("none", json!({}), Ok(())),
            ("most", json!({"variables": many(1000, condition.clone())}), Ok(())),
            (
                "variables",
                json!({"variables": many(1001, condition.clone())}),
                Err(TooManyExpressions::Number(1001)),
            ),
            (
                "messages",
                json!({"validations": many(501, json!({"expression": "a", "messageExpression": "b"}))}),
                Err(TooManyExpressions::Number(1002)),
            ),
            (
                "all fields",
                json!({"variables": many(400, condition.clone()), "matchConditions": many(64, condition.clone()),
                    "auditAnnotations": many(20, json!({"key": "k", "valueExpression": "''"})),
                    "mutations": many(517, json!({"jsonPatch": {"expression": "[]"}}))}),
                Err(TooManyExpressions::Number(1001)),
            ),
            (
                "names",
                json!({"variables": [{"name": long, "expression": long}, {"name": "a", "expression": "b"}]}),
                Err(TooManyExpressions::Length),
            ),
        ] {
            assert_eq!(check_policy(&spec), want, "{case}");
        }
        let webhook = json!({"matchConditions": many(60, condition)});
        assert_eq!(check_webhooks(&vec![webhook.clone(); 16]), Ok(()));
        assert_eq!(check_webhooks(&vec![webhook; 17]), Err(TooManyExpressions::Number(1020)));
    }
}
