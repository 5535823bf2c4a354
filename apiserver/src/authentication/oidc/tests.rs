//! An issuer with TLS and its own authority: keys are read, and read again when a token names an unknown one.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use orlop_auth::jwt::algorithm::Algorithm;
use orlop_auth::service_account::key::{SigningKey, generate};
use orlop_pki::authority::Authority;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// An issuer that this test runs.
struct Provider {
    url: String,
    ca: String,
    keys: Arc<Mutex<Vec<Value>>>,
    /// How often the keys were read.
    reads: watch::Receiver<u32>,
}

async fn provider() -> Provider {
    let now = Timestamp::now();
    let authority = Authority::read(&Authority::create(now).unwrap()).unwrap();
    let signed = authority.server(&["127.0.0.1".to_owned()], now).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let url = format!("https://{address}");
    let keys: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (count, reads) = watch::channel(0);
    let (issuer, published) = (url.clone(), keys.clone());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the authority breaks the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let document = if head.starts_with(b"GET /.well-known/openid-configuration ") {
                json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")})
            } else {
                count.send_modify(|count| *count += 1);
                json!({"keys": *published.lock()})
            };
            let body = document.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    Provider { url, ca: authority.certificate().to_owned(), keys, reads }
}

fn issuer(provider: &Provider, ca: &str) -> Arc<Issuer> {
    let config = OidcConfig {
        issuer: provider.url.clone(),
        client_id: "orlop".to_owned(),
        username_claim: "sub".to_owned(),
        username_prefix: String::new(),
        groups_claim: None,
        groups_prefix: String::new(),
        required_claims: Default::default(),
        algorithms: vec![Algorithm::Es256],
    };
    let settings = OidcSettings { config, ca_bundle: ca.as_bytes().to_vec() };
    Arc::new(Issuer::new(settings, Arc::new(Timestamp::now)))
}

fn key() -> SigningKey {
    SigningKey::from_pkcs8(&generate().unwrap()).unwrap()
}

fn token(key: &SigningKey, issuer: &str) -> String {
    let header = json!({"alg": "ES256", "kid": key.public().id()});
    let end = Timestamp::now().as_second() + 3600;
    let claims = json!({"iss": issuer, "aud": "orlop", "sub": "ann", "exp": end});
    let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).unwrap()))
}

async fn name(issuer: &Issuer, token: &str) -> Result<Option<String>, String> {
    issuer.user_of(token).await.map(|found| found.map(|(user, _)| user.username))
}

#[tokio::test]
async fn unknown_keys_cause_one_read_in_ten_seconds() {
    let provider = provider().await;
    let (old, new, foreign) = (key(), key(), key());
    provider.keys.lock().push(old.public().jwk());
    let issuer = issuer(&provider, &provider.ca);
    let uninitialized = name(&issuer, &token(&old, &provider.url)).await;
    assert_eq!(uninitialized, Err("oidc: authenticator not initialized".to_owned()));

    let follow = issuer.clone();
    tokio::spawn(async move { follow.follow().await });
    let mut phase = issuer.phase.subscribe();
    phase.wait_for(|phase| *phase == Phase::Pausing).await.unwrap();
    assert_eq!(name(&issuer, &token(&old, &provider.url)).await, Ok(Some("ann".to_owned())));
    assert_eq!(name(&issuer, &token(&old, "https://other")).await, Ok(None), "another issuer");

    let failed = Err(OidcError::UnknownKey.to_string());
    assert_eq!(
        name(&issuer, &token(&foreign, &provider.url)).await,
        failed,
        "the keys were read less than 10 s ago"
    );
    assert_eq!(*provider.reads.borrow(), 1);

    // After the pause, the first token with an unknown key causes a request, and the next ones do not.
    provider.keys.lock().push(new.public().jwk());
    phase.wait_for(|phase| *phase == Phase::Idle).await.unwrap();
    assert_eq!(name(&issuer, &token(&new, &provider.url)).await, Ok(Some("ann".to_owned())));
    for _ in 0..10 {
        assert_eq!(name(&issuer, &token(&foreign, &provider.url)).await, failed);
    }
    assert_eq!(*provider.reads.borrow(), 2);
}

/// A session of the web page checks the claims of its token again. It ends when the issuer withdraws the key.
#[tokio::test]
async fn verified_claims_need_a_current_key() {
    let provider = provider().await;
    let (old, new) = (key(), key());
    provider.keys.lock().push(old.public().jwk());
    let issuer = issuer(&provider, &provider.ca);
    let follow = issuer.clone();
    tokio::spawn(async move { follow.follow().await });
    let mut phase = issuer.phase.subscribe();
    phase.wait_for(|phase| *phase == Phase::Pausing).await.unwrap();
    let (user, claims) = issuer.user_of(&token(&old, &provider.url)).await.unwrap().unwrap();
    assert_eq!(issuer.user_again(&claims).await.as_ref(), Ok(&user));
    assert_eq!(issuer.user_now(&claims).as_ref(), Ok(&user));

    *provider.keys.lock() = vec![new.public().jwk()];
    issuer.keys.store(Some(Arc::new(issuer.read().await.unwrap())));
    let unknown = OidcError::UnknownKey.to_string();
    assert_eq!(issuer.user_now(&claims), Err(unknown.clone()));
    assert_eq!(issuer.user_again(&claims).await, Err(unknown));
}

#[tokio::test]
async fn issuer_must_have_a_certificate_of_its_authority() {
    let provider = provider().await;
    let key = key();
    provider.keys.lock().push(key.public().jwk());
    let now = Timestamp::now();
    let other = Authority::read(&Authority::create(now).unwrap()).unwrap();
    let issuer = issuer(&provider, other.certificate());
    let error = issuer.read().await.unwrap_err();
    // Authorities of the same second have the same name, so that the signature decides.
    assert!(error.contains("tls: "), "{error}");
    assert_eq!(*provider.reads.borrow(), 0);
}
