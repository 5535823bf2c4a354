//! The deletion of roles and bindings with dependents: the garbage collector removes their finalizers without the rights that they grant.

use axum::body::Body;
use serde_json::{Value, json};

use super::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, binding, rig};
use super::rig::{Answer, Rig};

/// A role or a binding of each kind, with more rights than the garbage collector has, and changes of these rights.
fn granting() -> [(&'static str, Value, Vec<Value>); 4] {
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "own"}, "rules": rules});
    let bound = binding("own", "ClusterRole", "cluster-admin", "ann");
    let fewer = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["delete", "escalate"]}]});
    let to_bob = json!({"subjects": binding("own", "ClusterRole", "cluster-admin", "bob")["subjects"]});
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let aggregated = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    [
        (ROLES, role.clone(), vec![fewer.clone(), label.clone()]),
        (CLUSTER_ROLES, role, vec![fewer, aggregated, label.clone()]),
        (ROLE_BINDINGS, bound.clone(), vec![to_bob.clone(), label.clone()]),
        (CLUSTER_ROLE_BINDINGS, bound, vec![to_bob, label]),
    ]
}

/// A patch of the garbage collector.
async fn collect(rig: &Rig, target: &str, patch: &Value) -> Answer {
    let user = "system:serviceaccount:kube-system:generic-garbage-collector";
    let headers = [("impersonate-user", user), ("content-type", "application/merge-patch+json")];
    rig.send("PATCH", target, &headers, Body::from(patch.to_string())).await
}

#[tokio::test]
async fn garbage_collector_completes_the_deletion_of_roles_and_bindings() {
    let rig = rig().await;
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]);
    for (kind, object, _) in granting() {
        let target = format!("{kind}/own");
        for policy in ["Foreground", "Orphan"] {
            rig.post(kind, object.clone()).await.expect(201);
            // An owner that is deleted and orphans the object.
            rig.patch(&target, "merge", json!({"metadata": {"ownerReferences": owners}})).await.expect(200);
            collect(&rig, &target, &json!({"metadata": {"ownerReferences": null}})).await.expect(200);
            rig.delete(&target, json!({"propagationPolicy": policy})).await.expect(200);
            let waiting = rig.get(&target).await.expect(200).json();
            let patch = json!({"metadata": {"uid": waiting["metadata"]["uid"], "finalizers": null}});
            collect(&rig, &target, &patch).await.expect(200);
            rig.get(&target).await.expect(404);
        }
    }
}

#[tokio::test]
async fn removal_of_a_finalizer_changes_no_rights() {
    let rig = rig().await;
    for (kind, object, changes) in granting() {
        let target = format!("{kind}/own");
        rig.post(kind, object).await.expect(201);
        rig.delete(&target, json!({"propagationPolicy": "Foreground"})).await.expect(200);
        let before = rig.get(&target).await.expect(200).json();
        for mut change in changes {
            change["metadata"]["finalizers"] = Value::Null;
            let refused = collect(&rig, &target, &change).await.expect(403).json();
            assert_eq!(refused["reason"], "Forbidden", "{target} {change}");
        }
        if kind.ends_with("bindings") {
            let change = json!({"metadata": {"finalizers": null}, "roleRef": {"name": "admin"}});
            collect(&rig, &target, &change).await.expect(422);
        }
        assert_eq!(rig.get(&target).await.expect(200).json(), before, "{target}");
    }
}
