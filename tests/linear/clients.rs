//! Clients that send every kind of request for a few shared objects, concurrently, and record the outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, Request};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::history::{Ask, COLOR, Form, Operation, Outcome, Revision, Selector, State, VALUE, Wants};
use super::history::{At, revision};
use super::recorder::Recorder;
use super::requests::{COLORS, KEYS, PREFIXES, body, collection, finalizer, one, path, selector};
use crate::harness::http::{Answer, Http};
use crate::harness::wait;

/// The state that the clients share.
#[derive(Clone)]
pub(crate) struct Traffic {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) http: Http,
    pub(crate) stop: Arc<AtomicBool>,
    /// The highest revision seen by any client.
    pub(crate) newest: Arc<AtomicU64>,
    pub(crate) begin: Revision,
    /// Operations that received an answer, including rejections.
    pub(crate) answered: Arc<AtomicU64>,
}

/// One client, with the states that it has seen, so that its preconditions are often current and sometimes
/// outdated.
struct Client {
    traffic: Traffic,
    id: u32,
    random: StdRng,
    seen: BTreeMap<String, State>,
    written: u64,
}

struct Sent {
    method: Method,
    path: String,
    content: &'static str,
    body: Value,
    ask: Ask,
}

const LARGEST: usize = 32 << 10;
const JSON: &str = "application/json";

/// Sends requests until it is stopped.
pub(crate) async fn work(traffic: Traffic, id: u32, random: StdRng) {
    let mut client = Client { traffic, id, random, seen: BTreeMap::new(), written: 0 };
    while !client.traffic.stop.load(Ordering::SeqCst) {
        client.operation().await;
    }
}

impl Client {
    async fn operation(&mut self) {
        let key = one(&mut self.random, &KEYS).to_owned();
        // A client often creates an object that it has not seen yet.
        let missing = !self.seen.contains_key(&key) && self.random.random_ratio(1, 2);
        let choice = if missing { 0 } else { self.random.random_range(0..100) };
        let sent = match choice {
            0..6 => self.create(key),
            6..28 => self.get(key),
            // The first update of a claim is a write even if it changes nothing, as upstream.
            28..34 if !key.starts_with("persistentvolumeclaims/") => self.touch(key),
            28..34 => self.get(key),
            34..76 => self.change(key),
            76..86 => self.delete(key),
            86..88 => self.delete_all(),
            _ => return self.list().await,
        };
        self.send(sent).await;
    }

    fn value(&mut self) -> (String, String) {
        self.written += 1;
        (format!("{}-{}", self.id, self.written), one(&mut self.random, &COLORS).to_owned())
    }

    /// Some objects are large: streams then arrive in pieces, more slowly than they are written.
    fn padding(&mut self) -> usize {
        if self.random.random_ratio(1, 6) { self.random.random_range(0..LARGEST) } else { 0 }
    }

    fn create(&mut self, key: String) -> Sent {
        let (value, color) = self.value();
        let (_, collection, resource) = path(&key);
        let hold = self.random.random_ratio(1, 4);
        let held = hold || resource != "secrets";
        let body = body(&key, &value, &color, hold, self.padding());
        let ask = Ask::Create { key, value, color, held };
        Sent { method: Method::POST, path: collection, content: JSON, body, ask }
    }

    fn get(&mut self, key: String) -> Sent {
        let at_least = match self.random.random_range(0..4) {
            0 => self.traffic.newest.load(Ordering::SeqCst),
            _ => 0,
        };
        let query = match (at_least, self.random.random_range(0..3)) {
            (0, 0) => "?resourceVersion=0".to_owned(),
            (0, _) => String::new(),
            (at_least, _) => format!("?resourceVersion={at_least}"),
        };
        let path = path(&key).0 + &query;
        Sent { method: Method::GET, path, content: JSON, body: Value::Null, ask: Ask::Get { key, at_least } }
    }

    /// An empty patch is a read that takes the path of a write.
    fn touch(&mut self, key: String) -> Sent {
        let (content, path) = ("application/merge-patch+json", path(&key).0);
        Sent { method: Method::PATCH, path, content, body: json!({}), ask: Ask::Get { key, at_least: 0 } }
    }

    fn change(&mut self, key: String) -> Sent {
        let (value, color) = self.value();
        let (path, _, resource) = path(&key);
        let seen = self.seen.get(&key).cloned();
        let expect = seen.as_ref().map(|seen| seen.revision).filter(|_| self.random.random_ratio(2, 3));
        let version = expect.map_or(Value::Null, |expect| expect.to_string().into());
        match self.random.random_range(0..6) {
            0..3 => {
                let hold = self.random.random_ratio(1, 3);
                let mut body = body(&key, &value, &color, hold, self.padding());
                if expect.is_some() {
                    body["metadata"]["resourceVersion"] = version;
                }
                let (form, test, hold) = (Form::Put, None, Some(hold));
                let ask = Ask::Write { key, form, value, color, hold, expect, test };
                Sent { method: Method::PUT, path, content: JSON, body, ask }
            }
            3 => {
                // Every second patch removes the finalizers.
                let hold = self.random.random_ratio(1, 2).then_some(false);
                let mut body = json!({"metadata": {"annotations": {VALUE: value}, "labels": {COLOR: color}}});
                if hold.is_some() {
                    body["metadata"]["finalizers"] = Value::Null;
                }
                if expect.is_some() {
                    body["metadata"]["resourceVersion"] = version;
                }
                let (form, content, test) = (Form::Merge, "application/merge-patch+json", None);
                let ask = Ask::Write { key, form, value, color, hold, expect, test };
                Sent { method: Method::PATCH, path, content, body, ask }
            }
            _ => {
                let test = seen.map(|seen| seen.value);
                let mut body = json!([
                    {"op": "replace", "path": format!("/metadata/annotations/{VALUE}"), "value": value},
                    {"op": "replace", "path": format!("/metadata/labels/{COLOR}"), "value": color}]);
                if let (Some(test), Some(body)) = (&test, body.as_array_mut()) {
                    let path = format!("/metadata/annotations/{VALUE}");
                    body.insert(0, json!({"op": "test", "path": path, "value": test}));
                }
                // Some of the patches add a finalizer to a volume.
                let hold =
                    (resource == "persistentvolumes" && self.random.random_ratio(1, 4)).then_some(true);
                if let (Some(_), Some(body)) = (hold, body.as_array_mut()) {
                    let path = "/metadata/finalizers";
                    body.push(json!({"op": "add", "path": path, "value": [finalizer(resource)]}));
                }
                let (form, content, expect) = (Form::Json, "application/json-patch+json", None);
                let ask = Ask::Write { key, form, value, color, hold, expect, test };
                Sent { method: Method::PATCH, path, content, body, ask }
            }
        }
    }

    fn delete(&mut self, key: String) -> Sent {
        let seen = self.seen.get(&key);
        let (uid, expect) = match self.random.random_range(0..3) {
            0 => (seen.map(|seen| seen.uid.clone()), None),
            1 => (None, seen.map(|seen| seen.revision)),
            _ => (None, None),
        };
        let mut preconditions = json!({});
        if let Some(uid) = &uid {
            preconditions["uid"] = uid.as_str().into();
        }
        if let Some(expect) = expect {
            preconditions["resourceVersion"] = expect.to_string().into();
        }
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
        let path = path(&key).0;
        Sent { method: Method::DELETE, path, content: JSON, body, ask: Ask::Delete { key, uid, expect } }
    }

    fn delete_all(&mut self) -> Sent {
        let prefix = one(&mut self.random, &PREFIXES[1..]).to_owned();
        let selector = Selector::Color(one(&mut self.random, &COLORS).to_owned());
        let path = format!("{}?x=y{}", collection(&prefix).0, selector.query());
        let ask = Ask::DeleteAll { prefix, selector };
        Sent { method: Method::DELETE, path, content: JSON, body: Value::Null, ask }
    }

    /// A list in any form, with all its pages.
    async fn list(&mut self) {
        let prefix = one(&mut self.random, &PREFIXES).to_owned();
        let selector = selector(&mut self.random);
        let newest = self.traffic.newest.load(Ordering::SeqCst);
        let back = if self.random.random_ratio(1, 3) { newest - self.traffic.begin } else { 50 };
        let old = newest.saturating_sub(self.random.random_range(0..=back)).max(self.traffic.begin);
        let mut limit = self.random.random_range(0..=2);
        let (wants, query) = match self.random.random_range(0..7) {
            0 => {
                limit = 0;
                (Wants::NotOlder(0), "&resourceVersion=0&limit=1".to_owned())
            }
            1 => {
                // Now and then, a revision in the future.
                let least = newest + u64::from(self.random.random_ratio(1, 8));
                (
                    Wants::NotOlder(least),
                    format!("&resourceVersion={least}&resourceVersionMatch=NotOlderThan"),
                )
            }
            2 => {
                limit = 0;
                (Wants::NotOlder(old), format!("&resourceVersion={old}"))
            }
            3 => (Wants::Exact(old), format!("&resourceVersion={old}&resourceVersionMatch=Exact")),
            4 => {
                limit = limit.max(1);
                (Wants::Exact(old), format!("&resourceVersion={old}"))
            }
            _ => (Wants::Newest, String::new()),
        };
        let (path, _) = collection(&prefix);
        let fixed = format!(
            "{path}?x=y{}{}",
            selector.query(),
            if limit > 0 { format!("&limit={limit}") } else { String::new() }
        );
        let ask = Ask::List { prefix: prefix.clone(), selector: selector.clone(), wants, after: None, limit };
        let (method, content, body) = (Method::GET, JSON, Value::Null);
        let first =
            Sent { method: method.clone(), path: fixed.clone() + &query, content, body: body.clone(), ask };
        let mut page = self.send(first).await;
        let mut after = None;
        // The token of a first page continues with its revision; one from a 410 answer continues with the newest.
        while let Some((code, answer)) = &page {
            let token = answer["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                return;
            }
            let wants = if *code == 410 {
                Wants::Newest
            } else {
                let (_, resource) = collection(&prefix);
                let last = answer["items"].as_array().and_then(|items| items.last());
                after = last.map(|last| State::of(resource, last).key);
                Wants::Page(revision(answer))
            };
            let ask = Ask::List {
                prefix: prefix.clone(),
                selector: selector.clone(),
                wants,
                after: after.clone(),
                limit,
            };
            let path = format!("{fixed}&continue={token}");
            page = self.send(Sent { method: method.clone(), path, content, body: body.clone(), ask }).await;
        }
    }

    /// Sends a request, waits, and records the outcome; returns the answer, if there was one.
    async fn send(&mut self, sent: Sent) -> Option<(u16, Value)> {
        let Sent { method, path, content, body, ask } = sent;
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method.clone()).uri(&path).header("content-type", content);
        let request = request.body(bytes).unwrap();
        let recorder = self.traffic.recorder.clone();
        let start = recorder.now();
        let answer = wait::in_time(&path, self.traffic.http.try_send(request)).await;
        let end = recorder.now();
        let (outcome, answer) = match answer {
            Err(error) => (Outcome::Unknown(error), None),
            Ok(answer) if answer.code >= 500 => (Outcome::Unknown(answer.text()), None),
            Ok(answer) => {
                let object = answer.json();
                (self.outcome(&ask, &answer, &object), Some((answer.code, object)))
            }
        };
        if answer.is_none() {
            // The server is down; the test is about to restart it.
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else {
            self.traffic.answered.fetch_add(1, Ordering::SeqCst);
        }
        self.note(start, end, format!("{method} {path}"), ask, outcome);
        answer
    }

    fn note(&mut self, start: At, end: At, request: String, ask: Ask, outcome: Outcome) {
        let newest = match &outcome {
            Outcome::Object(state) => {
                self.seen.insert(state.key.clone(), state.clone());
                state.revision
            }
            Outcome::Listed { items, .. } => {
                for item in items {
                    // Lists at old revisions lead to outdated preconditions.
                    self.seen.insert(item.key.clone(), item.clone());
                }
                items.iter().map(|item| item.revision).max().unwrap_or(0)
            }
            Outcome::Refused { code: 404, .. } => {
                if let Ask::Get { key, .. } | Ask::Write { key, .. } | Ask::Delete { key, .. } = &ask {
                    self.seen.remove(key);
                }
                0
            }
            Outcome::Gone { .. } | Outcome::Refused { .. } | Outcome::Unknown(_) => 0,
        };
        self.traffic.newest.fetch_max(newest, Ordering::SeqCst);
        let operation = Operation { client: self.id, start, end, request, ask, outcome };
        self.traffic.recorder.history().operations.push(operation);
    }

    fn outcome(&self, ask: &Ask, answer: &Answer, object: &Value) -> Outcome {
        if answer.code >= 300 {
            let reason = object["message"].as_str().unwrap_or_default().to_owned();
            return Outcome::Refused { code: answer.code, reason };
        }
        let (resource, deletes) = match ask {
            Ask::Create { key, .. } | Ask::Get { key, .. } | Ask::Write { key, .. } => (path(key).2, false),
            Ask::Delete { key, .. } => (path(key).2, true),
            Ask::DeleteAll { prefix, .. } | Ask::List { prefix, .. } => {
                let (_, resource) = collection(prefix);
                let items = object["items"].as_array().into_iter().flatten();
                return Outcome::Listed {
                    revision: revision(object),
                    items: items.map(|item| self.traffic.recorder.state(resource, item)).collect(),
                    more: object["metadata"]["continue"].is_string(),
                    remaining: object["metadata"]["remainingItemCount"].as_u64(),
                };
            }
        };
        if object["kind"] == "Status" {
            let uid = object["details"]["uid"].as_str().unwrap_or_default().to_owned();
            return Outcome::Gone { uid, last: None };
        }
        let state = self.traffic.recorder.state(resource, object);
        match (deletes, state.deleting, state.held) {
            // A delete that removes the object returns its last state.
            (true, false, _) | (true, true, false) => {
                Outcome::Gone { uid: state.uid.clone(), last: Some(state) }
            }
            // A write that removes the last finalizer of a deleted object returns a state that was never stored.
            (false, true, false) => Outcome::Gone { uid: state.uid, last: None },
            (true, true, true) | (false, _, _) => Outcome::Object(state),
        }
    }
}
