//! The Node authorizer and NodeRestriction, as node agents meet them. Requests of nodes impersonate them.

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{Answer, Rig};
use crate::authorization::AuthorizationMode;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

async fn rig() -> Rig {
    Rig::with(|config| config.authorization = vec![AuthorizationMode::Node, AuthorizationMode::Rbac]).await
}

/// A request of node `n1`.
async fn node(rig: &Rig, method: &str, target: &str, body: Value) -> Answer {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let headers = [
        ("impersonate-user", "system:node:n1"),
        ("impersonate-group", "system:nodes"),
        ("content-type", content_type),
    ];
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    rig.send(method, target, &headers, body).await
}

async fn code(rig: &Rig, target: &str) -> u16 {
    node(rig, "GET", target, Value::Null).await.code
}

fn pod(name: &str, on: &str, volumes: Value) -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    json!({"metadata": {"name": name}, "spec": {"nodeName": on, "containers": containers, "volumes": volumes}})
}

fn secret_volume(name: &str) -> Value {
    json!([{"name": "v", "secret": {"secretName": name}}])
}

async fn secret(rig: &Rig, name: &str) {
    rig.post(SECRETS, json!({"metadata": {"name": name}})).await.expect(201);
}

/// Deletes a pod as an agent does that has stopped it.
async fn remove(rig: &Rig, name: &str) {
    rig.delete(&format!("{PODS}/{name}"), json!({"gracePeriodSeconds": 0})).await.expect(200);
}

/// The groups of an impersonated user.
async fn groups(rig: &Rig, headers: &[(&str, &str)]) -> Value {
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let found = rig.send("POST", review, headers, Body::from("{}")).await.expect(201).json();
    found["status"]["userInfo"]["groups"].clone()
}

/// A user with the rights of both kinds of impersonation continues with the kind that it has used last.
#[tokio::test]
async fn constrained_impersonation_of_a_node_includes_its_group() {
    let rig = rig().await;
    let node = ("impersonate-user", "system:node:n1");
    let of_nodes = json!(["system:nodes", "system:authenticated"]);
    for (case, headers, want) in [
        ("1 constrained", vec![node], of_nodes.clone()),
        ("2 unconstrained", vec![node, ("impersonate-group", "system:nodes")], of_nodes.clone()),
        ("3 still unconstrained", vec![node], json!(["system:authenticated"])),
    ] {
        assert_eq!(groups(&rig, &headers).await, want, "{case}");
    }
}

#[tokio::test]
async fn next_request_sees_the_pods_of_a_node() {
    let rig = rig().await;
    secret(&rig, "s").await;
    let target = format!("{SECRETS}/s");
    let refused = node(&rig, "GET", &target, Value::Null).await.expect(403).json();
    assert_eq!(
        refused["message"],
        "secrets \"s\" is forbidden: User \"system:node:n1\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\": no relationship found between node 'n1' and this object"
    );
    for round in 0..20 {
        let name = format!("p{round}");
        rig.post(PODS, pod(&name, "n1", secret_volume("s"))).await.expect(201);
        assert_eq!(code(&rig, &target).await, 200, "{round}");
        assert_eq!(code(&rig, &format!("{PODS}/{name}")).await, 200, "{round}");
        remove(&rig, &name).await;
        assert_eq!(code(&rig, &target).await, 403, "{round}");
    }
    rig.post(PODS, pod("other", "n2", secret_volume("s"))).await.expect(201);
    assert_eq!(code(&rig, &target).await, 403, "a pod of another node");
}

/// A volume and its secret belong to the node while a pod uses the claim.
#[tokio::test]
async fn next_request_sees_the_volumes_of_a_node() {
    let rig = rig().await;
    secret(&rig, "key").await;
    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s",
        "claimRef": {"namespace": "default", "name": "c"},
        "csi": {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": {"namespace": "default", "name": "key"}},
    }});
    rig.post("/api/v1/persistentvolumes", volume).await.expect(201);
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}},
    }});
    rig.post("/api/v1/namespaces/default/persistentvolumeclaims", claim).await.expect(201);
    let attachment = json!({"metadata": {"name": "a"}, "spec": {
        "attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v"},
    }});
    rig.post("/apis/storage.k8s.io/v1/volumeattachments", attachment).await.expect(201);
    let targets = [
        "/api/v1/namespaces/default/persistentvolumeclaims/c".to_owned(),
        "/api/v1/persistentvolumes/v".to_owned(),
        format!("{SECRETS}/key"),
    ];
    for target in &targets {
        assert_eq!(code(&rig, target).await, 403, "{target}");
    }
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    rig.post(PODS, pod("p", "n1", volumes)).await.expect(201);
    for target in &targets {
        assert_eq!(code(&rig, target).await, 200, "{target}");
    }
    assert_eq!(code(&rig, "/apis/storage.k8s.io/v1/volumeattachments/a").await, 200);
    remove(&rig, "p").await;
    for target in &targets {
        assert_eq!(code(&rig, target).await, 403, "{target}");
    }
}

/// A node that starts to ask after many changes sees the same as one that asks all the time.
#[tokio::test]
async fn late_request_sees_all_changes() {
    let rig = rig().await;
    secret(&rig, "s").await;
    assert_eq!(code(&rig, &format!("{SECRETS}/s")).await, 403);
    rig.post(PODS, pod("first", "n1", secret_volume("s"))).await.expect(201);
    for number in 0..3000 {
        let name = format!("p{number}");
        rig.post(PODS, pod(&name, "n2", json!([]))).await.expect(201);
    }
    assert_eq!(code(&rig, &format!("{SECRETS}/s")).await, 200);
    remove(&rig, "first").await;
    assert_eq!(code(&rig, &format!("{SECRETS}/s")).await, 403);
}

#[tokio::test]
async fn lists_need_the_selector_of_the_node() {
    let rig = rig().await;
    for (target, want) in [
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", 403),
        ("/api/v1/pods?fieldSelector=metadata.name!%3Da%5C,spec.nodeName%3Dn1", 403),
        ("/api/v1/pods", 403),
        ("/api/v1/services", 200),
        ("/apis/storage.k8s.io/v1/csidrivers", 200),
        ("/api/v1/namespaces/default/secrets", 403),
    ] {
        assert_eq!(code(&rig, target).await, want, "{target}");
    }
}

#[tokio::test]
async fn node_writes_only_what_is_its_own() {
    let rig = rig().await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    node(&rig, "POST", "/api/v1/nodes", named("n1")).await.expect(201);
    node(&rig, "POST", "/api/v1/nodes", named("n2")).await.expect(403);
    rig.post("/api/v1/nodes", named("n2")).await.expect(201);
    let capacity = json!({"status": {"capacity": {"cpu": "4"}}});
    node(&rig, "PATCH", "/api/v1/nodes/n1/status", capacity.clone()).await.expect(200);
    node(&rig, "PATCH", "/api/v1/nodes/n2/status", capacity).await.expect(403);
    rig.post(PODS, pod("own", "n1", json!([]))).await.expect(201);
    rig.post(PODS, pod("other", "n2", json!([]))).await.expect(201);
    let running = json!({"status": {"phase": "Running"}});
    node(&rig, "PATCH", &format!("{PODS}/own/status"), running.clone()).await.expect(200);
    let refused = node(&rig, "PATCH", &format!("{PODS}/other/status"), running).await.expect(403).json();
    assert_eq!(
        refused["message"],
        "pods \"other\" is forbidden: node \"n1\" can only update pod status for pods with spec.nodeName set to itself"
    );
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    node(&rig, "POST", &format!("{PODS}/other/eviction"), eviction("other")).await.expect(403);
    let missing =
        node(&rig, "POST", &format!("{PODS}/nope/eviction"), eviction("nope")).await.expect(404).json();
    assert_eq!(missing["message"], "pod \"nope\" not found");
    node(&rig, "POST", &format!("{PODS}/own/eviction"), eviction("own")).await.expect(201);
    let now = json!({"gracePeriodSeconds": 0});
    node(&rig, "DELETE", &format!("{PODS}/other"), now.clone()).await.expect(403);
    node(&rig, "DELETE", &format!("{PODS}/own"), now).await.expect(200);
}

#[tokio::test]
async fn node_gets_tokens_for_its_pods() {
    let rig = rig().await;
    rig.post(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await.expect(201);
    let tokens = json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}]);
    let mut wanted = pod("p", "n1", tokens);
    wanted["spec"]["serviceAccountName"] = "robot".into();
    let uid = rig.post(PODS, wanted).await.expect(201).json()["metadata"]["uid"].clone();
    let request = |audience: &str| {
        json!({"spec": {
            "audiences": [audience], "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid},
        }})
    };
    let target = format!("{ACCOUNTS}/robot/token");
    node(&rig, "POST", &target, request("vault")).await.expect(201);
    let refused = node(&rig, "POST", &target, request("other")).await.expect(403).json();
    assert_eq!(
        refused["message"],
        "serviceaccounts \"robot\" is forbidden: audience \"other\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{"apiGroups": [""], "resources": ["other"], "verbs": ["request-serviceaccounts-token-audience"]}]);
    rig.post(roles, json!({"metadata": {"name": "audience"}, "rules": rules})).await.expect(201);
    let binding = json!({"metadata": {"name": "audience"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "audience"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}]});
    rig.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.expect(201);
    node(&rig, "POST", &target, request("other")).await.expect(201);
    node(&rig, "POST", &target, json!({"spec": {}})).await.expect(403);
}

#[tokio::test]
async fn reviews_tell_that_the_rights_of_nodes_are_not_listed() {
    let rig = rig().await;
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let found = node(&rig, "POST", rules, json!({"spec": {"namespace": "default"}})).await.expect(201).json();
    assert_eq!(found["status"]["incomplete"], true);
    assert_eq!(found["status"]["evaluationError"], "node authorizer does not support user rule resolution");
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = |selector: Value| {
        json!({"spec": {"user": "system:node:n1", "groups": ["system:nodes"],
        "resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}})
    };
    let own = review(json!({"rawSelector": "spec.nodeName=n1"}));
    assert_eq!(rig.post(reviews, own).await.expect(201).json()["status"]["allowed"], true);
    let other = review(json!({"rawSelector": "spec.nodeName=n2"}));
    let status = rig.post(reviews, other).await.expect(201).json()["status"].clone();
    let reason = "can only list/watch pods with spec.nodeName field selector";
    assert_eq!(status, json!({"allowed": false, "reason": reason}));
}

#[tokio::test]
async fn always_deny_permits_only_the_group_of_masters() {
    let rig = Rig::with(|config| config.authorization = vec![AuthorizationMode::AlwaysDeny]).await;
    rig.get(PODS).await.expect(200);
    let headers = [("impersonate-user", "ann")];
    let refused = rig.send("GET", PODS, &headers, Body::empty()).await.expect(403).json();
    assert_eq!(
        refused["message"],
        "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\": Everything is forbidden."
    );
}

/// Without the authorization mode, the plugin can still be enabled; with the mode, it can be disabled.
#[tokio::test]
async fn plugin_follows_its_flags() {
    let named = |name: &str| json!({"metadata": {"name": name}});
    let rig = Rig::with(|config| config.enabled_admission_plugins = vec!["NodeRestriction".to_owned()]).await;
    node(&rig, "POST", "/api/v1/nodes", named("n2")).await.expect(403);
    let rig = Rig::new().await;
    node(&rig, "POST", "/api/v1/nodes", named("n2")).await.expect(201);
    let rig = Rig::with(|config| {
        config.authorization = vec![AuthorizationMode::Node];
        config.disabled_admission_plugins = vec!["NodeRestriction".to_owned()];
    })
    .await;
    node(&rig, "POST", "/api/v1/nodes", named("n2")).await.expect(201);
}

/// The body, form and answer of a patch whose error would show the object.
const REVEALING: [(&str, &str); 6] = [
    ("application/json-patch+json", r#"[{"op": "copy", "from": "/metadata", "path": "/status/phase"}]"#),
    (
        "application/json-patch+json",
        r#"[{"op": "copy", "from": "/spec", "path": "/metadata/resourceVersion"}]"#,
    ),
    ("application/merge-patch+json", r#"{"metadata": {"creationTimestamp": "x"}}"#),
    ("application/merge-patch+json", r#"{"metadata": {"resourceVersion": "1"}}"#),
    ("application/strategic-merge-patch+json", r#"{"kind": "X"}"#),
    ("application/apply-patch+yaml", r#"{"apiVersion": "v1", "kind": "X", "metadata": {"name": "other"}}"#),
];

async fn patch(rig: &Rig, target: &str, form: &str, body: &str) -> Answer {
    let headers = [
        ("impersonate-user", "system:node:n1"),
        ("impersonate-group", "system:nodes"),
        ("content-type", form),
    ];
    let target = if form.contains("apply") { format!("{target}?fieldManager=a") } else { target.to_owned() };
    rig.send("PATCH", &target, &headers, Body::from(body.to_owned())).await
}

#[tokio::test]
async fn rejected_patches_show_no_objects_of_other_nodes() {
    let rig = rig().await;
    let annotated = json!({"metadata": {"name": "n2", "annotations": {"a": "private"}}});
    rig.post("/api/v1/nodes", annotated).await.expect(201);
    let mut other = pod("other", "n2", json!([]));
    other["spec"]["containers"][0]["env"] = json!([{"name": "e", "value": "private"}]);
    let uid = rig.post(PODS, other).await.expect(201).json()["metadata"]["uid"].clone();
    let node_text = "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"";
    let pod_text = "pods \"other\" is forbidden: node \"n1\" can only update pod status for pods with spec.nodeName set to itself";
    for (target, message) in [
        ("/api/v1/nodes/n2", node_text),
        ("/api/v1/nodes/n2/status", node_text),
        ("/api/v1/namespaces/default/pods/other/status", pod_text),
    ] {
        for (form, body) in REVEALING {
            let answer = patch(&rig, target, form, body).await;
            assert!(!answer.text().contains("private"), "{target} {body}: {}", answer.text());
            assert_eq!(answer.expect(403).json()["message"], message, "{target} {body}");
        }
    }
    // A wrong UID in an update must not be answered with the right one.
    let wrong = json!({"metadata": {"name": "other", "uid": "11111111-1111-1111-1111-111111111111"}});
    let answer = node(&rig, "PUT", &format!("{PODS}/other/status"), wrong).await;
    assert!(!answer.text().contains(uid.as_str().unwrap()));
    assert_eq!(answer.expect(403).json()["message"], pod_text);
    // As upstream: agents expect a 404 for their own objects that are gone.
    node(&rig, "PATCH", &format!("{PODS}/gone/status"), json!({})).await.expect(404);
    node(&rig, "PATCH", "/api/v1/nodes/n1/status", json!({})).await.expect(404);
}

/// The garbage collector would delete the Node with its CSINode, and the agent would create it without its taints.
#[tokio::test]
async fn node_gives_itself_no_owners() {
    let rig = rig().await;
    let csi_node = json!({"metadata": {"name": "n1"}, "spec": {"drivers": []}});
    let owner = node(&rig, "POST", "/apis/storage.k8s.io/v1/csinodes", csi_node).await.expect(201).json();
    let owned = json!({"metadata": {"name": "n1", "ownerReferences": [{
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "name": "n1", "uid": owner["metadata"]["uid"],
    }]}});
    let text = "nodes \"n1\" is forbidden: node \"n1\" is not allowed to set ownerReferences";
    let refused = node(&rig, "POST", "/api/v1/nodes", owned.clone()).await.expect(403).json();
    assert_eq!(refused["message"], text);
    let mut applied = owned.clone();
    applied["apiVersion"] = "v1".into();
    applied["kind"] = "Node".into();
    let form = "application/apply-patch+yaml";
    let refused = patch(&rig, "/api/v1/nodes/n1", form, &applied.to_string()).await.expect(403).json();
    assert_eq!(refused["message"], text);
    node(&rig, "POST", "/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.expect(201);
    node(&rig, "PATCH", "/api/v1/nodes/n1", owned).await.expect(403);
}
