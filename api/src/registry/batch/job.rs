//! The `Job` kind.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::job_conditions::is_true;
use super::job_spec::{default_templates, spec_warnings};
use super::job_update::validate_change;
use super::{GROUP, NON_INDEXED, job_selector, job_spec, job_status};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope, StatusSubresource, UnknownField};
use crate::object::Object;
use crate::registry::workload::{self, given, number, spec, table};
use crate::registry::{cells, json_defaults};
use crate::validate::{FieldErrors, Path};

/// The `Job` kind.
pub(in crate::registry) struct Job;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "Job",
    plural: "jobs",
    singular: "job",
    short: &[],
    categories: &["all"],
    schema: "io.k8s.api.batch.v1.Job",
};

/// The default limit of failures, and the one if each index has its own limit.
const BACKOFF_LIMIT: i64 = 6;
const NO_BACKOFF_LIMIT: i64 = i32::MAX as i64;

/// The greatest length of a label's value.
const MAX_LABEL_VALUE: usize = 63;

const DELETE_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                              remove them or set propagationPolicy=Orphan to suppress this warning";

impl Kind for Job {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/jobs/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, job: &mut Object) {
        let spec = job.object_at(&["spec"]);
        default_counts(spec);
        json_defaults::text(spec, "completionMode", NON_INDEXED);
        json_defaults::value(spec, "suspend", false);
        let has_policy = spec.get("podFailurePolicy").is_some_and(|policy| !policy.is_null());
        let replacement = if has_policy { "Failed" } else { "TerminatingOrFailed" };
        json_defaults::text(spec, "podReplacementPolicy", replacement);
        json_defaults::value(spec, "manualSelector", false);
        default_templates(spec);
        default_labels(job);
    }

    fn prepare_create(&self, job: &mut Object, _now: Timestamp) {
        job_selector::generate(job);
        // Upstream defaults the labels again only when it reads the stored object, so labels from a name that
        // is too long are not validated.
        if job.name().len() <= MAX_LABEL_VALUE {
            default_labels(job);
        }
        job.set(&["status"], json!({}));
    }

    fn validate_create(&self, job: &Object, errors: &mut FieldErrors) {
        job_spec::validate_job(job, true, errors);
    }

    fn validate_update(&self, job: &Object, old: &Object, errors: &mut FieldErrors) {
        job_spec::validate_job(job, job_selector::has_prefixed_labels(old), errors);
        validate_change(job, old, errors);
    }

    fn validate_status(&self, job: &Object, old: &Object, errors: &mut FieldErrors) {
        job_status::validate(job, old, errors);
    }

    fn warnings(&self, job: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(workload::name_warning(job));
        }
        if old.is_none_or(|old| workload::has_new_generation(job, old)) {
            warnings.extend(spec_warnings(spec(job), &Path::new("spec")));
        }
        warnings
    }

    fn orphans_by_default(&self) -> bool {
        true
    }

    fn delete_warning(&self) -> Option<&'static str> {
        Some(DELETE_WARNING)
    }

    fn selectable(&self) -> &[&'static str] {
        &["status.successful"]
    }

    fn field(&self, job: &Object, name: &str) -> String {
        match name {
            "status.successful" => table::number(job, &["status", "succeeded"]).to_string(),
            _ => String::new(),
        }
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupportedByKind
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Status", "Whether the job runs, is suspended, or has ended."),
            cells::text("Completions", "Pods that have succeeded, of those that are to."),
            cells::text("Duration", "Time from the start to the completion, or until now."),
            cells::AGE,
            table::CONTAINERS,
            table::IMAGES,
            table::SELECTOR,
        ];
        COLUMNS
    }

    fn cells(&self, job: &Object, now: Timestamp) -> Vec<Value> {
        let [containers, images] = table::containers(job);
        vec![
            cells::name(job),
            state(job).into(),
            completions(job).into(),
            duration(job, now).into(),
            cells::age(job, now),
            containers,
            images,
            table::selector(job),
        ]
    }
}

fn default_counts(spec: &mut Map<String, Value>) {
    let is_set = |spec: &Map<String, Value>, field| spec.get(field).is_some_and(|value| !value.is_null());
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    json_defaults::value(spec, "parallelism", 1);
    let limit = if is_set(spec, "backoffLimitPerIndex") { NO_BACKOFF_LIMIT } else { BACKOFF_LIMIT };
    json_defaults::value(spec, "backoffLimit", limit);
}

/// A job without labels gets those of its pods.
fn default_labels(job: &mut Object) {
    let labels = job.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_object);
    let labels = labels.filter(|labels| !labels.is_empty()).cloned();
    if let (Some(labels), true) = (labels, job.labels().is_none_or(Map::is_empty)) {
        job.set(&["metadata", "labels"], labels);
    }
}

fn state(job: &Object) -> &'static str {
    let states = [
        ("Complete", is_true(job, "Complete")),
        ("Failed", is_true(job, "Failed")),
        ("Terminating", job.is_terminating()),
        ("Suspended", is_true(job, "Suspended")),
        ("FailureTarget", is_true(job, "FailureTarget")),
        ("SuccessCriteriaMet", is_true(job, "SuccessCriteriaMet")),
    ];
    states.into_iter().find(|(_, holds)| *holds).map_or("Running", |(state, _)| state)
}

fn completions(job: &Object) -> String {
    let succeeded = table::number(job, &["status", "succeeded"]);
    let parallelism = number(spec(job), "parallelism");
    match given(spec(job), "completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(job: &Object, now: Timestamp) -> String {
    let time = |field: &str| job.str_at(&["status", field]);
    let end = time("completionTime").parse().unwrap_or(now);
    if time("startTime").is_empty() { String::new() } else { cells::since(time("startTime"), end) }
}
