use serde_json::{Value, json};

use super::{FlowSchema, PriorityLevelConfiguration, bootstrap, dangling_condition};
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::volume_testing::{check, create_errors, created, defaulted, now, row, with};

fn schema(spec: &Value) -> Value {
    with(
        &json!({"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "l"}}}),
        &json!({ "spec": spec }),
    )
}

fn rule(rule: &Value) -> Value {
    let whole = json!({"subjects": [{"kind": "User", "user": {"name": "u"}}]});
    schema(&json!({"rules": [with(&whole, rule)]}))
}

fn resources(change: &Value) -> Value {
    let whole = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"]});
    rule(&json!({"resourceRules": [with(&whole, change)]}))
}

fn urls(change: &Value) -> Value {
    let whole = json!({"verbs": ["get"], "nonResourceURLs": ["/x"]});
    rule(&json!({"nonResourceRules": [with(&whole, change)]}))
}

#[test]
fn invalid_schemas_are_rejected() {
    let subject = |subject: Value| {
        let urls = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        schema(&json!({"rules": [{"subjects": [subject], "nonResourceRules": urls}]}))
    };
    const VERBS: &str = "\"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"";
    let verbs = format!(
        "spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"get\",\"sing\"]: supported values: {VERBS}"
    );
    let cases: [(&str, Value, Vec<&str>); 17] = [
        ("1 valid", resources(&json!({})), vec![]),
        (
            "2 precedence",
            schema(&json!({"matchingPrecedence": -1})),
            vec!["spec.matchingPrecedence: Invalid value: -1: must be a positive value"],
        ),
        (
            "3 large precedence",
            schema(&json!({"matchingPrecedence": 10_001})),
            vec!["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"],
        ),
        (
            "4 precedence of the exempt schema",
            schema(&json!({"matchingPrecedence": 1})),
            vec![
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            ],
        ),
        (
            "5 method",
            schema(&json!({"distinguisherMethod": {"type": "Odd"}})),
            vec![
                "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"Odd\"}: supported values: \"ByNamespace\", \
                 \"ByUser\"",
            ],
        ),
        (
            "6 no level",
            schema(&json!({"priorityLevelConfiguration": {"name": ""}})),
            vec!["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"],
        ),
        (
            "7 empty rule",
            schema(&json!({"rules": [{}]})),
            vec![
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ],
        ),
        (
            "8 unknown subject",
            subject(json!({"kind": "Odd"})),
            vec![
                "spec.rules[0].subjects[0].kind: Unsupported value: \"Odd\": supported values: \"Group\", \
                 \"ServiceAccount\", \"User\"",
            ],
        ),
        (
            "9 no subject",
            subject(json!({"kind": "Group"})),
            vec![
                "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
            ],
        ),
        (
            "10 subject of another kind",
            subject(json!({"kind": "User", "user": {"name": ""}, "serviceAccount": {}, "group": {}})),
            vec![
                "spec.rules[0].subjects[0].user.name: Required value",
                "spec.rules[0].subjects[0].serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not \
                 'ServiceAccount'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            ],
        ),
        (
            "11 service account",
            subject(json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*"}})),
            vec![
                "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service \
                 account",
            ],
        ),
        (
            "12 empty lists",
            resources(&json!({"verbs": [], "apiGroups": [], "resources": [], "namespaces": []})),
            vec![
                "spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value",
                "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must \
                 supply at least one namespace",
            ],
        ),
        ("13 verbs", resources(&json!({"verbs": ["get", "sing"]})), vec![&verbs]),
        (
            "14 wildcards",
            resources(&json!({"verbs": ["*", "get"], "namespaces": ["*", "a"]})),
            vec![
                "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify \
                 other verbs",
                "spec.rules[0].resourceRules[0].namespaces: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify \
                 other namespaces",
            ],
        ),
        ("15 cluster scope", resources(&json!({"clusterScope": true, "namespaces": null})), vec![]),
        (
            "16 paths",
            urls(&json!({"nonResourceURLs": ["", "x", "/a b", "/a//b", "/a*", "/a/*", "/"]})),
            vec![
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"\": must not be empty",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"x\": must start with slash",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: \"/a b\": must not contain white-space",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: \"/a//b\": must not contain double slash",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[4]: Invalid value: \"/a*\": wildcard can only do suffix \
                 matching",
            ],
        ),
        (
            "17 conditions are dropped on create",
            with(&schema(&json!({})), &json!({"status": {"conditions": [{}]}})),
            vec![],
        ),
    ];
    for (case, object, want) in cases {
        check(case, &create_errors(&FlowSchema, &object), &want);
    }
}

fn level(limited: &Value) -> Value {
    let whole = json!({"limitResponse": {"type": "Reject"}});
    json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": with(&whole, limited)}})
}

fn queue(queuing: &Value) -> Value {
    level(&json!({"limitResponse": {"type": "Queue", "queuing": queuing}}))
}

#[test]
fn invalid_levels_are_rejected() {
    let exempt = json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {}}});
    let cases: [(&str, Value, Vec<&str>); 11] = [
        ("1 valid", level(&json!({})), vec![]),
        (
            "2 type",
            json!({"metadata": {"name": "a"}, "spec": {"type": "Odd"}}),
            vec!["spec.type: Unsupported value: \"Odd\": supported values: \"Exempt\", \"Limited\""],
        ),
        (
            "3 exempt",
            json!({"metadata": {"name": "a"}, "spec": {"type": "Exempt", "limited": {}}}),
            vec![
                "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'",
                "spec.limited: Forbidden: must be nil if the type is not Limited",
            ],
        ),
        (
            "4 shares of the exempt level",
            with(&exempt, &json!({"spec": {"exempt": {"lendablePercent": 9}}})),
            vec![],
        ),
        (
            "5 type of the exempt level",
            with(&level(&json!({})), &json!({"metadata": {"name": "exempt"}})),
            vec![
                "spec.type: Invalid value: \"Limited\": type must be 'Exempt' if and only if name is 'exempt'",
                "spec: Invalid value: {\"Type\":\"Limited\",\"Limited\":{\"NominalConcurrencyShares\":30,\"LimitResponse\":\
                 {\"Type\":\"Reject\",\"Queuing\":null},\"LendablePercent\":0,\"BorrowingLimitPercent\":null},\"Exempt\":null}: \
                 spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
            ],
        ),
        (
            "6 no limits",
            json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "exempt": {}}}),
            vec![
                "spec.exempt: Forbidden: must be nil if the type is Limited",
                "spec.limited: Required value: must not be empty when type is Limited",
            ],
        ),
        (
            "7 numbers",
            level(
                &json!({"nominalConcurrencyShares": -1, "lendablePercent": 101, "borrowingLimitPercent": -1}),
            ),
            vec![
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ],
        ),
        (
            "8 response",
            level(&json!({"limitResponse": {"type": "Odd"}})),
            vec![
                "spec.limited.limitResponse.type: Unsupported value: \"Odd\": supported values: \"Queue\", \"Reject\"",
            ],
        ),
        (
            "9 no queues",
            queue(&json!(null)),
            vec![
                "spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is \
                 Limited",
            ],
        ),
        (
            "10 large hand",
            queue(&json!({"queues": 4, "handSize": 5, "queueLengthLimit": -1})),
            vec![
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)",
            ],
        ),
        (
            "11 entropy",
            queue(&json!({"queues": 128, "handSize": 9})),
            vec![
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: required entropy bits of deckSize 128 and \
                 handSize 9 should not be greater than 60",
            ],
        ),
    ];
    for (case, object, want) in cases {
        check(case, &create_errors(&PriorityLevelConfiguration, &object), &want);
    }
}

#[test]
fn omitted_fields_are_set() {
    assert_eq!(
        defaulted(&FlowSchema, &schema(&json!({}))).at(&["spec", "matchingPrecedence"]),
        Some(&json!(1000))
    );
    let limited = defaulted(&PriorityLevelConfiguration, &queue(&json!({})));
    assert_eq!(
        limited.at(&["spec", "limited"]),
        Some(&json!({
            "nominalConcurrencyShares": 30, "lendablePercent": 0,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}},
        }))
    );
}

#[test]
fn objects_of_every_cluster_are_valid_and_complete() {
    let kinds: [(&dyn Kind, _, usize); 2] = [
        (&FlowSchema, bootstrap::flow_schemas(), 11),
        (&PriorityLevelConfiguration, bootstrap::priority_levels(), 8),
    ];
    for (kind, objects, count) in kinds {
        assert_eq!(objects.len(), count);
        for one in &objects {
            assert_eq!(create_errors(kind, &one.object), [""; 0], "{}", one.object);
            let spec = created(kind, &one.object).at(&["spec"]).cloned();
            assert_eq!(spec.as_ref(), one.object.get("spec"), "defaults change nothing");
        }
        assert_eq!(objects.iter().filter(|one| one.mandatory).count(), 2);
    }
    let changed = with(&bootstrap::flow_schemas()[0].object, &json!({"spec": {"matchingPrecedence": 5}}));
    let found = create_errors(&FlowSchema, &changed);
    assert!(
        found.len() == 1 && found[0].ends_with("spec of 'exempt' must equal the fixed value"),
        "{found:?}"
    );
}

#[test]
fn condition_states_whether_the_level_exists() {
    let of = |status: Value| Object::from_value(with(&schema(&json!({})), &json!({ "status": status })));
    let new = dangling_condition(&of(json!({})), true, now()).expect("there is none");
    assert_eq!(
        new,
        json!({
            "type": "Dangling", "status": "False", "reason": "Found", "lastTransitionTime": "2026-01-02T03:04:05Z",
            "message": "This FlowSchema references the PriorityLevelConfiguration object named \"l\" and it exists",
        })
    );
    assert_eq!(dangling_condition(&of(json!({"conditions": [new]})), true, now()), None);
    let old = with(&new, &json!({"lastTransitionTime": "2025-01-01T00:00:00Z"}));
    let missing = dangling_condition(&of(json!({"conditions": [old]})), false, now()).expect("it changes");
    assert_eq!((&missing["status"], &missing["reason"]), (&json!("True"), &json!("NotFound")));
    assert_eq!(missing["lastTransitionTime"], "2026-01-02T03:04:05Z");
}

#[test]
fn table_rows_show_the_specs() {
    let status = json!({"status": {"conditions": [{"type": "Dangling", "status": "False"}]}});
    let spec = json!({"matchingPrecedence": 5, "distinguisherMethod": {"type": "ByUser"}});
    assert_eq!(
        row(&FlowSchema, &with(&schema(&spec), &status)),
        json!(["a", "l", 5, "ByUser", "10s", "False"])
    );
    assert_eq!(row(&FlowSchema, &schema(&json!({}))), json!(["a", "l", 0, "<none>", "10s", "?"]));
    let queues = queue(&json!({"queues": 8, "handSize": 2, "queueLengthLimit": 5}));
    let queues = with(&queues, &json!({"spec": {"limited": {"nominalConcurrencyShares": 7}}}));
    assert_eq!(row(&PriorityLevelConfiguration, &queues), json!(["a", "Limited", 7, 8, 2, 5, "10s"]));
    let exempt = json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt"}});
    let none = "<none>";
    assert_eq!(
        row(&PriorityLevelConfiguration, &exempt),
        json!(["exempt", "Exempt", none, none, none, none, "10s"])
    );
}
