//! The failure policy of a job: what happens when a pod fails, by exit code or condition.

use std::collections::HashSet;

use serde_json::Value;

use crate::registry::checks;
use crate::registry::go_format::Shape;
use crate::registry::workload::{given, text};
use crate::validate::{FieldErrors, Path};

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_PATTERNS: usize = 20;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// A policy in the format of upstream's error messages.
pub(super) const FAILURE_POLICY: Shape = Shape::Pointer(&[(
    "Rules",
    "rules",
    Shape::Items(&Shape::Struct(&[
        ("Action", "action", Shape::Text),
        (
            "OnExitCodes",
            "onExitCodes",
            Shape::Pointer(&[
                ("ContainerName", "containerName", Shape::Plain),
                ("Operator", "operator", Shape::Text),
                ("Values", "values", Shape::Plain),
            ]),
        ),
        (
            "OnPodConditions",
            "onPodConditions",
            Shape::List(&Shape::Struct(&[("Type", "type", Shape::Text), ("Status", "status", Shape::Text)])),
        ),
    ])),
)]);

fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Validates a policy. `spec` is the spec of the job.
pub(super) fn validate(policy: &Value, spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let (rules, path) = (items(policy, "rules"), path.child("rules"));
    if rules.len() > MOST_RULES {
        errors.too_many(&path, rules.len(), MOST_RULES);
    }
    let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    let containers = items(pod, "containers").iter().chain(items(pod, "initContainers"));
    let containers: HashSet<&str> = containers.map(|container| text(container, "name")).collect();
    let has_limit_per_index = given(spec, "backoffLimitPerIndex").is_some();
    for (at, rule) in rules.iter().enumerate() {
        validate_rule(rule, has_limit_per_index, &containers, &path.index(at), errors);
    }
}

/// Checks that the value is supported. An empty value counts as missing.
fn choice(value: &str, supported: &[&str], path: &Path, errors: &mut FieldErrors) {
    if value.is_empty() {
        let shown: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        errors.required(path, &format!("valid values: [{}]", shown.join(" ")));
    } else {
        checks::one_of(errors, path, Some(value), supported);
    }
}

fn validate_rule(
    rule: &Value,
    has_limit_per_index: bool,
    containers: &HashSet<&str>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (action, at) = (text(rule, "action"), path.child("action"));
    choice(action, &ACTIONS, &at, errors);
    if action == "FailIndex" && !has_limit_per_index {
        errors.invalid(&at, action, "requires the backoffLimitPerIndex to be set");
    }
    let (codes, patterns) = (given(rule, "onExitCodes"), items(rule, "onPodConditions"));
    if let Some(codes) = codes {
        validate_exit_codes(codes, containers, &path.child("onExitCodes"), errors);
    }
    validate_patterns(patterns, &path.child("onPodConditions"), errors);
    match (codes.is_some(), !patterns.is_empty()) {
        (true, true) => {
            let why = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.invalid_unshown(path, why);
        }
        (false, false) => {
            errors.invalid_unshown(path, "specifying one of OnExitCodes and OnPodConditions is required");
        }
        (true, false) | (false, true) => {}
    }
}

fn validate_patterns(patterns: &[Value], path: &Path, errors: &mut FieldErrors) {
    if patterns.len() > MOST_PATTERNS {
        errors.too_many(path, patterns.len(), MOST_PATTERNS);
    }
    for (at, pattern) in patterns.iter().enumerate() {
        let path = path.index(at);
        checks::qualified_name(errors, &path.child("type"), text(pattern, "type"));
        choice(text(pattern, "status"), &STATUSES, &path.child("status"), errors);
    }
}

fn validate_exit_codes(codes: &Value, containers: &HashSet<&str>, path: &Path, errors: &mut FieldErrors) {
    let operator = text(codes, "operator");
    choice(operator, &OPERATORS, &path.child("operator"), errors);
    if let Some(name) = given(codes, "containerName").and_then(Value::as_str)
        && !containers.contains(name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), name, why);
    }
    let (values, path) = (items(codes, "values"), path.child("values"));
    let shown = || codes.get("values").cloned().unwrap_or_default();
    if values.is_empty() {
        errors.invalid(&path, shown(), "at least one value is required");
    } else if values.len() > MOST_EXIT_CODES {
        errors.too_many(&path, values.len(), MOST_EXIT_CODES);
    }
    let mut seen = HashSet::new();
    for (at, value) in values.iter().enumerate() {
        let (path, code) = (path.index(at), value.as_i64().unwrap_or_default());
        if operator == "In" && code == 0 {
            errors.invalid(&path, code, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.duplicate(&path, code);
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64().unwrap_or_default()) {
        errors.invalid(&path, shown(), "must be ordered");
    }
}
