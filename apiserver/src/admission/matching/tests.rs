use orlop_api::object::Object;
use orlop_auth::UserInfo;
use serde_json::{Value, json};

use super::*;
use crate::registry::{self, Names};

/// A namespace `n` with the label `team: a`.
pub(crate) struct Namespaces;

impl NamespaceLabels for Namespaces {
    fn namespace(&self, name: &str) -> Option<Object> {
        let labels = json!({"metadata": {"name": "n", "labels": {"team": "a"}}});
        (name == "n").then(|| Object::from_value(labels))
    }
}

fn names(group: &str, plural: &str) -> &'static Names {
    let kind = registry::by_resource(group, "v1", plural).expect("a kind");
    registry::KINDS.iter().find(|one| one.names().kind == kind.names().kind).expect("a kind").names()
}

/// A request of an admin.
pub(crate) fn attributes<'a>(
    user: &'a UserInfo,
    operation: AdmissionOperation,
    (group, plural): (&str, &str),
    namespace: &'a str,
) -> Attributes<'a> {
    let names = names(group, plural);
    Attributes {
        operation,
        names,
        subresource: "",
        namespace,
        name: "x",
        kind: GroupVersionKind::of(names),
        equivalents: Vec::new(),
        user,
        dry_run: false,
        options: Value::Null,
    }
}

#[test]
fn rules_and_selectors_decide() {
    let user = UserInfo::admin();
    let rule = |more: Value| {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
        for (name, value) in more.as_object().into_iter().flatten() {
            rule[name] = value.clone();
        }
        json!({"resourceRules": [rule], "matchPolicy": "Equivalent"})
    };
    let with = |mut criteria: Value, name: &str, value: Value| {
        criteria[name] = value;
        criteria
    };
    let object = Object::from_value(json!({"metadata": {"labels": {"guard": "yes"}}}));
    for (case, criteria, want) in [
        ("1 matches", rule(json!({})), Ok(true)),
        ("2 operation", rule(json!({"operations": ["DELETE"]})), Ok(false)),
        ("3 all operations", rule(json!({"operations": ["*"]})), Ok(true)),
        ("4 group", rule(json!({"apiGroups": ["apps"]})), Ok(false)),
        ("5 subresource", rule(json!({"resources": ["configmaps/x"]})), Ok(false)),
        ("6 all resources", rule(json!({"resources": ["*/*"]})), Ok(true)),
        ("7 scope", rule(json!({"scope": "Cluster"})), Ok(false)),
        ("8 name", rule(json!({"resourceNames": ["y"]})), Ok(false)),
        (
            "9 excluded",
            with(rule(json!({})), "excludeResourceRules", rule(json!({}))["resourceRules"].clone()),
            Ok(false),
        ),
        (
            "10 namespace",
            with(rule(json!({})), "namespaceSelector", json!({"matchLabels": {"team": "b"}})),
            Ok(false),
        ),
        (
            "11 object",
            with(rule(json!({})), "objectSelector", json!({"matchLabels": {"guard": "yes"}})),
            Ok(true),
        ),
        (
            "12 no object",
            with(rule(json!({})), "objectSelector", json!({"matchLabels": {"guard": "no"}})),
            Ok(false),
        ),
        ("13 no rules", json!({}), Ok(true)),
    ] {
        let request = attributes(&user, AdmissionOperation::Create, ("", "configmaps"), "n");
        let got = Criteria::of_match_resources(&criteria).matches(&request, Some(&object), None, &Namespaces);
        assert_eq!(got.map(|kind| kind.is_some()).map_err(|error| error.message), want, "{case}");
    }
    let request = attributes(&user, AdmissionOperation::Create, ("", "configmaps"), "missing");
    let criteria = with(rule(json!({})), "namespaceSelector", json!({"matchLabels": {"team": "b"}}));
    let error = Criteria::of_match_resources(&criteria).matches(&request, None, None, &Namespaces);
    assert_eq!(error.expect_err("missing").code, 404);
    assert!(
        Criteria::of_webhook(&json!({}))
            .matches(&request, None, None, &Namespaces)
            .expect("no rules")
            .is_none()
    );
}
