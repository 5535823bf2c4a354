//! Updates of Jobs.

use super::*;

fn check(old: &Object, change: &Value, want: &[(&str, &str)], case: &str) {
    let new = changed(old, change);
    let want: Vec<_> = want.iter().map(|(path, text)| (INVALID, *path, *text)).collect();
    assert_eq!(causes(|errors| Job.validate_update(&new, old, errors)), want, "{case}");
}

#[test]
fn most_fields_are_immutable() {
    let old = job(&json!({"completions": 2}));
    for change in [
        json!({"parallelism": 5}),
        json!({"suspend": true}),
        json!({"activeDeadlineSeconds": 30}),
        json!({"ttlSecondsAfterFinished": 5}),
        json!({"backoffLimit": 1}),
    ] {
        check(&old, &change, &[], &change.to_string());
    }
    let immutable = "Invalid value: 3: field is immutable";
    check(&old, &json!({"completions": 3}), &[("spec.completions", immutable)], "completions");
    let immutable = "Invalid value: \"Indexed\": field is immutable";
    check(&old, &json!({"completionMode": "Indexed"}), &[("spec.completionMode", immutable)], "mode");
    let immutable = "Invalid value: \"example.com/x\": field is immutable";
    check(&old, &json!({"managedBy": "example.com/x"}), &[("spec.managedBy", immutable)], "manager");
    let policy = json!({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "Failed"});
    let immutable = "Invalid value: {\"Rules\":[]}: field is immutable";
    check(&old, &policy, &[("spec.podFailurePolicy", immutable)], "failure policy");
    let new = changed(&old, &json!({"template": {"spec": {"hostNetwork": true}}}));
    let found = format!("{:?}", causes(|errors| Job.validate_update(&new, &old, errors)));
    assert!(found.contains("spec.template") && found.contains("HostNetwork"), "{found}");
}

#[test]
fn completions_of_indexed_jobs_follow_the_parallelism() {
    let old = job(&json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}));
    check(&old, &json!({"completions": 3, "parallelism": 3}), &[], "both");
    let why = "Invalid value: 3: can only be modified in tandem with spec.parallelism";
    check(&old, &json!({"completions": 3}), &[("spec.completions", why)], "one");
}

#[test]
fn suspended_jobs_can_be_scheduled_elsewhere() {
    let labels = json!({"x": "y"});
    let scheduling = json!({"template": {
        "metadata": {"labels": labels, "annotations": {"a": "b"}},
        "spec": {
            "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}],
            "schedulingGates": [{"name": "g"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ]}},
            "containers": [{
                "name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }],
        },
    }});
    let running = job(&json!({}));
    let suspended = job(&json!({"suspend": true}));
    let mut stopping = suspended.clone();
    stopping.set(&["status"], json!({"startTime": "2026-01-01T00:00:00Z", "active": 1}));
    check(&suspended, &scheduling, &[], "suspended");
    for (case, old) in [("running", &running), ("with pods", &stopping)] {
        let new = changed(old, &scheduling);
        let found = format!("{:?}", causes(|errors| Job.validate_update(&new, old, errors)));
        assert!(found.contains("spec.template"), "{case}: {found}");
    }
    let scheduled = changed(&suspended, &scheduling);
    check(&scheduled, &json!({"template": {"spec": {"affinity": null}}}), &[], "without affinity");
    let image = json!({"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}});
    let new = changed(&suspended, &image);
    assert!(!causes(|errors| Job.validate_update(&new, &suspended, errors)).is_empty(), "the image remains");
}
