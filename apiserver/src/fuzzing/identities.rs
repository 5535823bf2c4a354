//! The identities of requests: an administrator, and identities that may read almost nothing.
//!
//! The credentials are random, so that no input contains a valid one. No result depends on them.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request};
use jiff::Timestamp;
use orlop_auth::front_proxy::FrontProxyConfig;
use orlop_auth::token_file::TokenFile;
use orlop_pki::authority::Authority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::{Answer, HIDDEN, START_MS};
use crate::authentication::AuthConfig;
use crate::peer_certificates::{ClientAuthorities, PeerCertificates};

/// The collection of the service account, and the request for its token.
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub(super) const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/limited/token";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// The administrator, unless the request has an `Authorization` header.
    Administrator,
    /// The request as it is, without a valid credential.
    Anonymous,
    /// A user with a client certificate. The headers of front proxies have no effect.
    Certificate,
    /// A service account that may read ConfigMaps.
    Account,
    /// A node without pods, which a front proxy names.
    Node,
}

/// The identities that may read no object with [`HIDDEN`].
pub(super) const LIMITED: [Identity; 4] =
    [Identity::Anonymous, Identity::Certificate, Identity::Account, Identity::Node];

/// The credentials of all servers.
struct Credentials {
    tokens: Arc<TokenFile>,
    authorities: Arc<ClientAuthorities>,
    administrator: HeaderValue,
    user: PeerCertificates,
    proxy: PeerCertificates,
}

static CREDENTIALS: LazyLock<Credentials> = LazyLock::new(|| {
    let token = Uuid::new_v4().to_string();
    let file = std::env::temp_dir().join(format!("orlop-fuzz-{}", Uuid::new_v4()));
    let line = format!("{token},administrator,1,system:masters\n");
    std::fs::write(&file, line).expect("the directory of temporary files is writable");
    let tokens = TokenFile::load(&file).expect("the line is valid");
    std::fs::remove_file(&file).expect("the file exists");

    let now = Timestamp::from_millisecond(START_MS).expect("a time");
    let authority = || {
        let pair = Authority::create(now).expect("random numbers");
        Authority::read(&pair).expect("its own text")
    };
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    let (users, proxies) = (authority(), authority());
    let authorities = Arc::new(ClientAuthorities::default());
    let replaced = authorities.replace(vec![der(users.certificate())], vec![der(proxies.certificate())]);
    replaced.expect("both are authorities");
    let peer = |signer: &Authority| {
        let pair = signer.client("limited", &[], now).expect("random numbers");
        PeerCertificates::new(vec![der(&pair.certificate)], authorities.clone())
    };
    Credentials {
        tokens: Arc::new(tokens),
        administrator: bearer(&token),
        user: peer(&users),
        proxy: peer(&proxies),
        authorities,
    }
});

fn bearer(token: &str) -> HeaderValue {
    HeaderValue::try_from(format!("Bearer {token}")).expect("a token fits in a header")
}

/// Authentication with all of these credentials.
pub(super) fn config() -> AuthConfig {
    let list = |name: &str| vec![name.to_owned()];
    AuthConfig {
        tokens: Some(CREDENTIALS.tokens.clone()),
        client_authorities: Some(CREDENTIALS.authorities.clone()),
        front_proxy: Some(FrontProxyConfig {
            allowed_names: Vec::new(),
            username_headers: list("X-Remote-User"),
            uid_headers: list("X-Remote-Uid"),
            group_headers: list("X-Remote-Group"),
            extra_prefixes: list("X-Remote-Extra-"),
        }),
        bootstrap_tokens: true,
        ..AuthConfig::default()
    }
}

/// The service account, and its right to read ConfigMaps.
pub(super) fn stored() -> Vec<(&'static str, Value)> {
    let name = json!({"name": "limited"});
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"});
    let subject = json!({"kind": "ServiceAccount", "name": "limited", "namespace": "default"});
    vec![
        (ACCOUNTS, json!({ "metadata": name })),
        (ROLES, json!({"metadata": name, "rules": [rule]})),
        (BINDINGS, json!({"metadata": name, "roleRef": role, "subjects": [subject]})),
    ]
}

/// Adds the credentials of an identity. `account` is the token of the service account.
pub(super) fn authenticate(identity: Identity, account: &str, request: &mut Request<Body>) {
    match identity {
        Identity::Anonymous => {}
        Identity::Administrator => {
            let headers = request.headers_mut();
            headers.entry(AUTHORIZATION).or_insert_with(|| CREDENTIALS.administrator.clone());
        }
        Identity::Certificate => _ = request.extensions_mut().insert(CREDENTIALS.user.clone()),
        Identity::Account => _ = request.headers_mut().insert(AUTHORIZATION, bearer(account)),
        Identity::Node => {
            let headers = request.headers_mut();
            headers.insert("x-remote-user", HeaderValue::from_static("system:node:limited"));
            headers.insert("x-remote-group", HeaderValue::from_static("system:nodes"));
            request.extensions_mut().insert(CREDENTIALS.proxy.clone());
        }
    }
}

/// Checks the response to an identity of [`LIMITED`].
///
/// # Panics
/// The response contains an object that the identity may not read, or reports a write that it may not perform.
pub(super) fn check(identity: Identity, answer: &Answer) {
    let Answer { asked, method, path, code, bytes } = answer;
    let is_hidden = !bytes.windows(HIDDEN.len()).any(|part| part == HIDDEN.as_bytes());
    assert!(is_hidden, "{identity:?} reads a hidden object: {asked}");
    let is_success = *code < 400;
    // Every authenticated user may request a review of its own rights.
    let is_review = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"]
        .iter()
        .any(|group| path.starts_with(group));
    let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    match identity {
        Identity::Anonymous => {
            let is_api = path.starts_with("/api/") || path.starts_with("/apis/");
            assert!(!is_success || !is_api, "anonymous: {code}: {asked}");
        }
        // A node writes its own Node, Leases and Events.
        Identity::Node | Identity::Administrator => {}
        Identity::Certificate | Identity::Account => {
            assert!(!is_success || is_read || is_review, "{identity:?} writes: {code}: {asked}");
        }
    }
}
