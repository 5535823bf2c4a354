//! Sessions of the web page end with the credentials that they were created from.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use orlop_auth::front_proxy::FrontProxyConfig;
use orlop_auth::service_account::legacy::LegacyClaims;
use orlop_auth::token_file::TokenFile;
use orlop_pki::authority::{Authority, CERTIFICATE_LIFETIME};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::rig::Rig;
use crate::ApiService;
use crate::authentication::PageSignIn;
use crate::authentication::webhook::{ReviewPost, ReviewVersion, WebhookSettings};
use crate::peer_certificates::{ClientAuthorities, PeerCertificates};
use crate::service_account::key_file::{key_file, rotate};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const BOOTSTRAP: &str = "/api/v1/namespaces/kube-system/secrets";
const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1";
const HOUR: Duration = Duration::from_secs(3600);
/// Tolerated clock difference of service account tokens.
const LEEWAY: Duration = Duration::from_secs(61);

/// The kinds of credentials. Those that can expire expire after an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StaticToken,
    AccountToken,
    PodToken,
    SecretToken,
    LegacyToken,
    Bootstrap,
    Webhook,
    Certificate,
    FrontProxy,
}

/// The ends of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Expiry,
    /// The credentials, or an object that they depend on.
    Deletion,
    /// The account of a token.
    AccountDeletion,
    /// The account is created again.
    AccountReplacement,
    /// The secret, the key or the authority of the credentials.
    Rotation,
    /// The credentials become those of another user.
    AnotherUser,
}

/// A server that accepts all kinds of credentials.
struct World {
    rig: Rig,
    service: ApiService,
    dir: tempfile::TempDir,
    tokens: Arc<TokenFile>,
    /// The user of the webhook's token.
    reviewed: Arc<Mutex<Option<&'static str>>>,
    users: Authority,
    proxies: Authority,
    authorities: Arc<ClientAuthorities>,
}

/// The credentials of a request.
#[derive(Clone, Default)]
struct Credentials {
    bearer: Option<String>,
    peer: Option<PeerCertificates>,
    headers: Vec<(&'static str, &'static str)>,
}

fn start() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A time at which a certificate was signed that expires an hour after the start.
fn an_hour_is_left() -> Timestamp {
    start() + SignedDuration::from_hours(1) - CERTIFICATE_LIFETIME
}

fn authority() -> Authority {
    Authority::read(&Authority::create(an_hour_is_left()).unwrap()).unwrap()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

impl World {
    async fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokens"), "abc,ann,u1,g1\nother,bob,u2\n").unwrap();
        let tokens = Arc::new(TokenFile::load(&dir.path().join("tokens")).unwrap());
        let (users, proxies) = (authority(), authority());
        let authorities = Arc::new(ClientAuthorities::default());
        authorities.replace(vec![der(users.certificate())], vec![der(proxies.certificate())]).unwrap();
        let reviewed = Arc::new(Mutex::new(Some("ann")));
        let answer = reviewed.clone();
        let post: ReviewPost = Arc::new(move |document| {
            let review: Value = serde_json::from_slice(&document).unwrap();
            let user = answer.lock().filter(|_| review["spec"]["token"] == "hook");
            let status = json!({"authenticated": user.is_some(), "user": {"username": user}});
            let review =
                json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status});
            async move { Ok(review.to_string().into()) }.boxed()
        });
        let rig = Rig::with(|config| {
            config.service_account_key_file = Some(key_file(dir.path()));
            let auth = &mut config.auth;
            auth.tokens = Some(tokens.clone());
            auth.bootstrap_tokens = true;
            auth.client_authorities = Some(authorities.clone());
            auth.front_proxy = Some(FrontProxyConfig {
                username_headers: vec!["x-remote-user".to_owned()],
                ..FrontProxyConfig::default()
            });
            let settings = WebhookSettings { post, version: ReviewVersion::V1, cache_ttl: Duration::ZERO };
            auth.webhook = Some(settings);
            auth.page_sign_in = Some(Arc::new(PageSignIn::new(config.clock.clone())));
        })
        .await;
        let service = rig.server.protect(rig.server.service());
        World { rig, service, dir, tokens, reviewed, users, proxies, authorities }
    }

    /// The code and the body of a request.
    async fn ask(&self, credentials: &Credentials, target: &str, body: &Value) -> (u16, Value) {
        let mut request = Request::post(target).header("host", "localhost");
        if let Some(bearer) = &credentials.bearer {
            request = request.header("authorization", format!("Bearer {bearer}"));
        }
        for (name, value) in &credentials.headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_string())).unwrap();
        if let Some(peer) = &credentials.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let response = self.service.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// The name of the user according to the server, or the code of the refusal.
    async fn user(&self, credentials: &Credentials) -> Result<String, u16> {
        let (code, body) = self.ask(credentials, SELF_REVIEW, &json!({})).await;
        body["status"]["userInfo"]["username"].as_str().map(str::to_owned).ok_or(code)
    }

    async fn code(&self, credentials: &Credentials) -> String {
        let (code, body) = self.ask(credentials, "/orlop/sign-in/codes", &json!({})).await;
        assert_eq!(code, 201, "{body}");
        body["code"].as_str().unwrap().to_owned()
    }

    async fn exchange(&self, code: &str) -> (u16, Value) {
        self.ask(&Credentials::default(), "/orlop/sign-in", &json!({"code": code})).await
    }

    /// The body of a watch.
    async fn watch(&self, token: &str) -> Body {
        let request = Request::get(WATCH).header("authorization", format!("Bearer {token}"));
        let response = self.service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    /// A token of the service account `a`, which expires after an hour.
    async fn account_token(&self, bound: Option<(&str, Value)>) -> String {
        let bound = bound.map(|(kind, object)| {
            let meta = &object["metadata"];
            json!({"kind": kind, "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]})
        });
        let spec = json!({"expirationSeconds": HOUR.as_secs(), "boundObjectRef": bound});
        let answer = self.rig.post(&format!("{ACCOUNTS}/a/token"), json!({"spec": spec})).await.expect(201);
        answer.json()["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Creates credentials, and the objects that they depend on.
    async fn credentials(&self, kind: Kind) -> Credentials {
        let rig = &self.rig;
        let account = rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201).json();
        let bearer = |token: String| Credentials { bearer: Some(token), ..Credentials::default() };
        let signed = |by: &Authority| {
            let pem = by.client("ann", &[], an_hour_is_left()).unwrap().certificate;
            PeerCertificates::new(vec![der(&pem)], self.authorities.clone())
        };
        match kind {
            Kind::StaticToken => bearer("abc".to_owned()),
            Kind::AccountToken => bearer(self.account_token(None).await),
            Kind::PodToken => {
                let spec = json!({"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]});
                let pod = rig.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await.expect(201);
                bearer(self.account_token(Some(("Pod", pod.json()))).await)
            }
            Kind::SecretToken => {
                let secret = rig.post(SECRETS, json!({"metadata": {"name": "s"}})).await.expect(201);
                bearer(self.account_token(Some(("Secret", secret.json()))).await)
            }
            Kind::LegacyToken => {
                let uid = account["metadata"]["uid"].as_str().unwrap();
                let claims = LegacyClaims::new("default", "t", "a", uid);
                let token = rig.server.sign_legacy_token(&claims).unwrap();
                let metadata =
                    json!({"name": "t", "annotations": {"kubernetes.io/service-account.name": "a"}});
                let data = json!({"token": token});
                let secret = json!({"type": "kubernetes.io/service-account-token", "metadata": metadata, "stringData": data});
                rig.post(SECRETS, secret).await.expect(201);
                bearer(token)
            }
            Kind::Bootstrap => {
                let data = json!({
                    "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                    "expiration": "2026-01-01T13:00:00Z",
                });
                let metadata = json!({"name": "bootstrap-token-abcdef"});
                let secret = json!({"type": "bootstrap.kubernetes.io/token", "metadata": metadata, "stringData": data});
                rig.post(BOOTSTRAP, secret).await.expect(201);
                bearer("abcdef.0123456789abcdef".to_owned())
            }
            Kind::Webhook => bearer("hook".to_owned()),
            Kind::Certificate => Credentials { peer: Some(signed(&self.users)), ..Credentials::default() },
            Kind::FrontProxy => Credentials {
                peer: Some(signed(&self.proxies)),
                headers: vec![("x-remote-user", "ann")],
                ..Credentials::default()
            },
        }
    }

    fn write_tokens(&self, lines: &str) {
        std::fs::write(self.dir.path().join("tokens"), lines).unwrap();
        self.tokens.reload().unwrap();
    }

    async fn rotate_key(&self) {
        let rig = &self.rig;
        rotate(&key_file(self.dir.path()), start(), SignedDuration::from_secs(300)).unwrap();
        while rig.server.inner().accounts.with_public_keys(|keys| keys.len()) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rig.advance(Duration::from_secs(300));
    }

    /// Ends the credentials.
    async fn end(&self, kind: Kind, end: End) {
        let rig = &self.rig;
        let delete =
            async |path: String| drop(rig.delete(&path, json!({"gracePeriodSeconds": 0})).await.expect(200));
        match (kind, end) {
            (_, End::Expiry) => rig.advance(HOUR + LEEWAY),
            (_, End::AccountDeletion) | (Kind::AccountToken, End::Deletion) => {
                delete(format!("{ACCOUNTS}/a")).await
            }
            (_, End::AccountReplacement) => {
                delete(format!("{ACCOUNTS}/a")).await;
                rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
            }
            (Kind::StaticToken, End::Deletion) => self.write_tokens("other,bob,u2\n"),
            (Kind::StaticToken, End::Rotation) => self.write_tokens("abd,ann,u1,g1\nother,bob,u2\n"),
            (Kind::StaticToken, _) => self.write_tokens("abc,bob,u2\n"),
            (Kind::PodToken, End::Deletion) => delete(format!("{PODS}/p")).await,
            (Kind::SecretToken, End::Deletion) => delete(format!("{SECRETS}/s")).await,
            (Kind::LegacyToken, End::Deletion) => delete(format!("{SECRETS}/t")).await,
            (Kind::LegacyToken, _) => {
                let data = json!({"data": {"token": STANDARD.encode("another")}});
                rig.patch(&format!("{SECRETS}/t"), "merge", data).await.expect(200);
            }
            (Kind::AccountToken | Kind::PodToken | Kind::SecretToken, _) => self.rotate_key().await,
            (Kind::Bootstrap, End::Deletion) => delete(format!("{BOOTSTRAP}/bootstrap-token-abcdef")).await,
            (Kind::Bootstrap, _) => {
                let data = json!({"stringData": {"token-secret": "0123456789abcdeg"}});
                rig.patch(&format!("{BOOTSTRAP}/bootstrap-token-abcdef"), "merge", data).await.expect(200);
            }
            (Kind::Webhook, End::AnotherUser) => *self.reviewed.lock() = Some("bob"),
            (Kind::Webhook, _) => *self.reviewed.lock() = None,
            (Kind::Certificate | Kind::FrontProxy, _) => {
                let other = || vec![der(authority().certificate())];
                self.authorities.replace(other(), other()).unwrap();
            }
        }
    }
}

/// After the end of its credentials, a session gets the same response as they do, and its watches end within a minute.
#[tokio::test(start_paused = true)]
async fn session_ends_with_its_credentials() {
    use {End as E, Kind as K};
    let refused = Err(401);
    for (kind, end, credentials_get) in [
        (K::StaticToken, E::Deletion, refused.clone()),
        (K::StaticToken, E::Rotation, refused.clone()),
        (K::StaticToken, E::AnotherUser, Ok("bob".to_owned())),
        (K::AccountToken, E::Expiry, refused.clone()),
        (K::AccountToken, E::Deletion, refused.clone()),
        (K::AccountToken, E::AccountReplacement, refused.clone()),
        (K::AccountToken, E::Rotation, refused.clone()),
        (K::PodToken, E::Deletion, refused.clone()),
        (K::PodToken, E::AccountDeletion, refused.clone()),
        (K::SecretToken, E::Expiry, refused.clone()),
        (K::SecretToken, E::Deletion, refused.clone()),
        (K::SecretToken, E::Rotation, refused.clone()),
        (K::LegacyToken, E::Deletion, refused.clone()),
        (K::LegacyToken, E::AccountDeletion, refused.clone()),
        (K::LegacyToken, E::Rotation, refused.clone()),
        (K::Bootstrap, E::Expiry, refused.clone()),
        (K::Bootstrap, E::Deletion, refused.clone()),
        (K::Bootstrap, E::Rotation, refused.clone()),
        (K::Webhook, E::Deletion, refused.clone()),
        (K::Webhook, E::AnotherUser, Ok("bob".to_owned())),
        (K::Certificate, E::Expiry, refused.clone()),
        (K::Certificate, E::Rotation, refused.clone()),
        (K::FrontProxy, E::Expiry, refused.clone()),
        (K::FrontProxy, E::Rotation, refused.clone()),
    ] {
        let case = format!("{kind:?} {end:?}");
        let world = World::new().await;
        let credentials = world.credentials(kind).await;
        let name = world.user(&credentials).await;
        assert!(name.is_ok(), "{case}: {name:?}");
        let (code, session) = world.exchange(&world.code(&credentials).await).await;
        assert_eq!((code, session["user"].as_str()), (200, name.as_deref().ok()), "{case}");
        let token = session["token"].as_str().unwrap();
        let page = Credentials { bearer: Some(token.to_owned()), ..Credentials::default() };
        assert_eq!(world.user(&page).await, name, "{case}");
        let unused = world.code(&credentials).await;
        let mut watch = Box::pin(world.watch(token).await.collect());
        let minute = Duration::from_secs(60);
        assert!(tokio::time::timeout(minute * 2, &mut watch).await.is_err(), "{case}: the watch is open");

        world.end(kind, end).await;
        assert_eq!(world.user(&credentials).await, credentials_get, "{case}: the credentials");
        assert_eq!(world.user(&page).await, Err(401), "{case}: the session");
        assert_eq!(world.exchange(&unused).await.0, 401, "{case}: the code");
        // A watch never asks the webhook, also not for its token.
        let is_open = tokio::time::timeout(minute, watch).await.is_err();
        assert_eq!(is_open, kind == Kind::Webhook, "{case}: the watch");
    }
}

/// A change that leaves the credentials valid leaves the session valid. It has the current groups of the user.
#[tokio::test]
async fn session_follows_credentials_that_stay_valid() {
    let world = World::new().await;
    let credentials = world.credentials(Kind::StaticToken).await;
    let session = world.exchange(&world.code(&credentials).await).await.1;
    let page = Credentials { bearer: session["token"].as_str().map(str::to_owned), ..Credentials::default() };
    world.write_tokens("new,eve,u3\nabc,ann,u1,g2\n");
    let (code, review) = world.ask(&page, SELF_REVIEW, &json!({})).await;
    assert_eq!(
        (code, &review["status"]["userInfo"]["groups"]),
        (201, &json!(["g2", "system:authenticated"]))
    );
    let (code, _) = world.ask(&page, "/orlop/sign-in/codes", &json!({})).await;
    assert_eq!(code, 403, "a session requests no code");
    world.rig.advance(12 * HOUR);
    assert_eq!(world.user(&page).await, Err(401), "the session has its own end");
    assert!(world.user(&credentials).await.is_ok());
}

/// The response to a code names the earlier end.
#[tokio::test]
async fn session_expires_with_its_credentials() {
    for (kind, want) in [
        (Kind::StaticToken, "2026-01-02T00:00:00Z"),
        (Kind::AccountToken, "2026-01-01T13:00:00Z"),
        (Kind::LegacyToken, "2026-01-02T00:00:00Z"),
        (Kind::Certificate, "2026-01-01T13:00:00Z"),
        (Kind::FrontProxy, "2026-01-01T13:00:00Z"),
    ] {
        let world = World::new().await;
        let credentials = world.credentials(kind).await;
        let session = world.exchange(&world.code(&credentials).await).await.1;
        assert_eq!(session["expires"], want, "{kind:?}");
    }
}
