//! The schemas that requests match.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use orlop_auth::UserInfo;
use prometheus::Registry;
use serde_json::{Value, json};

use super::classifier::{
    CATCH_ALL, ClassPermits, FlowControl, LEVELS_MAX, RULES_MAX, bootstrap, chosen_levels, chosen_schemas,
};
use super::follow::FlowObjects;
use super::levels::PriorityLevel;
use super::matching::Schema;

fn control(requires_credentials: bool) -> FlowControl {
    let permits = ClassPermits { reads: 400, writes: 200 };
    let (control, plan) = FlowControl::new(&Registry::new(), permits, true, requires_credentials).unwrap();
    control.publish(plan);
    control
}

fn request(method: &str, uri: &str, user: &str, groups: &[&str]) -> Request {
    let mut request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    let groups = groups.iter().map(|group| (*group).to_owned());
    request.extensions_mut().insert(UserInfo::new(user, groups));
    request
}

fn found(control: &FlowControl, request: &Request) -> (String, String) {
    let classified = control.classify(request);
    (classified.flow.schema.clone(), classified.flow.level_name.clone())
}

#[test]
fn requests_match_the_schemas_of_every_cluster() {
    let control = control(true);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
    let pods = "/api/v1/namespaces/n/pods";
    let account = "system:serviceaccount:kube-system:a";
    let accounts = &["system:serviceaccounts"][..];
    let node = ("system:node:n", &["system:nodes"][..]);
    for (method, uri, (user, groups), schema, level) in [
        ("GET", pods, ("root", &["system:masters"][..]), "exempt", "exempt"),
        ("GET", "/readyz", ("ann", &[]), "probes", "exempt"),
        ("GET", "/readyz/ping", ("system:anonymous", &["system:unauthenticated"]), "probes", "exempt"),
        ("GET", "/r%65adyz", ("ann", &[]), "probes", "exempt"),
        ("POST", "/readyz", ("ann", &[]), "global-default", "global-default"),
        ("PUT", lease, ("system:kube-scheduler", &[]), "system-leader-election", "leader-election"),
        ("PUT", lease, (account, accounts), "system-leader-election", "leader-election"),
        ("DELETE", lease, (account, accounts), "kube-system-service-accounts", "workload-high"),
        ("PUT", lease, node, "system-node-high", "node-high"),
        ("PUT", "/api/v1/nodes/n/status", node, "system-node-high", "node-high"),
        ("GET", pods, node, "system-nodes", "system"),
        ("GET", pods, ("system:kube-scheduler", &[]), "kube-scheduler", "workload-high"),
        ("GET", pods, ("system:serviceaccount:n:a", accounts), "service-accounts", "workload-low"),
        ("GET", pods, ("ann", &[]), "global-default", "global-default"),
        ("GET", "/apis", ("ann", &[]), "global-default", "global-default"),
    ] {
        let found = found(&control, &request(method, uri, user, groups));
        assert_eq!(found, (schema.to_owned(), level.to_owned()), "{method} {uri} {user}");
    }
}

#[test]
fn clients_without_credentials_are_not_exempt() {
    let admin = request("GET", "/api/v1/pods", UserInfo::ADMIN, &["system:masters"]);
    assert_eq!(found(&control(true), &admin).0, "exempt");
    assert_eq!(found(&control(false), &admin).0, "global-default");
}

fn schema(name: &str, level: &str, precedence: i64, method: &Value) -> Arc<Schema> {
    Arc::new(Schema::of(&json!({"metadata": {"name": name, "uid": name}, "spec": {
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
        "distinguisherMethod": method,
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": "ann"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                "namespaces": ["*"]}],
        }],
    }})))
}

#[test]
fn first_schema_with_a_level_matches() {
    let control = control(true);
    let mut objects = bootstrap();
    let ann = request("GET", "/api/v1/pods", "ann", &[]);
    for (case, name, level, precedence, want) in [
        ("1 after another", "z", "system", 9901, "global-default"),
        ("2 before another", "y", "system", 9900, "global-default"),
        ("3 same precedence, by name", "a", "system", 9900, "a"),
        ("4 lower number", "x", "system", 5000, "x"),
        ("5 no such level", "w", "missing", 4000, "x"),
    ] {
        objects.schemas.insert(name.to_owned(), schema(name, level, precedence, &Value::Null));
        control.publish(control.plan(&objects));
        assert_eq!(found(&control, &ann).0, want, "{case}");
    }
    objects = FlowObjects::default();
    control.publish(control.plan(&objects));
    assert_eq!(found(&control, &ann), (CATCH_ALL.to_owned(), CATCH_ALL.to_owned()), "no objects");
}

#[test]
fn methods_separate_flows() {
    let control = control(true);
    for (case, method, one, other, is_same) in [
        ("1 users", json!({"type": "ByUser"}), "/api/v1/pods", "/api/v1/nodes", true),
        ("2 no method", Value::Null, "/api/v1/namespaces/n/pods", "/api/v1/namespaces/m/pods", true),
        (
            "3 namespaces",
            json!({"type": "ByNamespace"}),
            "/api/v1/namespaces/n/pods",
            "/api/v1/namespaces/m/pods",
            false,
        ),
        ("4 no namespace", json!({"type": "ByNamespace"}), "/api/v1/pods", "/api/v1/nodes", true),
    ] {
        let mut objects = bootstrap();
        objects.schemas.insert("s".to_owned(), schema("s", "system", 5, &method));
        control.publish(control.plan(&objects));
        let queue = |uri: &str| control.classify(&request("GET", uri, "ann", &[])).queue;
        assert_eq!(queue(one) == queue(other), is_same, "{case}");
    }
}

#[test]
fn rules_and_levels_are_bounded() {
    let mut objects = bootstrap();
    for number in 0..3_000 {
        let name = format!("a-{number}");
        let level = json!({"metadata": {"name": name}, "spec": {"type": "Limited"}});
        objects.levels.insert(name.clone(), PriorityLevel::of(&level));
        objects.schemas.insert(name.clone(), schema(&name, "system", 5, &Value::Null));
    }
    let levels = chosen_levels(&objects);
    assert_eq!((levels.len(), levels[0].name.as_str()), (LEVELS_MAX, CATCH_ALL));
    assert!(levels.iter().any(|level| level.name == "workload-low"));
    let schemas = chosen_schemas(&objects, &levels);
    assert!(schemas.len() > RULES_MAX / 4 && schemas.len() < RULES_MAX);
    assert!(schemas.iter().any(|schema| schema.name == "global-default"), "those of the cluster stay");
    assert!(schemas.is_sorted_by_key(|schema| schema.precedence));
}

#[test]
fn schema_that_does_not_fit_displaces_no_other() {
    let mut objects = bootstrap();
    let urls: Vec<String> = (0..=RULES_MAX).map(|number| format!("/x{number}")).collect();
    let large = json!({"metadata": {"name": "large"}, "spec": {
        "matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "system"},
        "rules": [{"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": urls}]}],
    }});
    let before = objects.schemas.len();
    objects.schemas.insert("large".to_owned(), Arc::new(Schema::of(&large)));
    let schemas = chosen_schemas(&objects, &chosen_levels(&objects));
    assert_eq!(schemas.len(), before);
    assert!(schemas.iter().all(|schema| schema.name != "large"));
}

#[test]
fn common_requests_need_no_other_attributes() {
    let ann = request("GET", "/api/v1/pods", "ann", &[]);
    assert!(control(true).classify(&ann).info.is_none());
}
