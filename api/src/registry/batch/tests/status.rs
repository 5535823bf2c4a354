//! The status of Jobs.

use super::*;

fn with(spec: &Value, status: &Value) -> Object {
    let mut job = job(spec);
    job.set(&["status"], status.clone());
    job
}

fn check(spec: &Value, old: &Value, new: &Value, want: &[Row], case: &str) {
    let (old, new) = (with(spec, old), with(spec, new));
    assert_eq!(causes(|errors| Job.validate_status(&new, &old, errors)), want, "{case}");
}

const START: &str = "2024-01-02T03:04:05Z";
const END: &str = "2024-01-02T03:05:05Z";

fn conditions(kinds: &[&str]) -> Value {
    kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
}

fn complete() -> Value {
    json!({
        "startTime": START, "completionTime": END, "succeeded": 1,
        "conditions": conditions(&["SuccessCriteriaMet", "Complete"]),
    })
}

#[test]
fn completion_time_must_match_the_conditions() {
    let plain = json!({});
    check(&plain, &json!({}), &complete(), &[], "complete");
    let not_complete = "Invalid value: \"2024-01-02T03:04:05Z\": cannot set completionTime when there is no Complete=True condition";
    check(
        &plain,
        &json!({}),
        &json!({"completionTime": START}),
        &[(INVALID, "status.completionTime", not_complete)],
        "completion without condition",
    );
    check(
        &plain,
        &json!({}),
        &json!({"startTime": START, "conditions": conditions(&["Complete", "Failed"])}),
        &[
            (
                INVALID,
                "status.conditions",
                "Invalid value: cannot set Complete=True and Failed=true conditions",
            ),
            (
                REQUIRED,
                "status.completionTime",
                "Required value: completionTime is required for Complete jobs",
            ),
            (
                INVALID,
                "status.conditions",
                "Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            ),
            (
                INVALID,
                "status.conditions",
                "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ),
        ],
        "both outcomes",
    );
    let mut early = complete();
    early["completionTime"] = json!("2024-01-02T03:04:04Z");
    let before = "Invalid value: \"2024-01-02T03:04:04Z\": completionTime cannot be set before startTime";
    check(&plain, &json!({}), &early, &[(INVALID, "status.completionTime", before)], "too early");
}

#[test]
fn finished_jobs_have_a_start_and_no_pods() {
    let mut status = json!({
        "active": 1, "terminating": 1, "uncountedTerminatedPods": {"failed": ["u"]},
        "conditions": conditions(&["FailureTarget", "Failed"]),
    });
    check(
        &json!({}),
        &json!({}),
        &status,
        &[
            (INVALID, "status.active", "Invalid value: 1: active>0 is invalid for finished job"),
            (REQUIRED, "status.startTime", "Required value: startTime is required for finished job"),
            (
                INVALID,
                "status.uncountedTerminatedPods",
                "Invalid value: {\"Succeeded\":null,\"Failed\":[\"u\"]}: uncountedTerminatedPods needs to be empty for finished job",
            ),
            (INVALID, "status.terminating", "Invalid value: 1: terminating>0 is invalid for finished job"),
        ],
        "finishes",
    );
    let old = status.clone();
    status["succeeded"] = json!(2);
    check(&json!({}), &old, &status, &[], "unchanged parts remain valid");
}

#[test]
fn finished_jobs_stay_finished_and_counters_do_not_decrease() {
    let plain = json!({});
    check(
        &plain,
        &json!({"failed": 2, "succeeded": 2, "startTime": START}),
        &json!({"failed": 1, "succeeded": 1, "active": -1}),
        &[
            (INVALID, "status.active", "Invalid value: -1: must be greater than or equal to 0"),
            (INVALID, "status.failed", "Invalid value: 1: cannot decrease the failed counter"),
            (INVALID, "status.succeeded", "Invalid value: 1: cannot decrease the succeeded counter"),
            (REQUIRED, "status.startTime", "Required value: startTime cannot be removed for unsuspended job"),
        ],
        "counters",
    );
    let elastic = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
    check(&elastic, &json!({"succeeded": 2}), &json!({"succeeded": 1}), &[], "an indexed job can shrink");
    let mut reopened = complete();
    reopened["conditions"] = json!([]);
    let not_complete = "Invalid value: \"2024-01-02T03:05:05Z\": cannot set completionTime when there is no Complete=True condition";
    check(
        &plain,
        &complete(),
        &reopened,
        &[
            (INVALID, "status.completionTime", not_complete),
            (
                INVALID,
                "status.conditions",
                "Invalid value: cannot disable the terminal Complete=True condition",
            ),
            (
                INVALID,
                "status.conditions",
                "Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ),
        ],
        "no longer complete",
    );
    let ready = "Invalid value: 2: cannot set more ready pods than active";
    check(
        &plain,
        &json!({}),
        &json!({"active": 1, "ready": 2}),
        &[(INVALID, "status.ready", ready)],
        "ready",
    );
}

#[test]
fn indexes_are_validated_against_the_spec() {
    let indexed = json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1});
    check(
        &indexed,
        &json!({}),
        &json!({"completedIndexes": "0,7", "failedIndexes": "0"}),
        &[
            (
                INVALID,
                "status.completedIndexes",
                "Invalid value: \"0,7\": error parsing completedIndexes: too large index: \"7\"",
            ),
            (
                INVALID,
                "status.failedIndexes",
                "Invalid value: \"0\": failedIndexes and completedIndexes overlap at index: 0",
            ),
        ],
        "indexed",
    );
    check(
        &json!({}),
        &json!({}),
        &json!({"completedIndexes": "0", "failedIndexes": ""}),
        &[
            (
                INVALID,
                "status.completedIndexes",
                "Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
            ),
            (
                INVALID,
                "status.failedIndexes",
                "Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
            ),
        ],
        "not indexed",
    );
    check(
        &json!({}),
        &json!({}),
        &json!({"uncountedTerminatedPods": {"succeeded": ["u", ""], "failed": ["u"]}}),
        &[
            (
                INVALID,
                "status.uncountedTerminatedPods.succeeded[1]",
                "Invalid value: \"\": must not be empty",
            ),
            (DUPLICATE, "status.uncountedTerminatedPods.failed[0]", "Duplicate value: \"u\""),
        ],
        "uncounted pods",
    );
}
