//! Authorization on a real server: users with tokens do what bindings grant them, nodes access what their pods use, and kubectl shows it.

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::tls::{Secured, file};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const TOKENS: &str = "admin,root,u0,system:masters\nann,ann,u1\nbob,bob,u2\n";

/// A client that presents a token.
pub(crate) fn with_token(plane: &Plane, token: &str) -> Http {
    let mut config = kube::Config::new(plane.url().parse().unwrap());
    config.auth_info.token = Some(token.to_owned().into());
    Http::with(config)
}

/// The controller fills `edit` and `view` from the roles that they aggregate.
#[tokio::test]
async fn users_do_what_roles_grant() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), TOKENS).unwrap();
    let file = tokens.path().display().to_string();
    let flags = ["--token-auth-file", &file, "--authorization-mode=Node,RBAC", "--virtual-nodes=1"];
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let [admin, ann, bob] = ["admin", "ann", "bob"].map(|token| with_token(&plane, token));
    assert_eq!(ann.get(CONFIG_MAPS).await.code, 403);
    let aggregated = |role: &serde_json::Value| role["rules"].as_array().is_some_and(|rules| rules.len() > 5);
    for role in ["edit", "view"] {
        let role = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
        admin.until(&role, "aggregated", aggregated).await;
    }
    let ready = |node: &serde_json::Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.clone().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    admin.until("/api/v1/nodes/virtual-1", "ready", ready).await;
    let bind = |name: &str, role: &str| {
        json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]})
    };
    admin.create(BINDINGS, &bind("ann", "edit")).await;
    admin.create(BINDINGS, &bind("bob", "view")).await;
    ann.create(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(bob.get(CONFIG_MAPS).await.code, 200);
    assert_eq!(bob.post(CONFIG_MAPS, &json!({"metadata": {"name": "b"}})).await.code, 403);
    assert_eq!(bob.get("/api/v1/namespaces/default/secrets").await.code, 403);
    assert_eq!(ann.get("/api/v1/namespaces/kube-system/configmaps").await.code, 403, "another namespace");
    assert_eq!(ann.post(BINDINGS, &bind("mine", "cluster-admin")).await.code, 403);
    assert_eq!(plane.http().get("/api").await.code, 403, "anonymous");
    assert_eq!(plane.http().get("/livez").await.code, 200, "anonymous");
    for path in ["/metrics", "/orlop/snapshot", "/apis/orlop.dev/v1/capture", "/apis/orlop.dev/v1/stream"] {
        assert_eq!(ann.get(path).await.code, 403, "{path}");
    }
    plane.kill_and_restart().await;
    let [ann, bob] = ["ann", "bob"].map(|token| with_token(&plane, token));
    assert_eq!(
        (ann.get(CONFIG_MAPS).await.code, bob.get(CONFIG_MAPS).await.code),
        (200, 200),
        "after a kill"
    );
}

/// A node reads what its pods use, and the agent in the process runs pods under the same restrictions.
#[tokio::test]
async fn nodes_access_what_their_pods_use() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let nodes = "n1,system:node:n1,u1,system:nodes\nn2,system:node:n2,u2,system:nodes\n";
    std::fs::write(tokens.path(), format!("admin,root,u0,system:masters\n{nodes}")).unwrap();
    let file = tokens.path().display().to_string();
    let flags = ["--token-auth-file", &file, "--authorization-mode=Node,RBAC", "--virtual-nodes=1"];
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let [admin, n1, n2] = ["admin", "n1", "n2"].map(|token| with_token(&plane, token));
    n1.create("/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let refused = n2.patch("/api/v1/nodes/n1", &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    assert_eq!(
        refused.expect(403)["message"],
        "nodes \"n1\" is forbidden: node \"n2\" is not allowed to modify node \"n1\""
    );

    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = format!("{secrets}/s");
    admin.create(secrets, &json!({"metadata": {"name": "s"}})).await;
    let pod = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}})
    };
    assert_eq!(n1.get(&secret).await.code, 403, "no pod");
    admin.create(PODS, &pod("own", "n1")).await;
    assert_eq!((n1.get(&secret).await.code, n2.get(&secret).await.code), (200, 403));
    assert_eq!(n1.get(secrets).await.code, 403, "not all secrets");
    let list = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1";
    assert_eq!((n1.get(list).await.code, n2.get(list).await.code), (200, 403));

    admin.create(PODS, &pod("virtual", "virtual-1")).await;
    admin.until(&format!("{PODS}/virtual"), "running", |pod| pod["status"]["phase"] == "Running").await;

    plane.kill_and_restart().await;
    let [admin, n1, n2] = ["admin", "n1", "n2"].map(|token| with_token(&plane, token));
    assert_eq!((n1.get(&secret).await.code, n2.get(&secret).await.code), (200, 403), "after a kill");
    admin.delete(&format!("{PODS}/own")).await.expect(200);
    admin.until_gone(&format!("{PODS}/own")).await;
    assert_eq!(n1.get(&secret).await.code, 403, "the pod is deleted");
    admin.delete(&format!("{PODS}/virtual")).await.expect(200);
    admin.until_gone(&format!("{PODS}/virtual")).await;
}

#[tokio::test]
async fn kubectl_shows_the_rights_of_others() {
    // kubectl sends tokens over TLS only.
    let server = Secured::with(&["--authorization-mode=RBAC"]).await;
    let ca = file("ca.crt").display().to_string();
    let kubectl = Kubectl::new(&server.url, server.dir.path());
    let run = async |token: &str, args: &[&str]| {
        let all = [&["--certificate-authority", ca.as_str(), "--token", token], args].concat();
        kubectl.run(&all).await
    };
    run("root", &["create", "role", "reader", "--verb=get,list", "--resource=configmaps"]).await.ok();
    run("root", &["create", "rolebinding", "reader", "--role=reader", "--user=ann"]).await.ok();
    for (token, more, want) in [
        ("ann", &[][..], "yes"),
        ("hush", &[], "no"),
        ("root", &["--as=ann"], "yes"),
        ("root", &["--as=bob"], "no"),
    ] {
        let args = [&["auth", "can-i", "list", "configmaps"], more].concat();
        assert_eq!(run(token, &args).await.out.trim(), want, "{token} {more:?}");
    }
    let refused = run("hush", &["get", "configmaps", "--as=ann"]).await;
    assert!(refused.err.contains("impersonate-on:user-info:list"), "{}", refused.err);
}

/// Permits everything to ann in the namespace `default`, rejects bob, and has no opinion about others.
fn opinion(spec: &Value) -> Value {
    let namespace = &spec["resourceAttributes"]["namespace"];
    match spec["user"].as_str() {
        Some("ann") => json!({"allowed": namespace == "default", "reason": "by the webhook"}),
        Some("bob") => json!({"allowed": false, "denied": true, "reason": "not bob"}),
        _ => json!({"allowed": false}),
    }
}

/// Starts a webhook; returns its kubeconfig and the reviews that it receives.
async fn authorization_webhook() -> (String, Arc<Mutex<Vec<Value>>>) {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let reviews = seen.clone();
    let answer = move |body: String| async move {
        let mut review: Value = serde_json::from_str(&body).unwrap();
        review["status"] = opinion(&review["spec"]);
        reviews.lock().push(review.clone());
        review.to_string()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/authorize", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "hook",
        "clusters": [{"name": "hook", "cluster": {"server": format!("http://{address}/authorize")}}],
        "contexts": [{"name": "hook", "context": {"cluster": "hook", "user": "hook"}}],
        "users": [{"name": "hook", "user": {}}],
    });
    (kubeconfig.to_string(), seen)
}

#[tokio::test]
async fn webhook_permits_and_rejects_requests() {
    let (kubeconfig, seen) = authorization_webhook().await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (tokens, hook) = (file("tokens.csv", TOKENS), file("hook", &kubeconfig));
    let config = file(
        "config",
        &json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
            "authorizers": [
                {"type": "Webhook", "name": "hook", "webhook": {
                    "timeout": "5s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
                    "matchConditionSubjectAccessReviewVersion": "v1",
                    "matchConditions": [{"expression": "has(request.resourceAttributes)"}],
                    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": hook}}},
                {"type": "RBAC", "name": "rbac"},
            ],
        })
        .to_string(),
    );
    let by_flags = ["--authorization-mode=Webhook,RBAC", "--authorization-webhook-version=v1"];
    let by_flags = [&by_flags[..], &["--authorization-webhook-config-file", &hook]].concat();
    for flags in [by_flags, vec!["--authorization-config", &config]] {
        let flags = [&["--token-auth-file", &tokens][..], &flags].concat();
        let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
        let [admin, ann, bob] = ["admin", "ann", "bob"].map(|token| with_token(&plane, token));
        ann.create(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
        let elsewhere = ann.get("/api/v1/namespaces/kube-system/configmaps").await.expect(403);
        assert!(elsewhere["message"].as_str().unwrap().ends_with(": by the webhook"), "{elsewhere}");
        let list = format!("{CONFIG_MAPS}?labelSelector=a&fieldSelector=metadata.name%3Da");
        assert_eq!(ann.get(&list).await.code, 200);
        let asked = seen.lock().last().unwrap()["spec"]["resourceAttributes"].clone();
        assert_eq!(asked["labelSelector"], json!({"requirements": [{"key": "a", "operator": "Exists"}]}));
        assert_eq!(asked["fieldSelector"]["requirements"][0]["values"], json!(["a"]));

        let calls = seen.lock().len();
        assert_eq!(ann.get(&list).await.code, 200);
        assert_eq!(seen.lock().len(), calls, "the answer is cached");
        let role = json!({"metadata": {"name": "bob"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}]});
        admin.create(BINDINGS, &role).await;
        assert_eq!(bob.get(CONFIG_MAPS).await.code, 403, "the webhook is first");
        let review = json!({"spec": {"user": "bob", "resourceAttributes": {"verb": "list", "resource": "configmaps"}}});
        let review = admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await;
        assert_eq!(review["status"], json!({"allowed": false, "denied": true, "reason": "not bob"}));
    }
}
