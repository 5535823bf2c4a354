//! The values of Secrets and the keys of the server appear in no log line, at any level, and in no error. With encryption, no file contains
//! a value.

use std::path::Path;

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};
use crate::harness::wait;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = "/api/v1/namespaces/default/secrets/a";
/// A value that occurs nowhere else.
const MARKER: &str = "bWFya2VyLW9mLWEtc2VjcmV0";
const NUMBER: u64 = 7_316_549_028_317;

#[tokio::test]
async fn values_of_secrets_are_in_no_log_and_no_error() {
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&["--log-level", "trace"]).start().await;
    let http = plane.http();
    let secret = json!({"metadata": {"name": "a"}, "data": {"k": MARKER}});
    http.create(SECRETS, &secret).await;
    let json_body = "application/json";
    let (merge, strategic) = ("application/merge-patch+json", "application/strategic-merge-patch+json");
    let (json_patch, apply) = ("application/json-patch+json", "application/apply-patch+yaml");
    let applied = format!("{SECRET}?fieldManager=m");
    let wrong = [
        (Method::POST, SECRETS, json_body, json!({"metadata": {"name": "b"}, "data": {"k": [MARKER]}})),
        (Method::POST, SECRETS, json_body, json!({"metadata": {"name": "b"}, "data": {"k": NUMBER}})),
        (Method::POST, SECRETS, json_body, json!({"metadata": {"name": "a"}, "stringData": {"k": MARKER}})),
        (
            Method::PUT,
            SECRET,
            json_body,
            json!({"metadata": {"name": "a"}, "type": MARKER, "data": {"k": NUMBER}}),
        ),
        (Method::PATCH, SECRET, merge, json!({"data": {"k": NUMBER}})),
        (Method::PATCH, SECRET, merge, json!({"data": [MARKER]})),
        (Method::PATCH, SECRET, strategic, json!({"data": {"k": NUMBER}})),
        (Method::PATCH, SECRET, strategic, json!({"stringData": {"k": {"x": MARKER}}})),
        (Method::PATCH, SECRET, json_patch, json!([{"op": "replace", "path": "/data/k", "value": NUMBER}])),
        (Method::PATCH, SECRET, json_patch, json!([{"op": "add", "path": "/data", "value": [MARKER]}])),
        (
            Method::PATCH,
            applied.as_str(),
            apply,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": NUMBER}}),
        ),
        (
            Method::PATCH,
            applied.as_str(),
            apply,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": [MARKER]}}),
        ),
        (
            Method::PATCH,
            applied.as_str(),
            apply,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "b3RoZXI="}, "nope": MARKER}),
        ),
    ];
    for (method, path, media, body) in wrong {
        let sent = body.to_string();
        let answer =
            http.send(method.clone(), path, &[("content-type", media)], sent.clone().into_bytes()).await;
        assert!(answer.code >= 400, "{method} {media} {sent}: {}", answer.code);
        for value in [MARKER.to_owned(), NUMBER.to_string()] {
            assert!(!answer.text().contains(&value), "{method} {media} {sent}: {}", answer.text());
        }
    }
    // Values that are written and read, and a path that tries to begin a line of the log.
    http.patch(SECRET, &json!({"data": {"k2": MARKER}})).await;
    http.get(SECRETS).await;
    http.get("/api/v1/namespaces/default/secrets/x%0A2026-01-01T00:00:00Z%20ERROR%20forged").await;
    http.delete(SECRET).await;
    let log = plane.server().log();
    assert!(!log.contains(MARKER) && !log.contains(&NUMBER.to_string()), "a value is in the log");
    assert!(
        !log.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z ERROR forged")),
        "a line is forged"
    );
}

/// Text of clients cannot end a line of the log and begin a forged one.
#[tokio::test]
async fn clients_forge_no_log_lines() {
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&["--log-level", "trace"]).start().await;
    let http = plane.http();
    let forged = "x\n2026-01-01T00:00:00.000000Z  INFO orlop::wiring: forged-line\u{1b}[2J\r";
    let escaped = "x%0A2026-01-01T00:00:00.000000Z%20%20INFO%20forged-line%1B%5B2J%0D";
    let version = json!({"metadata": {"name": "a", "resourceVersion": forged}});
    http.create(SECRETS, &json!({"metadata": {"name": "a"}})).await;
    http.put(SECRET, &version).await;
    http.post(SECRETS, &json!({"metadata": {"name": forged}})).await;
    http.post(SECRETS, &json!({"metadata": {"name": "b"}, "type": forged, "data": {"k": forged}})).await;
    for path in [
        format!("/api/v1/namespaces/default/secrets/{escaped}"),
        format!("/api/v1/namespaces/{escaped}/secrets"),
        format!("{SECRETS}?resourceVersion={escaped}"),
        format!("{SECRETS}?watch=1&resourceVersion={escaped}"),
        format!("{SECRETS}?labelSelector={escaped}"),
        format!("/{escaped}"),
        format!("/apis/orlop.dev/v1/namespaces/default/secrets/{escaped}/why"),
    ] {
        http.get(&path).await;
    }
    let log = plane.server().log();
    for line in log.lines().filter(|line| line.contains("forged-line")) {
        let starts_forged = line.starts_with("2026-01-01T00:00:00");
        assert!(!starts_forged && !line.contains('\u{1b}'), "{line:?}");
    }
    assert!(log.contains("request failed"), "failures are logged");
}

/// Runs `orlop`; returns its output and whether it succeeded.
fn orlop(args: &[&str]) -> (String, bool) {
    let home = tempfile::tempdir().unwrap();
    let output = command(&*ORLOP, home.path()).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

/// The files below a directory that contain a text.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

const KEY_1: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const KEY_2: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn configure(path: &Path, keys: &[(&str, &str)]) {
    let keys: Vec<Value> =
        keys.iter().map(|(name, secret)| json!({"name": name, "secret": secret})).collect();
    let providers = json!([{"secretbox": {"keys": keys}}, {"identity": {}}]);
    let text = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}],
    });
    std::fs::write(path, text.to_string()).unwrap();
}

/// Encrypted Secrets are in no file in the clear, outlive the rotation of their key, and are reported without it. No log contains a value or a key.
#[tokio::test]
async fn encrypted_secrets_are_in_no_file_and_keys_in_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("encryption.yaml");
    let shown = config.display().to_string();
    configure(&config, &[("one", KEY_1)]);
    let flags = ["--log-level", "trace", "--encryption-provider-config", shown.as_str()];
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    let maps = "/api/v1/namespaces/default/configmaps";
    http.create(SECRETS, &json!({"metadata": {"name": "a"}, "data": {"k": MARKER}})).await;
    http.create(maps, &json!({"metadata": {"name": "a"}, "data": {"k": "marker-of-a-map"}})).await;
    let snapshot = folder.path().join("it.snapshot").display().to_string();
    let (output, saved) = orlop(&["snapshot", "save", &snapshot, "--server", &plane.url()]);
    assert!(saved, "{output}");
    let mut logs = vec![plane.log()];
    plane.stop().await;
    assert!(!files_with(&plane.data_dir(), "marker-of-a-map").is_empty(), "the search finds values");
    assert_eq!(files_with(&plane.data_dir(), MARKER), Vec::<String>::new());
    let restored = folder.path().join("restored");
    let (output, done) =
        orlop(&["snapshot", "restore", &snapshot, "--data-dir", &restored.display().to_string()]);
    assert!(done && output.contains("snapshots contain no signing keys"), "{output}");
    assert_eq!(files_with(&restored, MARKER), Vec::<String>::new());
    assert!(!restored.join("pki").exists());

    // The key is rotated: an update without a change rewrites the Secret.
    configure(&config, &[("two", KEY_2), ("one", KEY_1)]);
    plane.start_again().await;
    let http = plane.http();
    let secret = http.get(SECRET).await.expect(200);
    assert_eq!(secret["data"]["k"], MARKER);
    let rewritten = http.put(SECRET, &secret).await.expect(200);
    assert_ne!(rewritten["metadata"]["resourceVersion"], secret["metadata"]["resourceVersion"]);
    let again = http.put(SECRET, &rewritten).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], rewritten["metadata"]["resourceVersion"]);
    logs.push(plane.log());
    plane.stop().await;
    assert_eq!(files_with(&plane.data_dir(), MARKER), Vec::<String>::new());

    // Without the key, the server serves everything else.
    configure(&config, &[("one", KEY_1)]);
    plane.start_again().await;
    let http = plane.http();
    let refusal = http.get(SECRET).await.expect(500);
    let why = "Internal error occurred: unable to transform key \"/registry/secrets/default/a\": no matching key was found for \
               the provided Secretbox transformer";
    assert_eq!(refusal["message"], why);
    http.get(maps).await.expect(200);
    logs.push(plane.log());
    plane.stop().await;
    for (nth, log) in logs.iter().enumerate() {
        for text in [MARKER, KEY_1, KEY_2] {
            assert!(!log.contains(text), "log {nth} contains a value or a key");
        }
    }

    // A file that is not valid is refused, without its content.
    std::fs::write(&config, format!("resources: [{KEY_1}")).unwrap();
    let data_dir = folder.path().join("new").display().to_string();
    let (output, started) = orlop(&[
        "apiserver",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        &data_dir,
        "--encryption-provider-config",
        &shown,
    ]);
    assert!(!started && output.contains("encryption provider configuration"), "{output}");
    assert!(!output.contains(KEY_1), "{output}");
}

/// Every authenticated client may read it.
const DISCOVERY: &str = "/apis";

/// The tokens of a replaced key are rejected by the running server, and the key is in no log.
#[tokio::test]
async fn rotation_invalidates_tokens_of_the_previous_service_account_key() {
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&["--log-level", "trace"]).start().await;
    let http = plane.http();
    http.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "robot"}})).await;
    let issue = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let token = http.create(issue, &json!({})).await["status"]["token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let ask = async || http.send(Method::GET, DISCOVERY, &headers, Vec::new()).await.code;
    assert_eq!(ask().await, 200);
    let file = plane.data_dir().join("pki/service-account.keys");
    let old = std::fs::read_to_string(&file).unwrap();
    let (output, rotated) = orlop(&["keys", "rotate", "--data-dir", &plane.data_dir().display().to_string()]);
    assert!(rotated && output.contains("tokens of the previous key are invalid"), "{output}");
    wait::until("the old token is rejected", async || match ask().await {
        401 => Ok(()),
        code => Err(code.to_string()),
    })
    .await;
    let again = http.create(issue, &json!({})).await["status"]["token"].as_str().unwrap().to_owned();
    assert_ne!(again, token);
    // The old token stays invalid after a restart, which reads the new key.
    plane.stop().await;
    plane.start_again().await;
    let http = plane.http();
    assert_eq!(http.send(Method::GET, DISCOVERY, &headers, Vec::new()).await.code, 401);
    let bearer = format!("Bearer {again}");
    assert_eq!(
        http.send(Method::GET, DISCOVERY, &[("authorization", bearer.as_str())], Vec::new()).await.code,
        200
    );
    let log = plane.log();
    for text in [old, std::fs::read_to_string(&file).unwrap()] {
        let key =
            serde_json::from_str::<Value>(&text).unwrap()["signing"]["pkcs8"].as_str().unwrap().to_owned();
        assert!(!log.contains(&key) && !output.contains(&key));
        assert_eq!(files_with(&plane.data_dir().join("journal"), &key), Vec::<String>::new());
    }
    assert!(!log.contains(&token) && !log.contains(&again), "a token is in the log");
}

/// The value of a deleted Secret is in no file after a purge, and other objects stay.
#[tokio::test]
async fn purge_removes_a_deleted_secret_from_every_file() {
    let mut plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let maps = "/api/v1/namespaces/default/configmaps";
    http.create(SECRETS, &json!({"metadata": {"name": "a"}, "data": {"k": MARKER}})).await;
    http.create(maps, &json!({"metadata": {"name": "a"}, "data": {"k": "marker-of-a-map"}})).await;
    http.patch(SECRET, &json!({"data": {"k": "b3RoZXI="}})).await.expect(200);
    http.delete(SECRET).await.expect(200);
    plane.stop().await;
    let data_dir = plane.data_dir().display().to_string();
    assert!(!files_with(&plane.data_dir(), MARKER).is_empty());
    let (refusal, done) = orlop(&["store", "purge", "secrets/a", "--data-dir", &data_dir]);
    assert!(!done && refusal.contains("RESOURCE/NAMESPACE/NAME"), "{refusal}");
    let (output, done) = orlop(&["store", "purge", "secrets/default/a", "--data-dir", &data_dir]);
    assert!(done && output.contains("2 former versions of secrets/default/a"), "{output}");
    assert_eq!(files_with(&plane.data_dir(), MARKER), Vec::<String>::new());
    plane.start_again().await;
    let http = plane.http();
    assert_eq!(http.get(&format!("{maps}/a")).await.expect(200)["data"]["k"], "marker-of-a-map");
    assert_eq!(http.get(SECRET).await.code, 404);
    // The history remains, without the values.
    let history = http.get("/apis/orlop.dev/v1/namespaces/default/secrets/a/history").await.expect(200);
    assert!(history.to_string().contains("DELETED") && !history.to_string().contains(MARKER), "{history}");
}
