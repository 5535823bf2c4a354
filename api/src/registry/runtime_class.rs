//! `RuntimeClass`: a configuration of the container runtime that pods can select.
//!
//! Upstream: pkg/apis/node/validation, pkg/registry/node/runtimeclass.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::api::node::v1 as api;
use orlop_apimachinery::names;
use serde_json::Value;

use super::go_format::TOLERATION;
use super::pod_spec::{resources, scheduling};
use super::{cells, checks};
use crate::kind::{Column, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::label_selector::validate_labels;
use crate::validate::{FieldErrors, Path};

/// The `RuntimeClass` kind.
pub(super) struct RuntimeClass;

const NAMES: Names = Names {
    group: "node.k8s.io",
    version: "v1",
    kind: "RuntimeClass",
    plural: "runtimeclasses",
    singular: "runtimeclass",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.node.v1.RuntimeClass",
};

impl Kind for RuntimeClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/runtimeclasses/"
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, ..Policy::DEFAULT }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let Some(class) = object.typed::<api::RuntimeClass>() else { return };
        let path = Path::new("handler");
        if class.handler.is_empty() {
            errors.required(&path, "");
        } else {
            checks::each(errors, &path, &class.handler, names::dns_label(&class.handler));
        }
        if let Some(overhead) = class.overhead {
            // Upstream validates the overhead as the limits of a container, also in the path.
            let limits =
                ResourceRequirements { limits: overhead.pod_fixed, ..ResourceRequirements::default() };
            resources::validate(&limits, &BTreeSet::new(), &Path::new("overhead"), errors);
        }
        if let Some(scheduling) = class.scheduling {
            validate_scheduling(object, &scheduling, errors);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        checks::immutable(errors, &Path::new("handler"), object.at(&["handler"]), old.at(&["handler"]));
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::text("Handler", "The configuration of the container runtime."), cells::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(object), object.str_at(&["handler"]).into(), cells::age(object, now)]
    }
}

/// The node labels and the tolerations that pods of the class get.
fn validate_scheduling(object: &Object, rules: &api::Scheduling, errors: &mut FieldErrors) {
    let path = Path::new("scheduling");
    let labels = rules.node_selector.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    validate_labels(labels, &path.child("nodeSelector"), errors);
    let tolerations = rules.tolerations.as_deref().unwrap_or_default();
    let path = path.child("tolerations");
    scheduling::tolerations(tolerations, &path, errors);
    let given = object.at(&["scheduling", "tolerations"]).and_then(Value::as_array);
    let mut seen = HashSet::new();
    for (at, toleration) in given.into_iter().flatten().enumerate() {
        let shown = TOLERATION.show(Some(toleration));
        if seen.contains(&shown) {
            errors.duplicate_shown(&path.index(at), &shown);
        }
        seen.insert(shown);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{causes, kind_now, object};
    use super::*;

    fn class(change: Value) -> Object {
        let mut value = json!({"metadata": {"name": "a"}, "handler": "runc"});
        json_patch::merge(&mut value, &change);
        object(value)
    }

    #[test]
    fn invalid_classes_are_rejected() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let bad_handler = format!("Invalid value: \"Run_C\": {label}");
        let every_key = "Invalid value: \"Is\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        type Row<'a> = (&'static str, &'static str, &'a str);
        let cases: [(&str, Value, Vec<Row<'_>>); 7] = [
            ("valid", json!({"overhead": {"podFixed": {"cpu": "100m"}}}), vec![]),
            ("no handler", json!({"handler": ""}), vec![("FieldValueRequired", "handler", "Required value")]),
            ("handler", json!({"handler": "Run_C"}), vec![("FieldValueInvalid", "handler", &bad_handler)]),
            (
                "overhead",
                json!({"overhead": {"podFixed": {"cpu": "-1"}}}),
                vec![(
                    "FieldValueInvalid",
                    "overhead.limits[cpu]",
                    "Invalid value: \"-1\": must be greater than or equal to 0",
                )],
            ),
            (
                "node selector",
                json!({"scheduling": {"nodeSelector": {"/a": "c"}}}),
                vec![(
                    "FieldValueInvalid",
                    "scheduling.nodeSelector",
                    "Invalid value: \"/a\": prefix part must be non-empty",
                )],
            ),
            (
                "operator",
                json!({"scheduling": {"tolerations": [{"operator": "Is"}]}}),
                vec![
                    ("FieldValueInvalid", "scheduling.tolerations[0].operator", every_key),
                    (
                        "FieldValueNotSupported",
                        "scheduling.tolerations[0].operator",
                        "Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\"",
                    ),
                ],
            ),
            (
                "the same toleration twice",
                json!({"scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]}}),
                vec![(
                    "FieldValueDuplicate",
                    "scheduling.tolerations[1]",
                    "Duplicate value: {\"Key\":\"a\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}",
                )],
            ),
        ];
        for (case, change, want) in cases {
            assert_eq!(causes(|errors| RuntimeClass.validate(&class(change), errors)), want, "{case}");
        }
    }

    #[test]
    fn handler_is_immutable() {
        let (old, new) = (class(json!({})), class(json!({"handler": "other", "overhead": {"podFixed": {}}})));
        assert_eq!(
            causes(|errors| RuntimeClass.validate_update(&new, &old, errors)),
            [("FieldValueInvalid", "handler", "Invalid value: \"other\": field is immutable")]
        );
    }

    #[test]
    fn table_rows_show_the_handler() {
        let class = class(json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}));
        assert_eq!(json!(RuntimeClass.cells(&class, kind_now())), json!(["a", "runc", "60s"]));
        assert_eq!(RuntimeClass.columns().len(), 3);
    }
}
