//! The identity and permissions of a user, as shown by kubectl; and tokens of service accounts on a real server.

use serde_json::json;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

#[tokio::test]
async fn kubectl_shows_identity_and_permissions() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    assert_eq!(kubectl.run(&["auth", "can-i", "create", "pods"]).await.ok().trim(), "yes");
    assert_eq!(kubectl.run(&["auth", "can-i", "get", "/metrics"]).await.ok().trim(), "yes");
    let rules = kubectl.run(&["auth", "can-i", "--list"]).await.ok();
    assert!(rules.contains("*.*") && rules.contains("[*]"), "{rules}");
    if kubectl.can("auth whoami", 28).await {
        let identity = kubectl.run(&["auth", "whoami"]).await.ok();
        assert!(identity.contains("system:admin") && identity.contains("system:masters"), "{identity}");
    }
}

/// A client that presents a token.
fn with_token(plane: &Plane, token: &str) -> Http {
    let mut config = kube::Config::new(plane.url().parse().unwrap());
    config.auth_info.token = Some(token.to_owned().into());
    Http::with(config)
}

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn service_account_token_is_valid_after_restart() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "admin,ann,u1\n").unwrap();
    let flags = ["--token-auth-file".to_owned(), tokens.path().display().to_string()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let plane = Plane::of(Layout::ServerAlone).default_authorization().server_flags(&flags);
    let mut plane = plane.start().await;
    let admin = with_token(&plane, "admin");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.create(accounts, &json!({"metadata": {"name": "robot"}})).await;
    let answer = admin.create(&format!("{accounts}/robot/token"), &json!({})).await;
    let token = answer["status"]["token"].as_str().unwrap().to_owned();

    for round in ["at once", "after a kill"] {
        let identity = with_token(&plane, &token).post(WHO, &json!({})).await.expect(201);
        assert_eq!(
            identity["status"]["userInfo"]["username"], "system:serviceaccount:default:robot",
            "{round}"
        );
        let mut forged = token.clone().into_bytes();
        // In the middle of the signature, where every bit is significant.
        let at = forged.len() - 40;
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(with_token(&plane, &forged).get("/api").await.code, 401, "{round}");
        assert_eq!(plane.http().get("/api").await.code, 401, "{round}: anonymous");
        plane.kill_and_restart().await;
    }
    let log = plane.server().log();
    assert!(!log.contains(&token), "a token is in the log");
    let admin = with_token(&plane, "admin");
    admin.delete(&format!("{accounts}/robot")).await.expect(200);
    assert_eq!(with_token(&plane, &token).get("/api").await.code, 401, "the account is gone");
}

#[tokio::test]
async fn kubectl_creates_a_token() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "serviceaccount", "robot"]).await.ok();
    if !kubectl.can("create token", 24).await {
        return;
    }
    let token = kubectl.run(&["create", "token", "robot", "--duration", "10m"]).await.ok();
    let review = json!({"spec": {"token": token.trim()}});
    let answer = plane.http().create("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:robot");
}
