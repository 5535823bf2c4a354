use super::super::pod::Pod;
use super::super::testing::{causes, object};
use super::*;
use crate::kind::Kind;

const FORBIDDEN: &str = "FieldValueForbidden";
const DUPLICATE: &str = "FieldValueDuplicate";
const INVALID: &str = "FieldValueInvalid";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";
const QUALIFIED: &str = "Invalid value: \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn pod(changes: Value) -> Object {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "n", "image": "i"}],
        "activeDeadlineSeconds": 100, "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
    });
    for (key, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            spec.as_object_mut().expect("an object").remove(key);
        } else {
            spec[key] = value.clone();
        }
    }
    let mut pod = object(json!({"metadata": {"name": "p"}, "spec": spec}));
    Pod.defaults(&mut pod);
    pod
}

/// The error message without the list of changed fields.
fn refused(changed: &str) -> String {
    format!("Forbidden: pod updates may not change fields other than {MUTABLE}\nchanged: {changed}")
}

#[test]
fn only_mutable_fields_of_the_spec_may_change() {
    let (selector, containers, node, ephemeral) =
        (refused("nodeSelector"), refused("containers"), refused("nodeName"), refused("ephemeralContainers"));
    let gone = refused("nodeSelector");
    for (case, changes, want) in [
        ("nothing", json!({}), vec![]),
        ("image", json!({"containers": [{"name": "c", "image": "j", "imagePullPolicy": "Always"}]}), vec![]),
        (
            "empty image",
            json!({"containers": [{"name": "c", "image": "", "imagePullPolicy": "Always"}]}),
            vec![("FieldValueRequired", "spec.containers[0].image", "Required value")],
        ),
        (
            "command",
            json!({"containers": [{"name": "c", "image": "i", "command": ["x"]}]}),
            vec![(FORBIDDEN, "spec", containers.as_str())],
        ),
        (
            "one more container",
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}], "nodeName": "n"}),
            vec![(FORBIDDEN, "spec.containers", "Forbidden: pod updates may not add or remove containers")],
        ),
        (
            "no init container",
            json!({"initContainers": null}),
            vec![(
                FORBIDDEN,
                "spec.initContainers",
                "Forbidden: pod updates may not add or remove containers",
            )],
        ),
        ("nodeName", json!({"nodeName": "n"}), vec![(FORBIDDEN, "spec", node.as_str())]),
        (
            "nodeSelector",
            json!({"nodeSelector": {"a": "b", "c": "d"}}),
            vec![(FORBIDDEN, "spec", selector.as_str())],
        ),
        ("no nodeSelector", json!({"nodeSelector": null}), vec![(FORBIDDEN, "spec", gone.as_str())]),
        (
            "ephemeral container",
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            vec![(FORBIDDEN, "spec", ephemeral.as_str())],
        ),
        ("earlier deadline", json!({"activeDeadlineSeconds": 50}), vec![]),
        (
            "later deadline, and nothing else is looked at",
            json!({"activeDeadlineSeconds": 200, "nodeName": "n"}),
            vec![(
                INVALID,
                "spec.activeDeadlineSeconds",
                "Invalid value: 200: must be less than or equal to previous value",
            )],
        ),
        (
            "no deadline",
            json!({"activeDeadlineSeconds": null}),
            vec![(
                INVALID,
                "spec.activeDeadlineSeconds",
                "Invalid value: null: must not update from a positive integer to nil value",
            )],
        ),
        (
            "toleration added, and other seconds",
            json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
                {"key": "x", "operator": "Exists"}]}),
            vec![],
        ),
        (
            "toleration removed",
            json!({"tolerations": null}),
            vec![(
                FORBIDDEN,
                "spec.tolerations",
                "Forbidden: existing toleration can not be modified except its tolerationSeconds",
            )],
        ),
        (
            "gate added",
            json!({"schedulingGates": [{"name": "g"}]}),
            vec![(
                FORBIDDEN,
                "spec.schedulingGates[0].name",
                "Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
            )],
        ),
    ] {
        let got = causes(|errors| Pod.validate_update(&pod(changes), &pod(json!({})), errors));
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn negative_grace_period_may_be_set_to_one() {
    let old = pod(json!({"terminationGracePeriodSeconds": -5}));
    let none: Vec<(&str, &str, &str)> = vec![];
    let mended = pod(json!({"terminationGracePeriodSeconds": 1}));
    assert_eq!(causes(|errors| Pod.validate_update(&mended, &old, errors)), none);
    let other = pod(json!({"terminationGracePeriodSeconds": 2}));
    assert_eq!(causes(|errors| Pod.validate_update(&other, &old, errors)).len(), 1);
}

#[test]
fn gated_pods_may_become_narrower_in_node_selection() {
    let term = |values: Value| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": values}]}}})
    };
    let (x, y) = (json!({"key": "x", "operator": "Exists"}), json!({"key": "y", "operator": "Exists"}));
    let terms =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    let affinity = refused("affinity");
    for (case, before, after, want) in [
        ("node selector added", json!({}), json!({"nodeSelector": {"a": "b", "c": "d"}}), vec![]),
        (
            "node selector changed",
            json!({}),
            json!({"nodeSelector": {"a": "x"}}),
            vec![(
                INVALID,
                "spec.nodeSelector",
                "Invalid value: {\"a\":\"x\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            )],
        ),
        ("affinity added", json!({}), json!({"affinity": term(json!([x]))}), vec![]),
        (
            "requirement added",
            json!({"affinity": term(json!([x]))}),
            json!({"affinity": term(json!([x, y]))}),
            vec![],
        ),
        (
            "requirement replaced",
            json!({"affinity": term(json!([x]))}),
            json!({"affinity": term(json!([y]))}),
            vec![(
                INVALID,
                terms,
                "Invalid value: {\"MatchExpressions\":[{\"Key\":\"y\",\"Operator\":\"Exists\",\"Values\":null}],\"MatchFields\":null}: only additions are allowed (no mutations or deletions)",
            )],
        ),
        (
            "other affinity",
            json!({}),
            json!({"affinity": {"podAffinity": {}}}),
            vec![(FORBIDDEN, "spec", affinity.as_str())],
        ),
        ("gate removed", json!({}), json!({"schedulingGates": null}), vec![]),
    ] {
        let gated = |changes: Value| {
            let mut changes = changes;
            if changes.get("schedulingGates").is_none() {
                changes["schedulingGates"] = json!([{"name": "g"}]);
            }
            pod(changes)
        };
        let got = causes(|errors| Pod.validate_update(&gated(after), &gated(before), errors));
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn annotations_are_validated() {
    let with = |annotations: Value| object(json!({"metadata": {"annotations": annotations}, "spec": {}}));
    let mirror = |value: &str| with(json!({ "kubernetes.io/config.mirror": value }));
    for (case, new, old, want) in [
        ("others", with(json!({"a": "b"})), with(json!({})), vec![]),
        (
            "mirror added",
            mirror("x"),
            with(json!({})),
            vec![(
                FORBIDDEN,
                "metadata.annotations[kubernetes.io/config.mirror]",
                "Forbidden: may not add mirror pod annotation",
            )],
        ),
        (
            "mirror changed",
            mirror("y"),
            mirror("x"),
            vec![(
                FORBIDDEN,
                "metadata.annotations[kubernetes.io/config.mirror]",
                "Forbidden: may not remove or update mirror pod annotation",
            )],
        ),
    ] {
        assert_eq!(causes(|errors| Pod.validate_update(&new, &old, errors)), want, "{case}");
    }
    assert_eq!(
        causes(|errors| validate_annotations(&mirror("x"), errors)),
        vec![(
            INVALID,
            "metadata.annotations[kubernetes.io/config.mirror]",
            "Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set",
        )]
    );
    let cost = with(json!({"controller.kubernetes.io/pod-deletion-cost": "+5"}));
    assert_eq!(
        causes(|errors| validate_annotations(&cost, errors)),
        vec![(
            INVALID,
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]",
            "Invalid value: \"+5\": must be a 32bit integer",
        )]
    );
}

#[test]
fn status_updates_are_validated() {
    let old = json!({"qosClass": "BestEffort", "containerStatuses": [
        {"name": "c", "state": {"terminated": {"exitCode": 1}}}, {"name": "d", "state": {"running": {}}}]});
    let with = |policy: &str, node: &str, status: Value| {
        let containers = json!([{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}, "claims": [
            {"name": "r"}, {"name": "s", "request": "t"}]}}]);
        let spec = json!({"restartPolicy": policy, "nodeName": node, "containers": containers});
        object(json!({ "spec": spec, "status": status }))
    };
    let statuses = |list: Value| json!({"qosClass": "BestEffort", "containerStatuses": list});
    let running = statuses(json!([{"name": "c", "state": {"running": {}}}]));
    let allocated =
        |resource: Value| statuses(json!([{"name": "c", "allocatedResourcesStatus": [resource]}]));
    let allocated_name = "status.containerStatuses[0].allocatedResourcesStatus[0].name";
    let back = vec![(
        FORBIDDEN,
        "status.containerStatuses[0].state",
        "Forbidden: may not be transitioned to non-terminated state",
    )];
    for (case, policy, node, new, want) in [
        ("comes back, Always", "Always", "", running.clone(), vec![]),
        ("comes back, OnFailure after a failure", "OnFailure", "", running.clone(), vec![]),
        ("comes back, Never", "Never", "", running, back),
        (
            "class",
            "Always",
            "",
            json!({"qosClass": "Burstable"}),
            vec![(INVALID, "status.qosClass", "Invalid value: \"Burstable\": field is immutable")],
        ),
        (
            "nominated when bound",
            "Always",
            "n1",
            json!({"qosClass": "BestEffort", "nominatedNodeName": "n2"}),
            vec![(
                FORBIDDEN,
                "status.nominatedNodeName",
                "Forbidden: may not be set on pods that are already bound to a node",
            )],
        ),
        (
            "two addresses of a family",
            "Always",
            "",
            json!({"qosClass": "BestEffort", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]}),
            vec![(
                INVALID,
                "status.podIPs",
                "Invalid value: [{\"IP\":\"1.1.1.1\"},{\"IP\":\"2.2.2.2\"}]: may specify no more than one IP for each IP family",
            )],
        ),
        (
            "host addresses differ",
            "Always",
            "",
            json!({"qosClass": "BestEffort", "hostIP": "1.1.1.1", "hostIPs": [{"ip": "2.2.2.2"}]}),
            vec![(INVALID, "status.hostIPs[0].ip", "Invalid value: \"2.2.2.2\": must be equal to `hostIP`")],
        ),
        (
            "claims for devices",
            "Always",
            "",
            json!({"qosClass": "BestEffort", "resourceClaimStatuses": [
                {"name": "r"}, {"name": "r", "resourceClaimName": "p-r-x"},
            ]}),
            vec![
                (
                    INVALID,
                    "status.resourceClaimStatuses[0].name",
                    "Invalid value: \"r\": must match the name of an entry in `spec.resourceClaims`",
                ),
                (
                    INVALID,
                    "status.resourceClaimStatuses[1].name",
                    "Invalid value: \"r\": must match the name of an entry in `spec.resourceClaims`",
                ),
                (DUPLICATE, "status.resourceClaimStatuses[1].name", "Duplicate value: \"r\""),
            ],
        ),
        (
            "generation",
            "Always",
            "",
            json!({"qosClass": "BestEffort", "observedGeneration": -1}),
            vec![(INVALID, "status.observedGeneration", "Invalid value: -1: must be a non-negative integer")],
        ),
        (
            "conditions",
            "Always",
            "",
            json!({"qosClass": "BestEffort", "conditions": [
                {"type": "Ready", "status": "True", "observedGeneration": -2},
                {"type": "-", "status": "odd"},
            ]}),
            vec![
                (
                    INVALID,
                    "status.conditions[0].observedGeneration",
                    "Invalid value: -2: must be a non-negative integer",
                ),
                (INVALID, "status.conditions[1].Type", QUALIFIED),
            ],
        ),
        (
            "users",
            "Always",
            "",
            statuses(
                json!([{"name": "c", "user": {"linux": {"uid": -1, "gid": 0, "supplementalGroups": [1, -3]}}}]),
            ),
            vec![
                (
                    INVALID,
                    "status.containerStatuses[0].user.linux.uid",
                    "Invalid value: -1: must be between 0 and 2147483647, inclusive",
                ),
                (
                    INVALID,
                    "status.containerStatuses[0].user.linux.supplementalGroups[1]",
                    "Invalid value: -3: must be between 0 and 2147483647, inclusive",
                ),
            ],
        ),
        (
            "allocated, requested",
            "Always",
            "",
            allocated(
                json!({"name": "example.com/gpu", "resources": [{"resourceID": "a", "health": "Healthy"}]}),
            ),
            vec![],
        ),
        ("allocated, of a claim", "Always", "", allocated(json!({"name": "claim:r"})), vec![]),
        ("allocated, of a request", "Always", "", allocated(json!({"name": "claim:s/t"})), vec![]),
        (
            "allocated, of no claim",
            "Always",
            "",
            allocated(json!({"name": "claim:s"})),
            vec![(
                INVALID,
                allocated_name,
                "Invalid value: \"claim:s\": must match one of the container's resource claims in a format \
                 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
            )],
        ),
        (
            "allocated, not requested",
            "Always",
            "",
            allocated(json!({"name": "cpu", "resources": [
                {"resourceID": "a", "health": "Fine"}, {"resourceID": "a", "health": "Unknown"},
            ]})),
            vec![
                (
                    INVALID,
                    allocated_name,
                    "Invalid value: \"cpu\": must match one of the container's resource requests",
                ),
                (
                    NOT_SUPPORTED,
                    "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health",
                    "Unsupported value: \"Fine\": supported values: \"Healthy\", \"Unhealthy\", \"Unknown\"",
                ),
                (
                    DUPLICATE,
                    "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID",
                    "Duplicate value: \"a\"",
                ),
            ],
        ),
        (
            "allocated, of an ephemeral container",
            "Always",
            "",
            json!({"qosClass": "BestEffort", "ephemeralContainerStatuses": [
                {"name": "e", "allocatedResourcesStatus": [{"name": "cpu"}]},
            ]}),
            vec![(
                FORBIDDEN,
                "status.ephemeralContainerStatuses[0].allocatedResourcesStatus",
                "Forbidden: must not be specified in container status",
            )],
        ),
    ] {
        let (new, old) = (with(policy, node, new), with(policy, node, old.clone()));
        assert_eq!(causes(|errors| Pod.validate_status(&new, &old, errors)), want, "{case}");
    }
}
