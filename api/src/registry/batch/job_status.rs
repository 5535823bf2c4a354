//! The status of a job. Rules about a part of it apply only if the part changes, so that other changes of an invalid
//! status remain possible.
//!
//! Upstream: pkg/registry/batch/job/strategy.go (`getStatusValidationOptions`).

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::INDEXED;
use super::indexes::{count_indexes, overlap};
use super::job_conditions::{is_finished, is_true};
use super::job_spec::count;
use crate::object::Object;
use crate::registry::go_format::Shape;
use crate::registry::workload::{counts, given, number, spec, text};
use crate::validate::{FieldErrors, Path};

const UNCOUNTED: Shape =
    Shape::Pointer(&[("Succeeded", "succeeded", Shape::Plain), ("Failed", "failed", Shape::Plain)]);

/// The status before and after a change.
struct Change<'a> {
    job: &'a Object,
    old: &'a Object,
    new_status: &'a Value,
    old_status: &'a Value,
}

fn status(job: &Object) -> &Value {
    job.at(&["status"]).unwrap_or(&Value::Null)
}

impl Change<'_> {
    fn now(&self, field: &str) -> Option<&Value> {
        given(self.new_status, field)
    }

    fn old(&self, field: &str) -> Option<&Value> {
        given(self.old_status, field)
    }

    fn changes(&self, field: &str) -> bool {
        self.now(field) != self.old(field)
    }

    fn is_true(&self, condition: &str) -> bool {
        is_true(self.job, condition)
    }

    fn switches(&self, condition: &str) -> bool {
        is_true(self.job, condition) != is_true(self.old, condition)
    }

    fn finishes(&self) -> bool {
        is_finished(self.job) != is_finished(self.old)
    }
}

/// Validates a change of the status.
pub(super) fn validate(job: &Object, old: &Object, errors: &mut FieldErrors) {
    let change = Change { job, old, new_status: status(job), old_status: status(old) };
    let path = Path::new("status");
    counts(change.new_status, &["active", "succeeded", "failed", "ready", "terminating"], &path, errors);
    validate_uncounted(&change, &path, errors);
    validate_end(&change, &path, errors);
    validate_finished(&change, &path, errors);
    validate_indexes(&change, &path, errors);
    let [active, terminating] = ["active", "terminating"].map(|field| number(change.new_status, field));
    if (change.finishes() || change.changes("terminating")) && terminating > 0 && is_finished(job) {
        let why = "terminating>0 is invalid for finished job";
        errors.invalid(&path.child("terminating"), terminating, why);
    }
    let ready = change.now("ready").and_then(Value::as_i64);
    if let Some(ready) = ready.filter(|ready| *ready > active)
        && (change.changes("ready") || change.changes("active"))
    {
        errors.invalid(&path.child("ready"), ready, "cannot set more ready pods than active");
    }
    validate_success(&change, &path, errors);
    validate_transition(&change, &path, errors);
}

/// Validates the UIDs of terminated pods that are not counted yet: each occurs once.
fn validate_uncounted(change: &Change<'_>, path: &Path, errors: &mut FieldErrors) {
    let Some(uncounted) = change.now("uncountedTerminatedPods") else { return };
    let path = path.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        let uids = uncounted.get(field).and_then(Value::as_array);
        for (at, uid) in uids.into_iter().flatten().enumerate() {
            let (path, uid) = (path.child(field).index(at), uid.as_str().unwrap_or_default());
            if uid.is_empty() {
                errors.invalid(&path, uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&path, uid);
            }
        }
    }
}

/// Checks that the completion time matches the conditions.
fn validate_end(change: &Change<'_>, path: &Path, errors: &mut FieldErrors) {
    let (at, at_completion) = (path.child("conditions"), path.child("completionTime"));
    let is_complete = change.is_true("Complete");
    let (start, completion) = (change.now("startTime"), change.now("completionTime"));
    let completes = change.switches("Complete");
    if (completes || change.switches("Failed")) && is_complete && change.is_true("Failed") {
        errors.invalid_unshown(&at, "cannot set Complete=True and Failed=true conditions");
    }
    let targets = change.switches("FailureTarget");
    if (completes || targets) && is_complete && change.is_true("FailureTarget") {
        errors.invalid_unshown(&at, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if completes || change.changes("completionTime") {
        match (completion, is_complete) {
            (Some(time), false) => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(&at_completion, time.clone(), why);
            }
            (None, true) => {
                errors.required(&at_completion, "completionTime is required for Complete jobs");
            }
            (Some(_), true) | (None, false) => {}
        }
    }
    if change.changes("startTime") || change.changes("completionTime") {
        let time = |value: Option<&Value>| value?.as_str()?.parse::<Timestamp>().ok();
        if let (Some(start), Some(end)) = (time(start), time(completion))
            && end < start
        {
            let shown = completion.cloned().unwrap_or_default();
            errors.invalid(&at_completion, shown, "completionTime cannot be set before startTime");
        }
    }
    if change.switches("Failed") && change.is_true("Failed") && !change.is_true("FailureTarget") {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.invalid_unshown(&at, why);
    }
    if completes && is_complete && !change.is_true("SuccessCriteriaMet") {
        let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_unshown(&at, why);
    }
}

/// Checks that a finished job has a start time and no running pods.
fn validate_finished(change: &Change<'_>, path: &Path, errors: &mut FieldErrors) {
    if !is_finished(change.job) {
        return;
    }
    let active = number(change.new_status, "active");
    if (change.finishes() || change.changes("active")) && active > 0 {
        errors.invalid(&path.child("active"), active, "active>0 is invalid for finished job");
    }
    let start = change.now("startTime");
    if (change.finishes() || change.changes("startTime")) && start.is_none() {
        errors.required(&path.child("startTime"), "startTime is required for finished job");
    }
    let field = "uncountedTerminatedPods";
    let uncounted = change.now(field);
    let count = |list: &str| {
        let uids = uncounted.and_then(|uncounted| uncounted.get(list)).and_then(Value::as_array);
        uids.map_or(0, Vec::len)
    };
    if (change.finishes() || change.changes(field)) && count("succeeded") + count("failed") > 0 {
        let why = "uncountedTerminatedPods needs to be empty for finished job";
        errors.invalid_shown(&path.child(field), &UNCOUNTED.show(uncounted), why);
    }
}

/// Validates the lists of succeeded and failed indexes.
fn validate_indexes(change: &Change<'_>, path: &Path, errors: &mut FieldErrors) {
    let spec = spec(change.job);
    let (at_completed, at_failed) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let completions = count(spec, "completions");
    let has_limit = count(spec, "backoffLimitPerIndex").is_some();
    let completed = text(change.new_status, "completedIndexes");
    let failed = change.now("failedIndexes").and_then(Value::as_str);
    let (completes, fails) = (change.changes("completedIndexes"), change.changes("failedIndexes"));
    if let (true, Some(completions)) = (completes, completions)
        && let Err(why) = count_indexes(completed, completions)
    {
        errors.invalid(&at_completed, completed, &format!("error parsing completedIndexes: {why}"));
    }
    if let (true, true, Some(completions), Some(failed)) = (fails, has_limit, completions, failed)
        && let Err(why) = count_indexes(failed, completions)
    {
        errors.invalid(&at_failed, failed, &format!("error parsing failedIndexes: {why}"));
    }
    if completes && !completed.is_empty() && text(spec, "completionMode") != INDEXED {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&at_completed, completed, why);
    }
    let Some(failed) = failed else { return };
    if fails && !has_limit {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&at_failed, failed, why);
    }
    if let (true, Some(completions)) = (fails || completes, completions)
        && let Some(index) = overlap(completed, failed, completions)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&at_failed, failed, &why);
    }
}

/// Checks that a job that meets its success criteria does not fail.
fn validate_success(change: &Change<'_>, path: &Path, errors: &mut FieldErrors) {
    let at = path.child("conditions");
    let is_met = change.is_true("SuccessCriteriaMet");
    for failure in ["Failed", "FailureTarget"] {
        if is_met && change.is_true(failure) {
            let why = format!("cannot set SuccessCriteriaMet=True and {failure}=true conditions");
            errors.invalid_unshown(&at, &why);
        }
    }
    let has_policy = given(spec(change.job), "successPolicy").is_some();
    if has_policy && !is_met && change.is_true("Complete") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.invalid_unshown(&at, why);
    }
}

/// Checks that a finished job stays finished, and that counters do not decrease.
fn validate_transition(change: &Change<'_>, path: &Path, errors: &mut FieldErrors) {
    let at = path.child("conditions");
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if is_true(change.old, condition) && !change.is_true(condition) {
            errors.invalid_unshown(&at, &format!("cannot disable the terminal {condition}=True condition"));
        }
    }
    let decreases = |field: &str| {
        let count = number(change.new_status, field);
        (count < number(change.old_status, field)).then_some(count)
    };
    if let Some(count) = decreases("failed") {
        errors.invalid(&path.child("failed"), count, "cannot decrease the failed counter");
    }
    // An indexed job with as many pods as indexes can be scaled down.
    let spec = spec(change.job);
    let is_elastic =
        text(spec, "completionMode") == INDEXED && count(spec, "completions") == count(spec, "parallelism");
    if let Some(count) = decreases("succeeded").filter(|_| !is_elastic) {
        errors.invalid(&path.child("succeeded"), count, "cannot decrease the succeeded counter");
    }
    if let (Some(new), Some(old)) = (change.now("completionTime"), change.old("completionTime"))
        && new != old
    {
        errors.invalid(&path.child("completionTime"), new.clone(), "completionTime cannot be mutated");
    }
    let is_suspended = given(spec, "suspend").is_some_and(|flag| *flag == true);
    if change.old("startTime").is_some() && change.changes("startTime") && !is_suspended {
        errors.required(&path.child("startTime"), "startTime cannot be removed for unsuspended job");
    }
    let (was_met, is_met) = (is_true(change.old, "SuccessCriteriaMet"), change.is_true("SuccessCriteriaMet"));
    if was_met && !is_met {
        errors.invalid_unshown(&at, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(change.old, "Complete") && !was_met && is_met {
        let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_unshown(&at, why);
    }
}
