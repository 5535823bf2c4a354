//! The `CronJob` kind.

use jiff::Timestamp;
use orlop_apimachinery::cron::Schedule;
use serde_json::{Value, json};

use super::GROUP;
use super::job_spec::{default_templates, spec_warnings, validate_spec};
use super::time_zone::validate_time_zone;
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::workload::{self, counts, given, spec, table, text};
use crate::registry::{cells, checks, json_defaults};
use crate::validate::{FieldErrors, Path};

/// The `CronJob` kind.
pub(in crate::registry) struct CronJob;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "CronJob",
    plural: "cronjobs",
    singular: "cronjob",
    short: &["cj"],
    categories: &["all"],
    schema: "io.k8s.api.batch.v1.CronJob",
};

/// Maximum length of the name: a job's name is at most 63 bytes long, and has a suffix with the time.
const LONGEST_NAME: usize = 63 - 11;
const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

impl Kind for CronJob {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/cronjobs/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, cron: &mut Object) {
        let spec = cron.object_at(&["spec"]);
        json_defaults::text(spec, "concurrencyPolicy", "Allow");
        json_defaults::value(spec, "suspend", false);
        json_defaults::value(spec, "successfulJobsHistoryLimit", 3);
        json_defaults::value(spec, "failedJobsHistoryLimit", 1);
        json_defaults::value(spec, "jobTemplate", json!({}));
        let Some(template) = json_defaults::object(spec, "jobTemplate") else { return };
        json_defaults::value(template, "metadata", json!({}));
        json_defaults::value(template, "spec", json!({}));
        if let Some(job) = json_defaults::object(template, "spec") {
            default_templates(job);
        }
    }

    fn prepare_create(&self, cron: &mut Object, _now: Timestamp) {
        cron.set(&["status"], json!({}));
    }

    fn validate_create(&self, cron: &Object, errors: &mut FieldErrors) {
        validate(spec(cron), None, errors);
        if cron.name().len() > LONGEST_NAME {
            let why = format!("must be no more than {LONGEST_NAME} characters");
            errors.invalid(&Path::new("metadata.name"), cron.name(), &why);
        }
    }

    fn validate_update(&self, cron: &Object, old: &Object, errors: &mut FieldErrors) {
        validate(spec(cron), Some(spec(old)), errors);
    }

    fn warnings(&self, cron: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(workload::name_warning(cron));
        }
        if old.is_none_or(|old| workload::has_new_generation(cron, old)) {
            let job = spec(cron).pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
            warnings.extend(spec_warnings(job, &Path::new("spec.jobTemplate.spec")));
        }
        if text(spec(cron), "schedule").contains("TZ") {
            // As upstream's, the path names the spec twice.
            warnings.push(
                "CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Schedule", "When jobs are created."),
            cells::text("Timezone", "The time zone of the schedule."),
            cells::typed("Suspend", "boolean", "Whether no jobs are created."),
            cells::typed("Active", "integer", "Jobs that run."),
            cells::text("Last Schedule", "Time since the last job was created."),
            cells::AGE,
            table::CONTAINERS,
            table::IMAGES,
            table::SELECTOR,
        ];
        COLUMNS
    }

    fn cells(&self, cron: &Object, now: Timestamp) -> Vec<Value> {
        let spec = spec(cron);
        let suspend = match given(spec, "suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let active = cron.at(&["status", "active"]).and_then(Value::as_array).map_or(0, Vec::len);
        let last = match cron.str_at(&["status", "lastScheduleTime"]) {
            "" => "<none>".to_owned(),
            time => cells::since(time, now),
        };
        let job = Object::from_value(json!({"spec": spec.pointer("/jobTemplate/spec")}));
        let [containers, images] = table::containers(&job);
        vec![
            cells::name(cron),
            text(spec, "schedule").into(),
            cells::or(text(spec, "timeZone"), "<none>").into(),
            suspend.into(),
            active.into(),
            last.into(),
            cells::age(cron, now),
            containers,
            images,
            table::selector(&job),
        ]
    }
}

/// Validates the spec of a new object, or with `old` a changed one.
fn validate(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    validate_schedule(spec, old, &path.child("schedule"), errors);
    counts(spec, &["startingDeadlineSeconds"], &path, errors);
    if old.is_none_or(|old| given(old, "timeZone") != given(spec, "timeZone")) {
        let zone = given(spec, "timeZone").and_then(Value::as_str);
        validate_time_zone(zone, &path.child("timeZone"), errors);
    }
    let (policy, at) = (text(spec, "concurrencyPolicy"), path.child("concurrencyPolicy"));
    if checks::required(errors, &at, policy) {
        checks::one_of(errors, &at, Some(policy), &POLICIES);
    }
    validate_job_template(
        spec.pointer("/jobTemplate/spec"),
        &path.child("jobTemplate").child("spec"),
        errors,
    );
    counts(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], &path, errors);
}

/// Validates the schedule. The time zone has its own field; only stored objects may have it in the schedule.
fn validate_schedule(spec: &Value, old: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    let schedule = text(spec, "schedule");
    if !checks::required(errors, path, schedule) {
        return;
    }
    if let Err(why) = Schedule::parse(schedule) {
        errors.invalid(path, schedule, &why);
    }
    let has_zone = |spec: &Value| text(spec, "schedule").contains("TZ");
    if !has_zone(spec) {
        return;
    }
    if !old.is_some_and(has_zone) {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(path, schedule, why);
    } else if given(spec, "timeZone").is_some() {
        errors.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

/// Validates the template of the jobs. It has no selector, because the selectors of the jobs are generated.
fn validate_job_template(job: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    let job = job.unwrap_or(&Value::Null);
    validate_spec(job, path, errors);
    if let Some(selector) = given(job, "selector") {
        errors.invalid(&path.child("selector"), selector.clone(), "`selector` will be auto-generated");
    }
    if given(job, "manualSelector").is_some_and(|flag| *flag == true) {
        errors.not_supported(&path.child("manualSelector"), true, &["nil", "false"]);
    }
}
