//! Whole requests, sent through the router as a tower service over an in-memory store.
//!
//! An input is a list of requests separated by `%%`, each close to its form on the wire: a line with method and
//! target, header lines, an empty line, the body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use orlop_auth::UserInfo;
use orlop_store::ManualClock;
use orlop_store::memory::{Memory, MemoryOptions};
use tokio::runtime::Builder;
use tower::ServiceExt as _;

use super::{allowed, in_bounds, seeds};
use crate::server::{Config, Server};
use orlop_codec::decode::read_yaml;

/// Noon on 2026-01-01 (UTC), in milliseconds.
const START_MS: i64 = 1_767_268_800_000;
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
        let server = server().await;
        for request in parts(data).into_iter().take(MOST).filter_map(read) {
            send(&server, request, data.len()).await;
        }
        server.drain().await;
    });
}

/// Starts a server that stores objects of some kinds.
async fn server() -> Server {
    let clock = Arc::new(ManualClock::new(START_MS));
    let options = MemoryOptions { clock, ..MemoryOptions::default() };
    let store = Arc::new(Memory::with(options));
    let now = Timestamp::from_millisecond(START_MS).expect("a time");
    let config = Config { clock: Arc::new(move || now), ..Config::default() };
    let server = Server::start(store, config).await.expect("a server starts");
    for (collection, object) in seeds::stored() {
        let body = Body::from(object.to_string());
        let request = Request::post(collection).extension(UserInfo::admin()).body(body).expect("a request");
        let answer = server.router().oneshot(request).await.expect("the router answers");
        assert_eq!(answer.status().as_u16(), 201, "{object}");
    }
    server
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

async fn send(server: &Server, mut request: Request<Body>, input: usize) {
    request.extensions_mut().insert(UserInfo::admin());
    let asked = format!("{} {}", request.method(), request.uri());
    let work = async {
        let response = server.router().oneshot(request).await.expect("the router answers");
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
    if code < 400 {
        return;
    }
    in_bounds(input, bytes.len(), &asked);
    if code < 500 {
        return;
    }
    let status = match read_yaml(&bytes) {
        Ok((status, _)) => status,
        Err(why) => panic!("{asked}: {code} without a Status ({why}): {}", String::from_utf8_lossy(&bytes)),
    };
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    assert!(allowed::is_allowed(code, text("reason"), text("message")), "{asked}: {code}: {status}");
}
