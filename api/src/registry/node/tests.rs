use super::super::testing::{causes, kind_now, object};
use super::*;

#[test]
fn allocatable_defaults_to_capacity() {
    for (case, given, want) in [
        (
            "capacity",
            json!({"status": {"capacity": {"cpu": "4"}}}),
            json!({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}),
        ),
        (
            "finer than a thousandth",
            json!({"status": {"capacity": {"cpu": "1500u"}}}),
            json!({"status": {"capacity": {"cpu": "2m"}, "allocatable": {"cpu": "2m"}}}),
        ),
        (
            "allocatable stays",
            json!({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}}),
            json!({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}}),
        ),
        (
            "podCIDR",
            json!({"spec": {"podCIDR": "10.1.0.0/24"}}),
            json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
        ),
        (
            "podCIDRs",
            json!({"spec": {"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}}),
            json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}}),
        ),
        (
            "podCIDR wins",
            json!({"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
            json!({"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}}),
        ),
        ("neither", json!({}), json!({})),
    ] {
        let mut node = object(given);
        Node.defaults(&mut node);
        assert_eq!(node.into_value(), want, "{case}");
    }
}

#[test]
fn taints_and_cidrs_are_validated() {
    let effect =
        "Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"";
    let cidr = "Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    for (case, body, want) in [
        ("fine", json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}), vec![]),
        (
            "effect",
            json!({"spec": {"taints": [{"key": "a", "effect": "X"}]}}),
            vec![("FieldValueNotSupported", "metadata.taints[0].effect", effect)],
        ),
        (
            "no effect",
            json!({"spec": {"taints": [{"key": "a", "effect": ""}]}}),
            vec![("FieldValueRequired", "metadata.taints[0].effect", "Required value")],
        ),
        (
            "twice",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]}}),
            vec![(
                "FieldValueDuplicate",
                "metadata.taints[1]",
                "Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}",
            )],
        ),
        ("cidr", json!({"spec": {"podCIDRs": ["x"]}}), vec![("FieldValueInvalid", "spec.podCIDRs[0]", cidr)]),
        (
            "two of a family",
            json!({"spec": {"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]}}),
            vec![(
                "FieldValueInvalid",
                "spec.podCIDRs",
                "Invalid value: [\"10.1.0.0/24\",\"10.2.0.0/24\"]: may specify no more than one CIDR for each IP family",
            )],
        ),
        ("dual stack", json!({"spec": {"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}}), vec![]),
        (
            "negative capacity",
            json!({"status": {"capacity": {"cpu": "-4"}}}),
            vec![(
                "FieldValueInvalid",
                "status.capacity.cpu",
                "Invalid value: \"-4\": must be greater than or equal to 0",
            )],
        ),
    ] {
        assert_eq!(causes(|errors| Node.validate(&object(body), errors)), want, "{case}");
    }
}

#[test]
fn updates_are_validated() {
    let old = json!({"spec": {"podCIDRs": ["10.1.0.0/24"], "providerID": "p://1"}});
    for (case, new, want) in [
        ("same", old.clone(), vec![]),
        (
            "podCIDRs",
            json!({"spec": {"podCIDRs": ["10.2.0.0/24"], "providerID": "p://1"}}),
            vec![(
                "FieldValueForbidden",
                "spec.podCIDRs",
                "Forbidden: node updates may not change podCIDR except from \"\" to valid",
            )],
        ),
        (
            "providerID",
            json!({"spec": {"podCIDRs": ["10.1.0.0/24"], "providerID": "p://2"}}),
            vec![(
                "FieldValueForbidden",
                "spec.providerID",
                "Forbidden: node updates may not change providerID except from \"\" to valid",
            )],
        ),
        (
            "externalID",
            json!({"spec": {"podCIDRs": ["10.1.0.0/24"], "providerID": "p://1", "externalID": "x"}}),
            vec![("FieldValueForbidden", "spec.externalID", "Forbidden: may not be updated")],
        ),
        (
            "address twice",
            json!({"spec": {"podCIDRs": ["10.1.0.0/24"], "providerID": "p://1"}, "status": {"addresses": [
                {"type": "InternalIP", "address": "1.2.3.4"}, {"type": "InternalIP", "address": "1.2.3.4"}]}}),
            vec![(
                "FieldValueDuplicate",
                "status.addresses[1]",
                "Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"1.2.3.4\"}",
            )],
        ),
    ] {
        let got = causes(|errors| Node.validate_update(&object(new), &object(old.clone()), errors));
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn table_rows_show_status_roles_and_addresses() {
    for (case, body, want) in [
        (
            "bare",
            json!({}),
            json!([
                "",
                "Unknown",
                "<none>",
                "<unknown>",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "full",
            json!({
                "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
                    "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "big"}},
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.2.3", "osImage": "os", "kernelVersion": "k",
                        "architecture": "arm64", "containerRuntimeVersion": "cr"},
                },
            }),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "big,control-plane",
                "60s",
                "v1.2.3",
                "10.0.0.1",
                "<none>",
                "os",
                "k (arm64)",
                "cr"
            ]),
        ),
        (
            "not ready",
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
            json!([
                "",
                "NotReady",
                "<none>",
                "<unknown>",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
    ] {
        assert_eq!(json!(Node.cells(&object(body), kind_now())), want, "{case}");
    }
    assert_eq!(Node.field(&object(json!({})), "spec.unschedulable"), "false");
    assert_eq!(Node.field(&object(json!({"spec": {"unschedulable": true}})), "spec.unschedulable"), "true");
}
