//! Policies for failed pods and for success.

use super::*;

fn check(change: &Value, want: &[Row], case: &str) {
    let job = job(change);
    assert_eq!(causes(|errors| Job.validate_create(&job, errors)), want, "{case}");
}

#[test]
fn failure_policies_are_validated() {
    let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
    check(
        &json!({"podFailurePolicy": {"rules": [
            {"action": "Do"},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0, 1, 1], "containerName": "zz"}},
        ]}}),
        &[
            (
                NOT_SUPPORTED,
                "spec.podFailurePolicy.rules[0].action",
                "Unsupported value: \"Do\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
            ),
            (
                INVALID,
                "spec.podFailurePolicy.rules[0]",
                "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ),
            (
                INVALID,
                "spec.podFailurePolicy.rules[1].onExitCodes.containerName",
                "Invalid value: \"zz\": must be one of the container or initContainer names in the pod template",
            ),
            (
                INVALID,
                "spec.podFailurePolicy.rules[1].onExitCodes.values[0]",
                "Invalid value: 0: must not be 0 for the In operator",
            ),
            (DUPLICATE, "spec.podFailurePolicy.rules[1].onExitCodes.values[2]", "Duplicate value: 1"),
        ],
        "actions and exit codes",
    );
    check(
        &rule(json!({
            "action": "", "onExitCodes": {"operator": "", "values": [2, 1]},
            "onPodConditions": [{"type": "a", "status": "Maybe"}],
        })),
        &[
            (
                REQUIRED,
                "spec.podFailurePolicy.rules[0].action",
                "Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            ),
            (
                REQUIRED,
                "spec.podFailurePolicy.rules[0].onExitCodes.operator",
                "Required value: valid values: [\"In\" \"NotIn\"]",
            ),
            (
                INVALID,
                "spec.podFailurePolicy.rules[0].onExitCodes.values",
                "Invalid value: [2,1]: must be ordered",
            ),
            (
                NOT_SUPPORTED,
                "spec.podFailurePolicy.rules[0].onPodConditions[0].status",
                "Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            ),
            (
                INVALID,
                "spec.podFailurePolicy.rules[0]",
                "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
            ),
        ],
        "empty choices",
    );
    check(
        &rule(json!({"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": []}})),
        &[
            (
                INVALID,
                "spec.podFailurePolicy.rules[0].action",
                "Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
            ),
            (
                INVALID,
                "spec.podFailurePolicy.rules[0].onExitCodes.values",
                "Invalid value: []: at least one value is required",
            ),
        ],
        "no exit codes",
    );
    check(
        &json!({
            "template": {"spec": {"restartPolicy": "OnFailure"}}, "podReplacementPolicy": "TerminatingOrFailed",
            "podFailurePolicy": {"rules": []},
        }),
        &[
            (
                NOT_SUPPORTED,
                "spec.podReplacementPolicy",
                "Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            ),
            (
                INVALID,
                "spec.template.spec.restartPolicy",
                "Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
            ),
        ],
        "pods that restart",
    );
}

#[test]
fn success_policies_are_validated() {
    let indexed = |rules: Value| json!({"completionMode": "Indexed", "completions": 4, "successPolicy": {"rules": rules}});
    check(&indexed(json!([{"succeededIndexes": "0,2-3", "succeededCount": 3}])), &[], "valid");
    check(
        &json!({"successPolicy": {"rules": [{"succeededCount": 1}]}}),
        &[(
            INVALID,
            "spec.successPolicy",
            "Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: requires indexed completion mode",
        )],
        "not indexed",
    );
    check(
        &indexed(json!([])),
        &[(
            REQUIRED,
            "spec.successPolicy.rules",
            "Required value: at least one rules must be specified when the successPolicy is specified",
        )],
        "no rules",
    );
    check(
        &indexed(
            json!([{}, {"succeededIndexes": "9"}, {"succeededCount": 5}, {"succeededIndexes": "1", "succeededCount": 2}]),
        ),
        &[
            (
                REQUIRED,
                "spec.successPolicy.rules[0]",
                "Required value: at least one of succeededCount or succeededIndexes must be specified",
            ),
            (
                INVALID,
                "spec.successPolicy.rules[1].succeededIndexes",
                "Invalid value: \"9\": error parsing succeededIndexes: too large index: \"9\"",
            ),
            (
                INVALID,
                "spec.successPolicy.rules[2].succeededCount",
                "Invalid value: 5: must be less than or equal to 4 (the number of specified completions)",
            ),
            (
                INVALID,
                "spec.successPolicy.rules[3].succeededCount",
                "Invalid value: 2: must be less than or equal to 1 (the number of indexes in the specified succeededIndexes field)",
            ),
        ],
        "rules",
    );
    let many: Vec<Value> = (0..21).map(|_| json!({"succeededCount": 1})).collect();
    check(
        &indexed(json!(many)),
        &[(TOO_MANY, "spec.successPolicy.rules", "Too many: 21: must have at most 20 items")],
        "too many",
    );
}
