//! Authentication through a server: bootstrap tokens, webhooks, audiences, keys and the validity of service account tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::FutureExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use orlop_auth::service_account::key::{SigningKey, generate};
use orlop_pki::authority::Authority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::rig::Rig;
use crate::authentication::webhook::{ReviewPost, ReviewVersion, WebhookSettings};
use crate::server::Config;

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const INVALID: &str = "invalid bearer token";

/// The user of a token according to the server, or the status code of the refusal.
async fn user(rig: &Rig, token: &str) -> Result<String, u16> {
    let request = Request::post(SELF_REVIEW)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::from("{}"))
        .unwrap();
    let response = rig.server.protect(rig.server.service()).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    match body["status"]["userInfo"]["username"].as_str() {
        Some(name) => Ok(name.to_owned()),
        None => Err(code),
    }
}

async fn review(rig: &Rig, token: &str, audiences: Value) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    rig.post(REVIEWS, json!({ "spec": spec })).await.expect(201).json()["status"].clone()
}

async fn account_token(rig: &Rig, spec: Value) -> String {
    let answer = rig.post(&format!("{ACCOUNTS}/a/token"), json!({ "spec": spec })).await.expect(201).json();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// A server with the service account `a`.
async fn rig(change: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::with(change).await;
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    rig
}

#[tokio::test]
async fn bootstrap_token_follows_its_secret() {
    let token = "abcdef.0123456789abcdef";
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": "2026-01-01T13:00:00Z", "auth-extra-groups": "system:bootstrappers:workers",
        },
    });
    let rig = rig(|config| config.auth.bootstrap_tokens = true).await;
    assert_eq!(user(&rig, token).await, Err(401), "no Secret");
    rig.post(SECRETS, secret.clone()).await.expect(201);
    assert_eq!(user(&rig, token).await.as_deref(), Ok("system:bootstrap:abcdef"));
    let status = review(&rig, token, json!([])).await;
    assert_eq!(status["authenticated"], true);
    let groups = json!(["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"]);
    assert_eq!(status["user"]["groups"], groups);
    let other = review(&rig, token, json!(["other"])).await;
    assert_eq!(other, json!({"user": {}, "error": INVALID}), "another audience");
    assert_eq!(user(&rig, "abcdef.0123456789abcdeg").await, Err(401), "another secret");

    rig.advance(Duration::from_secs(3600));
    assert_eq!(user(&rig, token).await, Err(401), "expired");
    let later = json!({"stringData": {"expiration": "2026-01-01T14:00:00Z"}});
    rig.patch(&format!("{SECRETS}/bootstrap-token-abcdef"), "merge", later).await.expect(200);
    assert!(user(&rig, token).await.is_ok(), "extended");
    rig.delete(&format!("{SECRETS}/bootstrap-token-abcdef"), Value::Null).await.expect(200);
    assert_eq!(user(&rig, token).await, Err(401), "deleted");

    let disabled = Rig::with(|config| config.auth.is_required = true).await;
    disabled.post(SECRETS, secret).await.expect(201);
    assert_eq!(user(&disabled, token).await, Err(401), "not enabled");
}

#[tokio::test]
async fn webhook_reviews_the_tokens_that_no_other_method_accepts() {
    let post: ReviewPost = Arc::new(|document| {
        let review: Value = serde_json::from_slice(&document).unwrap();
        let status = match review["spec"]["token"].as_str() {
            Some("known") => json!({"authenticated": true, "user": {"username": "ann", "groups": ["g"]}}),
            Some("refused") => json!({"error": "not today"}),
            _ => json!({}),
        };
        let answer =
            json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status});
        async move { Ok(answer.to_string().into()) }.boxed()
    });
    let settings = WebhookSettings { post, version: ReviewVersion::V1, cache_ttl: Duration::from_secs(60) };
    let rig = rig(|config| config.auth.webhook = Some(settings)).await;
    assert_eq!(user(&rig, "known").await.as_deref(), Ok("ann"));
    assert_eq!(
        review(&rig, "known", json!([])).await["user"]["groups"],
        json!(["g", "system:authenticated"])
    );
    for (token, error) in [("unknown", INVALID.to_owned()), ("refused", format!("[{INVALID}, not today]"))] {
        assert_eq!(user(&rig, token).await, Err(401), "{token}");
        assert_eq!(review(&rig, token, json!([])).await, json!({"user": {}, "error": error}), "{token}");
    }
    let account = account_token(&rig, json!({})).await;
    assert_eq!(user(&rig, &account).await.as_deref(), Ok("system:serviceaccount:default:a"));
}

#[tokio::test]
async fn tokens_are_for_the_audiences_of_the_server() {
    let rig = rig(|config| {
        config.service_accounts.audiences = vec!["one".to_owned(), "two".to_owned()];
        config.auth.is_required = true;
    })
    .await;
    let own = account_token(&rig, json!({})).await;
    assert_eq!(review(&rig, &own, json!([])).await["audiences"], json!(["one", "two"]));
    assert!(user(&rig, &own).await.is_ok());
    let one = account_token(&rig, json!({"audiences": ["two", "other"]})).await;
    assert_eq!(review(&rig, &one, json!([])).await["audiences"], json!(["two"]));
    let other = account_token(&rig, json!({"audiences": ["other"]})).await;
    assert_eq!(user(&rig, &other).await, Err(401));
}

#[tokio::test]
async fn server_shortens_and_extends_the_validity() {
    let rig = rig(|config| {
        config.service_accounts.max_expiration = Some(Duration::from_secs(7200));
        config.auth.is_required = true;
    })
    .await;
    let long = json!({"spec": {"expirationSeconds": 10_000}});
    let answer = rig.post(&format!("{ACCOUNTS}/a/token"), long).await.expect(201);
    let warning = r#"299 - "requested expiration of 10000 seconds shortened to 7200 seconds""#;
    assert_eq!(answer.header("warning"), warning);
    assert_eq!(answer.json()["spec"]["expirationSeconds"], 7200);
    assert_eq!(answer.json()["status"]["expirationTimestamp"], "2026-01-01T14:00:00Z");

    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]},
    });
    rig.post(PODS, pod).await.expect(201);
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let of_pod = account_token(&rig, json!({"expirationSeconds": 3607, "boundObjectRef": bound})).await;
    let free = account_token(&rig, json!({"expirationSeconds": 3607})).await;
    rig.advance(Duration::from_secs(4000));
    assert!(user(&rig, &of_pod).await.is_ok(), "extended");
    assert_eq!(user(&rig, &free).await, Err(401), "as requested");
    rig.advance(Duration::from_secs(365 * 24 * 3600));
    assert_eq!(user(&rig, &of_pod).await, Err(401), "a year later");
}

#[tokio::test]
async fn earlier_keys_verify_tokens_until_they_are_removed() {
    let key = || Arc::new(SigningKey::from_pkcs8(&generate().unwrap()).unwrap());
    let (old, new) = (key(), key());
    let config = |signing: &Arc<SigningKey>, verifying: &[&Arc<SigningKey>]| {
        let (signing, others) = (signing.clone(), verifying.iter().map(|key| key.public().clone()).collect());
        move |config: &mut Config| {
            config.service_accounts.signing_key = Some(signing);
            config.service_accounts.verifying_keys = others;
            config.auth.is_required = true;
        }
    };
    let first = rig(config(&old, &[])).await;
    let long = json!({"expirationSeconds": 3 * 365 * 24 * 3600});
    let token = account_token(&first, long).await;
    assert!(user(&first, &token).await.is_ok());
    let both = Rig::on_with(first.store.clone(), config(&new, &[&old])).await;
    assert!(user(&both, &token).await.is_ok(), "the old key still verifies");
    let keys = both.get("/openid/v1/jwks").await.expect(200).json();
    let ids: Vec<_> =
        keys["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect();
    assert_eq!(ids, [new.public().id(), old.public().id()]);
    let later = Rig::on_with(first.store.clone(), config(&new, &[])).await;
    assert_eq!(user(&later, &token).await, Err(401), "the old key is removed");
}

#[tokio::test]
async fn authorities_are_published_for_other_api_servers() {
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let none = rig(|_| {}).await;
    none.get(path).await.expect(404);
    let pair = Authority::create("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let authorities: Arc<crate::peer_certificates::ClientAuthorities> = Arc::default();
    authorities.replace(vec![certificate.clone()], vec![certificate]).unwrap();
    let rig = rig(|config| {
        config.auth.client_authorities = Some(authorities);
        config.auth.front_proxy = Some(crate::authentication::config::FrontProxyConfig {
            username_headers: vec!["X-Remote-User".to_owned()],
            ..Default::default()
        });
    })
    .await;
    let data = rig.get(path).await.expect(200).json()["data"].clone();
    let expected = json!({
        "client-ca-file": pair.certificate,
        "requestheader-client-ca-file": pair.certificate,
        "requestheader-allowed-names": "[]",
        "requestheader-extra-headers-prefix": "[]",
        "requestheader-group-headers": "[]",
        "requestheader-uid-headers": "[]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
    });
    assert_eq!(data, expected);
}
