//! The rights to the past, to streams and to plans.

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{Answer, Rig};
use crate::authorization::AuthorizationMode;

const ROOT: &str = "/apis/orlop.dev/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn rig() -> Rig {
    Rig::with(|config| config.authorization = vec![AuthorizationMode::Rbac]).await
}

/// A request of ann.
async fn ann(rig: &Rig, method: &str, target: &str) -> Answer {
    let headers = [("impersonate-user", "ann"), ("content-type", "application/json")];
    rig.send(method, target, &headers, Body::from("{}")).await
}

/// Grants ann verbs on a resource of a group, in the whole cluster.
async fn grant(rig: &Rig, name: &str, group: &str, resources: &[&str], verbs: &[&str]) {
    let rules = json!([{"apiGroups": [group], "resources": resources, "verbs": verbs}]);
    rig.post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules}))
        .await
        .expect(201);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]);
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects});
    rig.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

async fn secret(rig: &Rig) {
    let secrets = "/api/v1/namespaces/default/secrets";
    rig.post(secrets, json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}})).await.expect(201);
}

#[tokio::test]
async fn past_of_an_object_needs_the_right_to_read_it() {
    let rig = rig().await;
    secret(&rig).await;
    let past = ["history", "diff?from=1", "impact"]
        .map(|name| format!("{ROOT}/namespaces/default/secrets/s/{name}"));
    grant(&rig, "past", "orlop.dev", &["secrets/history", "secrets/diff", "secrets/impact"], &["get"]).await;
    let want = r#"secrets "s" is forbidden: User "ann" cannot get resource "secrets" in API group "" in the namespace "default""#;
    for path in &past {
        assert_eq!(ann(&rig, "GET", path).await.expect(403).json()["message"], want, "{path}");
    }
    grant(&rig, "secrets", "", &["secrets"], &["get"]).await;
    for path in &past {
        ann(&rig, "GET", path).await.expect(200);
    }
}

#[tokio::test]
async fn streams_contain_only_readable_kinds() {
    let rig = rig().await;
    secret(&rig).await;
    rig.config_map("c", json!({})).await;
    grant(&rig, "stream", "orlop.dev", &["stream", "timeline", "capture"], &["list"]).await;
    grant(&rig, "list", "", &["configmaps", "secrets"], &["list"]).await;
    grant(&rig, "watch", "", &["configmaps"], &["watch"]).await;
    for path in ["stream?follow=false", "timeline", "capture"] {
        let text = ann(&rig, "GET", &format!("{ROOT}/{path}")).await.expect(200).text();
        let resources: std::collections::BTreeSet<String> = text
            .lines()
            .filter_map(|line| {
                serde_json::from_str::<Value>(line).ok()?["resource"].as_str().map(str::to_owned)
            })
            .collect();
        assert_eq!(resources.into_iter().collect::<Vec<_>>(), ["configmaps"], "{path}");
        let asked = format!("{ROOT}/{path}{}resource=secrets", if path.contains('?') { "&" } else { "?" });
        let refused = ann(&rig, "GET", &asked).await.expect(403).json();
        let want = r#"secrets is forbidden: User "ann" cannot watch resource "secrets" in API group "" at the cluster scope"#;
        assert_eq!(refused["message"], want, "{path}");
    }
}

#[tokio::test]
async fn undelete_needs_get_and_create() {
    let rig = rig().await;
    rig.config_map("c", json!({})).await;
    rig.delete("/api/v1/namespaces/default/configmaps/c", Value::Null).await.expect(200);
    let undelete = format!("{ROOT}/namespaces/default/configmaps/c/undelete?dryRun=All");
    for (name, group, resource, verb, lacks) in [
        ("verb", "orlop.dev", "configmaps/undelete", "create", "get"),
        ("get", "", "configmaps", "get", "create"),
    ] {
        grant(&rig, name, group, &[resource], &[verb]).await;
        let refused = ann(&rig, "POST", &undelete).await.expect(403).json();
        let why = refused["message"].as_str().unwrap_or_default();
        assert!(why.contains(&format!("cannot {lacks} resource \"configmaps\"")), "{why}");
    }
    grant(&rig, "create", "", &["configmaps"], &["create"]).await;
    ann(&rig, "POST", &undelete).await.expect(200);
}

/// A claim and its volume, bound to each other.
async fn bound_claim(rig: &Rig) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "volumeName": "secret-volume", "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}});
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = rig.post(claims, json!({"metadata": {"name": "c"}, "spec": spec})).await.expect(201).json();
    let reference = json!({"namespace": "default", "name": "c", "uid": claim["metadata"]["uid"]});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "claimRef": reference,
        "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/x"}});
    rig.post("/api/v1/persistentvolumes", json!({"metadata": {"name": "secret-volume"}, "spec": spec}))
        .await
        .expect(201);
}

#[tokio::test]
async fn impact_lists_only_readable_objects() {
    let rig = rig().await;
    bound_claim(&rig).await;
    let impact = format!("{ROOT}/namespaces/default/persistentvolumeclaims/c/impact");
    grant(&rig, "impact", "orlop.dev", &["persistentvolumeclaims/impact"], &["get"]).await;
    grant(&rig, "claims", "", &["persistentvolumeclaims"], &["get"]).await;
    let names = |plan: &Value| -> Vec<String> {
        let steps = plan["steps"].as_array().into_iter().flatten();
        steps.map(|step| step["object"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let all = rig.get(&impact).await.expect(200).json();
    assert_eq!(names(&all), ["c", "secret-volume"], "{all:#}");
    let some = ann(&rig, "GET", &impact).await.expect(200).json();
    assert_eq!(names(&some), ["c"], "{some:#}");
    assert!(some["summary"].as_str().is_some_and(|text| text.contains("1 that you cannot read")), "{some:#}");
    assert!(!some.to_string().contains("secret-volume"), "{some:#}");
}

#[tokio::test]
async fn paths_with_all_objects_need_their_own_rights() {
    let rig = rig().await;
    grant(&rig, "everything", "*", &["*"], &["*"]).await;
    for path in ["/orlop/snapshot", "/metrics", "/debug/pprof", "/logs"] {
        let refused = ann(&rig, "GET", path).await.expect(403).json();
        let want = format!("forbidden: User \"ann\" cannot get path {path:?}");
        assert_eq!(refused["message"], want, "{path}");
    }
}
