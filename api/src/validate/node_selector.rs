//! Validation of node selectors and node affinity in pods and volumes.
//! Upstream: `pkg/apis/core/validation`.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, VolumeNodeAffinity,
};
use orlop_apimachinery::names;

use super::label_selector::{forbid_values, require_values, validate_label_key, validate_label_values};
use super::{FieldErrors, Path};

/// The nodes from which a volume can be reached; `path` is `spec.nodeAffinity`.
pub fn validate_volume_node_affinity(affinity: &VolumeNodeAffinity, path: &Path, errors: &mut FieldErrors) {
    match &affinity.required {
        Some(required) => validate_node_selector(required, &path.child("required"), errors),
        None => errors.required(&path.child("required"), "must specify required node constraints"),
    }
}

/// The node affinity of a pod; `path` is `spec.affinity.nodeAffinity`.
pub fn validate_node_affinity(affinity: &NodeAffinity, path: &Path, errors: &mut FieldErrors) {
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        validate_node_selector(required, &path, errors);
    }
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    for (i, term) in preferred.enumerate() {
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(i);
        if !(1..=100).contains(&term.weight) {
            errors.invalid(&path.child("weight"), term.weight, "must be in the range 1-100");
        }
        validate_node_selector_term(&term.preference, &path.child("preference"), errors);
    }
}

/// A node selector.
pub fn validate_node_selector(selector: &NodeSelector, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        errors.required(&path, "must have at least one node selector term");
    }
    for (i, term) in selector.node_selector_terms.iter().enumerate() {
        validate_node_selector_term(term, &path.index(i), errors);
    }
}

/// One term of a node selector.
pub fn validate_node_selector_term(term: &NodeSelectorTerm, path: &Path, errors: &mut FieldErrors) {
    for (i, one) in term.match_expressions.iter().flatten().enumerate() {
        label_requirement(one, &path.child("matchExpressions").index(i), errors);
    }
    for (i, one) in term.match_fields.iter().flatten().enumerate() {
        field_requirement(one, &path.child("matchFields").index(i), errors);
    }
}

fn label_requirement(requirement: &NodeSelectorRequirement, path: &Path, errors: &mut FieldErrors) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" => require_values(values, path, errors),
        "Exists" | "DoesNotExist" => forbid_values(values, path, errors),
        "Gt" | "Lt" if values.len() == 1 => {}
        "Gt" | "Lt" => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&path.child("values"), why);
        }
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    validate_label_key(&requirement.key, &path.child("key"), errors);
    validate_label_values(values, &path.child("values"), errors);
}

fn field_requirement(requirement: &NodeSelectorRequirement, path: &Path, errors: &mut FieldErrors) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&path.child("values"), why);
        }
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    if requirement.key != "metadata.name" {
        let key = requirement.key.as_str();
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
        return;
    }
    for (i, value) in values.iter().enumerate() {
        for text in names::dns_subdomain(value) {
            errors.invalid(&path.child("values").index(i), value.as_str(), &text);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn check(value: Value, expected: &[(&str, &str)], errors: &FieldErrors) {
        let found: Vec<(&str, &str)> =
            errors.causes().iter().map(|cause| (cause.field.as_str(), cause.message.as_str())).collect();
        assert_eq!(found.len(), expected.len(), "{value}: {found:?}");
        for ((field, message), (wanted_field, wanted)) in found.into_iter().zip(expected) {
            assert_eq!(field, *wanted_field, "{value}");
            assert!(message.starts_with(wanted), "{value}: {message}");
        }
    }

    #[test]
    fn requirements_are_validated() {
        let label = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let field = |key: &str, operator: &str, values: Value| json!({"matchFields": [{"key": key, "operator": operator, "values": values}]});
        for (term, expected) in [
            (json!({}), vec![]),
            (label("In", json!(["x", "y"])), vec![]),
            (label("Gt", json!(["5"])), vec![]),
            (
                label("NotIn", json!([])),
                vec![("t.matchExpressions[0].values", "Required value: must be specified when `operator`")],
            ),
            (
                label("Exists", json!(["x"])),
                vec![("t.matchExpressions[0].values", "Forbidden: may not be specified when `operator`")],
            ),
            (
                label("Lt", json!(["1", "2"])),
                vec![("t.matchExpressions[0].values", "Required value: must be specified single value when")],
            ),
            (
                label("Near", json!(["-"])),
                vec![
                    (
                        "t.matchExpressions[0].operator",
                        "Invalid value: \"Near\": not a valid selector operator",
                    ),
                    ("t.matchExpressions[0].values[0]", "Invalid value: \"-\": a valid label must be"),
                ],
            ),
            (
                json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}),
                vec![
                    ("t.matchExpressions[0].key", "Invalid value: \"\": name part must be non-empty"),
                    ("t.matchExpressions[0].key", "Invalid value: \"\": name part must consist of"),
                ],
            ),
            (field("metadata.name", "In", json!(["n1"])), vec![]),
            (
                field("metadata.uid", "Exists", Value::Null),
                vec![
                    ("t.matchFields[0].operator", "Invalid value: \"Exists\": not a valid selector operator"),
                    (
                        "t.matchFields[0].key",
                        "Invalid value: \"metadata.uid\": not a valid field selector key",
                    ),
                ],
            ),
            (
                field("metadata.name", "In", json!(["N", "b"])),
                vec![
                    ("t.matchFields[0].values", "Required value: must be only one value when `operator`"),
                    ("t.matchFields[0].values[0]", "Invalid value: \"N\": a lowercase RFC 1123 subdomain"),
                ],
            ),
        ] {
            let typed: NodeSelectorTerm = serde_json::from_value(term.clone()).unwrap();
            let mut errors = FieldErrors::new();
            validate_node_selector_term(&typed, &Path::new("t"), &mut errors);
            check(term, &expected, &errors);
        }
    }

    #[test]
    fn node_affinity_is_validated() {
        let mut errors = FieldErrors::new();
        validate_volume_node_affinity(&VolumeNodeAffinity::default(), &Path::new("a"), &mut errors);
        let empty = VolumeNodeAffinity { required: Some(NodeSelector::default()) };
        validate_volume_node_affinity(&empty, &Path::new("a"), &mut errors);
        let expected = [
            ("a.required", "Required value: must specify required node constraints"),
            ("a.required.nodeSelectorTerms", "Required value: must have at least one node selector term"),
        ];
        check(json!("volume"), &expected, &errors);

        let pod = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {}},
                {"weight": 101, "preference": {"matchExpressions": [{"key": "a", "operator": "x"}]}},
            ],
        });
        let typed: NodeAffinity = serde_json::from_value(pod.clone()).unwrap();
        let mut errors = FieldErrors::new();
        validate_node_affinity(&typed, &Path::new("a"), &mut errors);
        let preferred = "a.preferredDuringSchedulingIgnoredDuringExecution[1]";
        let expected = [
            (
                "a.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
                "Required value: must have at least one node selector term",
            ),
            (&format!("{preferred}.weight"), "Invalid value: 101: must be in the range 1-100"),
            (
                &format!("{preferred}.preference.matchExpressions[0].operator"),
                "Invalid value: \"x\": not a valid selector operator",
            ),
        ];
        check(pod, &expected, &errors);
    }
}
