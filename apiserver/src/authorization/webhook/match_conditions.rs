//! The match conditions of a webhook: the server calls it only for requests that meet all of them.
//!
//! Upstream: apiserver `pkg/authorization/cel`.

use orlop_api::registry::expressions::{ExpressionResult, ExpressionScope};
use orlop_crd::expression::{Compiler, CostBudget, Values, Variables};
use serde_json::{Map, Value, json};

use crate::admission::policy::conditions::Conditions;

/// Compiles the expressions of a webhook.
pub(super) fn compiled(expressions: &[String]) -> Conditions {
    let listed: Vec<Value> = expressions.iter().map(|text| json!({"expression": text})).collect();
    let conditions = json!({"matchConditions": listed});
    Conditions::of(&conditions, &Compiler::for_reviews(), ExpressionScope::default(), true)
}

/// Checks that an expression compiles.
///
/// # Errors
/// The compile error.
pub(super) fn check(expression: &str) -> Result<(), String> {
    Compiler::for_reviews().compile(expression, ExpressionScope::default(), ExpressionResult::Bool).map(drop)
}

/// Whether all conditions are true for the `spec` of a review. A false condition decides, even if other conditions fail.
///
/// # Errors
/// The errors of the conditions.
pub(super) fn match_review(conditions: &Conditions, spec: &Map<String, Value>) -> Result<bool, String> {
    if conditions.is_empty() {
        return Ok(true);
    }
    let request = complete(spec);
    let values = Values { request: Some(&request), ..Values::default() };
    conditions.match_request(&values, &Variables::default(), &mut CostBudget::of_match_conditions())
}

/// The review as expressions see it: with the empty fields that the review omits.
fn complete(spec: &Map<String, Value>) -> Value {
    let mut request = json!({"user": "", "groups": [], "uid": "", "extra": {}});
    for (member, value) in spec {
        request[member] = value.clone();
    }
    if let Some(attributes) = request.get_mut("resourceAttributes").and_then(Value::as_object_mut) {
        for member in ["namespace", "verb", "group", "version", "resource", "subresource", "name"] {
            attributes.entry(member).or_insert_with(|| "".into());
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expressions: &[&str]) -> Result<bool, String> {
        let expressions: Vec<String> = expressions.iter().map(|text| (*text).to_owned()).collect();
        let spec = json!({
            "user": "ann", "groups": ["devs"],
            "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"},
        });
        match_review(&compiled(&expressions), spec.as_object().expect("an object"))
    }

    #[test]
    fn all_conditions_must_be_true() {
        for (expressions, want) in [
            (&[][..], true),
            (&["request.user == 'ann'", "'devs' in request.groups"], true),
            (
                &["has(request.resourceAttributes)", "request.resourceAttributes.namespace == 'kube-system'"],
                false,
            ),
            (&["request.resourceAttributes.name == ''"], true),
            (&["!has(request.nonResourceAttributes)"], true),
            (&["request.groups[5] == ''", "request.uid != ''"], false),
        ] {
            assert_eq!(matches(expressions), Ok(want), "{expressions:?}");
        }
    }

    #[test]
    fn errors_are_reported_if_no_condition_is_false() {
        for (expression, want) in [
            ("request.groups[5] == ''", "resulted in error"),
            ("request.nope == ''", "undefined field 'nope'"),
            ("object == null", "undeclared reference to 'object'"),
            ("request.user", "must evaluate to bool"),
        ] {
            let error = matches(&["true", expression]).expect_err(expression);
            assert!(error.contains(want), "{expression}: {error}");
        }
    }
}
