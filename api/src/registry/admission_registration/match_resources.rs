//! Rules and selectors: which requests a policy, a binding or a webhook matches.

use std::collections::HashSet;

use orlop_apimachinery::names;
use serde_json::{Value, json};

use super::fields::{FAILURE_POLICIES, MATCH_POLICIES, is_set, list, set_default, text, texts};
use crate::registry::checks;
use crate::registry::volume_rules::typed;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// The operations with an object.
const WITH_OBJECT: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Sets the defaults of `MatchResources`.
pub(super) fn default_match_resources(value: &mut Value) {
    if !value.is_object() {
        return;
    }
    set_default(value, "matchPolicy", "Equivalent");
    set_default(value, "namespaceSelector", json!({}));
    set_default(value, "objectSelector", json!({}));
    for name in ["resourceRules", "excludeResourceRules"] {
        default_rules(value, name);
    }
}

/// Sets the default scope of rules.
pub(super) fn default_rules(value: &mut Value, name: &str) {
    for rule in value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
        set_default(rule, "scope", "*");
    }
}

/// Validates `MatchResources`.
pub(super) fn validate_match_resources(value: &Value, path: &Path, errors: &mut FieldErrors) {
    let policy = value.get("matchPolicy").and_then(Value::as_str);
    checks::one_of(errors, &path.child("matchPolicy"), policy, &MATCH_POLICIES);
    for name in ["namespaceSelector", "objectSelector"] {
        validate_selector(value, name, path, errors);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in list(value, name).iter().enumerate() {
            let path = path.child(name).index(at);
            validate_resource_names(rule, &path.child("resourceNames"), errors);
            validate_rule(rule, &path, errors);
        }
    }
}

/// Validates a label selector that may be absent.
pub(super) fn validate_selector(value: &Value, name: &str, path: &Path, errors: &mut FieldErrors) {
    if let Some(selector) = value.get(name).filter(|selector| !selector.is_null()).and_then(typed) {
        validate_label_selector(&selector, &path.child(name), errors);
    }
}

fn validate_resource_names(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, name) in texts(rule, "resourceNames").into_iter().enumerate() {
        let path = path.index(at);
        checks::each(errors, &path, name, names::path_segment(name));
        if !seen.insert(name) {
            errors.duplicate(&path, name);
        }
    }
}

/// Validates a rule with operations.
pub(super) fn validate_rule(rule: &Value, path: &Path, errors: &mut FieldErrors) {
    one_or_wildcard(rule, "operations", "operations", path, errors);
    for (at, operation) in texts(rule, "operations").into_iter().enumerate() {
        let path = path.child("operations").index(at);
        checks::one_of(errors, &path, Some(operation), &OPERATIONS);
    }
    one_or_wildcard(rule, "apiGroups", "API groups", path, errors);
    one_or_wildcard(rule, "apiVersions", "API versions", path, errors);
    for (at, version) in texts(rule, "apiVersions").into_iter().enumerate() {
        checks::required(errors, &path.child("apiVersions").index(at), version);
    }
    validate_resources(&texts(rule, "resources"), &path.child("resources"), errors);
    let scope = rule.get("scope").and_then(Value::as_str);
    checks::one_of(errors, &path.child("scope"), scope, &SCOPES);
}

fn one_or_wildcard(rule: &Value, name: &str, what: &str, path: &Path, errors: &mut FieldErrors) {
    let values = texts(rule, name);
    let path = path.child(name);
    if values.is_empty() {
        errors.required(&path, "");
    }
    if values.len() > 1 && values.contains(&"*") {
        errors.invalid(&path, values, &format!("if '*' is present, must not specify other {what}"));
    }
}

fn validate_resources(resources: &[&str], path: &Path, errors: &mut FieldErrors) {
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut whole, mut subresources) = (HashSet::new(), HashSet::new());
    let mut last_is_plain = false;
    for (at, given) in resources.iter().copied().enumerate() {
        let path = path.index(at);
        if given.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((resource, subresource)) = given.split_once('/') else {
            last_is_plain = given != "*";
            continue;
        };
        if whole.contains(resource) {
            errors.invalid(&path, given, &format!("if '{resource}/*' is present, must not specify {given}"));
        }
        if subresources.contains(subresource) {
            errors.invalid(
                &path,
                given,
                &format!("if '*/{subresource}' is present, must not specify {given}"),
            );
        }
        if subresource == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            subresources.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        errors.invalid(path, resources.to_vec(), "if '*/*' is present, must not specify other resources");
    }
    // As upstream, only the last resource without a subresource counts.
    if resources.contains(&"*") && last_is_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, resources.to_vec(), why);
    }
}

/// Validates that a policy names a rule.
pub(super) fn require_rules(constraints: &Value, path: &Path, errors: &mut FieldErrors) {
    if list(constraints, "resourceRules").is_empty() {
        errors.required(&path.child("resourceRules"), "");
    }
}

/// Validates that the operations of the rules have an object to change.
pub(super) fn require_objects(resources: &Value, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("resourceRules").child("operations");
    for rule in list(resources, "resourceRules") {
        for operation in texts(rule, "operations").into_iter().filter(|one| *one == "DELETE") {
            errors.not_supported(&path, operation, &WITH_OBJECT);
        }
    }
}

/// Validates the failure policy.
pub(super) fn validate_failure_policy(value: &Value, path: &Path, errors: &mut FieldErrors) {
    let policy = value.get("failurePolicy").and_then(Value::as_str);
    checks::one_of(errors, &path.child("failurePolicy"), policy, &FAILURE_POLICIES);
}

/// Validates a reference to parameters.
pub(super) fn validate_param_ref(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(param) = spec.get("paramRef").filter(|param| !param.is_null()) else { return };
    let path = path.child("paramRef");
    let (name, has_selector) = (text(param, "name"), is_set(param, "selector"));
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        checks::each(errors, &path.child("name"), name, names::path_segment(name));
        if has_selector {
            errors.forbidden(&path.child("name"), both);
        }
    }
    if has_selector {
        validate_selector(param, "selector", &path, errors);
        if !name.is_empty() {
            errors.forbidden(&path.child("selector"), both);
        }
    }
    if name.is_empty() && !has_selector {
        errors.required(&path, "one of name or selector must be specified");
    }
    let path = path.child("parameterNotFoundAction");
    match text(param, "parameterNotFoundAction") {
        "" => errors.required(&path, ""),
        action => checks::one_of(errors, &path, Some(action), &["Deny", "Allow"]),
    }
}
