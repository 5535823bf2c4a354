//! Damaged kubeconfigs: each error names the entry to change, and quotes no credential.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use serde_json::{Value, json};

use super::*;
use crate::client::{Endpoint, connect};

const CERTIFICATE: &str = include_str!("testdata/certificate.pem");
const KEY: &str = include_str!("testdata/key.pem");
const OTHER_KEY: &str = include_str!("testdata/other_key.pem");
const ENCRYPTED_KEY: &str = include_str!("testdata/encrypted_key.pem");
const P521: (&str, &str) = (include_str!("testdata/p521.pem"), include_str!("testdata/p521_key.pem"));
/// A part of every credential in these tests.
const MARKER: &str = "hunter2";

fn base64(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}

/// A kubeconfig with this cluster and this user.
fn config(cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    })
}

fn of_user(user: Value) -> String {
    config(&json!({"server": "http://127.0.0.1:1"}), &user).to_string()
}

fn of_cluster(cluster: Value) -> String {
    config(&cluster, &json!({})).to_string()
}

/// A valid kubeconfig with changes at these JSON pointers.
fn changed(changes: &[(&str, Value)]) -> String {
    let mut config = config(&json!({"server": "http://127.0.0.1:1"}), &json!({}));
    for (pointer, value) in changes {
        *config.pointer_mut(pointer).unwrap() = value.clone();
    }
    config.to_string()
}

/// The error of a client; empty if there is none.
async fn problem(path: &Path) -> String {
    let endpoint = Endpoint::Kubeconfig { path: Some(path.to_owned()), context: None, server: None };
    connect(endpoint).await.err().map(|error| error.to_string()).unwrap_or_default()
}

async fn problem_of(text: impl AsRef<[u8]>) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    problem(file.path()).await
}

async fn check(cases: impl IntoIterator<Item = (&'static str, String, &'static str)>) {
    for (case, text, want) in cases {
        let problem = problem_of(&text).await;
        assert!(problem.contains(want) && (problem.is_empty() == want.is_empty()), "{case}: {problem:?}");
        assert!(!problem.contains(MARKER), "{case}: {problem}");
    }
}

#[tokio::test]
async fn names_must_refer_to_entries() {
    let list = |entries: Value| vec![("/contexts", entries)];
    let twice = |pointer: &'static str, entry: Value| vec![(pointer, json!([entry.clone(), entry]))];
    let context = json!({"name": "c", "context": {"cluster": "k", "user": "u"}});
    let cluster = json!({"name": "k", "cluster": {"server": "http://127.0.0.1:1"}});
    check([
        ("1 valid", changed(&[]), ""),
        ("2 empty", String::new(), "it contains no contexts"),
        (
            "3 no current context",
            changed(&[("/current-context", json!(""))]),
            "it has no current context: run kubectl config use-context NAME; its contexts are: \"c\"",
        ),
        (
            "4 another context",
            changed(&[("/current-context", json!("d"))]),
            "it does not contain the context \"d\"; its contexts are: \"c\"",
        ),
        ("5 an empty context", changed(&list(json!([{"name": "c"}]))), "its context \"c\" has no cluster"),
        (
            "6 a context without a cluster",
            changed(&list(json!([{"name": "c", "context": {"cluster": "", "user": "u"}}]))),
            "its context \"c\" has no cluster",
        ),
        (
            "7 another cluster",
            changed(&list(json!([{"name": "c", "context": {"cluster": "c", "user": "u"}}]))),
            "refers to the cluster \"c\", which it does not contain",
        ),
        (
            "8 another user",
            changed(&list(json!([{"name": "c", "context": {"cluster": "k", "user": "c"}}]))),
            "refers to the user \"c\", which it does not contain",
        ),
        ("9 no user", changed(&list(json!([{"name": "c", "context": {"cluster": "k", "user": ""}}]))), ""),
        (
            "10 two contexts",
            changed(&twice("/contexts", context)),
            "two of its contexts have the name \"c\": remove one of them",
        ),
        ("11 two clusters", changed(&twice("/clusters", cluster)), "two of its clusters have the name \"k\""),
        (
            "12 two users",
            changed(&twice("/users", json!({"name": "u", "user": {"token": MARKER}}))),
            "two of its users have the name \"u\"",
        ),
        (
            "13 an empty cluster",
            changed(&[("/clusters/0", json!({"name": "k"}))]),
            "its cluster \"k\" has no server",
        ),
        ("14 no server", of_cluster(json!({"server": ""})), "its cluster \"k\" has no server"),
        ("15 no URL", of_cluster(json!({"server": "https://a b"})), "is not a URL such as https://host:6443"),
        ("16 a path", of_cluster(json!({"server": "/x"})), "scheme or host is missing"),
        ("17 a long name", changed(&[("/current-context", json!("x".repeat(100_000)))]), "xxx\"..."),
    ])
    .await;
}

#[tokio::test]
async fn values_must_have_their_types() {
    let wrong = "is not valid YAML, or a field has the wrong type";
    check([
        ("1 a list", "[]".to_owned(), wrong),
        ("2 a text", MARKER.to_owned(), wrong),
        ("3 contexts as an object", changed(&[("/contexts", json!({"c": {}}))]), wrong),
        ("4 a number as a token", of_user(json!({"token": ["hunter2"]})), wrong),
        ("5 a tab", format!("users:\n\t- name: {MARKER}\n"), wrong),
        ("6 not closed", format!("{{\"users\": [{{\"name\": \"{MARKER}"), wrong),
        (
            "7 a text as a flag",
            of_cluster(json!({"server": "https://a", "insecure-skip-tls-verify": "maybe"})),
            wrong,
        ),
        ("8 an alias without an anchor", "users: *x\n".to_owned(), wrong),
    ])
    .await;
    assert!(problem_of(b"\xff\xfea").await.contains("its text in UTF-16 is incomplete"));
    assert!(problem_of(b"a: \xff").await.contains("it cannot be read: Invalid UTF-8"));
    assert!(problem(Path::new("/nowhere/k")).await.contains("it cannot be read: No such file"));
    let dir = tempfile::tempdir().unwrap();
    assert!(problem(dir.path()).await.contains("it cannot be read: Is a directory"));
    let large = tempfile::NamedTempFile::new().unwrap();
    large.as_file().set_len(MAX_FILE + 1).unwrap();
    assert!(problem(large.path()).await.contains("it is larger than 16 MiB"));
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    assert!(problem(&pipe).await.contains("it cannot be read: it is a named pipe"));
    assert!(problem(Path::new("/dev/zero")).await.contains("it cannot be read: it is a character device"));
    let cycle = dir.path().join("cycle");
    std::os::unix::fs::symlink(&cycle, &cycle).unwrap();
    assert!(problem(&cycle).await.contains("it cannot be read: Too many levels of symbolic links"));
}

#[test]
fn pipe_of_a_shell_is_read() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    writer.write_all(changed(&[]).as_bytes()).unwrap();
    drop(writer);
    assert_eq!(read(Some(Path::new(&path))).unwrap().current_context.as_deref(), Some("c"));
}

#[tokio::test]
async fn certificates_and_keys_must_fit() {
    let pair = |certificate: &str, key: &str| {
        of_user(json!({"client-certificate-data": base64(certificate), "client-key-data": base64(key)}))
    };
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    let damaged = CERTIFICATE.replacen("MII", "AAA", 1);
    let no_key =
        "contains no private key without a password (a block that begins with -----BEGIN PRIVATE KEY-----)";
    check([
        ("1 valid", pair(CERTIFICATE, KEY), ""),
        ("2 the key of another certificate", pair(CERTIFICATE, OTHER_KEY), "the client key of its user \"u\" is not the key of the client certificate"),
        ("3 no key", of_user(json!({"client-certificate-data": base64(CERTIFICATE)})), "has a client certificate without a key: set client-key or client-key-data"),
        ("4 an empty key", of_user(json!({"client-certificate-data": base64(CERTIFICATE), "client-key-data": ""})), "has a client certificate without a key"),
        ("5 no certificate", of_user(json!({"client-key-data": base64(KEY)})), "has a client key without a certificate"),
        ("6 a key as certificate", pair(KEY, KEY), "the client-certificate of its user \"u\" contains no certificate"),
        ("7 a certificate as key", pair(CERTIFICATE, CERTIFICATE), no_key),
        ("8 a key with a password", pair(CERTIFICATE, ENCRYPTED_KEY), no_key),
        ("9 a cut certificate", pair(&cut(CERTIFICATE), KEY), "the client-certificate of its user \"u\" is damaged"),
        ("10 a cut key", pair(CERTIFICATE, &cut(KEY)), no_key),
        ("11 a damaged certificate", pair(&damaged, KEY), "the client certificate of its user \"u\" is damaged, or has version 1 of X.509: request a new one"),
        ("12 an unsupported key", pair(P521.0, P521.1), "is damaged or not supported: use RSA with 2048 to 8192 bits"),
        ("13 no Base64", of_user(json!({"client-certificate-data": MARKER.to_owned() + "!", "client-key-data": base64(KEY)})), "the client-certificate-data of its user \"u\" is not valid Base64"),
        ("14 no Base64 key", of_user(json!({"client-certificate-data": base64(CERTIFICATE), "client-key-data": MARKER.to_owned() + "!"})), "the client-key-data of its user \"u\" is not valid Base64"),
        ("15 data and a file", of_user(json!({"client-certificate-data": base64(CERTIFICATE), "client-certificate": "/x", "client-key-data": base64(KEY)})), "has both client-certificate and client-certificate-data: remove one of them"),
        ("16 a missing file", of_user(json!({"client-certificate": "/nowhere/c", "client-key": "/nowhere/k"})), "the client-certificate of its user \"u\", /nowhere/c, cannot be read: No such file"),
        ("17 an authority in data and a file", of_cluster(json!({"server": "https://a", "certificate-authority": "/x", "certificate-authority-data": base64(CERTIFICATE)})), "its cluster \"k\" has both certificate-authority and certificate-authority-data"),
        ("18 a missing authority", of_cluster(json!({"server": "https://a", "certificate-authority": "/nowhere/c"})), "the certificate-authority of its cluster \"k\", /nowhere/c, cannot be read"),
        ("19 no authority", of_cluster(json!({"server": "https://a", "certificate-authority-data": base64("x")})), "the certificate-authority of its cluster \"k\" contains no certificate"),
        ("20 a cut authority", of_cluster(json!({"server": "https://a", "certificate-authority-data": base64(&cut(CERTIFICATE))})), "the certificate-authority of its cluster \"k\" is damaged"),
        ("21 an authority that is no Base64", of_cluster(json!({"server": "https://a", "certificate-authority-data": "!"})), "the certificate-authority-data of its cluster \"k\" is not valid Base64"),
    ])
    .await;
}

#[tokio::test]
async fn other_credentials_must_be_usable() {
    let exec = |exec: Value| of_user(json!({ "exec": exec }));
    check([
        (
            "1 a missing token file",
            of_user(json!({"tokenFile": "/nowhere/t"})),
            "the token file /nowhere/t cannot be read: No such file",
        ),
        (
            "2 no command",
            exec(json!({"apiVersion": "client.authentication.k8s.io/v1"})),
            "its user \"u\" has an exec plugin without a command: set exec.command",
        ),
        (
            "3 a missing command",
            exec(json!({"command": "/nowhere/plugin", "interactiveMode": "Never"})),
            "the exec plugin cannot be started: No such file",
        ),
        (
            "4 a provider",
            of_user(json!({"auth-provider": {"name": "azure"}})),
            "has an auth provider that is not supported: use an exec plugin",
        ),
        (
            "5 a token with a line break",
            of_user(json!({"token": "hunter2\nx"})),
            "no HTTP header may contain",
        ),
    ])
    .await;
    let empty = tempfile::NamedTempFile::new().unwrap();
    let text = of_user(json!({"tokenFile": empty.path()}));
    assert!(problem_of(text).await.contains("is empty: write a token into it"));
}

#[test]
fn readable_credentials_are_noticed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let secret = json!({"token": MARKER});
    for (case, user, mode, want) in [
        ("1 for its owner", secret.clone(), 0o600, false),
        ("2 for a group", secret.clone(), 0o640, false),
        ("3 for everyone", secret, 0o644, true),
        ("4 no credentials", json!({"tokenFile": "/x"}), 0o644, false),
    ] {
        std::fs::write(file.path(), of_user(user)).unwrap();
        std::fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        let config = read(Some(file.path())).unwrap();
        assert_eq!(is_exposed(file.path(), &config), want, "{case}");
    }
}
