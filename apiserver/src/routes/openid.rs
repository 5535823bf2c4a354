//! Public keys of the service account tokens, and its discovery document (upstream:
//! `/.well-known/openid-configuration` and `/openid/v1/jwks`). Clients verify tokens with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderValue, header};
use orlop_auth::jwt::public_key::PublicKey;
use serde_json::{Value, json};

use crate::encode::answer;
use crate::state::Inner;

/// Path of the discovery document.
pub(super) const CONFIGURATION: &str = "/.well-known/openid-configuration";
/// Path of the public keys.
pub(super) const KEYS: &str = "/openid/v1/jwks";
const FRESH: HeaderValue = HeaderValue::from_static("public, max-age=3600");

pub(super) fn router() -> Router<Arc<Inner>> {
    // As upstream, also with a slash at the end.
    let with_slash = |path: &str| format!("{path}/");
    Router::new()
        .route(CONFIGURATION, get(configuration))
        .route(&with_slash(CONFIGURATION), get(configuration))
        .route(KEYS, get(keys))
        .route(&with_slash(KEYS), get(keys))
}

async fn configuration(State(server): State<Arc<Inner>>, headers: HeaderMap) -> Response {
    let asked = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = asked.or_else(|| server.config.advertised.map(|address| address.to_string()));
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let names = |keys: &[&PublicKey]| keys.iter().map(|key| key.account_algorithm().name()).collect();
    let algorithms: BTreeSet<&'static str> = server.accounts.with_public_keys(names);
    let document = json!({
        "issuer": server.accounts.issuer(),
        "jwks_uri": format!("{}://{host}{KEYS}", if server.config.tls { "https" } else { "http" }),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    });
    document_answer("application/json", &document)
}

async fn keys(State(server): State<Arc<Inner>>) -> Response {
    let documents = |keys: &[&PublicKey]| keys.iter().map(|key| key.jwk()).collect();
    let keys: Vec<Value> = server.accounts.with_public_keys(documents);
    document_answer("application/jwk-set+json", &json!({ "keys": keys }))
}

fn document_answer(content_type: &'static str, document: &Value) -> Response {
    let mut response = answer::body(200, content_type, document.to_string().into_bytes());
    response.headers_mut().insert(header::CACHE_CONTROL, FRESH);
    response
}
