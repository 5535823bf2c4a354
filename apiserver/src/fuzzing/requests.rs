//! Whole requests, sent through the router as a tower service over an in-memory store.
//!
//! An input is a list of requests separated by `%%`, each close to its form on the wire: a line with method and
//! target, header lines, an empty line, the body. Authentication and roles decide about each request. First, identities
//! with few rights send all requests of the input; then an administrator does, whose requests may grant rights.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use orlop_auth::UserInfo;
use orlop_store::ManualClock;
use orlop_store::memory::{Memory, MemoryOptions};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tower::ServiceExt as _;

use super::fixture::{Answer, START_MS};
use super::identities::{self, Identity, LIMITED};
use super::{allowed, in_bounds, seeds};
use crate::authorization::AuthorizationMode;
use crate::server::{Config, Server};
use orlop_codec::decode::read_yaml;

/// The maximum number of requests sent per input.
const MOST: usize = 8;
/// The maximum duration of a response, by the clock of the runtime.
const PATIENCE: Duration = Duration::from_secs(120);
/// The maximum size of a response, for any request: an input creates few objects.
const LONGEST: usize = 8 << 20;

/// Sends the requests of an input to a new server. The clock is paused, so that no timer delays a run, and all work
/// runs on this thread.
pub(super) fn requests(data: &[u8]) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(async {
        let (server, account) = server().await;
        let texts: Vec<&[u8]> = parts(data).into_iter().take(MOST).collect();
        let of = |identity: Identity| {
            texts.iter().filter_map(|text| read(text)).map(move |request| (identity, request))
        };
        for (identity, mut request) in LIMITED.into_iter().flat_map(of) {
            identities::authenticate(identity, &account, &mut request);
            identities::check(identity, &send(&server, request, data.len()).await);
        }
        for (identity, mut request) in of(Identity::Administrator) {
            identities::authenticate(identity, &account, &mut request);
            send(&server, request, data.len()).await;
        }
        server.drain().await;
    });
}

/// For each identity, the name of its user and whether it may read a ConfigMap. Otherwise a credential that the server rejects would
/// make all checks pass.
#[cfg(test)]
pub(super) fn users() -> Vec<(Identity, String, bool)> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(async {
        let (server, account) = server().await;
        let mut users = Vec::new();
        for identity in LIMITED.into_iter().chain([Identity::Administrator]) {
            let ask = async |text: &str| {
                let mut request = read(text.as_bytes()).expect("a request");
                identities::authenticate(identity, &account, &mut request);
                send(&server, request, text.len()).await
            };
            let review = ask("POST /apis/authentication.k8s.io/v1/selfsubjectreviews\n\n{}").await;
            let review: Value = serde_json::from_slice(&review.bytes).expect("the answer is JSON");
            let name = review["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned();
            let map = ask("GET /api/v1/namespaces/default/configmaps/it\n\n").await;
            users.push((identity, name, map.code == 200));
        }
        server.drain().await;
        users
    })
}

/// Starts a server that stores objects of some kinds. Also returns the token of the service account with few rights.
async fn server() -> (Server, String) {
    let clock = Arc::new(ManualClock::new(START_MS));
    let options = MemoryOptions { clock, ..MemoryOptions::default() };
    let store = Arc::new(Memory::with(options));
    let now = Timestamp::from_millisecond(START_MS).expect("a time");
    let config = Config {
        clock: Arc::new(move || now),
        auth: identities::config(),
        authorization: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
        ..Config::default()
    };
    let server = Server::start(store, config).await.expect("a server starts");
    for (collection, object) in identities::stored().into_iter().chain(seeds::stored()) {
        create(&server, collection, &object).await;
    }
    let token = create(&server, identities::TOKEN, &json!({})).await;
    (server, token["status"]["token"].as_str().expect("a token").to_owned())
}

async fn create(server: &Server, collection: &str, object: &Value) -> Value {
    let body = Body::from(object.to_string());
    let request = Request::post(collection).extension(UserInfo::admin()).body(body).expect("a request");
    let answer = server.service().oneshot(request).await.expect("the router answers");
    assert_eq!(answer.status().as_u16(), 201, "{object}");
    let body = answer.into_body().collect().await.expect("an answer does not break off");
    serde_json::from_slice(&body.to_bytes()).expect("the answer is JSON")
}

fn parts(data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(4).position(|part| part == super::patches::BETWEEN) {
        parts.push(&rest[..at]);
        rest = &rest[at + 4..];
    }
    parts.push(rest);
    parts
}

/// Parses a request; `None` if an HTTP server would reject it.
fn read(text: &[u8]) -> Option<Request<Body>> {
    let (head, body) = match text.windows(2).position(|part| part == b"\n\n") {
        Some(at) => (&text[..at], &text[at + 2..]),
        None => (text, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let target = Uri::try_from(words.next()?).ok().filter(|target| target.path().starts_with('/'))?;
    let mut request = Request::builder().method(method).uri(target);
    for line in lines {
        let mut pair = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(pair.next()?).ok()?;
        let value = HeaderValue::from_bytes(pair.next()?.trim_ascii()).ok()?;
        request = request.header(name, value);
    }
    request.body(Body::from(body.to_vec())).ok()
}

async fn send(server: &Server, request: Request<Body>, input: usize) -> Answer {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let asked = format!("{method} {}", request.uri());
    let work = async {
        let router = server.protect(server.service());
        let response = router.oneshot(request).await.expect("the router answers");
        let code = response.status().as_u16();
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        // A watch does not end; the frames that arrive within 1 ms are enough.
        while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(1), body.frame()).await {
            let frame = frame.expect("an answer does not break off");
            bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
            assert!(bytes.len() <= LONGEST, "{asked}: an answer without end");
        }
        (code, bytes)
    };
    let answer = tokio::time::timeout(PATIENCE, work).await;
    let (code, bytes) = answer.unwrap_or_else(|_| panic!("{asked}: no answer"));
    let answer = Answer { asked, method, path, code, bytes };
    if code >= 400 {
        check_error(&answer, input);
    }
    answer
}

/// Panics if an error is not an acceptable response to client input.
fn check_error(answer: &Answer, input: usize) {
    let Answer { asked, code, bytes, .. } = answer;
    in_bounds(input, bytes.len(), asked);
    if *code < 500 {
        return;
    }
    let status = match read_yaml(bytes) {
        Ok((status, _)) => status,
        Err(why) => panic!("{asked}: {code} without a Status ({why}): {}", String::from_utf8_lossy(bytes)),
    };
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    assert!(allowed::is_allowed(*code, text("reason"), text("message")), "{asked}: {code}: {status}");
}
