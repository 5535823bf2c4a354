//! The rights to the past, to streams and to plans.

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{Answer, Rig};
use super::samples::CERTIFICATE_REQUEST;
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

/// The requester decides who may approve a request.
#[tokio::test]
async fn restored_certificate_request_belongs_to_the_user_of_the_plan() {
    let rig = rig().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec = json!({"request": CERTIFICATE_REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]});
    rig.post(requests, json!({"metadata": {"name": "r"}, "spec": spec})).await.expect(201);
    rig.delete(&format!("{requests}/r"), Value::Null).await.expect(200);
    grant(&rig, "requests", "certificates.k8s.io", &["certificatesigningrequests"], &["get", "create"]).await;
    grant(
        &rig,
        "undelete",
        "orlop.dev",
        &["certificatesigningrequests.certificates.k8s.io/undelete"],
        &["create"],
    )
    .await;
    let path = format!("{ROOT}/certificatesigningrequests.certificates.k8s.io/r/undelete");
    ann(&rig, "POST", &path).await.expect(200);
    let restored = rig.get(&format!("{requests}/r")).await.expect(200).json();
    assert_eq!(restored["spec"]["username"], "ann", "{restored:#}");
    assert_eq!(restored["spec"]["groups"], json!(["system:authenticated"]));
}

/// A webhook that works can reject the request, whatever its failure policy is.
#[tokio::test]
async fn plans_are_refused_for_each_webhook_that_matches() {
    let rig = rig().await;
    rig.config_map("c", json!({})).await;
    rig.delete("/api/v1/namespaces/default/configmaps/c", Value::Null).await.expect(200);
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let undelete = format!("{ROOT}/namespaces/default/configmaps/c/undelete?dryRun=All");
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let webhook = json!({"name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": rules});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        rig.post(&path, json!({"metadata": {"name": "w"}, "webhooks": [webhook]})).await.expect(201);
        let refused = rig.post(&undelete, json!({})).await.expect(403).json();
        assert!(refused["message"].as_str().is_some_and(|why| why.contains("w.example.com")), "{refused}");
        rig.delete(&format!("{path}/w"), Value::Null).await.expect(200);
        rig.post(&undelete, json!({})).await.expect(200);
    }
}

/// The kinds whose lists `impact` needs for its details.
async fn grant_related(rig: &Rig) {
    let core = ["pods", "persistentvolumeclaims", "events", "resourcequotas", "persistentvolumes", "nodes"];
    grant(rig, "related", "", &core, &["list"]).await;
    grant(rig, "storage", "storage.k8s.io", &["*"], &["list"]).await;
}

/// An owner with a dependent that is a Secret.
async fn owner_of_a_secret(rig: &Rig) {
    let owner = rig.config_map("owner", json!({})).await;
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let secret = json!({"metadata": {"name": "hidden", "ownerReferences": [owner]}, "data": {"k": "dg=="}});
    rig.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
}

#[tokio::test]
async fn impact_never_lists_an_object_that_the_user_cannot_read() {
    let rig = rig().await;
    owner_of_a_secret(&rig).await;
    let impact = format!("{ROOT}/namespaces/default/configmaps/owner/impact");
    grant(&rig, "impact", "orlop.dev", &["configmaps/impact"], &["get"]).await;
    grant(&rig, "maps", "", &["configmaps"], &["get"]).await;
    grant_related(&rig).await;
    let some = ann(&rig, "GET", &impact).await.expect(200).json();
    assert!(!some.to_string().contains("hidden"), "{some:#}");
    assert!(some["summary"].as_str().is_some_and(|text| text.contains("1 that you cannot read")), "{some:#}");
    grant(&rig, "secrets", "", &["secrets"], &["get"]).await;
    let all = ann(&rig, "GET", &impact).await.expect(200).json();
    assert!(all.to_string().contains("hidden"), "{all:#}");
}

#[tokio::test]
async fn undelete_names_only_dependents_that_the_user_can_read() {
    let rig = rig().await;
    owner_of_a_secret(&rig).await;
    rig.delete("/api/v1/namespaces/default/configmaps/owner", Value::Null).await.expect(200);
    rig.delete("/api/v1/namespaces/default/secrets/hidden", Value::Null).await.expect(200);
    grant(&rig, "undelete", "orlop.dev", &["configmaps/undelete"], &["create"]).await;
    grant(&rig, "maps", "", &["configmaps"], &["get", "create"]).await;
    grant_related(&rig).await;
    let undelete = format!("{ROOT}/namespaces/default/configmaps/owner/undelete");
    let some = ann(&rig, "POST", &format!("{undelete}?dryRun=All")).await.expect(200).json();
    assert!(!some.to_string().contains("hidden"), "{some:#}");
    assert!(some["warnings"].to_string().contains("not restored (1)"), "{some:#}");
    let all = rig.post(&undelete, json!({})).await.expect(200).json();
    assert!(all["steps"].to_string().contains("deleted with it: secrets default/hidden"), "{all:#}");
    // Its readers may not be able to read Secrets.
    let events = rig.get("/apis/events.k8s.io/v1/namespaces/default/events").await.expect(200).text();
    assert!(events.contains("not restored (1)") && !events.contains("hidden"), "{events}");
}

#[tokio::test]
async fn plan_mentions_only_readable_objects() {
    let rig = rig().await;
    bound_claim(&rig).await;
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes});
    let pod = json!({"metadata": {"name": "hidden-pod"}, "spec": spec});
    rig.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let spec =
        json!({"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "secret-volume"}});
    rig.post(attachments, json!({"metadata": {"name": "va"}, "spec": spec})).await.expect(201);
    let release = format!("{ROOT}/volumeattachments.storage.k8s.io/va/release");
    let dry = format!("{release}?dryRun=All");
    grant(&rig, "release", "orlop.dev", &["volumeattachments.storage.k8s.io/release"], &["create"]).await;
    grant(&rig, "attachments", "storage.k8s.io", &["volumeattachments"], &["get", "delete"]).await;
    let some = ann(&rig, "POST", &dry).await.expect(200).json();
    assert!(!some.to_string().contains("hidden-pod"), "{some:#}");
    assert!(!some["summary"].to_string().contains("is gone"), "the state of the node: {some:#}");
    assert!(some["warnings"].to_string().contains("details need the right"), "{some:#}");
    assert_eq!(some["steps"][0]["object"]["name"], "va", "{some:#}");
    grant_related(&rig).await;
    let all = ann(&rig, "POST", &dry).await.expect(200).json();
    assert!(all["warnings"].to_string().contains("hidden-pod"), "{all:#}");
    assert!(all["summary"].to_string().contains("is gone"), "{all:#}");
    rig.post(&release, json!({})).await.expect(200);
    let events = rig.get("/apis/events.k8s.io/v1/namespaces/default/events").await.expect(200).text();
    assert!(events.contains("the attachment va of") && !events.contains("hidden-pod"), "{events}");
}

/// A refusal would show whether a claim of that name exists.
#[tokio::test]
async fn transfer_needs_the_right_to_create_the_claim_first() {
    let rig = rig().await;
    bound_claim(&rig).await;
    rig.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.expect(201);
    let transfer = format!("{ROOT}/namespaces/default/persistentvolumeclaims/c/transfer");
    grant(&rig, "transfer", "orlop.dev", &["persistentvolumeclaims/transfer"], &["create"]).await;
    grant(&rig, "claims", "", &["persistentvolumeclaims"], &["get"]).await;
    let headers = [("impersonate-user", "ann"), ("content-type", "application/json")];
    let body = || Body::from(r#"{"namespace": "other", "name": "d"}"#);
    let refused = rig.send("POST", &transfer, &headers, body()).await.expect(403).json();
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("cannot create resource \"persistentvolumeclaims\""), "{message}");
}
