//! Test harness of the verbs: a server, its clock, and a client.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use futures::StreamExt as _;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use orlop_auth::UserInfo;
use orlop_store::memory::{Memory, MemoryOptions};
use orlop_store::{Clock as _, Kv, ManualClock, Revision};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::racy::Racy;
use crate::projection::Projection;
use crate::server::{Config, Server};

/// Noon of January 1, 2026, in milliseconds.
const START_MS: i64 = 1_767_268_800_000;

pub(super) struct Rig {
    pub(super) server: Server,
    pub(super) store: Arc<dyn Kv<Projection>>,
    clock: Arc<ManualClock>,
}

impl Rig {
    pub(super) async fn new() -> Rig {
        Rig::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut Config)) -> Rig {
        let clock = Arc::new(ManualClock::new(START_MS));
        let options = MemoryOptions { clock: clock.clone(), ..MemoryOptions::default() };
        let store: Arc<dyn Kv<Projection>> = Arc::new(Racy::new(Memory::with(options)));
        let time = clock.clone();
        let now = move || Timestamp::from_millisecond(time.now_ms()).unwrap();
        let mut config = Config { clock: Arc::new(now), ..Config::default() };
        change(&mut config);
        let server = Server::start(store.clone(), config).await.unwrap();
        Rig { server, store, clock }
    }

    /// A server on an existing store; its clock is one year ahead of the other servers'.
    pub(super) async fn on(store: Arc<dyn Kv<Projection>>) -> Rig {
        Rig::on_with(store, |_| {}).await
    }

    pub(super) async fn on_with(store: Arc<dyn Kv<Projection>>, change: impl FnOnce(&mut Config)) -> Rig {
        let clock = Arc::new(ManualClock::new(START_MS + 365 * 86_400_000));
        let time = clock.clone();
        let now = move || Timestamp::from_millisecond(time.now_ms()).unwrap();
        // The expiry of Events is not under test.
        let mut config = Config { clock: Arc::new(now), ..Config::default() };
        change(&mut config);
        let server = Server::start(store.clone(), config).await.unwrap();
        Rig { server, store, clock }
    }

    pub(super) async fn raw(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Response {
        let mut request = Request::builder().method(method).uri(target).extension(UserInfo::admin());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.server.service().oneshot(request.body(body).unwrap()).await.unwrap()
    }

    pub(super) async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Answer {
        let response = self.raw(method, target, headers, body).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes().to_vec();
        Answer {
            asked: format!("{method} {target}"),
            code: parts.status.as_u16(),
            headers: parts.headers,
            bytes,
        }
    }

    pub(super) async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], Body::empty()).await
    }

    pub(super) async fn get_as(&self, target: &str, accept: &str) -> Answer {
        self.send("GET", target, &[("accept", accept)], Body::empty()).await
    }

    pub(super) async fn post(&self, target: &str, body: Value) -> Answer {
        self.send("POST", target, &[], json_body(&body)).await
    }

    pub(super) async fn put(&self, target: &str, body: &Value) -> Answer {
        self.send("PUT", target, &[], json_body(body)).await
    }

    pub(super) async fn delete(&self, target: &str, options: Value) -> Answer {
        let body = if options.is_null() { Body::empty() } else { json_body(&options) };
        self.send("DELETE", target, &[], body).await
    }

    /// Sends a patch of type `json`, `merge` or `strategic`.
    pub(super) async fn patch(&self, target: &str, form: &str, body: Value) -> Answer {
        let content_type = match form {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            other => panic!("no patch form {other}"),
        };
        self.send("PATCH", target, &[("content-type", content_type)], json_body(&body)).await
    }

    /// Creates a config map in the namespace `default`.
    pub(super) async fn config_map(&self, name: &str, labels: Value) -> Value {
        let body = json!({"metadata": {"name": name, "labels": labels}, "data": {"n": "0"}});
        self.post(CONFIG_MAPS, body).await.expect(201).json()
    }

    pub(super) async fn watch(&self, target: &str) -> Lines {
        self.watch_as(target, "application/json").await
    }

    pub(super) async fn watch_as(&self, target: &str, accept: &str) -> Lines {
        let response = self.raw("GET", target, &[("accept", accept)], Body::empty()).await;
        assert_eq!(response.status().as_u16(), 200, "{target}");
        Lines { body: response.into_body().into_data_stream(), rest: Vec::new() }
    }

    /// Advances the clock.
    pub(super) fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.clock.set(self.clock.now_ms() + by);
    }

    pub(super) fn head(&self) -> Revision {
        self.store.head().revision()
    }

    pub(super) async fn compact(&self) {
        self.store.compact(self.head()).await.unwrap();
    }
}

pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn json_body(value: &Value) -> Body {
    Body::from(value.to_string())
}

/// A complete response.
#[derive(Debug)]
pub(super) struct Answer {
    asked: String,
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    /// Asserts the status code and returns the response.
    pub(super) fn expect(self, code: u16) -> Answer {
        assert_eq!(self.code, code, "{}: {}", self.asked, String::from_utf8_lossy(&self.bytes));
        self
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.asked, self.text()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(super) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The names of the items of a list.
    pub(super) fn names(&self) -> Vec<String> {
        let value = self.json();
        let items = value["items"].as_array().unwrap_or_else(|| panic!("{}: {value}", self.asked));
        items.iter().map(|item| text(item, "/metadata/name")).collect()
    }
}

/// The string at a JSON pointer; `""` if there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The resourceVersion of an object or list.
pub(super) fn version(value: &Value) -> String {
    text(value, "/metadata/resourceVersion")
}

/// The lines of a watch.
pub(super) struct Lines {
    body: BodyDataStream,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match self.body.next().await {
                Some(piece) => self.rest.extend_from_slice(&piece.unwrap()),
                None => {
                    assert!(self.rest.is_empty(), "the stream ends in the middle of a line");
                    return None;
                }
            }
        }
    }

    /// The next event in short form: `ADDED name`, `BOOKMARK revision`, `ERROR code`, or `end`.
    pub(super) async fn short(&mut self) -> String {
        let Some(event) = self.next().await else { return "end".to_owned() };
        let what = match event["type"].as_str().unwrap() {
            "BOOKMARK" => version(&event["object"]),
            "ERROR" => event["object"]["code"].to_string(),
            _ => text(&event, "/object/metadata/name"),
        };
        format!("{} {what}", event["type"].as_str().unwrap())
    }
}
