//! The values of Secrets appear in no log line, at any level, and in no error that a failed write causes.

use axum::http::Method;
use serde_json::json;

use crate::harness::plane::{Layout, Plane};

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
