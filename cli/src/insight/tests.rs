//! The requests of each command, their order and the outcome, against a fake server.

#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::change::Terminal;
use super::*;
use crate::args::ObjectOutput;

/// A received request: method and path with query, and the body.
type Asked = (String, Value);

/// A server with predefined answers; all other requests return 404.
#[derive(Clone, Default)]
struct Server {
    answers: Vec<(String, u16, Value)>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn with(mut self, request: &str, code: u16, answer: Value) -> Self {
        self.answers.push((request.to_owned(), code, answer));
        self
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        client::in_process(service)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path_and_query().unwrap().as_str().to_owned();
        let shown = format!("{} {path}", request.method());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (code, answer) = match path.as_str() {
            "/api" => (200, kinds::tests::discovery()),
            "/apis" => (200, json!({"items": [{"metadata": {"name": "orlop.dev"}}]})),
            _ => {
                self.asked.lock().push((shown.clone(), serde_json::from_slice(&body).unwrap_or_default()));
                let found = self.answers.iter().find(|(request, ..)| *request == shown);
                found.map_or((404, json!({"message": "no such thing"})), |(_, code, answer)| {
                    (*code, answer.clone())
                })
            }
        };
        let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        response
    }

    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock())
    }
}

const RECLAIM: &str = "POST /apis/orlop.dev/v1/persistentvolumes/a/reclaim";
const TRIAL: &str = "POST /apis/orlop.dev/v1/persistentvolumes/a/reclaim?dryRun=All";

fn plan(steps: usize) -> Value {
    let step = json!({"object": {"kind": "PersistentVolume", "name": "a"}, "action": "update"});
    json!({"kind": "Plan", "verb": "reclaim", "revision": "123", "summary": "it is free again", "steps": vec![step; steps]})
}

fn look() -> Style {
    Style { colour: false, now: Timestamp::UNIX_EPOCH }
}

fn volume(name: &str) -> Named {
    Named { kind: "pv".to_owned(), name: name.to_owned() }
}

/// Runs a reclaim with this input at the terminal. Returns the output of the terminal and the outcome.
async fn reclaim(
    server: &Server,
    (dry_run, yes, is_there, answer): (bool, bool, bool, &str),
) -> (String, Result<(String, Ended), InsightError>) {
    let session = Session::begin(server.client(), Some("ns")).await.unwrap();
    let verb = Verb::KeepData { claim: Some(("ns".to_owned(), "data".to_owned())) };
    let operation = (volume("a"), verb);
    let change = Change { operations: vec![operation.clone()], dry_run, yes, output: TextOrJson::Text };
    let (mut answers, mut out) = (answer.as_bytes(), Vec::new());
    let person = Terminal { is_there, answers: &mut answers, out: &mut out, look: look() };
    let ended = change::change(&session, &change, &operation, person, look()).await;
    (String::from_utf8(out).unwrap(), ended)
}

#[tokio::test]
async fn change_is_sent_only_after_confirmation() {
    let server = Server::default().with(TRIAL, 200, plan(1)).with(RECLAIM, 200, plan(1));
    let options = json!({"kind": "PlanOptions", "apiVersion": "orlop.dev/v1", "keepData": true,
        "for": {"namespace": "ns", "name": "data"}});
    let mut held = options.clone();
    held["revision"] = json!("123");
    // (dry run, --yes, a terminal, the input), whether the change is sent, the outcome.
    for (how, is_done, wanted) in [
        ((true, false, true, ""), false, Some(Ended::Well)),
        ((false, true, false, ""), true, Some(Ended::Well)),
        ((false, false, false, "y\n"), false, None),
        ((false, false, true, "y\n"), true, Some(Ended::Well)),
        ((false, false, true, "YES\n"), true, Some(Ended::Well)),
        ((false, false, true, "n\n"), false, Some(Ended::Declined)),
        ((false, false, true, "\n"), false, Some(Ended::Declined)),
        ((false, false, true, ""), false, Some(Ended::Declined)),
        ((false, false, true, "yellow\n"), false, Some(Ended::Declined)),
    ] {
        let (said, ended) = reclaim(&server, how).await;
        let mut sent = vec![(TRIAL.to_owned(), options.clone())];
        if is_done {
            sent.push((RECLAIM.to_owned(), held.clone()));
        }
        assert_eq!(server.asked(), sent, "{how:?}");
        match (ended, wanted) {
            (Ok((text, ended)), Some(wanted)) => {
                assert_eq!(ended, wanted, "{how:?}");
                assert_eq!(text.contains("done: updated PersistentVolume a"), is_done, "{how:?}: {text}");
            }
            (Err(InsightError::NobodyToAsk), None) => {}
            (ended, _) => panic!("{how:?}: {ended:?}"),
        }
        assert_eq!(said.contains("it is free again"), !how.0, "{how:?}: {said}");
    }
}

#[tokio::test]
async fn empty_plan_needs_no_confirmation() {
    let server = Server::default().with(TRIAL, 200, plan(0));
    let (said, ended) = reclaim(&server, (false, false, false, "")).await;
    let (text, ended) = ended.unwrap();
    assert!(said.is_empty() && text.contains("nothing to do"), "{said}{text}");
    assert_eq!((ended, server.asked().len()), (Ended::Well, 1));
}

#[tokio::test]
async fn server_errors_are_reported() {
    let conflict = json!({"message": "Operation cannot be fulfilled on persistentvolumes \"a\": the object has been modified"});
    let changed = Server::default().with(TRIAL, 200, plan(1)).with(RECLAIM, 409, conflict.clone());
    let (_, ended) = reclaim(&changed, (false, true, true, "")).await;
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("reclaim pv a") && error.contains("nothing was done (the object has been"),
        "{error}"
    );

    let refused = Server::default().with(TRIAL, 409, json!({"message": "it is Bound"}));
    let (_, ended) = reclaim(&refused, (false, true, true, "")).await;
    assert_eq!(ended.unwrap_err().to_string(), "cannot reclaim pv a: it is Bound");
}

#[tokio::test]
async fn severity_determines_the_outcome_of_why() {
    for (severity, wanted) in [
        (json!("ok"), Ended::Well),
        (json!("waiting"), Ended::Well),
        (json!("attention"), Ended::NeedsAttention),
        (json!("doom"), Ended::NeedsAttention),
        (json!(null), Ended::NeedsAttention),
    ] {
        let path = "GET /apis/orlop.dev/v1/persistentvolumes/a/why";
        let server = Server::default().with(path, 200, json!({"severity": severity}));
        let session = Session::begin(server.client(), None).await.unwrap();
        let (_, ended) = look::why(&session, &volume("a"), TextOrJson::Text, look()).await.unwrap();
        assert_eq!(ended, wanted, "{severity}");
    }
}

/// The answers about several objects, as JSON or as text: the output, the errors and the outcome.
async fn several(server: &Server, names: &[&str], output: TextOrJson) -> (String, String, Ended) {
    let session = Session::begin(server.client(), None).await.unwrap();
    let objects: Vec<Named> = names.iter().map(|name| volume(name)).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams { out: &mut out, err: &mut err };
    let why = async |object: &Named| look::why(&session, object, output, look()).await;
    let ended = each(&objects, output, streams, why).await.unwrap();
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), ended)
}

#[tokio::test]
async fn several_objects_have_one_answer_each_and_the_worst_outcome() {
    let path = |name: &str| format!("GET /apis/orlop.dev/v1/persistentvolumes/{name}/why");
    let answer = |name: &str, severity: &str| json!({"severity": severity, "summary": format!("volume {name}."), "object": {"kind": "PersistentVolume", "name": name}});
    let server = Server::default().with(&path("a"), 200, answer("a", "ok")).with(
        &path("b"),
        200,
        answer("b", "attention"),
    );
    for (names, wanted) in [
        (&["a", "a"][..], Ended::Well),
        (&["b", "a"], Ended::NeedsAttention),
        (&["none", "b", "a"], Ended::Failed),
    ] {
        let (out, err, ended) = several(&server, names, TextOrJson::Json).await;
        assert_eq!(ended, wanted, "{names:?}");
        let documents: Vec<Value> =
            serde_json::Deserializer::from_str(&out).into_iter().collect::<Result<_, _>>().unwrap();
        let got: Vec<&str> = documents.iter().filter_map(|one| one["object"]["name"].as_str()).collect();
        let want: Vec<&str> = names.iter().copied().filter(|name| *name != "none").collect();
        assert_eq!(got, want);
        assert_eq!(err.contains("cannot explain pv none"), wanted == Ended::Failed, "{err}");
    }
    let text = several(&server, &["a", "b"], TextOrJson::Text).await.0;
    assert!(text.find("volume a.").unwrap() < text.find("\n\n").unwrap(), "{text}");
    assert!(text.find("\n\n").unwrap() < text.find("volume b.").unwrap(), "{text}");
}

#[tokio::test]
async fn unknown_kind_prevents_the_whole_command() {
    let server = Server::default();
    let operations = ["pv", "pvx"]
        .map(|kind| (Named { kind: kind.to_owned(), name: "a".to_owned() }, Verb::Undelete { at: None }));
    let change =
        Change { operations: operations.into(), dry_run: false, yes: true, output: TextOrJson::Text };
    let error = perform(server.client(), None, &Deed::Change(change)).await.unwrap_err();
    assert!(matches!(error, InsightError::Kind(_)), "{error}");
    assert!(server.asked().is_empty(), "nothing was requested");
}

#[tokio::test]
async fn times_are_resolved_to_revisions() {
    let time: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
    let server = Server::default()
        .with("GET /apis/orlop.dev/v1/revisions?at=2026-01-31T12:00:00Z", 200, json!({"revision": "77"}))
        .with("GET /apis/orlop.dev/v1/persistentvolumes/a/diff?from=5&to=77", 200, json!({"changes": []}))
        .with(
            "GET /api/v1/persistentvolumes?resourceVersion=77&resourceVersionMatch=Exact&labelSelector=a%3Db",
            200,
            json!({"items": [{"metadata": {"name": "a", "managedFields": []}}]}),
        );
    let session = Session::begin(server.client(), None).await.unwrap();
    let (from, to) = (Point::Revision(5), Point::Time(time));
    look::diff(&session, &volume("a"), &from, Some(&to), TextOrJson::Text, look()).await.unwrap();
    let get = Get {
        kind: "pv".into(),
        name: None,
        as_of: Some(to),
        all_namespaces: true,
        selector: Some("a=b".into()),
        output: ObjectOutput::Json,
    };
    let (text, _) = get::get(&session, &get, look()).await.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({"items": [{"metadata": {"name": "a"}}]})
    );
}

/// The error for a deleted object says when it was deleted and how to undelete it.
#[tokio::test]
async fn deleted_object_is_reported_with_its_revision() {
    let base = "GET /apis/orlop.dev/v1/namespaces/ns/persistentvolumeclaims/c";
    let history = json!({"items": [{"type": "DELETED", "revision": "7", "time": "2026-01-31T12:00:00.5Z"}]});
    let gone = Server::default().with(&format!("{base}/history?limit=1"), 200, history);
    let claim = Named { kind: "pvc".to_owned(), name: "c".to_owned() };
    let mut session = Session::begin(gone.client(), Some("ns")).await.unwrap();
    for (knows, wanted) in [
        (
            false,
            "cannot explain pvc ns/c: this server has no API group orlop.dev; only orlop servers have it",
        ),
        (
            true,
            "cannot explain pvc ns/c: it was deleted at 2026-01-31T12:00:00Z (revision 7); restore it with \
             `orlop undelete pvc/c -n ns`, or show its earlier states with `orlop history pvc/c -n ns`",
        ),
    ] {
        session.has_insight = knows;
        let error = look::why(&session, &claim, TextOrJson::Text, look()).await.unwrap_err();
        assert_eq!(error.to_string(), wanted);
        let error = look::impact(&session, &claim, TextOrJson::Text, look()).await.unwrap_err();
        assert_eq!(error.to_string(), wanted.replace("explain", "show the impact of deleting"));
    }
    let unknown = Server::default();
    let mut session = Session::begin(unknown.client(), Some("ns")).await.unwrap();
    session.has_insight = true;
    let error = look::why(&session, &claim, TextOrJson::Text, look()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot explain pvc ns/c: no such thing");
}

/// A single object of the past is requested as a list and shown as an object.
#[tokio::test]
async fn past_object_is_read_as_a_list() {
    const LIST: &str = "GET /api/v1/persistentvolumes?resourceVersion=7&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Da";
    let get = |output| Get {
        kind: "pv".into(),
        name: Some("a".into()),
        as_of: Some(Point::Revision(7)),
        all_namespaces: false,
        selector: None,
        output,
    };
    let list = |items: Value| json!({"kind": "PersistentVolumeList", "apiVersion": "v1", "metadata": {}, "items": items});
    let table = |rows: Value| json!({"kind": "Table", "columnDefinitions": [{"name": "Name", "type": "string", "priority": 0}], "rows": rows});
    let run = async |answer: (u16, Value), output| {
        let revisions = json!({"oldest": {"revision": "64"}, "newest": {"revision": "90"}});
        let server = Server::default().with(LIST, answer.0, answer.1);
        let server = server.with("GET /apis/orlop.dev/v1/revisions", 200, revisions);
        let session = Session::begin(server.client(), None).await.unwrap();
        get::get(&session, &get(output), look())
            .await
            .map(|(text, _)| text)
            .map_err(|error| error.to_string())
    };

    let item = json!({"metadata": {"name": "a", "managedFields": [{}]}});
    let object = json!({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": "a"}});
    let text = run((200, list(json!([item]))), ObjectOutput::Json).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object);
    let text = run((200, table(json!([{"cells": ["a"]}]))), ObjectOutput::Table).await.unwrap();
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["NAME", "a"]);

    let absent = "cannot get pv a: it did not exist then; `orlop history pv/a` shows when it existed";
    assert_eq!(run((200, list(json!([]))), ObjectOutput::Yaml).await.unwrap_err(), absent);
    assert_eq!(run((200, table(json!([]))), ObjectOutput::Table).await.unwrap_err(), absent);
    let refusal = (410, json!({"message": "too old resource version"}));
    assert_eq!(
        run(refusal, ObjectOutput::Json).await.unwrap_err(),
        "cannot get pv a as of revision 7: this state is no longer available; the oldest available revision is 64"
    );
}
