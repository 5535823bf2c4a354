//! The spec of a job.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use orlop_apimachinery::names;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::success_policy::SUCCESS_POLICY;
use super::{INDEXED, NON_INDEXED, failure_policy, job_selector, success_policy};
use crate::object::Object;
use crate::registry::pod_spec::warnings;
use crate::registry::workload::{counts, given, spec, template, text};
use crate::registry::{checks, json_defaults};
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

const MOST_PARALLEL: i64 = 100_000;
const MOST_FAILED_INDEXES: i64 = 100_000;
/// The number of completions above which the next two limits apply if each index has a limit of failures.
const MANY_COMPLETIONS: i64 = 100_000;
const MOST_PARALLEL_OF_MANY: i64 = 10_000;
const MOST_FAILED_INDEXES_OF_MANY: i64 = 10_000;
const LONGEST_MANAGER: usize = 63;

const HARD_TO_TRACK: &str = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
                             Kubernetes might not be able to track completedIndexes when a big number of indexes fail";

/// Sets the defaults of the template and of the failure policy of a spec.
pub(super) fn default_templates(spec: &mut Map<String, Value>) {
    json_defaults::value(spec, "template", json!({}));
    template::fill(spec);
    let Some(policy) = json_defaults::object(spec, "podFailurePolicy") else { return };
    for rule in json_defaults::objects(json_defaults::list(policy, "rules")) {
        for pattern in json_defaults::objects(json_defaults::list(rule, "onPodConditions")) {
            json_defaults::text(pattern, "status", "True");
        }
    }
}

/// Validates a job.
pub(super) fn validate_job(job: &Object, needs_prefix: bool, errors: &mut FieldErrors) {
    job_selector::validate(job, needs_prefix, errors);
    validate_with_selector(spec(job), errors);
    let completions = count(spec(job), "completions").filter(|count| *count > 0);
    if let (INDEXED, Some(completions)) = (text(spec(job), "completionMode"), completions) {
        // The name of the last pod.
        let host = format!("{}-{}", job.name(), completions - 1);
        if !names::dns_label(&host).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            errors.invalid(&Path::new("metadata.name"), job.name(), &why);
        }
    }
}

/// Validates the spec of a job, with its selector.
pub(super) fn validate_with_selector(spec: &Value, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    validate_spec(spec, &path, errors);
    let at = path.child("selector");
    let selector = match given(spec, "selector") {
        None => {
            errors.required(&at, "");
            Ok(Selector::nothing())
        }
        Some(selector) => {
            let typed = LabelSelector::deserialize(selector).unwrap_or_default();
            validate_label_selector(&typed, &at, errors);
            Selector::from_label_selector(&typed)
        }
    };
    if let Ok(selector) = selector {
        let template = spec.get("template").unwrap_or(&Value::Null);
        template::is_selected(template, &selector, &path.child("template"), errors);
    }
}

/// A number; `None` if absent.
pub(super) fn count(spec: &Value, field: &str) -> Option<i64> {
    spec.get(field).and_then(Value::as_i64)
}

/// Validates a spec without its selector: that of a job, or of a CronJob's template.
pub(super) fn validate_spec(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    const COUNTS: [&str; 7] = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    counts(spec, &COUNTS, path, errors);
    if count(spec, "maxFailedIndexes").is_some() && count(spec, "backoffLimitPerIndex").is_none() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = given(spec, "managedBy").and_then(Value::as_str) {
        let path = path.child("managedBy");
        checks::domain_prefixed_path(errors, &path, manager);
        if manager.len() > LONGEST_MANAGER {
            errors.too_long(&path, LONGEST_MANAGER);
        }
    }
    match given(spec, "completionMode").and_then(Value::as_str) {
        Some(INDEXED) => validate_indexed(spec, path, errors),
        None | Some(NON_INDEXED) => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(count) = count(spec, field) {
                    errors.invalid(&path.child(field), count, "requires indexed completion mode");
                }
            }
        }
        Some(other) => {
            errors.not_supported(&path.child("completionMode"), other, &[NON_INDEXED, INDEXED]);
        }
    }
    if let Some(policy) = given(spec, "podFailurePolicy") {
        failure_policy::validate(policy, spec, &path.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = given(spec, "successPolicy") {
        let path = path.child("successPolicy");
        if text(spec, "completionMode") == INDEXED {
            success_policy::validate(policy, count(spec, "completions"), &path, errors);
        } else {
            let shown = SUCCESS_POLICY.show(Some(policy));
            errors.invalid_shown(&path, &shown, "requires indexed completion mode");
        }
    }
    let has_failure_policy = given(spec, "podFailurePolicy").is_some();
    let supported: &[&str] =
        if has_failure_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    let replacement = given(spec, "podReplacementPolicy").and_then(Value::as_str);
    checks::one_of(errors, &path.child("podReplacementPolicy"), replacement, supported);
    let template = spec.get("template").unwrap_or(&Value::Null);
    let at = path.child("template");
    template::validate(template, &at, errors);
    let policy = template.get("spec").map_or("", |pod| text(pod, "restartPolicy"));
    validate_restart_policy(policy, has_failure_policy, &at, errors);
}

fn validate_indexed(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let completions = count(spec, "completions");
    let [at_parallelism, at_failed] = ["parallelism", "maxFailedIndexes"].map(|field| path.child(field));
    if completions.is_none() {
        let why = format!("when completion mode is {INDEXED}");
        errors.required(&path.child("completions"), &why);
    }
    let (parallelism, failed) = (count(spec, "parallelism"), count(spec, "maxFailedIndexes"));
    if let Some(count) = parallelism.filter(|count| *count > MOST_PARALLEL) {
        let why = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is {INDEXED}");
        errors.invalid(&at_parallelism, count, &why);
    }
    if let Some(count) = failed.filter(|failed| completions.is_some_and(|all| *failed > all)) {
        errors.invalid(&at_failed, count, "must be less than or equal to completions");
    }
    if let Some(count) = failed.filter(|count| *count > MOST_FAILED_INDEXES) {
        errors.invalid(&at_failed, count, &format!("must be less than or equal to {MOST_FAILED_INDEXES}"));
    }
    let is_large = completions.is_some_and(|count| count > MANY_COMPLETIONS);
    if !is_large || count(spec, "backoffLimitPerIndex").is_none() {
        return;
    }
    if failed.is_none() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(&at_failed, &why);
    }
    let above = |most: i64| {
        format!(
            "must be less than or equal to {most} when completions are above {MANY_COMPLETIONS} and used with backoff \
             limit per index"
        )
    };
    if let Some(count) = parallelism.filter(|count| *count > MOST_PARALLEL_OF_MANY) {
        errors.invalid(&at_parallelism, count, &above(MOST_PARALLEL_OF_MANY));
    }
    if let Some(count) = failed.filter(|count| *count > MOST_FAILED_INDEXES_OF_MANY) {
        errors.invalid(&at_failed, count, &above(MOST_FAILED_INDEXES_OF_MANY));
    }
}

/// Validates the restart policy: the pods of a job must terminate, so `Always` is invalid.
fn validate_restart_policy(
    policy: &str,
    has_failure_policy: bool,
    template: &Path,
    errors: &mut FieldErrors,
) {
    let path = template.child("spec").child("restartPolicy");
    match policy {
        "" | "Always" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if has_failure_policy => {
            errors.invalid(&path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

/// Warnings about a spec at a path.
pub(super) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let above = |field: &str, limit: i64| count(spec, field).is_some_and(|count| count > limit);
    let is_hard = text(spec, "completionMode") == INDEXED
        && above("completions", MANY_COMPLETIONS)
        && above("parallelism", MOST_PARALLEL_OF_MANY);
    let mut found: Vec<String> = is_hard.then(|| format!("{path}: {HARD_TO_TRACK}")).into_iter().collect();
    if let Some(pod) = spec.pointer("/template/spec") {
        found.extend(warnings::pod_spec(pod, &path.child("template").child("spec")));
    }
    found
}
