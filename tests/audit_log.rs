//! The audit log of a real server: its file, its metrics, a policy, and a webhook.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Method};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const TOKENS: &str = "admin,root,u0,system:masters\nann,ann,u1\n";
/// A value that occurs nowhere else.
const MARKER: &str = "bWFya2VyLW9mLWEtc2VjcmV0";

/// A client that presents a token.
fn with_token(plane: &Plane, token: &str) -> Http {
    let mut config = kube::Config::new(plane.url().parse().unwrap());
    config.auth_info.token = Some(token.to_owned().into());
    Http::with(config)
}

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may be incomplete.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for an event.
async fn event(path: &Path, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    wait::until(what, async || {
        let events = events(path);
        events.iter().find(|event| fits(event)).cloned().ok_or_else(|| format!("{events:#?}"))
    })
    .await
}

#[tokio::test]
async fn default_log_names_users_and_no_secrets() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), TOKENS).unwrap();
    let file = tokens.path().display().to_string();
    let flags = ["--token-auth-file", &file, "--authorization-mode=Node,RBAC", "--virtual-nodes=1"];
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let [admin, ann] = ["admin", "ann"].map(|token| with_token(&plane, token));
    let created = admin.create(SECRETS, &json!({"metadata": {"name": "a"}, "data": {"k": MARKER}})).await;
    admin.patch(&format!("{SECRETS}/a"), &json!({"type": MARKER})).await.expect(422);
    assert_eq!(ann.get(SECRETS).await.code, 403);
    let headers = [("authorization", "Bearer guess"), ("audit-id", "my-id")];
    let refused = plane.http().send(Method::GET, SECRETS, &headers, Vec::new()).await;
    assert_eq!((refused.code, refused.header("audit-id")), (401, "my-id"));
    admin.get("/livez").await;
    let log = plane.data_dir().join("audit.log");
    let write =
        event(&log, "the write", |event| event["verb"] == "create" && event["objectRef"]["name"] == "a")
            .await;
    assert_eq!((&write["user"]["username"], &write["level"]), (&json!("root"), &json!("Metadata")));
    assert_eq!(write["sourceIPs"], json!(["127.0.0.1"]));
    assert_eq!(write["annotations"]["orlop.dev/revision"], created["metadata"]["resourceVersion"]);
    let forbidden = event(&log, "the rejection", |event| event["responseStatus"]["code"] == 403).await;
    assert_eq!(forbidden["user"]["username"], "ann");
    assert_eq!(forbidden["annotations"]["authorization.k8s.io/decision"], "forbid");
    let unknown =
        event(&log, "the failed authentication", |event| event["responseStatus"]["code"] == 401).await;
    assert_eq!((&unknown["auditID"], &unknown["user"]), (&json!("my-id"), &json!({})));
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let metrics = admin.get("/metrics").await.text();
    for series in [
        "apiserver_audit_level_total{level=\"Metadata\"}",
        "apiserver_audit_event_total ",
        "apiserver_audit_error_total{plugin=\"log\"} 0",
        "apiserver_audit_requests_rejected_total 0",
        "orlop_audit_dropped_events_total{plugin=\"log\"} 0",
    ] {
        assert!(metrics.contains(series), "{series}");
    }
    // A stop writes the queue.
    admin.create(CONFIG_MAPS, &json!({"metadata": {"name": "last"}})).await;
    plane.stop().await;
    let found = events(&log);
    assert!(found.iter().any(|event| event["objectRef"]["name"] == "last"), "{found:#?}");
    assert!(!found.iter().any(|event| event["requestURI"] == "/livez"), "a health check");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains(MARKER) && !text.contains("guess"), "a secret is in the log");
}

#[tokio::test]
async fn policy_and_legacy_format_apply() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(
        path("policy.yaml"),
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n  resources:\n  - resources: [configmaps]\n",
    )
    .unwrap();
    let flags = [
        "--audit-policy-file",
        &path("policy.yaml"),
        "--audit-log-path",
        &path("a.log"),
        "--audit-log-mode=blocking",
    ];
    let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    plane.http().create(CONFIG_MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await;
    plane.http().get(SECRETS).await.expect(200);
    let found = events(&dir.path().join("a.log"));
    let stages: Vec<&str> = found.iter().map(|event| event["stage"].as_str().unwrap()).collect();
    assert_eq!(
        stages,
        ["RequestReceived", "ResponseComplete"],
        "blocking: they are there when the response is"
    );
    assert_eq!(found[1]["requestObject"]["data"], json!({"k": "v"}));
    assert_eq!(found[1]["responseObject"]["kind"], "ConfigMap");
    drop(plane);

    let flags = ["--audit-log-path", &path("b.log"), "--audit-log-format=legacy"];
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    plane.http().get(CONFIG_MAPS).await.expect(200);
    plane.stop().await;
    let text = std::fs::read_to_string(path("b.log")).unwrap();
    assert!(text.contains(r#" AUDIT: id=""#) && text.contains(r#"user="system:admin""#), "{text}");
}

#[tokio::test]
async fn webhook_receives_events() {
    let received: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = received.clone();
    let receive = move |headers: HeaderMap, body: String| {
        assert_eq!(headers["authorization"], "Bearer hush");
        let list: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("audit.k8s.io/v1")));
        seen.lock().extend(list["items"].as_array().unwrap().iter().cloned());
        async {}
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/receive/here", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, Router::new().route("/receive/here", post(receive))).await });
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("webhook.yaml");
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": url}}],
        "users": [{"name": "a", "user": {"token": "hush"}}]});
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let file = kubeconfig.display().to_string();
    let flags = ["--audit-webhook-config-file", &file, "--audit-webhook-batch-max-wait=10ms"];
    let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    plane.http().create(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
    wait::until("the webhook has the event", async || {
        let events = received.lock().clone();
        let is_there =
            events.iter().any(|event| event["verb"] == "create" && event["objectRef"]["name"] == "a");
        if is_there { Ok(()) } else { Err(format!("{events:#?}")) }
    })
    .await;
    assert!(!plane.data_dir().join("audit.log").exists(), "with a webhook, the file needs a flag");
}

#[tokio::test]
async fn invalid_policy_prevents_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: All\n- {}\n")
        .unwrap();
    let args = [
        "apiserver".to_owned(),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--data-dir={}", dir.path().join("data").display()),
        format!("--audit-policy-file={}", policy.display()),
    ];
    let mut process = Process::start("policy", dir.path(), &args);
    assert_eq!(process.exit_code().await, 1);
    let log = process.log();
    assert!(
        log.contains("rules[0].level: Unsupported value") && log.contains("rules[1].level: Required"),
        "{log}"
    );
}
