//! An informer like client-go's since 0.35, written by hand and in protobuf: a streamed list, the bookmark that
//! ends it, a watch that resumes from the last revision seen, and a new list when that revision has been
//! compacted.

use std::collections::{BTreeMap, VecDeque};

use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::json;

use super::line::Line;
use super::past::{MAPS, change, create, forget, forgetful, revision};
use super::proto::{all, at, envelope, message, opened, put, text};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Why a stream has ended.
#[derive(Debug, PartialEq)]
enum End {
    /// The watch reached its timeout.
    Clean,
    /// The connection broke, or could not be opened.
    Broken,
    /// An error event with this code.
    Error(i64),
}

/// One stream of frames.
struct Stream {
    body: Body,
    rest: VecDeque<u8>,
}

impl Stream {
    async fn open(http: &Http, path: &str) -> Result<Stream, End> {
        let request = Request::get(path).header("accept", ACCEPT).body(Body::empty()).unwrap();
        let response = wait::in_time(path, http.client().send(request)).await.map_err(|_| End::Broken)?;
        assert_eq!(response.status().as_u16(), 200, "{path}");
        assert_eq!(
            response.headers()["content-type"],
            "application/vnd.kubernetes.protobuf;stream=watch",
            "{path}"
        );
        Ok(Stream { body: response.into_body(), rest: VecDeque::new() })
    }

    /// The next event: its type, its kind and its object.
    async fn next(&mut self) -> Result<(String, String, Vec<u8>), End> {
        loop {
            if let Some(event) = self.frame() {
                let (kind, object) = opened(at(&event, &[2, 1]));
                return Ok((text(&event, &[1]), kind, object.to_vec()));
            }
            match wait::in_time("a frame", self.body.frame()).await {
                None => return Err(End::Clean),
                Some(Err(_)) => return Err(End::Broken),
                Some(Ok(frame)) => self.rest.extend(frame.into_data().unwrap_or_default()),
            }
        }
    }

    /// A whole frame: four bytes of length, then the event.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let head: Vec<u8> = self.rest.iter().take(4).copied().collect();
        let length = u32::from_be_bytes(head.try_into().ok()?) as usize;
        if self.rest.len() < 4 + length {
            return None;
        }
        Some(self.rest.drain(..4 + length).skip(4).collect())
    }
}

/// The state of an informer of ConfigMaps.
struct Informer {
    http: Http,
    /// Values by name.
    store: BTreeMap<String, String>,
    /// The last revision seen; empty before the first one.
    revision: String,
    lists: usize,
}

impl Informer {
    fn new(url: &str) -> Informer {
        Informer { http: Http::new(url), store: BTreeMap::new(), revision: String::new(), lists: 0 }
    }

    /// Applies an event to the store.
    fn take(store: &mut BTreeMap<String, String>, event: &str, object: &[u8]) {
        let name = text(object, &[1, 1]);
        let data = all(object, 2).into_iter().find(|entry| text(entry, &[1]) == "value");
        let value = data.map(|entry| text(entry, &[2])).unwrap_or_default();
        match event {
            "ADDED" | "MODIFIED" => drop(store.insert(name, value)),
            "DELETED" => assert!(store.remove(&name).is_some(), "{name} was there"),
            other => panic!("{other} is no change"),
        }
    }

    /// One round: reads a stream until it ends or the store matches.
    async fn round(
        &mut self,
        seconds: u32,
        fits: &impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Result<(), End> {
        let listing = self.revision.is_empty();
        let begin = if listing {
            self.lists += 1;
            "resourceVersionMatch=NotOlderThan&sendInitialEvents=true".to_owned()
        } else {
            format!("resourceVersion={}", self.revision)
        };
        let path = format!("{MAPS}?allowWatchBookmarks=true&{begin}&timeoutSeconds={seconds}&watch=true");
        let mut stream = Stream::open(&self.http, &path).await?;
        let mut fresh = listing.then(BTreeMap::new);
        while fresh.is_some() || !fits(&self.store) {
            let (event, kind, object) = stream.next().await?;
            if event == "ERROR" {
                assert_eq!(kind, "Status");
                let code = code(&object);
                if code == 410 {
                    self.revision.clear();
                }
                return Err(End::Error(code));
            }
            assert_eq!(kind, "ConfigMap", "{event}");
            let seen = text(&object, &[1, 6]);
            assert!(!seen.is_empty(), "every event has a revision: {event}");
            if event != "BOOKMARK" {
                Self::take(fresh.as_mut().unwrap_or(&mut self.store), &event, &object);
                if fresh.is_some() {
                    assert_eq!(event, "ADDED", "before the list is whole");
                    continue;
                }
            } else if let Some(whole) = fresh.take() {
                let annotations = all(at(&object, &[1]), 12);
                let ends = |entry: &&[u8]| {
                    text(entry, &[1]) == "k8s.io/initial-events-end" && text(entry, &[2]) == "true"
                };
                assert!(annotations.iter().any(ends), "the first bookmark ends the list");
                self.store = whole;
            }
            self.revision = seen;
        }
        Ok(())
    }

    /// Runs rounds until the store matches; returns how each round but the last one ended.
    async fn until(
        &mut self,
        what: &str,
        seconds: u32,
        fits: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Vec<End> {
        let mut ends = Vec::new();
        let begin = tokio::time::Instant::now();
        while let Err(end) = self.round(seconds, &fits).await {
            ends.push(end);
            let patient = begin.elapsed() < wait::PATIENCE;
            assert!(patient, "waited for: {what}\n{ends:?}\nwhat is held: {:?}", self.store);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        ends
    }
}

/// The code in a Status.
fn code(status: &[u8]) -> i64 {
    // Field 6 is a number, and the last field: its varint ends the message.
    let tag = status.iter().rposition(|byte| *byte == 6 << 3).expect("a Status has a code");
    status[tag + 1..].iter().rev().fold(0, |value, byte| value << 7 | i64::from(byte & 0x7f))
}

#[tokio::test]
async fn informer_survives_timeouts_restarts_and_compaction() {
    let mut plane = forgetful().await;
    let http = plane.http();
    for name in ["a", "b", "c"] {
        create(&http, name, "1").await;
    }
    let line = Line::to(&plane.url()).await;
    let mut informer = Informer::new(line.url());
    let has = |name: &'static str, value: &'static str| {
        move |store: &BTreeMap<String, String>| store.get(name).is_some_and(|is| is == value)
    };
    let ends = informer.until("the list", 300, has("c", "1")).await;
    assert_eq!((ends.as_slice(), informer.store.len()), (&[][..], 3));

    // The watch times out without new events; the informer resumes from the last bookmark and misses nothing.
    assert_eq!(informer.round(1, &|_: &BTreeMap<String, String>| false).await, Err(End::Clean));
    change(&http, "a", "2").await;
    let ends = informer.until("what came in between", 300, has("a", "2")).await;
    assert_eq!(ends, [], "it was resumed, not listed");

    // The server is killed and restarts while the line stays up.
    plane.kill().await;
    assert_eq!(informer.round(300, &has("a", "3")).await, Err(End::Broken));
    plane.start_again().await;
    change(&http, "a", "3").await;
    informer.until("what came after the restart", 300, has("a", "3")).await;
    assert_eq!(informer.lists, 1, "a restart is no reason to list again");

    // Cut off until the revision is compacted: the stream reports it, and the informer lists again.
    line.cut();
    let seen = revision(&http).await;
    change(&http, "b", "2").await;
    http.delete(&format!("{MAPS}/c")).await.expect(200);
    create(&http, "d", "1").await;
    forget(&http, &seen).await;
    assert_eq!(informer.round(300, &has("d", "1")).await, Err(End::Broken));
    line.mend();
    let ends = informer.until("what came while it was cut off", 300, has("d", "1")).await;
    assert_eq!(ends, [End::Error(410)]);
    assert_eq!(informer.lists, 2);
    let wanted =
        [("a", "3"), ("b", "2"), ("d", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(informer.store, BTreeMap::from(wanted), "what was deleted is gone");
}

/// Typed clients of client-go write protobuf; patches are JSON, and answers are in the format that the client
/// accepts.
#[tokio::test]
async fn protobuf_writes_are_accepted() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let headers = [("accept", ACCEPT), ("content-type", PROTOBUF)];
    let entry = |value: &str| message(&[(1, b"value"), (2, value.as_bytes())]);
    let name = "/api/v1/namespaces/default/configmaps/p";

    let metadata = message(&[(1, b"p"), (3, b"default")]);
    let body = envelope("v1", "ConfigMap", &message(&[(1, &metadata), (2, &entry("1"))]));
    let answer = http.send(Method::POST, MAPS, &headers, body.clone()).await;
    assert_eq!((answer.code, answer.header("content-type")), (201, PROTOBUF), "{}", answer.text());
    let (kind, object) = opened(&answer.body);
    assert_eq!((kind.as_str(), text(object, &[2, 2]).as_str()), ("ConfigMap", "1"));
    let first = text(object, &[1, 6]);

    let answer = http.send(Method::POST, MAPS, &headers, body).await;
    assert_eq!((answer.code, answer.header("content-type")), (409, PROTOBUF));
    let (kind, status) = opened(&answer.body);
    assert_eq!((kind.as_str(), text(status, &[4]).as_str()), ("Status", "AlreadyExists"));

    // The object that was read is written back, changed.
    let mut again = message(&[(1, at(object, &[1]))]);
    put(&mut again, 2, &entry("2"));
    let body = envelope("v1", "ConfigMap", &again);
    let answer = http.send(Method::PUT, name, &headers, body.clone()).await;
    assert_eq!(answer.code, 200, "{}", answer.text());
    let second = text(opened(&answer.body).1, &[1, 6]);
    assert_ne!(second, first);
    let answer = http.send(Method::PUT, name, &headers, body).await;
    assert_eq!(answer.code, 409, "it is of an older revision");
    assert_eq!(text(opened(&answer.body).1, &[4]), "Conflict");

    for (kind, patch) in [
        ("application/strategic-merge-patch+json", r#"{"data": {"value": "3"}}"#),
        ("application/merge-patch+json", r#"{"data": {"value": "4"}}"#),
        ("application/json-patch+json", r#"[{"op": "replace", "path": "/data/value", "value": "5"}]"#),
        (
            "application/apply-patch+yaml",
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, "data": {"value": "6"}}"#,
        ),
    ] {
        let headers = [("accept", ACCEPT), ("content-type", kind)];
        let path = if kind.contains("apply") {
            format!("{name}?fieldManager=me&force=true")
        } else {
            name.to_owned()
        };
        let answer = http.send(Method::PATCH, &path, &headers, patch.into()).await;
        assert_eq!(
            (answer.code, answer.header("content-type")),
            (200, PROTOBUF),
            "{kind}: {}",
            answer.text()
        );
    }
    assert_eq!(http.get(name).await.expect(200)["data"], json!({"value": "6"}));

    let list = http.send(Method::GET, MAPS, &[("accept", ACCEPT)], Vec::new()).await;
    let (kind, list) = opened(&list.body);
    assert_eq!((kind.as_str(), all(list, 2).len()), ("ConfigMapList", 1));
    let uid = text(at(list, &[2]), &[1, 5]);

    let options = |uid: &str| {
        let options = message(&[(2, &message(&[(1, uid.as_bytes())])), (4, b"Background")]);
        envelope("v1", "DeleteOptions", &options)
    };
    let answer = http.send(Method::DELETE, name, &headers, options("another")).await;
    assert_eq!(answer.code, 409, "{}", answer.text());
    let answer = http.send(Method::DELETE, name, &headers, options(&uid)).await;
    assert_eq!((answer.code, opened(&answer.body).0.as_str()), (200, "Status"));
    assert_eq!(http.get(name).await.code, 404);
}

/// The Accept headers of discovery, from client-go 0.26 on; 0.36 also requests discovery without peers.
#[tokio::test]
async fn discovery_format_follows_the_accept_header() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let accepted = [
        ("0.30 to 0.36", format!("{V2},{BETA},application/json"), true),
        ("0.36 without peers", format!("{V2};profile=nopeer,{V2},{BETA},application/json"), true),
        ("a proxy of 0.36", format!("{V2};profile=nopeer,{V2},application/json"), true),
        ("0.26 to 0.29", format!("{BETA},application/json"), false),
        ("the old form", "application/json".to_owned(), false),
        ("the old form, in protobuf", ACCEPT.to_owned(), false),
    ];
    for path in ["/api", "/apis", "/api?timeout=32s", "/apis?timeout=32s"] {
        for (who, accept, at_once) in &accepted {
            let answer = http.send(Method::GET, path, &[("accept", accept)], Vec::new()).await;
            assert_eq!(answer.code, 200, "{who}: {path}");
            if !at_once {
                let kind = answer.header("content-type");
                assert!(!kind.contains("apidiscovery"), "{who}: {path}: {kind}");
                continue;
            }
            assert_eq!(answer.header("content-type"), V2, "{who}: {path}");
            let list = answer.json();
            assert_eq!(
                (&list["kind"], &list["apiVersion"]),
                (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
            );
            assert_eq!(list["items"][0]["versions"][0]["freshness"], "Current", "{who}: {path}");
            let known = [("accept", accept.as_str()), ("if-none-match", answer.header("etag"))];
            let again = http.send(Method::GET, path, &known, Vec::new()).await;
            assert_eq!((again.code, again.body.len()), (304, 0), "{who}: {path}");
        }
    }
}
