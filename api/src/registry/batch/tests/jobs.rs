//! Jobs: defaults, selectors and validation.

use super::*;

#[test]
fn new_jobs_get_defaults() {
    for (change, want) in [
        (
            json!({}),
            json!({"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}),
        ),
        (json!({"parallelism": 2}), json!({"parallelism": 2, "completions": null})),
        (json!({"completions": 3}), json!({"parallelism": 1, "completions": 3})),
        (
            json!({"completionMode": "Indexed", "backoffLimitPerIndex": 1}),
            json!({"backoffLimit": 2_147_483_647, "podReplacementPolicy": "TerminatingOrFailed"}),
        ),
        (
            json!({"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a"}]}]}}),
            json!({
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a", "status": "True"}]}]},
            }),
        ),
        (json!({}), json!({"suspend": false, "manualSelector": false})),
    ] {
        let job = defaulted(&change);
        for (field, want) in want.as_object().unwrap() {
            let found = job.at(&["spec", field]).cloned().unwrap_or_default();
            assert_eq!(found, *want, "{change}: {field}");
        }
    }
}

#[test]
fn selector_and_labels_are_generated() {
    let generated = job(&json!({}));
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "a", "controller-uid": "u-1",
        "job-name": "a",
    });
    assert_eq!(generated.at(&["spec", "template", "metadata", "labels"]), Some(&labels));
    assert_eq!(generated.at(&["metadata", "labels"]), Some(&labels), "a job without labels gets them");
    assert_eq!(
        generated.at(&["spec", "selector"]),
        Some(&json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}))
    );
    assert_eq!(generated.at(&["status"]), Some(&json!({})));
    let manual = job(&json!({
        "manualSelector": true, "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}},
    }));
    assert_eq!(manual.at(&["spec", "selector"]), Some(&json!({"matchLabels": {"app": "x"}})));
    assert_eq!(manual.at(&["metadata", "labels"]), Some(&json!({"app": "x"})));
    for valid in [generated, manual] {
        let found = causes(|errors| Job.validate_create(&valid, errors));
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn invalid_jobs_are_rejected() {
    let not_negative = "Invalid value: -1: must be greater than or equal to 0";
    let cases: Vec<(&str, Value, Vec<Row>)> = vec![
        (
            "counts",
            json!({
                "parallelism": -1, "completions": -1, "activeDeadlineSeconds": -1, "backoffLimit": -1,
                "ttlSecondsAfterFinished": -1,
            }),
            vec![
                (INVALID, "spec.parallelism", not_negative),
                (INVALID, "spec.completions", not_negative),
                (INVALID, "spec.activeDeadlineSeconds", not_negative),
                (INVALID, "spec.backoffLimit", not_negative),
                (INVALID, "spec.ttlSecondsAfterFinished", not_negative),
            ],
        ),
        (
            "mode",
            json!({"completionMode": "Odd"}),
            vec![(
                NOT_SUPPORTED,
                "spec.completionMode",
                "Unsupported value: \"Odd\": supported values: \"NonIndexed\", \"Indexed\"",
            )],
        ),
        (
            "pods that always restart",
            json!({"template": {"spec": {"restartPolicy": "Always"}}}),
            vec![(
                REQUIRED,
                "spec.template.spec.restartPolicy",
                "Required value: valid values: \"OnFailure\", \"Never\"",
            )],
        ),
        (
            "limits of indexes without indexes",
            json!({"maxFailedIndexes": 1}),
            vec![
                (REQUIRED, "spec.backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"),
                (INVALID, "spec.maxFailedIndexes", "Invalid value: 1: requires indexed completion mode"),
            ],
        ),
        (
            "indexed without completions",
            json!({"completionMode": "Indexed", "parallelism": 100_001}),
            vec![
                (REQUIRED, "spec.completions", "Required value: when completion mode is Indexed"),
                (
                    INVALID,
                    "spec.parallelism",
                    "Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
                ),
            ],
        ),
        (
            "many indexes",
            json!({
                "completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001, "backoffLimitPerIndex": 1,
            }),
            vec![
                (
                    REQUIRED,
                    "spec.maxFailedIndexes",
                    "Required value: must be specified when completions is above 100000",
                ),
                (
                    INVALID,
                    "spec.parallelism",
                    "Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
                ),
            ],
        ),
        (
            "managers",
            json!({"managedBy": "no-slash"}),
            vec![(
                INVALID,
                "spec.managedBy",
                "Invalid value: \"no-slash\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            )],
        ),
        (
            "a manager with spaces",
            json!({"managedBy": "a.io/b c"}),
            vec![(
                INVALID,
                "spec.managedBy",
                "Invalid value: \"b c\": invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
            )],
        ),
        (
            "replacement",
            json!({"podReplacementPolicy": "Now"}),
            vec![(
                NOT_SUPPORTED,
                "spec.podReplacementPolicy",
                "Unsupported value: \"Now\": supported values: \"Failed\", \"TerminatingOrFailed\"",
            )],
        ),
        (
            "manual selector",
            json!({"manualSelector": true}),
            vec![
                (REQUIRED, "spec.selector", "Required value"),
                (
                    INVALID,
                    "spec.template.metadata.labels",
                    "Invalid value: null: `selector` does not match template `labels`",
                ),
            ],
        ),
    ];
    for (case, change, want) in cases {
        let job = job(&change);
        assert_eq!(causes(|errors| Job.validate_create(&job, errors)), want, "{case}");
    }
}

#[test]
fn generated_selectors_must_not_be_changed() {
    let own = job(&json!({"selector": {"matchLabels": {"app": "x"}}}));
    let found = causes(|errors| Job.validate_create(&own, errors));
    let selector = "Invalid value: {\"matchLabels\":{\"app\":\"x\",\"batch.kubernetes.io/controller-uid\":\"u-1\"}}: \
                    `selector` not auto-generated";
    let labels = "Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u-1\",\"batch.kubernetes.io/job-name\":\"a\",\
                  \"controller-uid\":\"u-1\",\"job-name\":\"a\"}: `selector` does not match template `labels`";
    assert_eq!(
        found,
        [(INVALID, "spec.selector", selector), (INVALID, "spec.template.metadata.labels", labels)]
    );
    let wrong = job(&json!({"template": {"metadata": {"labels": {"job-name": "b"}}}}));
    let found = causes(|errors| Job.validate_create(&wrong, errors));
    let labels = "Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u-1\",\"batch.kubernetes.io/job-name\":\"a\",\
                  \"controller-uid\":\"u-1\",\"job-name\":\"b\"}: must be 'a'";
    assert_eq!(found, [(INVALID, "spec.template.metadata.labels[job-name]", labels)]);
}

#[test]
fn name_of_the_last_pod_must_be_valid() {
    let mut long = job(&json!({"completionMode": "Indexed", "completions": 11}));
    let name = "a".repeat(61);
    long.set(&["metadata", "name"], name.as_str());
    for label in ["job-name", "batch.kubernetes.io/job-name"] {
        long.set(&["spec", "template", "metadata", "labels", label], name.as_str());
    }
    let why =
        format!("Invalid value: \"{name}\": will not able to create pod with invalid DNS label: {name}-10");
    let found = causes(|errors| Job.validate_create(&long, errors));
    assert_eq!(found, [(INVALID, "metadata.name", why.as_str())]);
}

#[test]
fn names_and_sizes_of_jobs_cause_warnings() {
    let mut large = job(&json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}));
    large.set(&["metadata", "name"], "a.b");
    let found = Job.warnings(&large, None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("metadata.name: this is used in Pod names"), "{found:?}");
    assert!(found[1].starts_with("spec: In Indexed Jobs with a number of completions"), "{found:?}");
    assert!(Job.warnings(&large, Some(&large)).is_empty(), "only if the spec changes");
    assert!(Job.delete_warning().unwrap().starts_with("child pods are preserved by default"));
}

#[test]
fn table_rows_show_progress() {
    let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    let ended = json!({
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:30Z", "succeeded": 2,
        "conditions": [{"type": "Complete", "status": "True"}],
    });
    for (spec, status, want) in [
        (json!({}), json!({}), ["Running", "0/1", ""]),
        (json!({}), json!({"startTime": "2026-01-01T00:00:00Z"}), ["Running", "0/1", "60s"]),
        (json!({"completions": 2}), ended, ["Complete", "2/2", "30s"]),
        (json!({}), condition("Failed"), ["Failed", "0/1", ""]),
        (json!({}), condition("Suspended"), ["Suspended", "0/1", ""]),
        (json!({}), condition("FailureTarget"), ["FailureTarget", "0/1", ""]),
        (json!({"parallelism": 3}), json!({}), ["Running", "0/1 of 3", ""]),
    ] {
        let mut job = job(&spec);
        job.set(&["status"], status);
        let row = Job.cells(&job, kind_now());
        assert_eq!(row[1..4], want, "{spec}");
        assert_eq!(row[4..], ["60s", "c", "i:1", "batch.kubernetes.io/controller-uid=u-1"]);
        assert_eq!(row.len(), Job.columns().len());
    }
    let mut job = job(&json!({}));
    job.set(&["status", "succeeded"], 7);
    assert_eq!(Job.field(&job, "status.successful"), "7");
}
