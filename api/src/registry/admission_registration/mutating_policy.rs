//! `MutatingAdmissionPolicy`: CEL expressions that change objects.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::expression_limits::check_policy;
use super::fields::{GROUP, REINVOCATION_POLICIES, is_set, list, text};
use super::policy_parts::{param_kind_cell, validate_expression};
use super::policy_spec::{default_policy, validate_policy};
use crate::kind::{Column, Generation, Kind, KindRef, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::expressions::{
    CompilesExpressions, ExpressionResult, ExpressionScope, ExpressionSession,
};
use crate::registry::{cells, checks};
use crate::validate::{FieldErrors, Path};

pub(super) const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "MutatingAdmissionPolicy",
    plural: "mutatingadmissionpolicies",
    singular: "mutatingadmissionpolicy",
    short: &[],
    categories: &["api-extensions"],
    schema: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
};
/// The types of patches, the field of each, and the type of its expression.
const PATCHES: [(&str, &str, ExpressionResult); 2] = [
    ("ApplyConfiguration", "applyConfiguration", ExpressionResult::ApplyConfiguration),
    ("JSONPatch", "jsonPatch", ExpressionResult::JsonPatch),
];

/// The `MutatingAdmissionPolicy` kind.
#[derive(Clone, Copy)]
pub struct MutatingAdmissionPolicy {
    /// Validates the expressions.
    pub compiler: &'static dyn CompilesExpressions,
}

impl fmt::Debug for MutatingAdmissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.kind)
    }
}

impl Kind for MutatingAdmissionPolicy {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/mutatingadmissionpolicies/"
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, object: &mut Object) {
        default_policy(object);
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

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::typed("Mutations", "integer", "The number of mutations."),
            cells::text("ParamKind", "The kind of the parameters."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let spec = object.at(&["spec"]);
        vec![
            cells::name(object),
            spec.map_or(0, |spec| list(spec, "mutations").len()).into(),
            param_kind_cell(spec),
            cells::age(object, now),
        ]
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == NAMES.api_version()).then(|| KindRef::Custom(Arc::new(*self)))
    }
}

impl MutatingAdmissionPolicy {
    fn validate_spec(&self, object: &Object, errors: &mut FieldErrors) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        if let Err(too_many) = check_policy(spec) {
            return too_many.report(&path, errors);
        }
        let (session, scope) = validate_policy(spec, self.compiler, true, &path, errors);
        let mutations = list(spec, "mutations");
        if mutations.is_empty() {
            errors.required(&path.child("mutations"), "mutations must contain at least one item");
        }
        for (at, mutation) in mutations.iter().enumerate() {
            if errors.is_full() {
                return;
            }
            let path = path.child("mutations").index(at);
            validate_mutation(mutation, session.as_ref(), scope, &path, errors);
        }
        let place = path.child("reinvocationPolicy");
        let policy = text(spec, "reinvocationPolicy");
        if checks::required(errors, &place, policy) {
            checks::one_of(errors, &place, Some(policy), &REINVOCATION_POLICIES);
        }
    }
}

fn validate_mutation(
    mutation: &Value,
    session: &dyn ExpressionSession,
    scope: ExpressionScope,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let given = text(mutation, "patchType");
    if !checks::required(errors, &path.child("patchType"), given) {
        return;
    }
    if !PATCHES.iter().any(|(name, ..)| *name == given) {
        let supported = PATCHES.map(|(name, ..)| name);
        return errors.not_supported(&path.child("patchType"), given, &supported);
    }
    // The patch of the type comes first, and then the other one.
    let (wanted, others): (Vec<_>, Vec<_>) = PATCHES.iter().partition(|(name, ..)| *name == given);
    for (_, field, result) in wanted {
        let path = path.child(field);
        let Some(patch) = mutation.get(field).filter(|patch| !patch.is_null()) else {
            errors.required(&path, &format!("must be specified when patchType is {given}"));
            continue;
        };
        let expression = text(patch, "expression").trim();
        let place = path.child("expression");
        if checks::required(errors, &place, expression) {
            validate_expression(session.check(expression, scope, result), expression, &place, errors);
        }
    }
    for (_, field, _) in others {
        if is_set(mutation, field) {
            let why = format!("must not be specified when patchType is {given}");
            errors.invalid(&path.child(field), format!("{{{field}}}"), &why);
        }
    }
}
