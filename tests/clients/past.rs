//! A server with a short history, and the changes that happen while a client is disconnected.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::line::Line;
use super::script::Script;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

/// The collection that the informers of these tests follow.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server that compacts its history as soon as possible.
pub(crate) async fn forgetful() -> Plane {
    let flags = ["--store-retention-age", "0s", "--store-retention-revisions", "1"];
    Plane::of(Layout::ServerAlone).server_flags(&flags).start().await
}

/// Writes to another collection until a watch from this revision is rejected.
pub(crate) async fn forget(http: &Http, revision: &str) {
    let exact = format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let mut written = 0;
    http.create("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "busy"}})).await;
    wait::until("the past is forgotten", async || {
        // The store compacts in steps of many revisions.
        for _ in 0..64 {
            written += 1;
            let patch = json!({"metadata": {"annotations": {"n": written.to_string()}}});
            http.patch("/api/v1/namespaces/default/secrets/busy", &patch).await.expect(200);
        }
        let answer = http.get(&exact).await;
        if answer.code == 410 { Ok(()) } else { Err(format!("{written} writes later: {}", answer.text())) }
    })
    .await;
    http.delete("/api/v1/namespaces/default/secrets/busy").await;
}

/// Creates a map with a value.
pub(super) async fn create(http: &Http, name: &str, value: &str) {
    http.create(MAPS, &json!({"metadata": {"name": name}, "data": {"value": value}})).await;
}

/// Changes the value of a map.
pub(super) async fn change(http: &Http, name: &str, value: &str) {
    http.patch(&format!("{MAPS}/{name}"), &json!({"data": {"value": value}})).await.expect(200);
}

/// The current revision of the collection.
pub(crate) async fn revision(http: &Http) -> String {
    let list = http.get(MAPS).await.expect(200);
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// The scenario that every informer must survive. After each change, the program prints its contents and how
/// often it has listed.
pub(super) async fn follows(program: impl Fn(&str, &Path) -> Command) {
    let mut plane = forgetful().await;
    let http = plane.http();
    for name in ["a", "b", "c"] {
        create(&http, name, "1").await;
    }
    let line = Line::to(&plane.url()).await;
    let mut follow = Script::start("follow", program(line.url(), plane.dir()), plane.dir());
    let holds =
        |wanted: Value| move |lines: &[Value]| lines.last().is_some_and(|line| line["held"] == wanted);
    follow.says("the first list", holds(json!({"a": "1", "b": "1", "c": "1"}))).await;
    change(&http, "a", "2").await;
    let lines = follow.says("a change", holds(json!({"a": "2", "b": "1", "c": "1"}))).await;
    assert_eq!(lines.last().unwrap()["lists"], 1);

    plane.kill_and_restart().await;
    change(&http, "a", "3").await;
    let lines = follow.says("a change after a restart", holds(json!({"a": "3", "b": "1", "c": "1"}))).await;
    assert_eq!(lines.last().unwrap()["lists"], 1, "a restart is no reason to list again");

    // Disconnected until the server has compacted the client's revision.
    line.cut();
    let seen = revision(&http).await;
    change(&http, "b", "2").await;
    http.delete(&format!("{MAPS}/c")).await.expect(200);
    create(&http, "d", "1").await;
    forget(&http, &seen).await;
    line.mend();
    let lines = follow.says("what came meanwhile", holds(json!({"a": "3", "b": "2", "d": "1"}))).await;
    assert_eq!(lines.last().unwrap()["lists"], 2, "it received the expiration of its revision, once");
    change(&http, "d", "2").await;
    let lines = follow.says("a change after all", holds(json!({"a": "3", "b": "2", "d": "2"}))).await;
    assert_eq!(lines.last().unwrap()["lists"], 2);
}
