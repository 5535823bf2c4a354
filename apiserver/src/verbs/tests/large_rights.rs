//! Decisions that depend on large objects of other users: the thread of a connection does not read them, and the decision still sees them.

use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use serde_json::{Value, json};

use super::rbac::{ROLE_BINDINGS, ROLES, binding};
use super::rig::Rig;
use crate::authorization::{AuthorizationMode, Authorizer, decide_right, right};
use crate::registry;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server, and an authorizer of its store that no task brings up to date.
struct Cluster {
    rig: Rig,
    authorizer: Authorizer,
}

impl Cluster {
    async fn new() -> Self {
        let modes = vec![AuthorizationMode::Node, AuthorizationMode::Rbac];
        let rig = Rig::with(|config| config.authorization.clone_from(&modes)).await;
        let authorizer = Authorizer::new(modes, Vec::new(), rig.server.inner().store.clone());
        // Reads everything that exists at the start.
        assert!(!authorizer.decide(&node(), &get("secrets", "none")).await.allowed);
        Cluster { rig, authorizer }
    }

    /// The decision on the thread of a connection; `None` if it is made elsewhere.
    fn briefly(&self, user: &UserInfo, right: &RequestInfo) -> Option<bool> {
        self.authorizer.decide_briefly(user, right).ok().map(|decision| decision.allowed)
    }

    async fn is_permitted(&self, user: &UserInfo, right: &RequestInfo) -> bool {
        let of_server = decide_right(&self.rig.server.inner(), user, right, None).await;
        let allowed = self.authorizer.decide(user, right).await.allowed;
        assert_eq!(of_server.expect("a decision").allowed, allowed);
        allowed
    }
}

fn node() -> UserInfo {
    UserInfo::new("system:node:n1", ["system:nodes".to_owned(), "system:authenticated".to_owned()])
}

fn get(plural: &str, name: &str) -> RequestInfo {
    let kind = registry::by_resource("", "v1", plural).expect("a kind");
    right("get", kind.names(), "default", name)
}

fn pod(name: &str, env: usize) -> Value {
    let env: Vec<Value> = (0..env).map(|n| json!({"name": format!("E{n}"), "value": "some text"})).collect();
    let volumes = json!([{"name": "v", "secret": {"secretName": name}}]);
    json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "volumes": volumes,
        "containers": [{"name": "c", "image": "i", "env": env}]}})
}

#[tokio::test]
async fn node_gets_the_secret_of_a_large_pod() {
    let cluster = Cluster::new().await;
    let rig = &cluster.rig;
    rig.post(PODS, pod("small", 1)).await.expect(201);
    assert_eq!(cluster.briefly(&node(), &get("secrets", "small")), Some(true));
    rig.post(PODS, pod("large", 3_000)).await.expect(201);
    assert_eq!(cluster.briefly(&node(), &get("secrets", "large")), None);
    assert_eq!(cluster.briefly(&node(), &get("secrets", "small")), None, "the graph is not up to date");
    assert!(cluster.is_permitted(&node(), &get("secrets", "large")).await);
    assert_eq!(cluster.briefly(&node(), &get("secrets", "large")), Some(true));
    rig.post(PODS, pod("small2", 1)).await.expect(201);
    assert_eq!(cluster.briefly(&node(), &get("secrets", "small2")), Some(true));
}

#[tokio::test]
async fn role_with_many_rules_applies_at_once() {
    let cluster = Cluster::new().await;
    let rig = &cluster.rig;
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
        assert_eq!(cluster.briefly(&ann, &right), want, "{name}");
        assert!(cluster.is_permitted(&ann, &right).await, "{name}");
        assert_eq!(cluster.briefly(&ann, &right), Some(true), "{name}, now that it is read");
    }
}
