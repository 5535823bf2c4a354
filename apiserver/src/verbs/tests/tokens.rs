//! Service account tokens: issued, verified and revoked.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use orlop_auth::jwt::UnverifiedToken;
use orlop_auth::service_account::claims::{self, Claims, ObjectRef};
use orlop_auth::service_account::key::{SigningKey, generate};
use orlop_auth::service_account::legacy::LegacyClaims;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::rig::Rig;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKENS: &str = "/api/v1/namespaces/default/serviceaccounts/a/token";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const INVALID: &str = "invalid bearer token";

/// The string at a JSON pointer; `""` if there is none.
fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

async fn rig() -> Rig {
    let rig = Rig::new().await;
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    rig
}

async fn token(rig: &Rig, spec: Value) -> String {
    let answer = rig.post(TOKENS, json!({ "spec": spec })).await.expect(201).json();
    text(&answer, "/status/token").to_owned()
}

async fn review(rig: &Rig, token: &str, audiences: Value) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    rig.post(REVIEWS, json!({ "spec": spec })).await.expect(201).json()["status"].clone()
}

/// The status code and the body of an authenticated request.
async fn ask(rig: &Rig, token: &str, target: &str) -> (u16, Value) {
    let request = Request::post(target)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::from("{}"))
        .unwrap();
    let response = rig.server.protect(rig.server.service()).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn issued_token_is_verified() {
    let rig = rig().await;
    let answer = rig.post(TOKENS, json!({"spec": {"expirationSeconds": 600}})).await.expect(201).json();
    assert_eq!(
        (text(&answer, "/kind"), text(&answer, "/apiVersion")),
        ("TokenRequest", "authentication.k8s.io/v1")
    );
    assert_eq!((text(&answer, "/metadata/name"), text(&answer, "/metadata/namespace")), ("a", "default"));
    let spec = json!({"audiences": [ISSUER], "expirationSeconds": 600, "boundObjectRef": null});
    assert_eq!(answer["spec"], spec);
    assert_eq!(text(&answer, "/status/expirationTimestamp"), "2026-01-01T12:10:00Z");
    let token = text(&answer, "/status/token");
    let status = review(&rig, token, json!([])).await;
    let uid = text(&rig.get(&format!("{ACCOUNTS}/a")).await.expect(200).json(), "/metadata/uid").to_owned();
    assert_eq!(
        (status["authenticated"].clone(), status["audiences"].clone()),
        (json!(true), json!([ISSUER]))
    );
    let user = &status["user"];
    assert_eq!(
        (text(user, "/username"), text(user, "/uid")),
        ("system:serviceaccount:default:a", uid.as_str())
    );
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    let (code, review) = ask(&rig, token, SELF_REVIEW).await;
    assert_eq!((code, text(&review, "/status/userInfo/username")), (201, "system:serviceaccount:default:a"));
}

#[tokio::test]
async fn expired_token_is_rejected() {
    let rig = rig().await;
    let token = token(&rig, json!({"expirationSeconds": 600})).await;
    rig.advance(Duration::from_secs(660));
    assert_eq!(ask(&rig, &token, SELF_REVIEW).await.0, 201, "clocks may be a minute apart");
    rig.advance(Duration::from_secs(1));
    let status = review(&rig, &token, json!([])).await;
    assert_eq!(
        status,
        json!({"user": {}, "error": format!("[{INVALID}, service account token has expired]")})
    );
    let (code, refused) = ask(&rig, &token, SELF_REVIEW).await;
    assert_eq!((code, text(&refused, "/reason")), (401, "Unauthorized"));
}

#[tokio::test]
async fn forged_token_is_rejected() {
    let rig = rig().await;
    let good = token(&rig, json!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
    claims["sub"] = "system:serviceaccount:kube-system:root".into();
    let forged = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()), parts[2]);
    let other = super::tokens::rig().await;
    let others = token(&other, json!({})).await;
    for (case, token) in [("1 other claims", &forged), ("2 another server's", &others)] {
        assert_eq!(ask(&rig, token, SELF_REVIEW).await.0, 401, "{case}");
        let status = review(&rig, token, json!([])).await;
        assert!(text(&status, "/error").starts_with(&format!("[{INVALID}, ")), "{case}: {status}");
        assert_eq!((status.get("authenticated"), &status["user"]), (None, &json!({})), "{case}");
    }
    assert_eq!(review(&rig, "x", json!([])).await, json!({"user": {}, "error": INVALID}));
    let empty = rig.post(REVIEWS, json!({"spec": {}})).await.expect(400).json();
    assert_eq!(text(&empty, "/message"), "token is required for TokenReview in authentication");
}

/// The status code and the body of a request with these bytes as its `Authorization` header.
async fn ask_with(rig: &Rig, header: &[u8]) -> (u16, Value) {
    let header = HeaderValue::from_bytes(header).unwrap();
    let request = Request::post(SELF_REVIEW).header("authorization", header).body(Body::from("{}")).unwrap();
    let response = rig.server.protect(rig.server.service()).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

/// The answer never contains the reason: it would help to guess a token.
#[tokio::test]
async fn every_damaged_token_gets_the_same_answer() {
    let key = || Arc::new(SigningKey::from_pkcs8(&generate().unwrap()).unwrap());
    let (key, other) = (key(), key());
    let signing = key.clone();
    let rig = Rig::with(|config| {
        config.auth.is_required = true;
        config.service_accounts.signing_key = Some(signing);
    })
    .await;
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let good = token(&rig, json!({})).await;
    assert_eq!(ask(&rig, &good, SELF_REVIEW).await.0, 201);
    let claims: Claims = UnverifiedToken::parse(&good).unwrap().claims().unwrap();
    let signed = |change: &dyn Fn(&mut Claims)| {
        let mut claims = claims.clone();
        change(&mut claims);
        claims::sign(&key, &claims).unwrap()
    };
    assert_eq!(ask(&rig, &signed(&|_| {}), SELF_REVIEW).await.0, 201);
    let parts: Vec<&str> = good.split('.').collect();
    let with_header = |header: Value| {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), parts[1]);
        let signature = key.sign(message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let changed = {
        let claims = Claims { sub: "system:admin".to_owned(), ..claims.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).unwrap())
    };
    let gone = || Some(ObjectRef { name: "gone".to_owned(), uid: "u".to_owned() });
    let tokens = [
        ("1 truncated", good[..good.len() - 1].to_owned()),
        ("2 without a signature", format!("{}.{}.", parts[0], parts[1])),
        ("3 no algorithm", format!("{none}.{}.", parts[1])),
        ("4 a symmetric algorithm", with_header(json!({"alg": "HS256", "kid": key.public().id()}))),
        ("5 the id of another key", with_header(json!({"alg": "ES256", "kid": other.public().id()}))),
        ("6 another key", claims::sign(&other, &claims).unwrap()),
        ("7 other claims", format!("{}.{changed}.{}", parts[0], parts[2])),
        ("8 another issuer", signed(&|claims| claims.iss = "https://issuer.example".to_owned())),
        ("9 another audience", signed(&|claims| claims.aud = vec!["other".to_owned()])),
        ("10 no audience", signed(&|claims| claims.aud.clear())),
        ("11 expired", signed(&|claims| claims.exp = claims.iat - 61)),
        ("12 not valid yet", signed(&|claims| claims.nbf = claims.iat + 61)),
        ("13 issued later", signed(&|claims| claims.iat += 61)),
        ("14 another uid", signed(&|claims| claims.kubernetes.serviceaccount.uid = "u".to_owned())),
        ("15 another account", signed(&|claims| claims.kubernetes.serviceaccount.name = "b".to_owned())),
        ("16 another namespace", signed(&|claims| claims.kubernetes.namespace = "kube-system".to_owned())),
        ("17 a pod that is gone", signed(&|claims| claims.kubernetes.pod = gone())),
        ("18 a node that is gone", signed(&|claims| claims.kubernetes.node = gone())),
        ("19 a secret that is gone", signed(&|claims| claims.kubernetes.secret = gone())),
        ("20 too long", format!("{good}{}", "A".repeat(40_000))),
        ("21 of a path", "../../../token".to_owned()),
    ];
    let headers = [
        ("22 not UTF-8", b"Bearer \xff\xfe".to_vec()),
        ("23 a tab", format!("Bearer {}", good.replacen('.', "\t.", 1)).into_bytes()),
        ("24 in quotes", format!("Bearer \"{good}\"").into_bytes()),
    ];
    let refused = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    let tokens = tokens.map(|(case, token)| (case, format!("Bearer {token}").into_bytes()));
    for (case, header) in tokens.into_iter().chain(headers) {
        assert_eq!(ask_with(&rig, &header).await, (401, refused.clone()), "{case}");
    }
    // A new account with the name of a deleted one does not inherit its tokens.
    rig.delete(&format!("{ACCOUNTS}/a"), Value::Null).await.expect(200);
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    assert_eq!(ask(&rig, &good, SELF_REVIEW).await, (401, refused));
    assert_eq!(ask(&rig, &token(&rig, json!({})).await, SELF_REVIEW).await.0, 201);
}

#[tokio::test]
async fn token_is_valid_only_for_its_audiences() {
    let rig = rig().await;
    let token = token(&rig, json!({"audiences": ["x", "y"]})).await;
    assert_eq!(review(&rig, &token, json!(["y", "z"])).await["audiences"], json!(["y"]));
    let status = review(&rig, &token, json!([])).await;
    let why = format!("token audiences [\"x\", \"y\"] is invalid for the target audiences [\"{ISSUER}\"]");
    assert_eq!(text(&status, "/error"), format!("[{INVALID}, {why}]"));
    assert_eq!(ask(&rig, &token, SELF_REVIEW).await.0, 401, "it has another audience");
}

#[tokio::test]
async fn token_is_invalid_after_its_bound_object_is_deleted() {
    let rig = rig().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let pods = "/api/v1/namespaces/default/pods";
    rig.post(secrets, json!({"metadata": {"name": "s"}})).await.expect(201);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "a", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    let pod = rig.post(pods, pod).await.expect(201).json();
    let bound =
        |kind: &str, name: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}});
    let by_secret = token(&rig, bound("Secret", "s")).await;
    let by_pod = token(&rig, bound("Pod", "p")).await;
    let free = token(&rig, json!({})).await;
    let status = review(&rig, &by_pod, json!([])).await;
    let extra = |key: &str| status["user"]["extra"][format!("authentication.kubernetes.io/{key}")][0].clone();
    assert_eq!(
        (extra("pod-name"), extra("pod-uid"), extra("node-name")),
        (json!("p"), pod["metadata"]["uid"].clone(), json!("n"))
    );
    assert!(extra("credential-id").as_str().unwrap().starts_with("JTI="));

    rig.delete(&format!("{secrets}/s"), Value::Null).await.expect(200);
    let status = review(&rig, &by_secret, json!([])).await;
    assert_eq!(text(&status, "/error"), format!("[{INVALID}, secrets \"s\" not found]"));
    rig.post(secrets, json!({"metadata": {"name": "s"}})).await.expect(201);
    let status = review(&rig, &by_secret, json!([])).await;
    assert!(text(&status, "/error").contains("does not match claim"), "another one of that name: {status}");
    rig.delete(&format!("{pods}/p"), json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert!(text(&review(&rig, &by_pod, json!([])).await, "/error").contains("pods \"p\" not found"));
    assert_eq!(ask(&rig, &free, SELF_REVIEW).await.0, 201);
    rig.delete(&format!("{ACCOUNTS}/a"), Value::Null).await.expect(200);
    assert_eq!(ask(&rig, &free, SELF_REVIEW).await.0, 401, "the account is gone");
}

#[tokio::test]
async fn token_in_a_secret_is_valid_while_the_secret_contains_it() {
    let rig = rig().await;
    let (secrets, secret) = ("/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/t");
    let account = rig.get(&format!("{ACCOUNTS}/a")).await.expect(200).json();
    let claims = LegacyClaims::new("default", "t", "a", text(&account, "/metadata/uid"));
    let token = rig.server.sign_legacy_token(&claims).unwrap();
    let with_token = |token: &str| {
        let metadata = json!({"name": "t", "annotations": {"kubernetes.io/service-account.name": "a"}});
        json!({"type": "kubernetes.io/service-account-token", "metadata": metadata, "stringData": {"token": token}})
    };
    let error = async |token: &str| {
        let status = review(&rig, token, json!([])).await;
        let error = text(&status, "/error").to_owned();
        assert_eq!(error.is_empty(), ask(&rig, token, SELF_REVIEW).await.0 == 201, "{error}");
        error
    };
    assert_eq!(error(&token).await, format!("[{INVALID}, Token has been invalidated]"), "no Secret");
    rig.post(secrets, with_token(&token)).await.expect(201);
    assert_eq!(error(&token).await, "");
    let status = review(&rig, &token, json!([])).await;
    let user = &status["user"];
    assert_eq!(
        (text(user, "/username"), text(user, "/uid")),
        ("system:serviceaccount:default:a", claims.uid.as_str())
    );
    assert_eq!(status["audiences"], json!([ISSUER]));
    rig.advance(Duration::from_secs(400 * 24 * 3600));
    assert_eq!(error(&token).await, "", "it does not expire");

    let invalid = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    rig.patch(secret, "merge", invalid).await.expect(200);
    assert!(error(&token).await.contains("has been marked invalid"));
    let valid = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": null}}});
    rig.patch(secret, "merge", valid).await.expect(200);
    assert_eq!(error(&token).await, "");

    let other_claims = LegacyClaims { secret: "other".to_owned(), ..claims.clone() };
    let other = rig.server.sign_legacy_token(&other_claims).unwrap();
    assert_eq!(error(&other).await, format!("[{INVALID}, Token has been invalidated]"), "of another Secret");
    let key = SigningKey::from_pkcs8(&generate().unwrap()).unwrap();
    let forged = claims::sign(&key, &claims).unwrap();
    assert_eq!(error(&forged).await, format!("[{INVALID}, the token is not signed by this server]"));
    rig.patch(secret, "merge", json!({"stringData": {"token": forged}})).await.expect(200);
    assert_eq!(error(&token).await, format!("[{INVALID}, Token does not match server's copy]"));
    rig.delete(secret, Value::Null).await.expect(200);
    assert_eq!(error(&token).await, format!("[{INVALID}, Token has been invalidated]"), "deleted");

    rig.post(secrets, with_token(&token)).await.expect(201);
    rig.delete(&format!("{ACCOUNTS}/a"), Value::Null).await.expect(200);
    assert!(error(&token).await.contains("not found"), "the account is deleted");
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    assert!(error(&token).await.contains("does not match claim"), "another account of that name");
}

#[tokio::test]
async fn first_use_of_a_token_in_a_secret_is_recorded() {
    let rig = rig().await;
    let account = rig.get(&format!("{ACCOUNTS}/a")).await.expect(200).json();
    let claims = LegacyClaims::new("default", "t", "a", text(&account, "/metadata/uid"));
    let token = rig.server.sign_legacy_token(&claims).unwrap();
    let metadata = json!({"name": "t", "annotations": {"kubernetes.io/service-account.name": "a"}});
    let secret = json!({"type": "kubernetes.io/service-account-token", "metadata": metadata, "stringData": {"token": token}});
    rig.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
    assert_eq!(ask(&rig, &token, SELF_REVIEW).await.0, 201);
    loop {
        let secret = rig.get("/api/v1/namespaces/default/secrets/t").await.expect(200).json();
        let label = secret["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"].clone();
        if label == "2026-01-01" {
            break;
        }
        assert_eq!(label, Value::Null);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn invalid_token_requests_are_rejected() {
    let rig = rig().await;
    let other = json!({"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    rig.post("/api/v1/namespaces/default/pods", other).await.expect(201);
    let bound = |kind: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}}});
    for (case, body, code, why) in [
        (
            "1 too short",
            json!({"spec": {"expirationSeconds": 5}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 5: may not \
             specify a duration less than 10 minutes",
        ),
        (
            "2 too long",
            json!({"spec": {"expirationSeconds": 4294967297_i64}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: \
             may not specify a duration larger than 2^32 seconds",
        ),
        (
            "3 bound to a claim",
            bound("PersistentVolumeClaim", "x", ""),
            400,
            "cannot bind token to object of type /v1, Kind=PersistentVolumeClaim",
        ),
        ("4 bound to nothing", bound("Secret", "x", ""), 404, "secrets \"x\" not found"),
        (
            "5 bound to another's pod",
            bound("Pod", "q", ""),
            400,
            "cannot bind token for serviceaccount \"a\" to pod running with different serviceaccount name.",
        ),
        (
            "6 too many audiences",
            json!({"spec": {"audiences": vec!["a"; 101]}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.audiences: Too many: 101: must have at most 100 items",
        ),
    ] {
        let answer = rig.post(TOKENS, body).await.expect(code).json();
        assert_eq!(text(&answer, "/message"), why, "{case}");
    }
    let uid = rig.post(TOKENS, bound("Pod", "q", "u")).await.expect(409).json();
    assert!(text(&uid, "/message").contains("the UID in the bound object reference (u)"), "{uid}");
    let missing = rig.post(&TOKENS.replace("/a/", "/b/"), json!({})).await.expect(404).json();
    assert_eq!(text(&missing, "/message"), "serviceaccounts \"b\" not found");
    let review = json!({"spec": {"token": "t", "audiences": vec!["a"; 101]}});
    let review = rig.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.expect(422).json();
    assert!(
        text(&review, "/message").ends_with("spec.audiences: Too many: 101: must have at most 100 items"),
        "{review}"
    );
}

#[tokio::test]
async fn only_the_public_key_is_published() {
    let rig = rig().await;
    let configuration = rig.get("/.well-known/openid-configuration").await.expect(200).json();
    assert_eq!(text(&configuration, "/issuer"), ISSUER);
    assert!(text(&configuration, "/jwks_uri").ends_with("/openid/v1/jwks"), "{configuration}");
    let keys = rig.get("/openid/v1/jwks").await.expect(200);
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    let keys = keys.json();
    let token = token(&rig, json!({})).await;
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!((&header["kid"], &header["alg"]), (&keys["keys"][0]["kid"], &keys["keys"][0]["alg"]));
    // The private key is not accessible.
    for path in ["/api/v1/secrets", "/api/v1/configmaps"] {
        assert_eq!(rig.get(path).await.expect(200).json()["items"], json!([]), "{path}");
    }
}

#[tokio::test]
async fn access_reviews_report_whether_access_is_allowed() {
    let rig = rig().await;
    let review = |kind: &str| format!("/apis/authorization.k8s.io/v1/{kind}");
    let pods = json!({"namespace": "default", "verb": "create", "resource": "pods"});
    let own = json!({"spec": {"resourceAttributes": pods}});
    let answer = rig.post(&review("selfsubjectaccessreviews"), own.clone()).await.expect(201).json();
    assert_eq!(answer["spec"], own["spec"], "the question stands beside the answer");
    assert_eq!(answer["status"]["allowed"], true);
    assert!(text(&answer, "/status/reason").contains("permits every request"));
    let of = |user: &str| json!({"spec": {"resourceAttributes": pods, "user": user}});
    for (user, want) in [("ann", true), ("system:anonymous", false)] {
        let answer = rig.post(&review("subjectaccessreviews"), of(user)).await.expect(201).json();
        assert_eq!(answer["status"]["allowed"], want, "{user}");
        let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
        let answer = rig.post(path, of(user)).await.expect(201).json();
        assert_eq!(
            (answer["status"]["allowed"].clone(), text(&answer, "/metadata/namespace")),
            (json!(want), "default")
        );
    }
    let rules = rig.post(&review("selfsubjectrulesreviews"), json!({"spec": {"namespace": "default"}})).await;
    let rules = rules.expect(201).json();
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    assert_eq!((&rules["status"]["incomplete"], &rules["spec"]), (&json!(false), &json!({})));
    rig.post(&review("selfsubjectrulesreviews"), json!({})).await.expect(400);
    let neither = rig.post(&review("selfsubjectaccessreviews"), json!({})).await.expect(422).json();
    let why = ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of \
               nonResourceAttributes or resourceAttributes must be specified";
    assert_eq!(text(&neither, "/message"), why);
}

#[tokio::test]
async fn reviews_and_token_requests_accept_protobuf() {
    let rig = rig().await;
    // k8s\0, then {1: {1: apiVersion, 2: kind}, 2: {}}, as Go clients send it.
    let body = |api_version: &str, kind: &str| {
        let field = |number: u8, bytes: &[u8]| {
            let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
            out.extend(bytes);
            out
        };
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &meta), field(2, &[])].concat()
    };
    let media = "application/vnd.kubernetes.protobuf";
    for (path, api_version, kind) in [
        (SELF_REVIEW, "authentication.k8s.io/v1", "SelfSubjectReview"),
        (TOKENS, "authentication.k8s.io/v1", "TokenRequest"),
    ] {
        let headers = [("content-type", media), ("accept", media)];
        let answer = rig.send("POST", path, &headers, Body::from(body(api_version, kind))).await.expect(201);
        assert_eq!(answer.headers["content-type"], media, "{kind}");
        assert!(answer.bytes.starts_with(b"k8s\0"), "{kind}");
        let wanted = if kind == "TokenRequest" { ISSUER } else { "system:masters" };
        assert!(answer.bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes()), "{kind}");
    }
}

/// The body of a watch that is opened with a token.
async fn watch(rig: &Rig, token: &str) -> Body {
    open(rig, token, "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1").await
}

/// The body of a request with a token.
async fn open(rig: &Rig, token: &str, target: &str) -> Body {
    let request = Request::get(target)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
    let response = rig.server.protect(rig.server.service()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// A watch outlives neither its account nor the pod that its token is bound to.
#[tokio::test(start_paused = true)]
async fn watches_end_when_the_account_or_its_pod_is_deleted() {
    let rig = rig().await;
    let spec = json!({"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]});
    let pods = "/api/v1/namespaces/default/pods";
    let pod = rig.post(pods, json!({"metadata": {"name": "p"}, "spec": spec})).await.expect(201).json();
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": pod["metadata"]["uid"]});
    let tokens = [token(&rig, json!({"boundObjectRef": bound})).await, token(&rig, json!({})).await];
    let mut of_pod = Box::pin(watch(&rig, &tokens[0]).await.collect());
    let mut of_account = Box::pin(watch(&rig, &tokens[1]).await.collect());
    let minute = Duration::from_secs(60);
    assert!(
        tokio::time::timeout(minute * 5, futures::future::select(&mut of_pod, &mut of_account))
            .await
            .is_err()
    );
    rig.delete(&format!("{pods}/p"), json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert!(tokio::time::timeout(minute, of_pod).await.is_ok());
    assert!(tokio::time::timeout(minute * 5, &mut of_account).await.is_err(), "its account exists");
    rig.delete(&format!("{ACCOUNTS}/a"), Value::Null).await.expect(200);
    assert!(tokio::time::timeout(minute, of_account).await.is_ok());
}

/// A stream of all kinds ends like a watch: with its account, and after the usual time.
#[tokio::test(start_paused = true)]
async fn streams_end_with_their_account_and_after_the_time_of_a_watch() {
    let rig = rig().await;
    let stream = "/apis/orlop.dev/v1/stream?resource=configmaps";
    let token = token(&rig, json!({})).await;
    let minute = Duration::from_secs(60);
    let body = open(&rig, &token, stream).await.collect();
    assert!(tokio::time::timeout(minute * 125, body).await.is_ok(), "twice the minimum of 30 minutes");
    let mut body = Box::pin(open(&rig, &token, stream).await.collect());
    assert!(tokio::time::timeout(minute * 5, &mut body).await.is_err(), "its account exists");
    rig.delete(&format!("{ACCOUNTS}/a"), Value::Null).await.expect(200);
    assert!(tokio::time::timeout(minute, body).await.is_ok());
}

/// A watch ends with the key that has signed its token, and not with any other key.
#[tokio::test(start_paused = true)]
async fn watches_end_with_the_key_of_their_token() {
    use crate::service_account::key_file::{key_file, rotate};
    use jiff::SignedDuration;

    let dir = tempfile::tempdir().unwrap();
    let path = key_file(dir.path());
    let rig = Rig::with(|config| config.service_account_key_file = Some(path.clone())).await;
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let old = token(&rig, json!({})).await;
    rotate(&path, "2026-01-01T12:00:00Z".parse().unwrap(), SignedDuration::from_secs(300)).unwrap();
    while rig.server.inner().accounts.with_public_keys(|keys| keys.len()) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let new = token(&rig, json!({})).await;
    let mut of_old = Box::pin(watch(&rig, &old).await.collect());
    let mut of_new = Box::pin(watch(&rig, &new).await.collect());
    let minute = Duration::from_secs(60);
    assert!(tokio::time::timeout(minute * 5, &mut of_old).await.is_err(), "its key is accepted");
    rig.advance(Duration::from_secs(300));
    assert!(tokio::time::timeout(minute, of_old).await.is_ok());
    assert!(tokio::time::timeout(minute * 5, &mut of_new).await.is_err(), "its key is accepted");
}

/// The token of a former key is rejected when the key ends, on servers that start later and on the one that runs.
#[tokio::test]
async fn rotation_invalidates_tokens_of_the_previous_key() {
    use crate::service_account::key_file::{key_file, rotate};
    use jiff::SignedDuration;

    let dir = tempfile::tempdir().unwrap();
    let path = key_file(dir.path());
    let rig = Rig::with(|config| config.service_account_key_file = Some(path.clone())).await;
    rig.post(ACCOUNTS, json!({"metadata": {"name": "a"}})).await.expect(201);
    let old = token(&rig, json!({})).await;
    assert_eq!(ask(&rig, &old, SELF_REVIEW).await.0, 201);

    let now = "2026-01-01T12:00:00Z".parse().unwrap();
    rotate(&path, now, SignedDuration::from_secs(300)).unwrap();
    let server = |rig: &Rig| rig.server.inner().accounts.with_public_keys(|keys| keys.len());
    // The running server reads the file again soon.
    while server(&rig) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let new = token(&rig, json!({})).await;
    for token in [&old, &new] {
        assert_eq!(ask(&rig, token, SELF_REVIEW).await.0, 201);
    }
    rig.advance(Duration::from_secs(300));
    let (code, refused) = ask(&rig, &old, SELF_REVIEW).await;
    assert_eq!((code, text(&refused, "/reason")), (401, "Unauthorized"));
    let status = review(&rig, &old, json!([])).await;
    assert_eq!(status["authenticated"], Value::Null, "{status}");
    assert_eq!(ask(&rig, &new, SELF_REVIEW).await.0, 201);
    assert_eq!(server(&rig), 1, "the key is not published any more");
}
