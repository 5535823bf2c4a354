//! The parts that policies and webhooks share: the kind of parameters, match conditions and variables.

use std::collections::HashSet;

use orlop_apimachinery::names;
use serde_json::Value;

use super::fields::{list, text};
use crate::registry::checks;
use crate::registry::expressions::{
    CompilesExpressions, ExpressionResult, ExpressionScope, ExpressionSession,
};
use crate::validate::{FieldErrors, Path};

const MOST_CONDITIONS: usize = 64;

/// Identifiers that CEL reserves.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Validates an expression, and returns whether it compiles.
pub(super) fn validate_expression(
    checked: Result<(), String>,
    shown: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Err(why) = checked {
        errors.invalid(path, shown, &why);
    }
}

/// Validates match conditions. They have no `variables`.
pub(super) fn validate_match_conditions(
    value: &Value,
    compiler: &dyn CompilesExpressions,
    has_params: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("matchConditions");
    let conditions = list(value, "matchConditions");
    if conditions.len() > MOST_CONDITIONS {
        errors.too_many(&path, conditions.len(), MOST_CONDITIONS);
    }
    let scope = ExpressionScope { has_params, has_authorizer: true, has_patch_types: false };
    let session = compiler.session(false);
    let mut seen = HashSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = path.index(at);
        let expression = text(condition, "expression").trim();
        let place = path.child("expression");
        if checks::required(errors, &place, expression) {
            let checked = session.check(expression, scope, ExpressionResult::Bool);
            validate_expression(checked, expression, &place, errors);
        }
        let name = text(condition, "name");
        if checks::required(errors, &path.child("name"), name) {
            checks::qualified_name(errors, &path.child("name"), name);
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
    }
}

/// Validates variables, and compiles them for the expressions after them.
pub(super) fn validate_variables(
    spec: &Value,
    session: &mut dyn ExpressionSession,
    scope: ExpressionScope,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (at, variable) in list(spec, "variables").iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = path.child("variables").index(at);
        let (name, expression) = (text(variable, "name"), text(variable, "expression"));
        if name.trim().is_empty() {
            errors.required(&path.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&path.child("name"), name, "must be a valid CEL identifier");
        }
        let place = path.child("expression");
        if expression.trim().is_empty() {
            errors.required(&place, "expression is not specified");
        } else {
            validate_expression(session.variable(name, expression, scope), expression, &place, errors);
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
}

/// Validates the kind of the parameters.
pub(super) fn validate_param_kind(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(kind) = spec.get("paramKind").filter(|kind| !kind.is_null()) else { return };
    let path = path.child("paramKind");
    let version_path = path.child("apiVersion");
    let api_version = text(kind, "apiVersion");
    let parts: Vec<&str> = api_version.split('/').collect();
    match parts.as_slice() {
        _ if api_version.is_empty() => errors.required(&version_path, ""),
        [_, _, _, ..] => {
            let why = format!("unexpected GroupVersion string: {api_version}");
            errors.invalid(&version_path, api_version, &why);
        }
        parts => {
            let (group, version) = match parts {
                [group, version] => (*group, *version),
                _ => ("", api_version),
            };
            let wrong = if group.is_empty() { Vec::new() } else { names::dns_subdomain(group) };
            if !wrong.is_empty() {
                errors.invalid(&version_path, group, &wrong.join(","));
            }
            let wrong = names::dns1035_label(version);
            if version.is_empty() {
                errors.invalid(&version_path, api_version, "version must be specified");
            } else if !wrong.is_empty() {
                errors.invalid(&version_path, version, &wrong.join(","));
            }
        }
    }
    let name = text(kind, "kind");
    if checks::required(errors, &path.child("kind"), name) {
        let wrong = names::dns1035_label(&name.to_lowercase());
        if !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.invalid(&path.child("kind"), name, &why);
        }
    }
}

/// The cell of the kind of parameters.
pub(super) fn param_kind_cell(spec: Option<&Value>) -> Value {
    let kind = spec.and_then(|spec| spec.get("paramKind")).filter(|kind| !kind.is_null());
    let shown = kind.map(|kind| match text(kind, "apiVersion") {
        "" => text(kind, "kind").to_owned(),
        version => format!("{version}/{}", text(kind, "kind")),
    });
    shown.unwrap_or_else(|| "<unset>".to_owned()).into()
}
