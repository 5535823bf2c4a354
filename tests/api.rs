//! The API contract that clients rely on: watches that start, resume and expire correctly, consistent pages,
//! enforced limits, and a clean shutdown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server(flags: &[&str]) -> (Plane, Http) {
    let plane = Plane::of(Layout::ServerAlone).server_flags(flags).start().await;
    let http = plane.http();
    (plane, http)
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"value": value}})
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates or replaces a ConfigMap.
async fn put(http: &Http, name: &str, value: &str) -> Value {
    let answer = http.put(&format!("{MAPS}/{name}"), &map(name, value)).await;
    if answer.code == 404 { http.create(MAPS, &map(name, value)).await } else { answer.expect(200) }
}

#[tokio::test]
async fn watch_sends_initial_events_and_a_final_bookmark() {
    let (_plane, http) = server(&[]).await;
    for n in 0..3 {
        put(&http, &format!("m{n}"), "old").await;
    }
    let head = revision(&http.get(MAPS).await.expect(200));
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = http.watch(&format!("{MAPS}?{query}")).await;
    let events = watch.until("the end of the initial events", |event| event["type"] == "BOOKMARK").await;
    let (mark, initial) = events.split_last().unwrap();
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{mark}");
    assert!(revision(&mark["object"]) >= head);
    assert!(initial.iter().all(|event| event["type"] == "ADDED"));
    let names: Vec<&str> = initial.iter().map(|event| name(&event["object"])).collect();
    assert_eq!(names, ["m0", "m1", "m2"]);
    // Later changes arrive exactly once.
    let written = put(&http, "m1", "new").await;
    let event = watch.next().await.unwrap();
    assert_eq!(event, json!({"type": "MODIFIED", "object": written}));
}

#[tokio::test]
async fn bookmarks_advance_without_events() {
    let (_plane, http) = server(&[]).await;
    let begin = revision(&http.get("/api/v1/secrets").await.expect(200));
    let path =
        format!("/api/v1/secrets?watch=1&allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={begin}");
    let mut watch = http.watch(&path).await;
    let elsewhere = revision(&put(&http, "busy", "1").await);
    let events = watch.until("a bookmark", |event| event["type"] == "BOOKMARK").await;
    let [mark] = &events[..] else { panic!("nothing happened to secrets: {events:#?}") };
    assert!(revision(&mark["object"]) >= elsewhere, "{mark}");
    assert_eq!(watch.next().await, None, "its time is up, and it ends cleanly");
}

/// I3
#[tokio::test]
async fn watch_resumes_from_every_revision() {
    let (mut plane, http) = server(&[]).await;
    let begin = revision(&http.get(MAPS).await.expect(200));
    let mut all = http.watch(&format!("{MAPS}?watch=1&resourceVersion={begin}")).await;
    put(&http, "a", "1").await;
    put(&http, "b", "1").await;
    put(&http, "a", "2").await;
    http.delete(&format!("{MAPS}/b")).await.expect(200);
    put(&http, "b", "2").await;
    let events = all
        .until("the last write", |event| {
            event["object"]["data"]["value"] == "2" && name(&event["object"]) == "b"
        })
        .await;
    let shown: Vec<_> =
        events.iter().map(|event| (event["type"].as_str().unwrap(), name(&event["object"]))).collect();
    assert_eq!(shown, [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "b")]);
    // From every revision, before and after a restart.
    for life in ["first", "second"] {
        for (index, event) in events.iter().enumerate() {
            let from = revision(&event["object"]);
            let mut watch = http.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;
            for wanted in &events[index + 1..] {
                assert_eq!(watch.next().await.as_ref(), Some(wanted), "{life} life, from {from}");
            }
        }
        plane.kill_and_restart().await;
    }
}

#[tokio::test]
async fn compacted_revisions_are_expired() {
    let (_plane, http) = server(&["--store-retention-age", "0s", "--store-retention-revisions", "1"]).await;
    for n in 0..5 {
        put(&http, &format!("m{n}"), "old").await;
    }
    let page = http.get(&format!("{MAPS}?limit=2")).await.expect(200);
    let (old, token) = (revision(&page), page["metadata"]["continue"].as_str().unwrap().to_owned());
    let exact = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    http.get(&exact).await.expect(200);
    let mut written = 0;
    wait::until("the past is forgotten", async || {
        written += 1;
        put(&http, "busy", &written.to_string()).await;
        let answer = http.get(&exact).await;
        if answer.code == 410 { Ok(()) } else { Err(format!("{written} writes later: {}", answer.text())) }
    })
    .await;
    let expired = |status: &Value| {
        assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")), "{status}");
    };
    expired(&http.get(&exact).await.expect(410));
    // A watch reports it as an event in the stream, and ends.
    let mut watch = http.watch(&format!("{MAPS}?watch=1&resourceVersion={old}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    expired(&event["object"]);
    assert!(
        event["object"]["message"].as_str().unwrap().starts_with("too old resource version: "),
        "{event}"
    );
    assert_eq!(watch.next().await, None);
    // A list in progress receives a token to continue with the current state.
    let answer = http.get(&format!("{MAPS}?limit=2&continue={token}")).await.expect(410);
    expired(&answer);
    let token = answer["metadata"]["continue"].as_str().expect("a continue token");
    let rest = http.get(&format!("{MAPS}?continue={token}")).await.expect(200);
    let names: Vec<&str> = rest["items"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(names, ["m2", "m3", "m4"], "behind the page that it had");
}

#[tokio::test]
async fn pages_show_one_revision() {
    let (_plane, http) = server(&[]).await;
    let names: Vec<String> = (0..60).map(|n| format!("m{n:02}")).collect();
    for name in &names {
        http.create(MAPS, &map(name, "first")).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (http, stop, names) = (http.clone(), Arc::clone(&stop), names.clone());
        async move {
            for round in 0.. {
                for name in &names {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    // A third of the maps is changed, a third is deleted and created again, and a third is new.
                    put(&http, &format!("{name}-{round}"), "new").await;
                    put(&http, name, &round.to_string()).await;
                    http.delete(&format!("{MAPS}/{name}-{round}")).await;
                }
            }
        }
    });
    for round in 0..5 {
        let (mut shown, mut token, mut state) = (BTreeMap::new(), String::new(), None);
        loop {
            let page = http.get(&format!("{MAPS}?limit=7&continue={token}")).await.expect(200);
            assert_eq!(*state.get_or_insert(revision(&page)), revision(&page), "round {round}");
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 7);
            for item in items {
                assert!(revision(item) <= revision(&page), "{item} is newer than its list");
                let again = shown.insert(name(item).to_owned(), item.clone());
                assert!(again.is_none(), "round {round}: {item} twice");
            }
            match page["metadata"]["continue"].as_str() {
                Some(next) => {
                    assert_eq!(items.len(), 7, "only the last page is short");
                    next.clone_into(&mut token);
                }
                None => break,
            }
        }
        // The whole list in one request, of the same revision.
        let exact = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", state.unwrap());
        let whole = http.get(&exact).await.expect(200);
        let whole: Vec<&Value> = whole["items"].as_array().unwrap().iter().collect();
        assert_eq!(shown.values().collect::<Vec<_>>(), whole, "round {round}");
        assert!(
            names.iter().all(|name| shown.contains_key(name)),
            "round {round}: what is always there is shown"
        );
    }
    stop.store(true, Ordering::SeqCst);
    wait::in_time("the writer ends", writer).await.unwrap();
}

/// I12
#[tokio::test]
async fn slow_watcher_does_not_block_others() {
    let (_plane, http) = server(&[]).await;
    let begin = revision(&http.get(MAPS).await.expect(200));
    let path = format!("{MAPS}?watch=1&resourceVersion={begin}");
    let mut slow = http.watch(&path).await;
    let mut quick = http.watch(&path).await;
    // Far more than fits into the buffers between server and client; meanwhile nothing is read from `slow`.
    let large = "x".repeat(256 * 1024);
    let mut events = Vec::new();
    for n in 0..100 {
        put(&http, "large", &format!("{n}{large}")).await;
        let event = quick.next().await.unwrap();
        assert!(
            event["object"]["data"]["value"].as_str().unwrap().starts_with(&format!("{n}x")),
            "event {n}"
        );
        events.push(revision(&event["object"]));
    }
    // It receives every event, in order, once it reads.
    for wanted in events {
        let event = slow.next().await.unwrap();
        assert_eq!(revision(&event["object"]), wanted, "{}", event["type"]);
    }
}

#[tokio::test]
async fn oversized_or_deeply_nested_bodies_are_rejected() {
    let (_plane, http) = server(&[]).await;
    let answer = http.post(MAPS, &map("huge", &"x".repeat(3 * 1024 * 1024))).await;
    let status = answer.expect(413);
    assert_eq!(
        (&status["kind"], &status["reason"]),
        (&json!("Status"), &json!("RequestEntityTooLarge")),
        "{status}"
    );
    assert_eq!(http.get(&format!("{MAPS}/huge")).await.code, 404);
    // Nesting that would overflow a parser's stack is rejected, and the server keeps running.
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let headers = [("content-type", "application/json")];
    let answer = http.send(Method::POST, MAPS, &headers, deep.into_bytes()).await;
    assert_eq!(answer.code, 400, "{}", answer.text());
    put(&http, "small", "x").await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_forbidden() {
    let (plane, http) = server(&[]).await;
    let port = plane.url().rsplit(':').next().unwrap().to_owned();
    let (own, local) = (format!("http://127.0.0.1:{port}"), format!("localhost:{port}"));
    let cases: [(&str, &str, &str, u16); 7] = [
        ("1 the page itself", "origin", &own, 201),
        ("2 this machine by name", "host", &local, 201),
        ("3 a page from elsewhere", "origin", "http://evil.example", 403),
        ("4 a page of another port", "origin", "http://127.0.0.1:1", 403),
        ("5 a name that was made to point here", "host", "evil.example", 403),
        ("6 the same with the port", "host", "evil.example:8080", 403),
        ("7 a page without an origin", "origin", "null", 403),
    ];
    for (case, header, value, code) in cases {
        let name = format!("c{}", case.split(' ').next().unwrap());
        let headers = [("content-type", "application/json"), (header, value)];
        let answer = http.send(Method::POST, MAPS, &headers, map(&name, "x").to_string().into()).await;
        assert_eq!(answer.code, code, "{case}: {}", answer.text());
        let found = http.get(&format!("{MAPS}/{name}")).await.code;
        assert_eq!(found == 200, code == 201, "{case}");
    }
}

#[tokio::test]
async fn sigterm_drains_watches_before_exit() {
    let plane = Plane::of(Layout::OneProcess).server_flags(&["--shutdown-delay-duration", "4s"]).start();
    let mut plane = plane.await;
    let http = plane.http();
    let mut watch = http.watch("/api/v1/namespaces?watch=1").await;
    watch.next().await.unwrap();
    plane.server().signal(Signal::TERM);
    // First the server is not ready, so that no new clients are sent here; connected clients are still served.
    wait::until("not ready", async || {
        let answer = http.try_get("/readyz").await?;
        if answer.code == 500 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    assert_eq!(http.get("/livez").await.code, 200);
    let written = put(&http, "late", "x").await;
    assert!(plane.server().ended().is_none());
    // Then the watches end cleanly (`next` panics on a broken stream), and the process exits.
    while watch.next().await.is_some() {}
    assert_eq!(plane.server().exit_code().await, 0);
    plane.kill_server().await;
    plane.start_again().await;
    assert_eq!(plane.http().get(&format!("{MAPS}/late")).await.expect(200), written);
}

#[tokio::test]
async fn request_in_progress_is_answered_after_sigterm() {
    let (mut plane, http) = server(&[]).await;
    let address = plane.url().replace("http://", "");
    let body = map("begun", "x").to_string();
    let (half, rest) = body.split_at(body.len() / 2);
    let mut socket = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{half}").as_bytes()).await.unwrap();
    // The server is processing the first request once it answers the second.
    http.get("/livez").await.expect_text("ok");
    plane.server().signal(Signal::TERM);
    wait::until("it takes no new connections", async || {
        match tokio::net::TcpStream::connect(&address).await {
            Ok(_) => Err("it does".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    socket.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = String::new();
    wait::in_time("an answer", socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(plane.server().exit_code().await, 0);
}

#[tokio::test]
async fn second_process_on_a_data_directory_is_refused() {
    let (mut plane, http) = server(&[]).await;
    let data = plane.data_dir().display().to_string();
    let args = ["apiserver", "--listen", "127.0.0.1:0", "--data-dir", &data].map(str::to_owned);
    let mut second = Process::start("second", plane.dir(), &args);
    assert_eq!(second.exit_code().await, 1);
    let log = second.log();
    for part in ["is in use by another process (pid ", "stop it, or choose another --data-dir", &data] {
        assert!(log.contains(part), "{part}: {log}");
    }
    // The first process is not affected, and its exit releases the directory.
    put(&http, "mine", "x").await;
    plane.stop().await;
    plane.start_again().await;
}
