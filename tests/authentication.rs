//! Credentials on a real socket: certificates that expire or lose their authority, front proxies, bootstrap tokens, OpenID Connect and a
//! webhook.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::{get, post};
use axum_server::tls_rustls::RustlsConfig;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use kube::config::AuthInfo;
use orlop_auth::service_account::key::{SigningKey, generate};
use orlop_pki::authority::{Authority, SignedKey};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::http::Http;
use crate::harness::process::Process;
use crate::harness::wait;
use crate::tls::file;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A server with TLS, a token of an administrator (`root`), and more flags.
struct Server {
    url: String,
    // Dropped before the directory, so that the process ends first.
    process: Process,
    dir: TempDir,
}

impl Server {
    /// `files` are written to the directory of the server; `{dir}` in a flag is its path.
    async fn start(files: &[(&str, String)], flags: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display().to_string();
        std::fs::write(dir.path().join("tokens.csv"), "root,root,u0,\"system:masters\"\n").unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let own = ["--listen=127.0.0.1:0", "--data-dir={dir}/data", "--address-file={dir}/address"];
        let tokens = ["--token-auth-file={dir}/tokens.csv"];
        let mut args = vec!["apiserver".to_owned()];
        args.extend(own.iter().chain(&tokens).chain(flags).map(|flag| flag.replace("{dir}", &place)));
        for (flag, name) in [("--tls-cert-file", "server.crt"), ("--tls-private-key-file", "server.key")] {
            args.push(format!("{flag}={}", file(name).display()));
        }
        let mut process = Process::start("authentication", dir.path(), &args);
        let url = wait::until("the server is ready", async || {
            assert!(process.ended().is_none(), "it ended:\n{}", process.log());
            std::fs::read_to_string(dir.path().join("address")).map_err(|_| process.log())
        })
        .await;
        Server { url: url.trim().to_owned(), process, dir }
    }

    fn client(&self, auth_info: AuthInfo) -> Http {
        let mut config = kube::Config::new(self.url.parse().unwrap());
        config.root_cert_file = Some(file("ca.crt"));
        config.auth_info = auth_info;
        Http::with(config)
    }

    fn with_token(&self, token: &str) -> Http {
        self.client(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() })
    }

    fn with_certificate(&self, pair: &SignedKey) -> Http {
        self.client(AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&pair.certificate)),
            client_key_data: Some(STANDARD.encode(&pair.key).into()),
            ..AuthInfo::default()
        })
    }
}

fn authority(now: Timestamp) -> Authority {
    Authority::read(&Authority::create(now).unwrap()).unwrap()
}

/// The user of a client according to the server, or the code of the refusal.
async fn user(client: &Http, headers: &[(&str, &str)]) -> String {
    let headers = [&[("content-type", "application/json")][..], headers].concat();
    let answer = client.send(Method::POST, SELF_REVIEW, &headers, b"{}".to_vec()).await;
    match answer.json()["status"]["userInfo"]["username"].as_str() {
        Some(name) => name.to_owned(),
        None => answer.code.to_string(),
    }
}

#[tokio::test]
async fn removed_authorities_and_expired_certificates_end_access() {
    let now = Timestamp::now();
    let users = authority(now);
    let files = [("clients.crt", users.certificate().to_owned())];
    let server = Server::start(&files, &["--client-ca-file={dir}/clients.crt"]).await;
    let ann = server.with_certificate(&users.client("ann", &[], now).unwrap());
    assert_eq!(user(&ann, &[]).await, "ann");
    let long_ago = now - SignedDuration::from_hours(2 * 365 * 24);
    let expired = server.with_certificate(&users.client("ann", &[], long_ago).unwrap());
    assert_eq!(user(&expired, &[]).await, "401", "expired");
    let stranger = server.with_certificate(&authority(now).client("ann", &[], now).unwrap());
    assert_eq!(user(&stranger, &[]).await, "401", "another authority");
    assert_eq!(stranger.get("/livez").await.code, 401, "wrong credentials on a public path");

    let mut watch = ann.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    std::fs::write(server.dir.path().join("clients.crt"), authority(now).certificate()).unwrap();
    // The watch has no timeout before this: it breaks because its connection is closed.
    while let Ok(Some(_)) = watch.try_next().await {}
    assert_eq!(user(&ann, &[]).await, "401", "its authority was removed");
    assert!(server.process.log().contains("its client certificate is no longer valid"));
}

#[tokio::test]
async fn front_proxies_and_bootstrap_tokens_identify_users() {
    let now = Timestamp::now();
    let (users, proxies) = (authority(now), authority(now));
    let files =
        [("clients.crt", users.certificate().to_owned()), ("proxies.crt", proxies.certificate().to_owned())];
    let flags = [
        "--client-ca-file={dir}/clients.crt",
        "--requestheader-client-ca-file={dir}/proxies.crt",
        "--requestheader-allowed-names=proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--enable-bootstrap-token-auth",
    ];
    let server = Server::start(&files, &flags).await;
    let headers = [("x-remote-user", "eve"), ("x-remote-group", "system:masters")];
    for (case, authority, name, want) in [
        ("1 a proxy", &proxies, "proxy", "eve"),
        ("2 another name", &proxies, "other", "401"),
        ("3 a user", &users, "proxy", "proxy"),
    ] {
        let client = server.with_certificate(&authority.client(name, &[], now).unwrap());
        assert_eq!(user(&client, &headers).await, want, "{case}");
    }
    let root = server.with_token("root");
    assert_eq!(user(&root, &headers).await, "root", "headers without a certificate");
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = root.get(map).await.expect(200)["data"].clone();
    assert_eq!(data["requestheader-client-ca-file"], proxies.certificate());
    assert_eq!(data["requestheader-allowed-names"], "[\"proxy\"]");

    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        },
    });
    let machine = server.with_token("abcdef.0123456789abcdef");
    assert_eq!(user(&machine, &[]).await, "401", "no Secret");
    root.create(secrets, &secret).await;
    assert_eq!(user(&machine, &[]).await, "system:bootstrap:abcdef");
    root.delete(&format!("{secrets}/bootstrap-token-abcdef")).await.expect(200);
    assert_eq!(user(&machine, &[]).await, "401", "deleted");
    assert!(!server.process.log().contains("0123456789abcdef"), "no token in a log");
}

/// Runs an issuer with TLS; returns its URL.
async fn run_issuer(authority: &Authority, keys: Value) -> String {
    let pair = authority.server(&["127.0.0.1".to_owned()], Timestamp::now()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let configuration = json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string();
    let keys = json!({ "keys": [keys] }).to_string();
    let router = Router::new()
        .route("/.well-known/openid-configuration", get(move || std::future::ready(configuration)))
        .route("/keys", get(move || std::future::ready(keys)));
    let server = axum_server::from_tcp_rustls(listener, RustlsConfig::from_config(Arc::new(config))).unwrap();
    tokio::spawn(server.serve(router.into_make_service()));
    url
}

/// Runs a webhook that accepts one token; returns its kubeconfig.
async fn run_webhook() -> String {
    let review = |review: String| async move {
        let review: Value = serde_json::from_str(&review).unwrap();
        let is_known = review["spec"]["token"] == "known";
        let status = json!({"authenticated": is_known, "user": {"username": "hook"}});
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}).to_string()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/review", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/review", post(review))).await });
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": url}}],
        "users": [{"name": "a", "user": {}}]});
    kubeconfig.to_string()
}

#[tokio::test]
async fn issuer_and_webhook_identify_users() {
    let trusted = authority(Timestamp::now());
    let key = SigningKey::from_pkcs8(&generate().unwrap()).unwrap();
    let issuer = run_issuer(&trusted, key.public().jwk()).await;
    let files = [("issuer.crt", trusted.certificate().to_owned()), ("webhook.yaml", run_webhook().await)];
    let url = format!("--oidc-issuer-url={issuer}");
    let flags = [
        url.as_str(),
        "--oidc-client-id=orlop",
        "--oidc-ca-file={dir}/issuer.crt",
        "--oidc-signing-algs=ES256",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-claim=groups",
        "--authentication-token-webhook-config-file={dir}/webhook.yaml",
        "--authentication-token-webhook-version=v1",
    ];
    let server = Server::start(&files, &flags).await;
    let token = |audience: &str| {
        let header = json!({"alg": "ES256", "kid": key.public().id()});
        let end = Timestamp::now().as_second() + 3600;
        let claims = json!({"iss": issuer, "aud": audience, "sub": "ann", "exp": end, "groups": ["g"]});
        let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).unwrap()))
    };
    let ann = server.with_token(&token("orlop"));
    wait::until("the server has the keys of the issuer", async || {
        let found = user(&ann, &[]).await;
        if found == "oidc:ann" { Ok(()) } else { Err(found) }
    })
    .await;
    assert_eq!(user(&server.with_token(&token("other")), &[]).await, "401", "another audience");
    assert_eq!(user(&server.with_token("known"), &[]).await, "hook");
    assert_eq!(user(&server.with_token("unknown"), &[]).await, "401");
    let root = server.with_token("root");
    for (token, want) in
        [(token("orlop"), "oidc:ann"), ("known".to_owned(), "hook"), ("root".to_owned(), "root")]
    {
        let answer = root.create(REVIEWS, &json!({"spec": {"token": token}})).await;
        assert_eq!(answer["status"]["user"]["username"], want);
    }
}

#[tokio::test]
async fn unusable_files_prevent_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = dir.path().join("damaged");
    std::fs::write(&damaged, "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n").unwrap();
    for flag in [
        "--token-auth-file",
        "--service-account-key-file",
        "--service-account-signing-key-file",
        "--authentication-token-webhook-config-file",
    ] {
        let log = log_of_failed_start(dir.path(), &format!("{flag}={}", damaged.display())).await;
        assert!(log.contains(flag) && log.contains("damaged"), "{flag}: {log}");
        assert!(!log.contains("hush"), "{flag}: {log}");
    }
}

async fn log_of_failed_start(dir: &Path, flag: &str) -> String {
    let args = ["apiserver", "--listen=127.0.0.1:0", flag].map(str::to_owned);
    let args = [args.to_vec(), vec![format!("--data-dir={}", dir.join("data").display())]].concat();
    let mut process = Process::start("unusable", dir, &args);
    assert_eq!(process.exit_code().await, 1, "{flag}");
    process.log()
}
