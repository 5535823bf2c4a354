//! The filter as a whole: which request gets which user, and which gets a refusal.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::any;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use orlop_auth::UserInfo;
use orlop_auth::front_proxy::FrontProxyConfig;
use orlop_auth::token_file::TokenFile;
use orlop_pki::authority::Authority;
use orlop_store::Kv;
use orlop_store::memory::Memory;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tower::ServiceExt as _;

use super::page_router::OpenPage;
use super::*;
use crate::api_service::ApiService;
use crate::handler_chain::Protected;
use crate::peer_certificates::{ClientAuthorities, PeerCertificates};
use crate::projection::Projection;
use crate::service_account::{Accounts, ServiceAccountConfig};

/// A router behind authentication.
fn protect(authenticators: Arc<Authenticators>, router: Router) -> ApiService {
    Protected::new(authenticators, None, router.into()).into_service()
}

/// Answers with the user's name and groups.
fn echo() -> Router {
    Router::new().fallback(any(|request: Request| async move {
        let user = request.extensions().get::<UserInfo>().cloned().unwrap();
        format!("{} {}", user.username, user.groups.join(","))
    }))
}

const NOW: &str = "2026-11-26T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn token_file() -> Arc<TokenFile> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"abc,ann,u1,\"g1,g2\"\n").unwrap();
    Arc::new(TokenFile::load(file.path()).unwrap())
}

/// The authorities of users and of front proxies, and certificates that they sign.
struct Signers {
    users: Authority,
    proxies: Authority,
    current: Arc<ClientAuthorities>,
}

impl Signers {
    fn new() -> Self {
        let authority = || Authority::read(&Authority::create(now()).unwrap()).unwrap();
        let (users, proxies) = (authority(), authority());
        let current = Arc::new(ClientAuthorities::default());
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        current.replace(vec![der(users.certificate())], vec![der(proxies.certificate())]).unwrap();
        Signers { users, proxies, current }
    }

    fn peer(&self, signer: &Authority, name: &str) -> PeerCertificates {
        let pem = signer.client(name, &[], now()).unwrap().certificate;
        let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
        PeerCertificates::new(chain, self.current.clone())
    }
}

async fn authenticators(config: AuthConfig, anonymous: AnonymousAccess) -> Arc<Authenticators> {
    let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
    let clock: crate::clock::Clock = Arc::new(now);
    let accounts =
        Accounts::new(store.clone(), None, &ServiceAccountConfig::default(), clock.clone()).await.unwrap();
    Arc::new(Authenticators::new(&config, anonymous, &store, Arc::new(accounts), clock, None))
}

/// Authentication with tokens and with certificates of users.
fn auth(tokens: bool, client_certificates: bool, signers: &Signers) -> AuthConfig {
    AuthConfig {
        tokens: tokens.then(token_file),
        client_authorities: client_certificates.then(|| signers.current.clone()),
        ..AuthConfig::default()
    }
}

struct Sent<'a> {
    path: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    certificate: bool,
}

async fn ask(
    config: AuthConfig,
    anonymous: AnonymousAccess,
    mut request: Request,
    extend: impl FnOnce(&mut Request),
) -> (u16, String) {
    extend(&mut request);
    let router = protect(authenticators(config, anonymous).await, echo());
    let response = router.oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

async fn send(auth: AuthConfig, sent: &Sent<'_>, signers: &Signers) -> (u16, String) {
    let request = request(sent.path, &sent.headers);
    ask(auth, AnonymousAccess::PublicPaths, request, |request| {
        if sent.certificate {
            request.extensions_mut().insert(signers.peer(&signers.users, "cert"));
        }
    })
    .await
}

#[tokio::test]
async fn credentials_and_paths_decide_about_a_request() {
    let local = ("host", "localhost:8080");
    let far = ("host", "example.org");
    let bearer = ("authorization", "Bearer abc");
    // name, tokens, certificates, request, code, part of the response
    type Case<'a> = (&'a str, bool, bool, Sent<'a>, u16, &'a str);
    fn sent<'a>(path: &'a str, headers: Vec<(&'a str, &'a str)>, certificate: bool) -> Sent<'a> {
        Sent { path, headers, certificate }
    }
    let cases: [Case<'_>; 18] = [
        ("1 open", false, false, sent("/api", vec![local], false), 200, "system:admin system:masters"),
        ("2 open, foreign host", false, false, sent("/api", vec![far], false), 403, "sent to localhost"),
        (
            "3 open, foreign host, public path",
            false,
            false,
            sent("/version", vec![far], false),
            403,
            "Forbidden",
        ),
        (
            "4 open, foreign page",
            false,
            false,
            sent("/api", vec![local, ("origin", "http://evil.example")], false),
            403,
            "another origin",
        ),
        (
            "5 open, a token is not asked for",
            false,
            false,
            sent("/api", vec![local, bearer], false),
            200,
            "system:admin",
        ),
        (
            "6 token",
            true,
            false,
            sent("/api", vec![far, bearer], false),
            200,
            "ann g1,g2,system:authenticated",
        ),
        (
            "7 token, scheme in capitals",
            true,
            false,
            sent("/api", vec![("authorization", "BEARER abc")], false),
            200,
            "ann",
        ),
        (
            "8 wrong token",
            true,
            false,
            sent("/api", vec![("authorization", "Bearer abd")], false),
            401,
            "Unauthorized",
        ),
        (
            "9 wrong token, public path",
            true,
            false,
            sent("/readyz", vec![("authorization", "Bearer x")], false),
            401,
            "",
        ),
        ("10 no token", true, false, sent("/api", vec![far], false), 401, "\"code\":401"),
        ("11 no token, public path", true, false, sent("/readyz", vec![far], false), 200, "system:anonymous"),
        ("12 no token, below a public path", true, false, sent("/readyz/x", vec![far], false), 401, ""),
        (
            "13 another scheme",
            true,
            false,
            sent("/readyz", vec![("authorization", "Basic abc")], false),
            401,
            "",
        ),
        ("14 empty token", true, false, sent("/api", vec![("authorization", "Bearer ")], false), 401, ""),
        ("15 certificate", false, true, sent("/api", vec![far], true), 200, "cert system:authenticated"),
        (
            "16 certificate, foreign page",
            false,
            true,
            sent("/api", vec![far, ("origin", "http://evil.example")], true),
            403,
            "another origin",
        ),
        ("17 certificate before token", true, true, sent("/api", vec![far, bearer], true), 200, "cert"),
        ("18 certificates are not asked for", true, false, sent("/api", vec![far], true), 401, ""),
    ];
    let signers = Signers::new();
    for (name, tokens, certificates, sent, code, part) in cases {
        let (got, body) = send(auth(tokens, certificates, &signers), &sent, &signers).await;
        assert_eq!(got, code, "{name}: {body}");
        assert!(body.contains(part), "{name}: {body}");
    }
}

#[tokio::test]
async fn this_process_is_trusted() {
    let authenticators = authenticators(auth(true, true, &Signers::new()), AnonymousAccess::Denied).await;
    let router = in_process(protect(authenticators, echo()), UserInfo::controller_manager());
    let request = Request::builder().uri("/api").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"system:kube-controller-manager system:authenticated"));
}

#[tokio::test]
async fn a_refusal_is_a_status() {
    let request = Sent { path: "/api", headers: Vec::new(), certificate: false };
    let signers = Signers::new();
    let (_, body) = send(auth(true, false, &signers), &request, &signers).await;
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    let want = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(status, want);
}

#[tokio::test]
async fn only_the_own_user_and_root_are_administrators_on_loopback() {
    use AnonymousAccess::{AllPaths, Denied, PublicPaths};
    // name, the user of the peer, path, anonymous requests, code, part of the response
    for (name, peer, path, anonymous, code, part) in [
        ("1 the own user", Some(1000), "/api", PublicPaths, 200, "system:admin"),
        ("2 root", Some(0), "/api", PublicPaths, 200, "system:admin"),
        ("3 another user", Some(1001), "/api", PublicPaths, 401, "its own user and of root"),
        ("4 unknown", None, "/api", PublicPaths, 401, "the user of this connection cannot be determined"),
        ("4b the advice", None, "/api", PublicPaths, 401, "TLS with a kubeconfig"),
        ("5 another user, a public path", Some(1001), "/livez", PublicPaths, 200, "system:anonymous"),
        ("6 another user, roles decide", Some(1001), "/api", AllPaths, 200, "system:anonymous"),
        ("7 another user, denied", Some(1001), "/livez", Denied, 401, "Unauthorized"),
    ] {
        let config = AuthConfig { local_user: Some(1000), ..AuthConfig::default() };
        let request = request(path, &[("host", "localhost:8080")]);
        let (got, body) = ask(config, anonymous, request, |request| {
            request.extensions_mut().insert(PeerUser(peer));
        })
        .await;
        assert!(got == code && body.contains(part), "{name}: {got} {body}");
    }
    // A proxy of the own user forwards the request of another user.
    let config = AuthConfig { local_user: Some(1000), ..AuthConfig::default() };
    let forwarded = request("/api", &[("host", "localhost:8080"), ("x-remote-user", "ann")]);
    let (got, body) = ask(config, PublicPaths, forwarded, |request| {
        request.extensions_mut().insert(PeerUser(Some(1000)));
    })
    .await;
    assert!(got == 401 && body.contains("needs the certificate of a front proxy"), "{got} {body}");
}

#[tokio::test]
async fn anonymous_requests_have_no_credentials_at_all() {
    use AnonymousAccess::{AllPaths, Denied, PublicPaths};
    let signers = Signers::new();
    let stranger = Authority::read(&Authority::create(now()).unwrap()).unwrap();
    let (wrong, other) = (("authorization", "Bearer x"), ("authorization", "Basic x"));
    for (name, anonymous, path, headers, certificate, code) in [
        ("1 everywhere", AllPaths, "/api", vec![], false, 200),
        ("2 a wrong token", AllPaths, "/livez", vec![wrong], false, 401),
        ("3 another scheme", AllPaths, "/api", vec![other], false, 200),
        ("4 a wrong certificate", AllPaths, "/livez", vec![], true, 401),
        ("5 denied", Denied, "/livez", vec![], false, 401),
        ("6 public paths", PublicPaths, "/livez", vec![], false, 200),
        ("7 a wrong certificate on a public path", PublicPaths, "/livez", vec![], true, 401),
    ] {
        let (got, body) = ask(auth(true, true, &signers), anonymous, request(path, &headers), |request| {
            if certificate {
                request.extensions_mut().insert(signers.peer(&stranger, "cert"));
            }
        })
        .await;
        assert_eq!(got, code, "{name}: {body}");
        assert!(code == 401 || body.starts_with("system:anonymous system:unauthenticated"), "{name}: {body}");
    }
}

#[tokio::test]
async fn front_proxy_names_the_user_only_with_its_own_certificate() {
    let signers = Signers::new();
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let proxy = |names: &[&str]| FrontProxyConfig {
        allowed_names: list(names),
        username_headers: list(&["X-Remote-User"]),
        group_headers: list(&["X-Remote-Group"]),
        ..FrontProxyConfig::default()
    };
    let config =
        |proxy: Option<FrontProxyConfig>| AuthConfig { front_proxy: proxy, ..auth(true, true, &signers) };
    let (user, group) = (("x-remote-user", "eve"), ("x-remote-group", "system:masters"));
    let token = ("authorization", "Bearer abc");
    let many = vec![("x-remote-group", "g"); 1001];
    // name, configuration, certificate, headers, code, part of the response
    for (name, config, peer, headers, code, part) in [
        ("1 a proxy", config(Some(proxy(&[]))), Some(true), vec![user, group], 200, "eve system:masters"),
        ("2 an allowed proxy", config(Some(proxy(&["p"]))), Some(true), vec![user], 200, "eve"),
        ("3 another proxy", config(Some(proxy(&["q"]))), Some(true), vec![user], 401, "Unauthorized"),
        ("4 no name", config(Some(proxy(&[]))), Some(true), vec![group], 401, "Unauthorized"),
        ("5 a user", config(Some(proxy(&[]))), Some(false), vec![user, group], 200, "p system:authenticated"),
        ("6 no certificate", config(Some(proxy(&[]))), None, vec![user, group], 401, "Unauthorized"),
        ("7 a token", config(Some(proxy(&[]))), None, vec![user, group, token], 200, "ann g1,g2"),
        ("8 no proxies", config(None), Some(true), vec![user, group], 401, "Unauthorized"),
        ("9 a proxy with a token", config(Some(proxy(&[]))), Some(true), vec![token], 200, "ann"),
        (
            "10 too many groups",
            config(Some(proxy(&[]))),
            Some(true),
            [vec![user], many].concat(),
            401,
            "Unauthorized",
        ),
    ] {
        let (got, body) = ask(config, AnonymousAccess::PublicPaths, request("/api", &headers), |request| {
            if let Some(is_proxy) = peer {
                let signer = if is_proxy { &signers.proxies } else { &signers.users };
                request.extensions_mut().insert(signers.peer(signer, "p"));
            }
        })
        .await;
        assert!(got == code && body.contains(part), "{name}: {got} {body}");
    }
}

#[tokio::test]
async fn credentials_are_removed_from_the_request() {
    let headers = Router::new().fallback(any(|request: Request| async move {
        request.headers().keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    }));
    let authenticators =
        authenticators(auth(true, false, &Signers::new()), AnonymousAccess::PublicPaths).await;
    let sent = request(
        "/api",
        &[
            ("authorization", "Bearer abc"),
            ("x-remote-user", "eve"),
            ("x-remote-extra-a", "b"),
            ("x-other", "c"),
        ],
    );
    let response = protect(authenticators, headers).oneshot(sent).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "x-other");
}

#[tokio::test]
async fn replacing_an_authority_invalidates_its_certificates() {
    let signers = Signers::new();
    let peer = signers.peer(&signers.users, "cert");
    let authenticators = authenticators(auth(false, true, &signers), AnonymousAccess::PublicPaths).await;
    let code = async |router: ApiService| {
        let mut request = request("/api", &[]);
        request.extensions_mut().insert(peer.clone());
        router.oneshot(request).await.unwrap().status().as_u16()
    };
    let router = protect(authenticators, echo());
    assert_eq!(code(router.clone()).await, 200);
    let other = Authority::create(now()).unwrap().certificate;
    let other = CertificateDer::from_pem_slice(other.as_bytes()).unwrap();
    signers.current.replace(vec![other], Vec::new()).unwrap();
    assert_eq!(code(router).await, 401);
}

#[tokio::test]
async fn damaged_tokens_are_refused_without_a_reason() {
    let long = "x".repeat(64 * 1024);
    let deep = format!("e30.{}.AQ", "W".repeat(30_000));
    let dots = ".".repeat(32_000);
    for token in [
        "",
        "x",
        "abcdef.0123456789abcdef",
        "e30.e30.e30",
        "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMuY2x1c3Rlci5sb2NhbCJ9.",
        "orlop-node.e30.e30",
        &long,
        &deep,
        &dots,
    ] {
        let config = AuthConfig { bootstrap_tokens: true, ..auth(true, false, &Signers::new()) };
        let header = format!("Bearer {token}");
        let sent = request("/livez", &[("authorization", &header)]);
        let (code, body) = ask(config, AnonymousAccess::PublicPaths, sent, |_| {}).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &body["message"]), (401, &serde_json::json!("Unauthorized")), "{:.60}", token);
    }
}

#[tokio::test]
async fn page_signs_in_with_a_code() {
    let sign_in = Arc::new(PageSignIn::new(Arc::new(now)));
    let config = AuthConfig {
        tokens: Some(token_file()),
        page_sign_in: Some(sign_in.clone()),
        ..AuthConfig::default()
    };
    let authenticators = authenticators(config, AnonymousAccess::PublicPaths).await;
    let page = Some(Arc::new(OpenPage::new(authenticators.clone(), sign_in.clone())));
    let router = Protected::new(authenticators, page, echo().into()).into_service();
    let send = async |request: Request| {
        let response = router.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    };
    let local = ("host", "localhost:8080");
    let exchange = |body: String, more: &[(&str, &str)]| {
        let mut request = Request::post("/orlop/sign-in").header("host", "localhost:8080");
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        request.body(Body::from(body)).unwrap()
    };
    for (case, request, code, part) in [
        ("1 nothing", request("/api", &[local]), 401, "admin.kubeconfig"),
        (
            "2 a wrong token",
            request("/api", &[local, ("authorization", "Bearer x")]),
            401,
            "\"Unauthorized\"",
        ),
        (
            "3 no session",
            request("/api", &[local, ("authorization", "Bearer orlop-page.x")]),
            401,
            "\"Unauthorized\"",
        ),
        ("4 another token", request("/api", &[local, ("authorization", "Bearer abc")]), 200, "ann"),
        ("5 the page", request("/ui/", &[local]), 200, "<!doctype html>"),
        (
            "6 the page for a foreign host, without credentials",
            request("/ui/", &[("host", "evil.example")]),
            401,
            "admin.kubeconfig",
        ),
        ("7 no code", exchange("{}".to_owned(), &[]), 400, "the body must be JSON"),
        ("8 a wrong code", exchange(r#"{"code": "x"}"#.to_owned(), &[]), 401, "orlop page"),
        ("9 too long", exchange(" ".repeat(5000), &[]), 400, "the body must be JSON"),
    ] {
        let (found, text) = send(request).await;
        assert!(found == code && text.contains(part), "{case}: {found} {text}");
    }
    let code = sign_in.issue(UserInfo::new("ann", [])).unwrap().code;
    let body = format!("{{\"code\": \"{code}\"}}");
    let foreign = [("origin", "http://evil.example")];
    assert_eq!(send(exchange(body.clone(), &foreign)).await.0, 403, "a page of another origin");
    let (found, text) = send(exchange(body.clone(), &[("origin", "http://localhost:8080")])).await;
    assert_eq!(found, 200, "{text}");
    let session: serde_json::Value = serde_json::from_str(&text).unwrap();
    let bearer = format!("Bearer {}", session["token"].as_str().unwrap());
    let (found, text) = send(request("/api", &[local, ("authorization", &bearer)])).await;
    assert_eq!((found, text.as_str()), (200, "ann system:authenticated"));
    assert_eq!(send(exchange(body, &[])).await.0, 401, "only once");
}
