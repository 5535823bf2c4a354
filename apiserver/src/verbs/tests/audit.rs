//! The audit log of a server: the events of each kind of request.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use orlop_auth::UserInfo;
use orlop_auth::audit::Policy;
use orlop_auth::service_account::legacy::LegacyClaims;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::rig::Rig;
use crate::audit::config::{
    AuditConfig, BatchConfig, Delivery, DeliveryMode, LogConfig, LogFormat, LogTarget, Rotation,
};
use crate::authentication::PageSignIn;
use crate::authorization::AuthorizationMode;
use crate::server::Config;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A value that occurs nowhere else.
const MARKER: &str = "bWFya2VyLW9mLWEtc2VjcmV0";

struct AuditedRig {
    rig: Rig,
    path: PathBuf,
    _dir: TempDir,
}

impl AuditedRig {
    async fn new(policy: Policy, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let batch =
            BatchConfig { buffer_size: 1000, max_size: 100, max_wait: Duration::ZERO, throttle: None };
        let log = LogConfig {
            target: LogTarget::File(path.clone()),
            format: LogFormat::Json,
            rotation: Rotation { max_bytes: 0, max_backups: 0, max_age: Duration::ZERO, compress: false },
            delivery: Delivery { mode: DeliveryMode::Batch, batch },
        };
        let audit = AuditConfig { policy, log: Some(log), webhook: None };
        let rig = Rig::with(|config| {
            config.audit = Some(audit);
            change(config);
        });
        AuditedRig { rig: rig.await, path, _dir: dir }
    }

    /// The log of a server that stops.
    async fn text(&self) -> String {
        self.rig.server.close_audit().await;
        std::fs::read_to_string(&self.path).unwrap()
    }

    async fn events(&self) -> Vec<Value> {
        self.text().await.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn policy(rules: Value) -> Policy {
    let document = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
    Policy::parse(document).unwrap()
}

#[tokio::test]
async fn default_policy_records_no_value_of_a_secret() {
    let audited = AuditedRig::new(Policy::default(), |_| {}).await;
    let rig = &audited.rig;
    let secret = json!({"metadata": {"name": "a"}, "data": {"k": MARKER}});
    rig.post(SECRETS, secret.clone()).await.expect(201);
    rig.post(SECRETS, secret).await.expect(409);
    rig.get(&format!("{SECRETS}/a")).await.expect(200);
    rig.get(SECRETS).await.expect(200);
    for (form, patch) in [
        ("merge", json!({"data": {"k2": MARKER}})),
        ("merge", json!({"type": MARKER})),
        ("strategic", json!({"stringData": {"k": {"x": MARKER}}})),
        ("json", json!([{"op": "add", "path": format!("/{MARKER}"), "value": [MARKER]}])),
    ] {
        rig.patch(&format!("{SECRETS}/a"), form, patch).await;
    }
    let wrong = json!({"metadata": {"name": "a"}, "type": MARKER, "immutable": MARKER});
    rig.put(&format!("{SECRETS}/a"), &wrong).await.expect(400);
    rig.post(SECRETS, json!({"metadata": {"name": "b"}, "data": {MARKER: [MARKER]}})).await.expect(400);
    let review = json!({"spec": {"token": MARKER}});
    rig.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.expect(201);
    rig.delete(&format!("{SECRETS}/a"), Value::Null).await.expect(200);
    let text = audited.text().await;
    assert!(!text.contains(MARKER), "a value is in the audit log");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verbs: Vec<&str> = events.iter().map(|event| event["verb"].as_str().unwrap()).collect();
    assert_eq!(
        verbs,
        [
            "create", "create", "get", "list", "patch", "patch", "patch", "patch", "update", "create",
            "create", "delete"
        ]
    );
    assert_eq!(events[0]["objectRef"]["name"], "a", "the name is in the body");
    assert_eq!(events[0]["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(
        (&events[1]["responseStatus"]["reason"], &events[1]["responseStatus"]["code"]),
        (&json!("AlreadyExists"), &json!(409))
    );
}

#[tokio::test]
async fn levels_select_the_bodies() {
    let rules = json!([
        {"level": "Request", "verbs": ["create"]},
        {"level": "RequestResponse", "verbs": ["get", "patch", "delete"], "omitManagedFields": true},
        {"level": "Metadata"},
    ]);
    let audited = AuditedRig::new(policy(rules), |_| {}).await;
    let rig = &audited.rig;
    let sent = json!({"metadata": {"generateName": "a-"}, "data": {"k": "v"}});
    let created = rig.post(CONFIG_MAPS, sent.clone()).await.expect(201).json();
    let name = created["metadata"]["name"].as_str().unwrap();
    let target = format!("{CONFIG_MAPS}/{name}");
    rig.get(&target).await.expect(200);
    rig.patch(&target, "merge", json!({"data": {"k": "w"}})).await.expect(200);
    rig.get_as(&target, "application/yaml").await.expect(200);
    rig.get_as(&target, "application/vnd.kubernetes.protobuf").await.expect(200);
    rig.delete(&target, json!({"gracePeriodSeconds": 0})).await.expect(200);
    rig.get(&target).await.expect(404);
    rig.get(CONFIG_MAPS).await.expect(200);
    let large =
        json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(1_040_000), "l": "y".repeat(20_000)}});
    rig.post(CONFIG_MAPS, large).await;
    let events = audited.events().await;
    assert_eq!(events.len(), 9);
    let objects = |event: &Value| (event.get("requestObject").cloned(), event.get("responseObject").cloned());
    assert_eq!(objects(&events[0]), (Some(sent), None));
    assert_eq!(events[0]["objectRef"]["name"], name, "generated");
    for (at, value) in [(1, "v"), (2, "w"), (3, "w"), (4, "w")] {
        let object = &events[at]["responseObject"];
        assert_eq!((&object["kind"], &object["data"]["k"]), (&json!("ConfigMap"), &json!(value)), "{at}");
        assert!(object["metadata"]["managedFields"].is_null(), "{at}");
    }
    assert_eq!(events[2]["requestObject"], json!({"data": {"k": "w"}}));
    let created = &created["metadata"]["resourceVersion"];
    assert_eq!(events[0]["annotations"]["orlop.dev/revision"], *created, "the history shows the same");
    assert!(events[1]["annotations"].get("orlop.dev/revision").is_none(), "a read");
    assert!(events[5]["annotations"]["orlop.dev/revision"].is_string(), "a delete");
    assert_eq!(events[5]["requestObject"], json!({"gracePeriodSeconds": 0}));
    assert_eq!(events[6]["responseObject"]["reason"], "NotFound");
    assert_eq!(events[6]["responseStatus"]["reason"], "NotFound");
    assert_eq!(objects(&events[7]), (None, None), "Metadata");
    assert_eq!(objects(&events[8]), (None, None), "too large");
    assert_eq!(events[8]["annotations"]["audit.k8s.io/truncated"], "true");
}

#[tokio::test]
async fn watch_has_a_start_and_an_end() {
    let audited =
        AuditedRig::new(policy(json!([{"level": "RequestResponse", "verbs": ["watch"]}])), |config| {
            config.limits.watches = 1;
        })
        .await;
    let watch = audited.rig.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    audited.rig.get(&format!("{CONFIG_MAPS}?watch=1")).await.expect(429);
    drop(watch);
    let events = audited.events().await;
    let found: Vec<(&str, u64)> = events
        .iter()
        .map(|event| (event["stage"].as_str().unwrap(), event["responseStatus"]["code"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("ResponseStarted", 200),
            ("ResponseStarted", 429),
            ("ResponseComplete", 429),
            ("ResponseComplete", 200)
        ]
    );
    assert_eq!(events[0]["auditID"], events[3]["auditID"]);
    assert!(events[3].get("responseObject").is_none(), "a watch has no object");
}

#[tokio::test]
async fn rejected_and_impersonated_requests_are_recorded() {
    let audited = AuditedRig::new(policy(json!([{"level": "Metadata"}])), |config| {
        config.authorization = vec![AuthorizationMode::Rbac];
    })
    .await;
    let headers = [("impersonate-user", "ann"), ("audit-id", "mine"), ("user-agent", "test/1")];
    let answer = audited.rig.send("GET", CONFIG_MAPS, &headers, Body::empty()).await.expect(403);
    assert_eq!(answer.headers["audit-id"], "mine");
    let events = audited.events().await;
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(
        (&event["user"]["username"], &event["impersonatedUser"]["username"], &event["auditID"]),
        (&json!("system:admin"), &json!("ann"), &json!("mine"))
    );
    assert_eq!(event["authenticationMetadata"], json!({"impersonationConstraint": "impersonate:user-info"}));
    assert_eq!(
        event["annotations"],
        json!({"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""})
    );
    assert_eq!((&event["responseStatus"]["code"], &event["userAgent"]), (&json!(403), &json!("test/1")));
}

#[tokio::test]
async fn use_of_an_invalidated_token_is_annotated() {
    let audited = AuditedRig::new(policy(json!([{"level": "Metadata"}])), |_| {}).await;
    let rig = &audited.rig;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = rig.post(accounts, json!({"metadata": {"name": "a"}})).await.expect(201).json();
    let claims = LegacyClaims::new("default", "t", "a", account["metadata"]["uid"].as_str().unwrap());
    let token = rig.server.sign_legacy_token(&claims).unwrap();
    let metadata = json!({"name": "t", "annotations": {"kubernetes.io/service-account.name": "a"},
        "labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}});
    let secret = json!({"type": "kubernetes.io/service-account-token", "metadata": metadata, "stringData": {"token": token}});
    rig.post(SECRETS, secret).await.expect(201);
    let request = http::Request::get(CONFIG_MAPS)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty());
    let router = rig.server.protect(rig.server.service());
    assert_eq!(router.oneshot(request.unwrap()).await.unwrap().status().as_u16(), 401);
    let events = audited.events().await;
    let refused = events.iter().find(|event| event["responseStatus"]["code"] == 401).unwrap();
    assert_eq!(refused["annotations"]["authentication.k8s.io/legacy-token-invalidated"], "t/default");
}

/// The code and the token are secrets, whatever level the policy has.
#[tokio::test]
async fn exchanges_of_page_codes_are_recorded_without_bodies() {
    let sign_in = Arc::new(PageSignIn::new(Arc::new(Timestamp::now)));
    let code = sign_in.issue(UserInfo::new("ann", [])).unwrap().code;
    let audited = AuditedRig::new(policy(json!([{"level": "RequestResponse"}])), |config| {
        config.auth.page_sign_in = Some(sign_in);
    })
    .await;
    let router = audited.rig.server.protect(audited.rig.server.service());
    let right = json!({ "code": code }).to_string();
    let mut tokens = Vec::new();
    for (id, origin, body, want) in [
        ("1", "http://localhost", json!({ "code": MARKER }).to_string(), 401),
        ("2", "http://evil.example", right.clone(), 403),
        ("3", "http://localhost", MARKER.to_owned(), 400),
        ("4", "http://localhost", right.clone(), 200),
        ("5", "http://localhost", right, 401),
    ] {
        let request = http::Request::post("/orlop/sign-in")
            .header("host", "localhost")
            .header("origin", origin)
            .header("audit-id", id)
            .body(Body::from(body));
        let response = router.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["audit-id"]),
            (want, &id.parse().unwrap())
        );
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        tokens.extend(answer["token"].as_str().map(str::to_owned));
    }
    let text = audited.text().await;
    assert_eq!(tokens.len(), 1);
    for secret in [MARKER, &code, &tokens[0]] {
        assert!(!text.contains(secret), "the audit log contains {secret}");
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<Value> = events
        .iter()
        .map(|event| {
            assert_eq!((&event["level"], &event["stage"]), (&json!("Metadata"), &json!("ResponseComplete")));
            assert_eq!((&event["verb"], &event["requestURI"]), (&json!("post"), &json!("/orlop/sign-in")));
            json!([event["auditID"], event["responseStatus"]["code"], event["user"]["username"]])
        })
        .collect();
    let want =
        json!([["1", 401, null], ["2", 403, null], ["3", 400, null], ["4", 200, "ann"], ["5", 401, null]]);
    assert_eq!(Value::from(found), want);
}

#[tokio::test]
async fn failed_authentication_is_recorded_without_a_user() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"abc,ann,u1\n").unwrap();
    let tokens = orlop_auth::token_file::TokenFile::load(file.path()).unwrap();
    let audited = AuditedRig::new(policy(json!([{"level": "Metadata"}])), |config| {
        config.auth.tokens = Some(std::sync::Arc::new(tokens));
    })
    .await;
    let router = audited.rig.server.protect(audited.rig.server.service());
    for (token, code) in [("Bearer guess", 401), ("Bearer abc", 200)] {
        let request = http::Request::get(CONFIG_MAPS).header("authorization", token).body(Body::empty());
        let response = router.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), code);
        assert!(response.headers().contains_key("audit-id"));
    }
    let events = audited.events().await;
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0]["user"], &events[0]["stage"]), (&json!({}), &json!("ResponseStarted")));
    let status = &events[0]["responseStatus"];
    assert_eq!(
        (&status["code"], &status["message"]),
        (&json!(401), &json!("Authentication failed, attempted: bearer"))
    );
    assert_eq!((&events[1]["user"]["username"], &events[1]["user"]["uid"]), (&json!("ann"), &json!("u1")));
    assert!(!audited.text().await.contains("guess"), "a token is in the log");
}

/// For whatever path and user, and before a filter parses the query.
#[tokio::test]
async fn queries_with_too_many_parameters_are_rejected_unread() {
    let audited = AuditedRig::new(policy(json!([{"level": "Metadata"}])), |_| {}).await;
    let router = audited.rig.server.protect(audited.rig.server.service());
    for (path, authorization, parameters, want) in [
        (CONFIG_MAPS, "Bearer guess", 1_001, 400),
        (CONFIG_MAPS, "", 1_001, 400),
        ("/livez", "", 1_001, 400),
        ("/nope", "", 1_001, 400),
        (CONFIG_MAPS, "", 1_000, 200),
        ("/livez", "", 1_000, 200),
    ] {
        let request = http::Request::get(format!("{path}?{}", vec!["a"; parameters].join("&")))
            .header("host", "localhost")
            .header("authorization", authorization)
            .body(Body::empty());
        let response = router.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), want, "{path} {authorization} {parameters}");
    }
    let events = audited.events().await;
    let codes: Vec<&Value> = events.iter().map(|event| &event["responseStatus"]["code"]).collect();
    assert_eq!(codes, [200, 200], "only requests that were read are recorded");
}
