//! `ValidatingAdmissionPolicy`: CEL expressions that requests must satisfy.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::expression_limits::check_policy;
use super::fields::{GROUP, list, text};
use super::policy_parts::{param_kind_cell, validate_expression};
use super::policy_spec::{default_policy, validate_policy};
use crate::kind::{Column, Generation, Kind, KindRef, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::expressions::{
    CompilesExpressions, ExpressionResult, ExpressionScope, ExpressionSession,
};
use crate::registry::{cells, checks, conditions};
use crate::validate::{FieldErrors, Path};

pub(super) const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    short: &[],
    categories: &["api-extensions"],
    schema: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
};
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const MOST_ANNOTATIONS: usize = 20;
const LONGEST_VALUE: usize = 5 * 1024;
const NEITHER: &str = "validations or auditAnnotations must contain at least one item";

/// The `ValidatingAdmissionPolicy` kind.
#[derive(Clone, Copy)]
pub struct ValidatingAdmissionPolicy {
    /// Validates the expressions.
    pub compiler: &'static dyn CompilesExpressions,
}

impl fmt::Debug for ValidatingAdmissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.kind)
    }
}

impl Kind for ValidatingAdmissionPolicy {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/validatingadmissionpolicies/"
    }

    fn policy(&self) -> Policy {
        Policy {
            unconditional_update: false,
            status: StatusSubresource::StatusOnly,
            generation: Generation::Spec,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, object: &mut Object) {
        default_policy(object);
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        object.set(&["status"], json!({}));
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        self.validate_spec(object, errors);
    }

    /// An unchanged spec is not compiled again. It may exceed limits that did not exist when it was stored.
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        if object.at(&["spec"]) != old.at(&["spec"]) {
            self.validate_spec(object, errors);
        }
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut FieldErrors) {
        let path = Path::new("status.typeChecking.expressionWarnings");
        let warnings = object.at(&["status", "typeChecking", "expressionWarnings"]).and_then(Value::as_array);
        for (at, warning) in warnings.into_iter().flatten().enumerate() {
            checks::required(errors, &path.index(at).child("warning"), text(warning, "warning"));
            checks::required(errors, &path.index(at).child("fieldRef"), text(warning, "fieldRef").trim());
        }
        let list = object.at(&["status", "conditions"]).and_then(Value::as_array);
        let path = Path::new("status.conditions");
        conditions::validate(list.map_or(&[][..], Vec::as_slice), &path, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::typed("Validations", "integer", "The number of validation rules."),
            cells::text("ParamKind", "The kind of the parameters."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let spec = object.at(&["spec"]);
        vec![
            cells::name(object),
            spec.map_or(0, |spec| list(spec, "validations").len()).into(),
            param_kind_cell(spec),
            cells::age(object, now),
        ]
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == NAMES.api_version()).then(|| KindRef::Custom(Arc::new(*self)))
    }
}

impl ValidatingAdmissionPolicy {
    fn validate_spec(&self, object: &Object, errors: &mut FieldErrors) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        if let Err(too_many) = check_policy(spec) {
            return too_many.report(&path, errors);
        }
        let (session, scope) = validate_policy(spec, self.compiler, false, &path, errors);
        let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
        if validations.is_empty() && annotations.is_empty() {
            errors.required(&path.child("validations"), NEITHER);
            errors.required(&path.child("auditAnnotations"), NEITHER);
        }
        for (at, validation) in validations.iter().enumerate() {
            if errors.is_full() {
                return;
            }
            let path = path.child("validations").index(at);
            validate_validation(validation, session.as_ref(), scope, &path, errors);
        }
        validate_annotations(object.name(), annotations, session.as_ref(), scope, &path, errors);
    }
}

fn validate_validation(
    validation: &Value,
    session: &dyn ExpressionSession,
    scope: ExpressionScope,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let expression = text(validation, "expression");
    let place = path.child("expression");
    if expression.trim().is_empty() {
        errors.required(&place, "expression is not specified");
    } else {
        let checked = session.check(expression, scope, ExpressionResult::Bool);
        validate_expression(checked, expression, &place, errors);
    }
    let computed = text(validation, "messageExpression");
    let place = path.child("messageExpression");
    if !computed.is_empty() && computed.trim().is_empty() {
        errors.invalid(&place, computed, "must be non-empty if specified");
    } else if !computed.is_empty() {
        let scope = ExpressionScope { has_authorizer: false, ..scope };
        let checked = session.check(computed, scope, ExpressionResult::Text);
        validate_expression(checked, computed, &place, errors);
    }
    let message = text(validation, "message");
    let place = path.child("message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&place, message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(&place, message, "must not contain line breaks");
    }
    let reason = validation.get("reason").and_then(Value::as_str);
    checks::one_of(errors, &path.child("reason"), reason, &REASONS);
}

fn validate_annotations(
    policy: &str,
    annotations: &[Value],
    session: &dyn ExpressionSession,
    scope: ExpressionScope,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("auditAnnotations");
    if annotations.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.invalid(&path, annotations.to_vec(), &why);
    }
    let mut seen = HashSet::new();
    for (at, annotation) in annotations.iter().enumerate() {
        let path = path.index(at);
        let key = text(annotation, "key");
        if policy.is_empty() {
            errors.invalid(&path.child("key"), key, "requires metadata.name be non-empty");
        } else {
            checks::qualified_name(errors, &path.child("key"), &format!("{policy}/{key}"));
        }
        let expression = text(annotation, "valueExpression");
        let place = path.child("valueExpression");
        match expression.trim() {
            "" => errors.required(&place, "valueExpression is not specified"),
            long if long.len() > LONGEST_VALUE => {
                errors.required(&place, &format!("must not exceed {LONGEST_VALUE} bytes in length"));
            }
            trimmed => {
                let checked = session.check(trimmed, scope, ExpressionResult::TextOrNull);
                validate_expression(checked, expression, &place, errors);
            }
        }
        if !seen.insert(key) {
            errors.duplicate(&path.child("key"), key);
        }
    }
}
