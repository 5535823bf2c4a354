//! The rules that `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy` share.

use serde_json::Value;

use super::fields::{is_set, list, set_default};
use super::match_resources::{
    default_match_resources, require_objects, require_rules, validate_failure_policy,
    validate_match_resources,
};
use super::policy_parts::{validate_match_conditions, validate_param_kind, validate_variables};
use crate::object::Object;
use crate::registry::expressions::{CompilesExpressions, ExpressionScope, ExpressionSession};
use crate::validate::{FieldErrors, Path};

/// Sets the defaults of a policy.
pub(super) fn default_policy(object: &mut Object) {
    let Some(spec) = object.0.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    set_default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = spec.get_mut("matchConstraints") {
        default_match_resources(constraints);
    }
}

/// Validates a policy except its rules: failure policy, parameters, constraints, match conditions and variables.
/// With `mutates`, the policy changes objects, so its constraints must select some. Returns the session and the scope for the
/// expressions of the rules.
pub(super) fn validate_policy(
    spec: &Value,
    compiler: &'static dyn CompilesExpressions,
    mutates: bool,
    path: &Path,
    errors: &mut FieldErrors,
) -> (Box<dyn ExpressionSession>, ExpressionScope) {
    validate_failure_policy(spec, path, errors);
    validate_param_kind(spec, path, errors);
    let place = path.child("matchConstraints");
    match spec.get("matchConstraints").filter(|constraints| !constraints.is_null()) {
        None => errors.required(&place, ""),
        Some(constraints) => {
            validate_match_resources(constraints, &place, errors);
            require_rules(constraints, &place, errors);
            if mutates {
                require_objects(constraints, &place, errors);
            }
        }
    }
    let has_params = is_set(spec, "paramKind");
    validate_match_conditions(spec, compiler, has_params, path, errors);
    let scope = ExpressionScope { has_params, has_authorizer: true, has_patch_types: false };
    let mut session = compiler.session(!list(spec, "variables").is_empty());
    validate_variables(spec, session.as_mut(), scope, path, errors);
    (session, ExpressionScope { has_patch_types: mutates, ..scope })
}
