//! Authorization on a real server: users with tokens do what bindings grant them, nodes access what their pods use, and kubectl shows it.

use serde_json::json;

use crate::harness::http::Http;
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::tls::{Secured, file};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const TOKENS: &str = "admin,root,u0,system:masters\nann,ann,u1\nbob,bob,u2\n";

/// A client that presents a token.
fn with_token(plane: &Plane, token: &str) -> Http {
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
