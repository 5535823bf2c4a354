//! The middleware as a whole: which request gets which user, and which gets a refusal.

#![allow(clippy::unwrap_used)]

use axum::body::Body;
use axum::routing::any;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;

/// Answers with the user's name and groups.
fn echo() -> Router {
    Router::new().fallback(any(|request: Request| async move {
        let user = request.extensions().get::<UserInfo>().cloned().unwrap();
        format!("{} {}", user.username, user.groups.join(","))
    }))
}

fn auth(tokens: bool, client_certificates: bool) -> Auth {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"abc,ann,u1,\"g1,g2\"\n").unwrap();
    let tokens = tokens.then(|| Arc::new(TokenFile::load(file.path()).unwrap()));
    Auth::new(tokens, client_certificates)
}

struct Sent<'a> {
    path: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    certificate: bool,
}

async fn send(auth: Auth, sent: &Sent<'_>) -> (u16, String) {
    let mut request = Request::builder().uri(sent.path);
    for (name, value) in &sent.headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    if sent.certificate {
        let user = UserInfo::new("cert", Vec::new());
        request.extensions_mut().insert(ClientCertificate { user });
    }
    let response = auth.protect(echo()).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn who_is_let_through() {
    let local = ("host", "localhost:8080");
    let far = ("host", "example.org");
    let bearer = ("authorization", "Bearer abc");
    // name, tokens, certificates, request, code, what the answer holds
    type Case<'a> = (&'a str, bool, bool, Sent<'a>, u16, &'a str);
    fn sent<'a>(path: &'a str, headers: Vec<(&'a str, &'a str)>, certificate: bool) -> Sent<'a> {
        Sent { path, headers, certificate }
    }
    let cases: [Case<'_>; 18] = [
        ("1 open", false, false, sent("/api", vec![local], false), 200, "system:admin system:masters"),
        ("2 open, foreign host", false, false, sent("/api", vec![far], false), 403, "sent to localhost"),
        (
            "3 open, foreign host, public path",
            false,
            false,
            sent("/version", vec![far], false),
            403,
            "Forbidden",
        ),
        (
            "4 open, foreign page",
            false,
            false,
            sent("/api", vec![local, ("origin", "http://evil.example")], false),
            403,
            "another origin",
        ),
        (
            "5 open, a token is not asked for",
            false,
            false,
            sent("/api", vec![local, bearer], false),
            200,
            "system:admin",
        ),
        (
            "6 token",
            true,
            false,
            sent("/api", vec![far, bearer], false),
            200,
            "ann g1,g2,system:authenticated",
        ),
        (
            "7 token, scheme in capitals",
            true,
            false,
            sent("/api", vec![("authorization", "BEARER abc")], false),
            200,
            "ann",
        ),
        (
            "8 wrong token",
            true,
            false,
            sent("/api", vec![("authorization", "Bearer abd")], false),
            401,
            "Unauthorized",
        ),
        (
            "9 wrong token, public path",
            true,
            false,
            sent("/readyz", vec![("authorization", "Bearer x")], false),
            401,
            "",
        ),
        ("10 no token", true, false, sent("/api", vec![far], false), 401, "\"code\":401"),
        ("11 no token, public path", true, false, sent("/readyz", vec![far], false), 200, "system:anonymous"),
        ("12 no token, below a public path", true, false, sent("/readyz/x", vec![far], false), 401, ""),
        (
            "13 another scheme",
            true,
            false,
            sent("/readyz", vec![("authorization", "Basic abc")], false),
            401,
            "",
        ),
        ("14 empty token", true, false, sent("/api", vec![("authorization", "Bearer ")], false), 401, ""),
        ("15 certificate", false, true, sent("/api", vec![far], true), 200, "cert system:authenticated"),
        (
            "16 certificate, foreign page",
            false,
            true,
            sent("/api", vec![far, ("origin", "http://evil.example")], true),
            403,
            "another origin",
        ),
        ("17 token before certificate", true, true, sent("/api", vec![far, bearer], true), 200, "ann"),
        ("18 certificates are not asked for", true, false, sent("/api", vec![far], true), 401, ""),
    ];
    for (name, tokens, certificates, sent, code, part) in cases {
        let (got, body) = send(auth(tokens, certificates), &sent).await;
        assert_eq!(got, code, "{name}: {body}");
        assert!(body.contains(part), "{name}: {body}");
    }
}

#[tokio::test]
async fn this_process_is_trusted() {
    let router = in_process(auth(true, true).protect(echo()), UserInfo::controller_manager());
    let request = Request::builder().uri("/api").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"system:kube-controller-manager system:authenticated"));
}

#[tokio::test]
async fn a_refusal_is_a_status() {
    let request = Sent { path: "/api", headers: Vec::new(), certificate: false };
    let (_, body) = send(auth(true, false), &request).await;
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    let want = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(status, want);
}

#[tokio::test]
async fn only_the_own_user_and_root_are_administrators_on_loopback() {
    // name, the user of the peer, path, anonymous requests are permitted, code, part of the response
    for (name, peer, path, anonymous, code, part) in [
        ("1 the own user", Some(1000), "/api", false, 200, "system:admin"),
        ("2 root", Some(0), "/api", false, 200, "system:admin"),
        ("3 another user", Some(1001), "/api", false, 401, "--insecure-loopback"),
        ("4 unknown", None, "/api", false, 401, "Unauthorized"),
        ("5 another user, a public path", Some(1001), "/livez", false, 200, "system:anonymous"),
        ("6 another user, roles decide", Some(1001), "/api", true, 200, "system:anonymous"),
    ] {
        let auth = Auth { anonymous, ..auth(false, false).with_local_user(Some(1000)) };
        let mut request =
            Request::builder().uri(path).header("host", "localhost:8080").body(Body::empty()).unwrap();
        request.extensions_mut().insert(PeerUser(peer));
        let response = auth.protect(echo()).oneshot(request).await.unwrap();
        let got = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(got == code && body.contains(part), "{name}: {got} {body}");
    }
}
