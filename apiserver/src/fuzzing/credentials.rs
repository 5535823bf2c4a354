//! Credentials: tokens, certificates, and files with keys.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use orlop_auth::bootstrap_token::BootstrapToken;
use orlop_auth::certificate::{self, ClientCertificate};
use orlop_auth::jwt::algorithm::Algorithm;
use orlop_auth::jwt::unverified_issuer;
use orlop_auth::limits;
use orlop_auth::oidc::{self, IssuerKeys, OidcConfig, OidcError};
use orlop_auth::service_account::key::{SigningKey, generate};
use orlop_auth::service_account::{claims, key_file};
use serde_json::json;

use super::in_bounds;

const ISSUER: &str = "https://i";

/// The key of the issuer. Random, but no result depends on it.
static KEY: LazyLock<SigningKey> = LazyLock::new(|| {
    let pkcs8 = generate().expect("random numbers");
    SigningKey::from_pkcs8(&pkcs8).expect("a key")
});

fn config() -> OidcConfig {
    OidcConfig {
        issuer: ISSUER.to_owned(),
        client_id: "c".to_owned(),
        username_claim: "sub".to_owned(),
        username_prefix: String::new(),
        groups_claim: Some("groups".to_owned()),
        groups_prefix: "g:".to_owned(),
        required_claims: BTreeMap::new(),
        algorithms: Algorithm::ALL.to_vec(),
    }
}

/// Verifies a bearer token. No input is a valid one, because the key is random.
pub(super) fn bearer_token(data: &[u8]) {
    let token = String::from_utf8_lossy(data);
    let keys = [KEY.public().clone()];
    let set = IssuerKeys::parse(json!({"keys": [keys[0].jwk()]}).to_string().as_bytes()).expect("a key");
    let now = Timestamp::UNIX_EPOCH;
    let _ = unverified_issuer(&token);
    let _ = BootstrapToken::parse(&token);
    assert!(claims::verify(&keys, &token).is_err(), "a forged token");
    let error = oidc::verify(&config(), &set, &token, now).expect_err("a forged token");
    in_bounds(data.len(), error.to_string().len(), "a message");
}

/// Reads the claims of a token that the issuer has signed, and a set of its keys.
pub(super) fn issuer_document(data: &[u8]) {
    let _ = IssuerKeys::parse(data);
    let header = json!({"alg": "ES256"}).to_string();
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(data));
    let signature = KEY.sign(message.as_bytes()).expect("random numbers");
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    let set = IssuerKeys::parse(json!({"keys": [KEY.public().jwk()]}).to_string().as_bytes()).expect("a key");
    match oidc::verify(&config(), &set, &token, Timestamp::UNIX_EPOCH) {
        Ok(user) => {
            assert!(!user.username.is_empty());
            let _ = limits::check(&user);
        }
        Err(error) => {
            assert_ne!(error, OidcError::UnknownKey, "the signature is valid");
            in_bounds(data.len(), error.to_string().len(), "a message");
        }
    }
}

/// Reads a certificate in DER, and a file of keys in PEM.
pub(super) fn certificate(data: &[u8]) {
    let _ = ClientCertificate::from_der(data);
    let _ = certificate::common_name(data);
    let _ = certificate::not_after(data);
    let text = String::from_utf8_lossy(data);
    for error in
        [key_file::public_keys(&text).err(), key_file::signing_key(&text).err()].into_iter().flatten()
    {
        assert!(error.to_string().len() < 200, "the error quotes the file: {error}");
    }
}
