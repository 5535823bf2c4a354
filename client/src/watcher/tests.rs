//! Tests the watcher with scripted responses.
#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use http::{Request as HttpRequest, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// A client whose requests receive these responses in order, and the requests that it sent.
fn scripted(responses: Vec<(u16, String)>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, responses) = (Arc::clone(&sent), Arc::new(Mutex::new(VecDeque::from(responses))));
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        log.lock().push(request.uri().query().unwrap_or_default().to_owned());
        let response = responses.lock().pop_front();
        async move {
            let Some((code, body)) = response else { return std::future::pending().await };
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), sent)
}

fn map(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version}})
}

fn list(version: &str, token: &str, items: &[Value]) -> (u16, String) {
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": version, "continue": token}, "items": items});
    (200, list.to_string())
}

fn line(type_: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": type_, "object": object}))
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "R", "message": "m"})
}

/// The first `count` steps, each as a short text.
async fn steps(client: Client, count: usize) -> Vec<String> {
    let stream = watcher(&Api::<ConfigMap>::all(client), &Selection::default());
    let object = |map: Result<ConfigMap, Undecodable>| match map {
        Ok(map) => map.metadata.name.unwrap(),
        Err(Undecodable { key, uid, revision, error }) => {
            assert!(error.starts_with("invalid type: integer"), "{error}");
            format!("undecodable {key} {uid} {revision}")
        }
    };
    let word = |step: Result<Event<Result<ConfigMap, Undecodable>>, WatcherError>| match step {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(map)) => format!("listed {}", object(map)),
        Ok(Event::InitDone) => "complete".to_owned(),
        Ok(Event::Apply(map)) => format!("applied {}", object(map)),
        Ok(Event::Delete(map)) => format!("deleted {}", object(map)),
        Err(error) => format!("error expired={}: {error}", error.is_expired()),
    };
    stream.take(count).map(word).collect().await
}

#[tokio::test]
async fn pages_are_read_before_the_watch_starts_at_the_version_of_the_last_one() {
    let events = [
        line("ADDED", &map("c", "11")),
        line("BOOKMARK", &map("", "15")),
        line("DELETED", &map("a", "16")),
        line("MODIFIED", &map("b", "17")),
    ];
    let (client, sent) = scripted(vec![
        list("9", "more", &[map("a", "5")]),
        list("10", "", &[map("b", "6")]),
        (200, events.concat()),
        (200, line("MODIFIED", &map("b", "18"))),
    ]);
    let wanted =
        ["init", "listed a", "listed b", "complete", "applied c", "deleted a", "applied b", "applied b"];
    assert_eq!(steps(client, wanted.len()).await, wanted);
    let sent = sent.lock().clone();
    assert!(sent[0].contains("limit=500") && !sent[0].contains("continue"), "{sent:?}");
    assert!(sent[1].contains("continue=more"), "{sent:?}");
    assert!(sent[2].contains("resourceVersion=10") && sent[2].contains("watch=true"), "{sent:?}");
    assert!(sent[3].contains("resourceVersion=17"), "a watch that ended is resumed: {sent:?}");
}

#[tokio::test]
async fn expired_version_leads_to_a_new_list() {
    for expired in [(410, status(410).to_string()), (200, line("ERROR", &status(410)))] {
        let (client, sent) = scripted(vec![
            list("9", "", &[]),
            expired,
            list("20", "", &[map("a", "5")]),
            (200, String::new()),
        ]);
        let found = steps(client, 6).await;
        assert!(found[2].starts_with("error expired=true"), "{found:?}");
        assert_eq!(found[3..], ["init", "listed a", "complete"]);
        assert_eq!(sent.lock().len(), 3);
    }
}

#[tokio::test]
async fn errors_are_reported_and_the_next_poll_tries_again() {
    let (client, _) = scripted(vec![
        (503, status(503).to_string()),
        list("9", "", &[]),
        (500, "no Status at all".to_owned()),
        (200, format!("{}not JSON\n{}", line("ERROR", &status(500)), line("ADDED", &map("a", "10")))),
    ]);
    let found = steps(client, 8).await;
    assert!(found[1].starts_with("error expired=false: cannot list"), "{found:?}");
    assert_eq!(found[2..4], ["init", "complete"]);
    assert!(found[4].contains("cannot start to watch"), "{found:?}");
    assert!(found[5].contains("the server ended the watch"), "{found:?}");
    assert!(found[6].contains("cannot decode an event"), "{found:?}");
    assert_eq!(found[7], "applied a");
}

#[tokio::test]
async fn i12_object_with_another_shape_is_one_event_among_others() {
    let wrong =
        json!({"metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "12"}, "data": 7});
    let events = line("ADDED", &wrong) + &line("DELETED", &wrong) + &line("ADDED", &map("b", "13"));
    let (client, sent) =
        scripted(vec![list("9", "", &[map("a", "5"), wrong.clone(), map("c", "6")]), (200, events)]);
    let wanted = [
        "init",
        "listed a",
        "listed undecodable ns/w u 12",
        "listed c",
        "complete",
        "applied undecodable ns/w u 12",
        "deleted undecodable ns/w u 12",
        "applied b",
    ];
    assert_eq!(steps(client, wanted.len()).await, wanted);
    assert_eq!(sent.lock().len(), 2, "one list and one watch");
}

/// Without a name it is unknown which object exists.
#[tokio::test]
async fn object_without_a_name_is_an_error() {
    let wrong = json!({"metadata": {"resourceVersion": "12"}, "data": 7});
    let (client, _) = scripted(vec![list("9", "", std::slice::from_ref(&wrong))]);
    assert!(steps(client, 2).await[1].contains("cannot decode an object of the list"));
    let (client, _) =
        scripted(vec![list("9", "", &[]), (200, line("ADDED", &wrong) + &line("ADDED", &map("a", "13")))]);
    let found = steps(client, 4).await;
    assert!(found[2].contains("cannot decode an event"), "{found:?}");
    assert_eq!(found[3], "applied a", "the others continue");
}
