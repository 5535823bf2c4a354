//! Tests of the `CSIStorageCapacity` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

fn capacity() -> Value {
    json!({"storageClassName": "fast", "capacity": "10Gi", "nodeTopology": {"matchLabels": {"zone": "z1"}}})
}

#[test]
fn new_objects_are_validated() {
    for (case, patch, want) in [
        ("1 good", json!({}), vec![]),
        ("2 nothing but a class", json!({"capacity": null, "nodeTopology": null}), vec![]),
        (
            "3 no class",
            json!({"storageClassName": ""}),
            vec![format!("storageClassName: Invalid value: \"\": {SUBDOMAIN}")],
        ),
        (
            "4 negative",
            json!({"capacity": "-1"}),
            vec!["capacity: Invalid value: \"-1\": must be greater than or equal to 0".to_owned()],
        ),
        ("5 a negative maximum", json!({"maximumVolumeSize": "-1Gi"}), vec![]),
        (
            "6 topology",
            json!({"nodeTopology": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]}}),
            vec!["nodeTopology.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator".to_owned()],
        ),
    ] {
        check(case, &create_errors(&CsiStorageCapacity, &with(&capacity(), &patch)), &want);
    }
}

#[test]
fn updates_are_validated() {
    for (case, patch, want) in [
        ("1 free", json!({"capacity": null, "maximumVolumeSize": "1Gi"}), vec![]),
        (
            "2 fixed",
            json!({"storageClassName": "slow", "nodeTopology": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
            vec![
                "nodeTopology: Invalid value: {\"matchLabels\":{\"zone\":\"z1\"},\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]}: field is immutable",
                "storageClassName: Invalid value: \"slow\": field is immutable",
            ],
        ),
        (
            "3 topology gone",
            json!({"nodeTopology": null}),
            vec!["nodeTopology: Invalid value: null: field is immutable"],
        ),
    ] {
        let got = update_errors(&CsiStorageCapacity, &capacity(), &with(&capacity(), &patch));
        check(case, &got, &want);
    }
}

#[test]
fn deprecated_node_labels_cause_warnings() {
    let topology = json!({"nodeTopology": {
        "matchLabels": {"beta.kubernetes.io/os": "linux"},
        "matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}],
    }});
    check(
        "warnings",
        &warnings(&CsiStorageCapacity, &with(&capacity(), &topology)),
        &[
            "nodeTopology.matchExpressions[0]: beta.kubernetes.io/arch is deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ],
    );
}
