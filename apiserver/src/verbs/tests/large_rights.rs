//! Decisions that depend on large objects of other users: the thread of a connection does not read them, and the decision still sees them.

use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use serde_json::{Value, json};

use super::rbac::{ROLE_BINDINGS, ROLES, binding};
use super::rig::Rig;
use crate::authorization::{AuthorizationMode, decide_right, right};
use crate::registry;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn rig() -> Rig {
    let rig =
        Rig::with(|config| config.authorization = vec![AuthorizationMode::Node, AuthorizationMode::Rbac])
            .await;
    // Reads everything that exists at the start.
    assert!(!is_permitted(&rig, &node(), &get("secrets", "none")).await);
    rig
}

fn node() -> UserInfo {
    UserInfo::new("system:node:n1", ["system:nodes".to_owned(), "system:authenticated".to_owned()])
}

fn get(plural: &str, name: &str) -> RequestInfo {
    let kind = registry::by_resource("", "v1", plural).expect("a kind");
    right("get", kind.names(), "default", name)
}

/// The decision on the thread of a connection; `None` if it is made elsewhere.
fn briefly(rig: &Rig, user: &UserInfo, right: &RequestInfo) -> Option<bool> {
    let decision = rig.server.inner().authorizer.decide_briefly(user, right);
    decision.ok().map(|decision| decision.allowed)
}

async fn is_permitted(rig: &Rig, user: &UserInfo, right: &RequestInfo) -> bool {
    decide_right(&rig.server.inner(), user, right, None).await.expect("a decision").allowed
}

fn pod(name: &str, env: usize) -> Value {
    let env: Vec<Value> = (0..env).map(|n| json!({"name": format!("E{n}"), "value": "some text"})).collect();
    let volumes = json!([{"name": "v", "secret": {"secretName": name}}]);
    json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "volumes": volumes,
        "containers": [{"name": "c", "image": "i", "env": env}]}})
}

#[tokio::test]
async fn node_gets_the_secret_of_a_large_pod() {
    let rig = rig().await;
    rig.post(PODS, pod("small", 1)).await.expect(201);
    assert_eq!(briefly(&rig, &node(), &get("secrets", "small")), Some(true));
    rig.post(PODS, pod("large", 3_000)).await.expect(201);
    assert_eq!(briefly(&rig, &node(), &get("secrets", "large")), None);
    assert_eq!(briefly(&rig, &node(), &get("secrets", "small")), None, "the graph is not up to date");
    assert!(is_permitted(&rig, &node(), &get("secrets", "large")).await);
    assert_eq!(briefly(&rig, &node(), &get("secrets", "large")), Some(true));
    rig.post(PODS, pod("small2", 1)).await.expect(201);
    assert_eq!(briefly(&rig, &node(), &get("secrets", "small2")), Some(true));
}

#[tokio::test]
async fn role_with_many_rules_applies_at_once() {
    let rig = rig().await;
    let ann = UserInfo::new("ann", ["system:authenticated".to_owned()]);
    let role = |name: &str, rules: usize| {
        let mut rules: Vec<Value> = (0..rules)
            .map(
                |n| json!({"apiGroups": [format!("g{n}.example.com")], "resources": ["r"], "verbs": ["get"]}),
            )
            .collect();
        rules.push(json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}));
        json!({"metadata": {"name": name}, "rules": rules})
    };
    for (name, rules, want) in [("small", 1, Some(true)), ("large", 2_000, None)] {
        rig.post(ROLE_BINDINGS, binding(name, "Role", name, "ann")).await.expect(201);
        rig.post(ROLES, role(name, rules)).await.expect(201);
        let right = get("configmaps", name);
        assert_eq!(briefly(&rig, &ann, &right), want, "{name}");
        assert!(is_permitted(&rig, &ann, &right).await, "{name}");
        assert_eq!(briefly(&rig, &ann, &right), Some(true), "{name}, now that it is read");
    }
}
