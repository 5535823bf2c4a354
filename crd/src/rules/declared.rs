//! Validates the rules that a definition declares.
//!
//! Upstream: apiextensions-apiserver `pkg/apis/apiextensions/validation`, `pkg/apiserver/schema/cel/compilation.go`.

use orlop_api::go_json;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use super::{Occurrence, RuleCosts, field_path};
use crate::cel::Program;
use crate::cel::types::{self, Ty};
use crate::schema::Schema;

/// Reasons that a rule may specify.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
/// Maximum length of a message, bytes. Upstream has no limit.
const MAX_MESSAGE: usize = 2048;

fn text<'r>(rule: &'r Value, name: &str) -> &'r str {
    rule[name].as_str().unwrap_or_default()
}

/// Validates the fields of a rule, except its expressions.
pub(crate) fn validate_fields(rule: &Value, schema: &Schema, path: &Path, errors: &mut FieldErrors) {
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
    let message_path = path.child("message");
    if expression.is_empty() {
        errors.required(&path.child("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&message_path, message, "must be non-empty if specified");
    } else if has_lines(message.trim()) {
        errors.invalid(&message_path, message, "must not contain line breaks");
    } else if has_lines(expression) && message.trim().is_empty() {
        errors.required(&message_path, "message must be specified if rule contains line breaks");
    }
    if message.len() > MAX_MESSAGE {
        errors.too_long(&message_path, MAX_MESSAGE);
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        errors.required(&path.child("messageExpression"), "messageExpression must be non-empty if specified");
    }
    if !rule["reason"].is_null() && !REASONS.contains(&text(rule, "reason")) {
        errors.not_supported(&path.child("reason"), text(rule, "reason"), &REASONS);
    }
    let (given, given_path) = (text(rule, "fieldPath"), path.child("fieldPath"));
    if given.is_empty() {
        return;
    }
    if given.trim().is_empty() {
        errors.invalid(&given_path, given, "must be non-empty if specified");
    }
    if has_lines(given) {
        errors.invalid(&given_path, given, "must not contain line breaks");
    }
    if field_path(given).filter(|steps| has_field(schema, steps)).is_none() {
        errors.invalid(&given_path, given, "must be a valid path");
    }
}

fn has_field(schema: &Schema, steps: &[String]) -> bool {
    steps
        .iter()
        .try_fold(schema, |schema, step| schema.properties.get(step).or(schema.additional.as_deref()))
        .is_some()
}

/// Validates the expressions of a rule; `occurrence` is that of its values. With `untraceable`, which is the list or map
/// whose values cannot be matched with their old values, the rule must not use `oldSelf`.
pub(crate) fn validate_expressions(
    rule: &Value,
    untraceable: Option<&Path>,
    occurrence: &Occurrence,
    path: &Path,
    costs: &mut RuleCosts,
    errors: &mut FieldErrors,
) {
    let rule_path = path.child("rule");
    let compile = |text: &str, failed: &str, wanted: &Ty, mistyped: &str| {
        let declarations = occurrence.declarations(rule["optionalOldSelf"] == true);
        let compiled = types::compile(text, &declarations);
        let compiled = compiled.and_then(|(expr, ty)| Ok((Program::of(expr)?, ty)));
        let (program, ty) = compiled.map_err(|why| format!("{failed}: {why}"))?;
        if ty == *wanted { Ok(program) } else { Err(mistyped.to_owned()) }
    };
    let mistyped = "cel expression must evaluate to a bool";
    let program = match compile(text(rule, "rule"), "compilation failed", &Ty::Bool, mistyped) {
        Ok(program) => program,
        Err(why) => return errors.invalid_shown(&rule_path, &shown(rule), &why),
    };
    occurrence.check_rule(&program, &rule_path, costs, errors);
    if !text(rule, "messageExpression").is_empty() {
        let path = path.child("messageExpression");
        let failed = "messageExpression compilation failed";
        let mistyped = "messageExpression must evaluate to a string";
        match compile(text(rule, "messageExpression"), failed, &Ty::Text, mistyped) {
            Ok(program) => occurrence.check_message(&program, &path, costs, errors),
            Err(why) => errors.invalid_shown(&path, &shown(rule), &why),
        }
    }
    if program.uses_old
        && let Some(above) = untraceable
    {
        let why =
            format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
        errors.invalid(&rule_path, text(rule, "rule"), &why);
    }
    if !program.uses_old && !rule["optionalOldSelf"].is_null() {
        let why = "may not be set if oldSelf is not used in rule";
        errors.invalid(&path.child("optionalOldSelf"), rule["optionalOldSelf"].clone(), why);
    }
}

/// Returns the rule as upstream prints it.
pub(crate) fn shown(rule: &Value) -> String {
    let quoted = |name: &str| go_json::encode(&Value::from(text(rule, name)));
    let [expression, message, message_expression, field_path] =
        ["rule", "message", "messageExpression", "fieldPath"].map(quoted);
    let [reason, optional] = ["reason", "optionalOldSelf"].map(|name| go_json::encode(&rule[name]));
    format!(
        "{{\"Rule\":{expression},\"Message\":{message},\"MessageExpression\":{message_expression},\
         \"Reason\":{reason},\"FieldPath\":{field_path},\"OptionalOldSelf\":{optional}}}"
    )
}
