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

#[test]
fn equivalent_rules_match_events_of_both_groups() {
    let user = UserInfo::admin();
    let core = registry::by_resource("", "v1", "events").expect("events").names();
    let view = registry::by_resource("events.k8s.io", "v1", "events").expect("events").names();
    let attributes = |own: &'static Names, other: &Names| Attributes {
        operation: AdmissionOperation::Create,
        names: own,
        subresource: "",
        namespace: "n",
        name: "x",
        kind: GroupVersionKind::of(own),
        equivalents: vec![GroupVersionKind::of(other)],
        user: &user,
        dry_run: false,
        options: Value::Null,
    };
    let rule = |group: &str, policy: &str| {
        let rule = json!({"operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": ["events"]});
        Criteria::of_webhook(&json!({"rules": [rule], "matchPolicy": policy}))
    };
    let shown = json!({"metadata": {"name": "x"}, "note": "hello"});
    let stored = json!({"metadata": {"name": "x"}, "message": "hello"});
    for (own, other, object, group, field) in
        [(view, core, shown, "", "message"), (core, view, stored, "events.k8s.io", "note")]
    {
        let request = attributes(own, other);
        let object = Object::from_value(object);
        let matched = |policy| rule(group, policy).matches(&request, Some(&object), None, &Namespaces);
        assert_eq!(matched("Exact").expect("no error"), None);
        let kind = matched("Equivalent").expect("no error").expect("it matches");
        assert_eq!(kind, GroupVersionKind::of(other));
        let document = request.shown(&object, &kind);
        assert_eq!(
            (&document["apiVersion"], &document[field]),
            (&json!(other.api_version()), &json!("hello"))
        );
        assert_eq!(request.request(&kind)["resource"]["group"], group);
        assert_eq!(request.request(&kind)["requestResource"]["group"], own.group);
        let decode = |_: &dyn registry::Kind| Ok::<_, ()>(request.converted(&object, &kind).into_owned());
        let back = request.decode_shown(registry::KINDS[0], &kind, decode).expect("decoded");
        let own_field = if field == "message" { "note" } else { "message" };
        assert_eq!(back.str_at(&[own_field]), "hello");
    }
}
