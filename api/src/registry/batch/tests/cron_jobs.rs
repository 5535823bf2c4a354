//! CronJobs: defaults, validation and updates.

use super::*;

fn cron(change: &Value) -> Object {
    let mut spec = json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": spec_with(&json!({}))}});
    json_patch::merge(&mut spec, change);
    let mut cron = object(json!({
        "metadata": {"name": "a", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
    }));
    CronJob.defaults(&mut cron);
    cron
}

/// Reason, path and message of each cause.
type Causes<'a> = Vec<(&'a str, &'a str, &'a str)>;

#[test]
fn cron_jobs_get_defaults() {
    let cron = cron(&json!({}));
    for (field, want) in [
        ("concurrencyPolicy", json!("Allow")),
        ("suspend", json!(false)),
        ("successfulJobsHistoryLimit", json!(3)),
        ("failedJobsHistoryLimit", json!(1)),
    ] {
        assert_eq!(cron.at(&["spec", field]), Some(&want), "{field}");
    }
    let template = cron.at(&["spec", "jobTemplate"]).unwrap();
    assert_eq!(template["metadata"], json!({}));
    assert_eq!(template["spec"].get("completions"), None, "the job gets its defaults when it is created");
    assert_eq!(template["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
}

#[test]
fn invalid_cron_jobs_are_rejected() {
    let zone = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
    let zone = format!("Invalid value: \"TZ=UTC 0 * * * *\": {zone}");
    let cases: Vec<(&str, Value, Causes<'_>)> = vec![
        ("valid", json!({"timeZone": "Etc/UTC", "schedule": "@hourly"}), vec![]),
        ("no schedule", json!({"schedule": ""}), vec![(REQUIRED, "spec.schedule", "Required value")]),
        (
            "schedule",
            json!({"schedule": "61 * * * *"}),
            vec![(
                INVALID,
                "spec.schedule",
                "Invalid value: \"61 * * * *\": end of range (61) above maximum (59): 61",
            )],
        ),
        ("zone", json!({"schedule": "TZ=UTC 0 * * * *"}), vec![(INVALID, "spec.schedule", &zone)]),
        (
            "limits",
            json!({"startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -2}),
            vec![
                (
                    INVALID,
                    "spec.startingDeadlineSeconds",
                    "Invalid value: -1: must be greater than or equal to 0",
                ),
                (
                    INVALID,
                    "spec.successfulJobsHistoryLimit",
                    "Invalid value: -1: must be greater than or equal to 0",
                ),
                (
                    INVALID,
                    "spec.failedJobsHistoryLimit",
                    "Invalid value: -2: must be greater than or equal to 0",
                ),
            ],
        ),
        (
            "policy",
            json!({"concurrencyPolicy": "Maybe"}),
            vec![(
                NOT_SUPPORTED,
                "spec.concurrencyPolicy",
                "Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            )],
        ),
        (
            "selector",
            json!({"jobTemplate": {"spec": {"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}}}),
            vec![
                (
                    INVALID,
                    "spec.jobTemplate.spec.selector",
                    "Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
                ),
                (
                    NOT_SUPPORTED,
                    "spec.jobTemplate.spec.manualSelector",
                    "Unsupported value: true: supported values: \"nil\", \"false\"",
                ),
            ],
        ),
    ];
    for (case, change, want) in cases {
        let cron = cron(&change);
        assert_eq!(causes(|errors| CronJob.validate_create(&cron, errors)), want, "{case}");
    }
    let mut long = cron(&json!({}));
    let name = "a".repeat(53);
    long.set(&["metadata", "name"], name.as_str());
    let why = format!("Invalid value: \"{name}\": must be no more than 52 characters");
    assert_eq!(
        causes(|errors| CronJob.validate_create(&long, errors)),
        [(INVALID, "metadata.name", why.as_str())]
    );
    assert!(causes(|errors| CronJob.validate_update(&long, &long, errors)).is_empty(), "older names remain");
}

#[test]
fn zones_in_stored_schedules_remain_valid() {
    let old = cron(&json!({"schedule": "TZ=UTC 0 * * * *", "timeZone": "Mars/Base"}));
    let both =
        "Invalid value: \"TZ=UTC 0 * * * *\": cannot use both timeZone field and TZ or CRON_TZ in schedule";
    assert_eq!(
        causes(|errors| CronJob.validate_update(&old, &old, errors)),
        [(INVALID, "spec.schedule", both)]
    );
    let plain = cron(&json!({"schedule": "TZ=UTC 0 * * * *"}));
    assert!(causes(|errors| CronJob.validate_update(&plain, &plain, errors)).is_empty());
    let found = CronJob.warnings(&plain, Some(&plain));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("CRON_TZ or TZ used in spec.spec.schedule"), "{found:?}");
}

#[test]
fn table_rows_show_the_schedule() {
    let mut one = cron(&json!({"suspend": true, "timeZone": "Etc/UTC"}));
    one.set(&["status"], json!({"active": [{}, {}], "lastScheduleTime": "2026-01-01T00:00:30Z"}));
    assert_eq!(
        json!(CronJob.cells(&one, kind_now())),
        json!(["a", "*/5 * * * *", "Etc/UTC", "True", 2, "30s", "60s", "c", "i:1", "<none>"])
    );
    assert_eq!(CronJob.columns().len(), 10);
    assert_eq!(
        CronJob.cells(&cron(&json!({})), kind_now())[2..6],
        [json!("<none>"), json!("False"), json!(0), json!("<none>")]
    );
}
