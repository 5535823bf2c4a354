//! TLS and authentication on a real socket: tokens, client certificates, and rejected requests.

use std::path::PathBuf;

use axum::http::Method;
use kube::config::AuthInfo;
use tempfile::TempDir;

use crate::harness::http::Http;
use crate::harness::process::Process;
use crate::harness::wait;

pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls_files").join(name)
}

/// A server that requires tokens or client certificates.
pub(crate) struct Secured {
    pub(crate) url: String,
    // Before the directory, so that the process ends first.
    process: Process,
    pub(crate) dir: TempDir,
}

impl Secured {
    pub(crate) async fn start() -> Secured {
        Self::with(&[]).await
    }

    /// The same with more flags.
    pub(crate) async fn with(more: &[&str]) -> Secured {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let tokens = "hush,bob,u2,\"readers\"\nroot,root,u0,\"system:masters\"\nann,ann,u1\n";
        std::fs::write(dir.path().join("tokens.csv"), tokens).unwrap();
        let given = |name: &str| file(name).display().to_string();
        let flags = [
            ("--listen", "127.0.0.1:0".to_owned()),
            ("--data-dir", path("data")),
            ("--address-file", path("address")),
            ("--tls-cert-file", given("server.crt")),
            ("--tls-private-key-file", given("server.key")),
            ("--client-ca-file", given("ca.crt")),
            ("--token-auth-file", path("tokens.csv")),
        ];
        let args = std::iter::once("apiserver".to_owned())
            .chain(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]))
            .chain(more.iter().map(|flag| (*flag).to_owned()));
        let mut process = Process::start("secured", dir.path(), &args.collect::<Vec<_>>());
        let url = wait::until("the server says where it listens", async || {
            assert!(process.ended().is_none(), "it ended:\n{}", process.log());
            std::fs::read_to_string(dir.path().join("address")).map_err(|_| process.log())
        })
        .await;
        Secured { url: url.trim().to_owned(), process, dir }
    }

    /// A client that trusts the server and presents these credentials.
    fn client(&self, auth_info: AuthInfo) -> Http {
        let mut config = kube::Config::new(self.url.parse().unwrap());
        config.root_cert_file = Some(file("ca.crt"));
        config.auth_info = auth_info;
        Http::with(config)
    }
}

#[tokio::test]
async fn tokens_and_certificates_name_the_user() {
    let mut server = Secured::start().await;
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let path = |name: &str| Some(file(name).display().to_string());
    let anonymous = || AuthInfo::default();
    let bob = || AuthInfo { token: Some("hush".to_owned().into()), ..anonymous() };
    let stranger = || AuthInfo { token: Some("guess".to_owned().into()), ..anonymous() };
    let ann =
        || AuthInfo { client_certificate: path("client.crt"), client_key: path("client.key"), ..anonymous() };
    let cases: [(&str, AuthInfo, &str, u16); 8] = [
        ("1 anonymous, public", anonymous(), "/readyz", 200),
        ("2 anonymous", anonymous(), "/api/v1/namespaces", 401),
        ("3 a token", bob(), "/api/v1/namespaces", 200),
        ("4 a wrong token", stranger(), "/api/v1/namespaces", 401),
        ("5 a wrong token, public", stranger(), "/readyz", 401),
        ("6 a certificate", ann(), "/api/v1/namespaces", 200),
        ("7 the page needs a name too", anonymous(), "/ui/", 401),
        ("8 the page with a name", bob(), "/ui/", 200),
    ];
    for (name, auth, path, code) in cases {
        let answer = server.client(auth).get(path).await;
        assert_eq!(answer.code, code, "{name}: {}", answer.text());
    }
    let foreign = [("origin", "https://evil.example")];
    let answer = server.client(ann()).send(Method::GET, "/api/v1/secrets", &foreign, Vec::new()).await;
    assert_eq!(answer.code, 403, "a foreign page borrows the certificate: {}", answer.text());
    assert!(!server.process.log().contains("hush"), "no token in a log");
    server.process.kill().await;
}

#[tokio::test]
async fn mismatched_key_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let show = |path: PathBuf| path.display().to_string();
    let args = [
        ["apiserver", "--listen", "127.0.0.1:0"].map(str::to_owned).to_vec(),
        vec!["--data-dir".to_owned(), show(dir.path().join("data"))],
        vec!["--tls-cert-file".to_owned(), show(file("server.crt"))],
        vec!["--tls-private-key-file".to_owned(), show(file("client.key"))],
    ];
    let mut process = Process::start("misfit", dir.path(), &args.concat());
    assert_eq!(process.exit_code().await, 1);
    assert!(process.log().contains("client.key"), "{}", process.log());
}
