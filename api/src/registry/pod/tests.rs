use super::super::testing::{kind_now, object};
use super::*;

#[test]
fn new_pod_gets_defaults_and_status() {
    let mut pod = object(json!({
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": -1},
    }));
    Pod.defaults(&mut pod);
    Pod.prepare_create(&mut pod, kind_now());
    assert_eq!(
        pod.into_value(),
        json!({
            "metadata": {"name": "x"},
            "spec": {
                "containers": [{
                    "name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
                }],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true,
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    );
}

#[test]
fn match_label_keys_become_selector_requirements() {
    let mut pod = object(json!({
        "metadata": {"labels": {"hash": "1", "tier": "x"}},
        "spec": {
            "affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["hash", "absent"],
                        "mismatchLabelKeys": ["tier"], "topologyKey": "z"}]},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"labelSelector": {}, "matchLabelKeys": ["hash"], "topologyKey": "z"}}]},
            },
            "topologySpreadConstraints": [
                {"labelSelector": {}, "matchLabelKeys": ["hash"]}, {"matchLabelKeys": ["hash"]}],
        },
    }));
    Pod.prepare_create(&mut pod, kind_now());
    let hash = json!({"key": "hash", "operator": "In", "values": ["1"]});
    let tier = json!({"key": "tier", "operator": "NotIn", "values": ["x"]});
    let spec = pod.at(&["spec"]).expect("a spec");
    assert_eq!(
        spec.pointer("/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector"),
        Some(&json!({"matchLabels": {"a": "b"}, "matchExpressions": [hash, tier]}))
    );
    assert_eq!(
        spec.pointer("/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector"),
        Some(&json!({"matchExpressions": [hash]}))
    );
    assert_eq!(
        spec.pointer("/topologySpreadConstraints/0/labelSelector"),
        Some(&json!({"matchExpressions": [hash]}))
    );
    assert_eq!(spec.pointer("/topologySpreadConstraints/1/labelSelector"), None);
}

#[test]
fn selectable_fields_are_readable() {
    let pod = object(json!({
        "spec": {"nodeName": "n1", "hostNetwork": true, "restartPolicy": "Never"},
        "status": {"phase": "Running", "podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]},
    }));
    for (name, want) in [
        ("spec.nodeName", "n1"),
        ("spec.host", "n1"),
        ("spec.hostNetwork", "true"),
        ("spec.restartPolicy", "Never"),
        ("status.phase", "Running"),
        ("status.podIP", "1.1.1.1"),
        ("status.podIPs", ""),
        ("status.nominatedNodeName", ""),
    ] {
        assert!(Pod.selectable().contains(&name), "{name}");
        assert_eq!(Pod.field(&pod, name), want, "{name}");
    }
    assert_eq!(Pod.field(&object(json!({})), "spec.hostNetwork"), "false");
}

#[test]
fn new_pods_are_validated() {
    use super::super::testing::causes;

    for (case, spec, want) in [
        (
            "ephemeral containers",
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            vec![("FieldValueForbidden", "spec.ephemeralContainers", "Forbidden: cannot be set on create")],
        ),
        (
            "bound while gated",
            json!({"nodeName": "n1", "schedulingGates": [{"name": "a"}]}),
            vec![(
                "FieldValueForbidden",
                "spec.nodeName",
                "Forbidden: cannot be set until all schedulingGates have been cleared",
            )],
        ),
        ("gated", json!({"schedulingGates": [{"name": "a"}]}), vec![]),
    ] {
        let pod = object(json!({ "spec": spec }));
        assert_eq!(causes(|errors| Pod.validate_create(&pod, errors)), want, "{case}");
    }
}

#[test]
fn dotted_name_and_deprecated_labels_cause_warnings() {
    let pod = object(
        json!({"metadata": {"name": "a.b"}, "spec": {"nodeSelector": {"beta.kubernetes.io/os": "x"}}}),
    );
    assert_eq!(
        Pod.warnings(&pod, None),
        vec![
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS \
             label is recommended: [must not contain dots]",
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ]
    );
    assert_eq!(Pod.warnings(&pod, Some(&pod)), Vec::<String>::new());
}
