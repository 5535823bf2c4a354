//! Tests of roles and bindings, one row per rule.

use serde_json::json;

use super::super::testing::{causes, kind_now, object};
use super::*;

const REQUIRED: &str = "FieldValueRequired";
const INVALID: &str = "FieldValueInvalid";
const UNSUPPORTED: &str = "FieldValueNotSupported";
type Row<'a> = (&'a str, &'a str, &'a str);

#[test]
fn role_rules_are_validated() {
    let both = "Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs";
    let cases: [(&str, bool, Value, &[Row<'_>]); 8] = [
        ("1 good", true, json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), &[]),
        (
            "2 nothing",
            true,
            json!({}),
            &[
                (REQUIRED, "rules[0].verbs", "Required value: verbs must contain at least one value"),
                (
                    REQUIRED,
                    "rules[0].apiGroups",
                    "Required value: resource rules must supply at least one api group",
                ),
                (
                    REQUIRED,
                    "rules[0].resources",
                    "Required value: resource rules must supply at least one resource",
                ),
            ],
        ),
        (
            "3 names of several resources",
            true,
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["a", "b"], "resourceNames": ["x"]}),
            &[(
                REQUIRED,
                "rules[0].resourceNames",
                "Required value: resource names cannot apply to multiple resources",
            )],
        ),
        (
            "4 names of one",
            true,
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["a"], "resourceNames": ["x"]}),
            &[],
        ),
        ("5 paths", false, json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}), &[]),
        (
            "6 paths in a namespace",
            true,
            json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}),
            &[(
                INVALID,
                "rules[0].nonResourceURLs",
                "Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs",
            )],
        ),
        (
            "7 paths and resources",
            false,
            json!({"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}),
            &[(INVALID, "rules[0].nonResourceURLs", both)],
        ),
        (
            "8 no verb for a path",
            false,
            json!({"nonResourceURLs": ["/a"]}),
            &[(REQUIRED, "rules[0].verbs", "Required value: verbs must contain at least one value")],
        ),
    ];
    for (case, namespaced, rule, want) in cases {
        let role = object(json!({"rules": [rule]}));
        assert_eq!(causes(|errors| rules(&role, namespaced, errors)), want, "{case}");
    }
    assert_eq!(causes(|errors| rules(&object(json!({"rules": null})), true, errors)), []);
}

#[test]
fn aggregation_rules_are_validated() {
    let path = "aggregationRule.clusterRoleSelectors";
    let cases: [(&str, Value, &[Row<'_>]); 4] = [
        ("1 none", json!({}), &[]),
        ("2 good", json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}), &[]),
        (
            "3 without a selector",
            json!({"clusterRoleSelectors": []}),
            &[(
                REQUIRED,
                path,
                "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            )],
        ),
        (
            "4 a bad selector",
            json!({"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}),
            &[
                (
                    INVALID,
                    "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator",
                    "Invalid value: \"Is\": not a valid selector operator",
                ),
                (
                    INVALID,
                    "aggregationRule.clusterRoleSelectors[0]",
                    "Invalid value: null: invalid label selector.",
                ),
            ],
        ),
    ];
    for (case, rule, want) in cases {
        let role = if case.starts_with('1') { json!({}) } else { json!({"aggregationRule": rule}) };
        assert_eq!(causes(|errors| aggregation(&object(role), errors)), want, "{case}");
    }
}

fn bound(kind: &str, subject: Value) -> Value {
    json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": "r"}, "subjects": [subject]})
}

#[test]
fn bindings_are_validated() {
    let user = json!({"kind": "User", "apiGroup": GROUP, "name": "ann"});
    let cases: [(&str, bool, Value, &[Row<'_>]); 13] = [
        ("1 good", true, bound("Role", user.clone()), &[]),
        (
            "2 a role for all namespaces",
            false,
            bound("Role", user.clone()),
            &[(
                UNSUPPORTED,
                "roleRef.kind",
                "Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            )],
        ),
        (
            "3 no kind of role",
            true,
            bound("", user),
            &[(
                UNSUPPORTED,
                "roleRef.kind",
                "Unsupported value: \"\": supported values: \"Role\", \"ClusterRole\"",
            )],
        ),
        (
            "4 no name of a role",
            true,
            json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": ""}}),
            &[(REQUIRED, "roleRef.name", "Required value")],
        ),
        (
            "5 a bad name of a role",
            true,
            json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "a/b"}}),
            &[(INVALID, "roleRef.name", "Invalid value: \"a/b\": may not contain '/'")],
        ),
        (
            "6 a role of another group",
            true,
            json!({"roleRef": {"apiGroup": "x", "kind": "Role", "name": "r"}}),
            &[(
                UNSUPPORTED,
                "roleRef.apiGroup",
                "Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
            )],
        ),
        (
            "7 a user without a name",
            true,
            bound("Role", json!({"kind": "User", "apiGroup": GROUP, "name": ""})),
            &[
                (REQUIRED, "subjects[0].name", "Required value"),
                (INVALID, "subjects[0].name", "Invalid value: \"\": user name cannot be empty"),
            ],
        ),
        (
            "8 a group without a name",
            true,
            bound("Role", json!({"kind": "Group", "apiGroup": GROUP, "name": ""})),
            &[
                (REQUIRED, "subjects[0].name", "Required value"),
                (INVALID, "subjects[0].name", "Invalid value: \"\": group name cannot be empty"),
            ],
        ),
        (
            "9 a group of no group",
            true,
            bound("Role", json!({"kind": "Group", "apiGroup": "x", "name": "g"})),
            &[(
                UNSUPPORTED,
                "subjects[0].apiGroup",
                "Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
            )],
        ),
        (
            "10 an account of this namespace",
            true,
            bound("Role", json!({"kind": "ServiceAccount", "name": "a"})),
            &[],
        ),
        (
            "11 an account of no namespace",
            false,
            bound("ClusterRole", json!({"kind": "ServiceAccount", "name": "a"})),
            &[(REQUIRED, "subjects[0].namespace", "Required value")],
        ),
        (
            "12 an account in a group",
            true,
            bound("Role", json!({"kind": "ServiceAccount", "name": "a", "apiGroup": "x"})),
            &[(UNSUPPORTED, "subjects[0].apiGroup", "Unsupported value: \"x\": supported values: \"\"")],
        ),
        (
            "13 something else",
            true,
            bound("Role", json!({"kind": "Pod", "name": "a"})),
            &[(
                UNSUPPORTED,
                "subjects[0].kind",
                "Unsupported value: \"Pod\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            )],
        ),
    ];
    for (case, namespaced, value, want) in cases {
        assert_eq!(causes(|errors| binding(&object(value), namespaced, errors)), want, "{case}");
    }
}

#[test]
fn role_of_a_binding_is_immutable() {
    let old = object(json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"}}));
    assert_eq!(causes(|errors| same_role(&old, &old, errors)), []);
    let new = object(json!({"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "zz"}}));
    let shown = "Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"zz\"}: \
                 cannot change roleRef";
    assert_eq!(causes(|errors| same_role(&new, &old, errors)), [(INVALID, "roleRef", shown)]);
}

#[test]
fn api_groups_of_a_binding_are_defaulted() {
    let mut given = object(json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g", "apiGroup": ""},
            {"kind": "ServiceAccount", "name": "s"}, {"kind": "User", "name": "u", "apiGroup": "x"},
        ],
    }));
    default_binding(&mut given);
    let want = json!({
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u", "apiGroup": GROUP}, {"kind": "Group", "name": "g", "apiGroup": GROUP},
            {"kind": "ServiceAccount", "name": "s"}, {"kind": "User", "name": "u", "apiGroup": "x"},
        ],
    });
    assert_eq!(given.into_value(), want);
}

#[test]
fn table_row_shows_the_subjects() {
    let given = object(json!({
        "metadata": {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ],
    }));
    let want = ["b", "Role/r", "60s", "u, v", "g", "n/s"].map(Value::from);
    assert_eq!(binding_cells(&given, kind_now()), want);
    assert_eq!(BINDING_COLUMNS.len(), want.len());
}
