//! Memory that is held for clients: unread watches of large objects, states at old revisions, and a restart with many
//! objects stay within the limits.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::raw::Raw;
use super::{CONFIG_MAPS, figure, server};
use crate::harness::http::Http;
use crate::harness::plane::Plane;
use crate::harness::wait;

const MIB: u64 = 1 << 20;
/// `--memory-limit` of the tests.
const LIMIT: u64 = 64 * MIB;
/// The memory of the process beyond the objects and the limit: code, buffers of connections, fragmentation.
const BESIDE: u64 = 160 * MIB;
const CLOSED: &str = "orlop_unread_watches_closed_total";

async fn limited() -> Plane {
    server(&["--memory-limit=64Mi"]).await
}

/// Replaces a ConfigMap of 1 MiB this many times, and returns the revision of its creation.
async fn replace(http: &Http, times: usize) -> String {
    let object = |n: usize| json!({"metadata": {"name": "it"}, "data": {"x": format!("{n}{}", "x".repeat(1_000_000))}});
    let first = http.create(CONFIG_MAPS, &object(0)).await;
    for n in 1..=times {
        let path = format!("{CONFIG_MAPS}/it");
        http.put(&path, &object(n)).await.expect(200);
    }
    first["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Opens 150 streams of the replacements of a large object, of which each could hold an encoded object and an event of
/// 2 MiB, and reads none of them. `path` returns the stream from a revision.
async fn leave_unread(path: impl Fn(&str) -> String) {
    let mut plane = limited().await;
    let http = plane.http();
    let from = replace(&http, 40).await;
    let before = plane.server().resident_bytes();
    let mut silent = Vec::new();
    for _ in 0..150 {
        let mut client = Raw::narrow(&plane).await;
        client.get(&path(&from)).await;
        silent.push(client);
    }
    wait::until("the slowest clients are closed", async || match figure(&http, CLOSED).await? {
        0 => Err("none is".to_owned()),
        _ => Ok(()),
    })
    .await;
    let more = plane.server().resident_bytes().saturating_sub(before);
    assert!(more < LIMIT + BESIDE, "{} MiB more", more / MIB);
    assert!(figure(&http, "orlop_client_memory_bytes").await.unwrap() <= LIMIT);
    // The others are served.
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "other"}})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_watches_of_large_objects_stay_within_the_limit() {
    leave_unread(|from| format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_streams_of_changes_stay_within_the_limit() {
    leave_unread(|from| format!("/apis/orlop.dev/v1/stream?resource=configmaps&from={from}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_lists_of_large_objects_stay_within_the_limit() {
    read_only_the_status(CONFIG_MAPS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_large_objects_stay_within_the_limit() {
    read_only_the_status(&format!("{CONFIG_MAPS}/large-0")).await;
}

/// 300 clients read the status of a response with objects of 1 MiB, and not the objects.
async fn read_only_the_status(path: &str) {
    const CLIENTS: usize = 300;
    let mut plane = limited().await;
    let http = plane.http();
    super::fill(&http, 4).await;
    let before = plane.server().resident_bytes();
    let mut silent = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = Raw::narrow(&plane).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(client.send(request).await);
        silent.push(client);
    }
    let mut codes = BTreeMap::new();
    for client in &mut silent {
        *codes.entry(client.status().await).or_insert(0) += 1;
    }
    let more = plane.server().resident_bytes().saturating_sub(before);
    assert!(more < 2 * LIMIT, "{} MiB more, codes {codes:?}", more / MIB);
    assert!(codes.keys().eq(&[200, 429]), "{codes:?}");
    drop(silent);
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "other"}})).await;
}

/// Objects of many small values, which need much more memory than their text when they are decoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yaml_lists_of_many_small_values_stay_within_the_limit() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let mut plane = limited().await;
    let http = plane.http();
    for n in 0..12 {
        let variables: Vec<Value> = (0..7_000).map(|n| json!({"name": format!("E{n}")})).collect();
        let container = json!({"name": "c", "image": "none", "env": variables});
        let spec = json!({"automountServiceAccountToken": false, "containers": [container]});
        http.create(PODS, &json!({"metadata": {"name": format!("p{n}")}, "spec": spec})).await;
    }
    http.get(&format!("{PODS}?limit=3")).await.expect(200);
    let before = plane.server().resident_bytes();
    for accept in ["application/yaml", "application/yaml;as=Table;v=v1;g=meta.k8s.io, application/yaml;q=0.1"]
    {
        let list = http::Request::get(format!("{PODS}?includeObject=Object")).header("accept", accept);
        let answer = http.try_send(list.body(Vec::new()).unwrap()).await.unwrap();
        assert_eq!(answer.code, 400, "{accept}");
        assert!(answer.text().contains("use limit= or application/json"), "{}", answer.text());
        let more = plane.server().resident_bytes().saturating_sub(before);
        assert!(more < LIMIT, "{accept}: {} MiB more", more / MIB);
    }
    let pages = http::Request::get(format!("{PODS}?limit=2")).header("accept", "application/yaml");
    assert_eq!(http.try_send(pages.body(Vec::new()).unwrap()).await.unwrap().code, 200);
}

/// Each of five rounds opens a list or a watch of 48 large objects, does not read it, and replaces the objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_are_replaced_under_slow_responses_stay_within_the_limit() {
    const OBJECTS: usize = 48;
    let mut plane = limited().await;
    let http = plane.http();
    super::fill(&http, OBJECTS).await;
    let before = plane.server().resident_bytes();
    let mut silent = Vec::new();
    for round in 0..5 {
        let mut client = Raw::narrow(&plane).await;
        let watch = if round % 2 == 0 { "" } else { "?watch=1" };
        client.get(&format!("{CONFIG_MAPS}{watch}")).await;
        client.until_contains("large-0").await;
        silent.push(client);
        for number in 0..OBJECTS {
            let name = format!("large-{number}");
            let object = json!({"metadata": {"name": name}, "data": {"x": format!("{round}{}", "x".repeat(1_000_000))}});
            http.put(&format!("{CONFIG_MAPS}/{name}"), &object).await.expect(200);
        }
    }
    wait::until("the slowest clients are closed", async || {
        match figure(&http, "orlop_slow_responses_closed_total").await? {
            0 => Err("none is".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    assert!(figure(&http, "orlop_client_memory_bytes").await.unwrap() <= LIMIT);
    // The store itself keeps the last writes until they are in its served copy.
    let server = &*plane.server();
    wait::until("the memory is released", async || {
        let more = server.resident_bytes().saturating_sub(before);
        if more < LIMIT + BESIDE { Ok(()) } else { Err(format!("{} MiB more", more / MIB)) }
    })
    .await;
}

/// Replacements of one object cost an exact list one old version, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_lists_at_old_revisions_stay_within_the_limit() {
    let mut plane = limited().await;
    let http = plane.http();
    let from = replace(&http, 60).await;
    let before = plane.server().resident_bytes();
    let path = format!("{CONFIG_MAPS}?resourceVersion={from}&resourceVersionMatch=Exact");
    let mut lists = JoinSet::new();
    for _ in 0..10 {
        let (http, path) = (plane.http(), path.clone());
        lists.spawn(async move { http.try_get(&path).await.map(|answer| answer.code) });
    }
    while let Some(code) = lists.join_next().await {
        assert_eq!(code.unwrap(), Ok(200));
    }
    let more = plane.server().resident_bytes().saturating_sub(before);
    assert!(more < LIMIT + BESIDE, "{} MiB more", more / MIB);
}

/// A state that does not fit even alone is no longer available; one that fits is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_that_does_not_fit_is_expired() {
    let plane = server(&["--memory-limit=20Mi"]).await;
    let http = plane.http();
    super::fill(&http, 24).await;
    let head = http.get(CONFIG_MAPS).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for number in 0..24 {
        http.delete(&format!("{CONFIG_MAPS}/large-{number}")).await;
    }
    let exact = format!("resourceVersion={head}&resourceVersionMatch=Exact");
    http.get(&format!("{CONFIG_MAPS}?{exact}")).await.expect(410);
    http.get(&format!("/api/v1/namespaces?{exact}")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_takes_no_more_objects_than_its_limit() {
    let plane = server(&["--store-max-bytes=5Mi"]).await;
    let http = plane.http();
    super::fill(&http, 4).await;
    let large = json!({"metadata": {"name": "more"}, "data": {"x": "x".repeat(1 << 20)}});
    let status = http.post(CONFIG_MAPS, &large).await.expect(507);
    assert!(status["message"].as_str().unwrap().contains("--store-max-bytes"), "{status}");
    http.delete(&format!("{CONFIG_MAPS}/large-0")).await;
    http.create(CONFIG_MAPS, &large).await;
    assert!(figure(&http, "orlop_store_data_bytes").await.unwrap() < 5 * MIB);
}

/// The copy of the log that is read at start does not stay in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_needs_no_more_memory_than_running() {
    let mut plane = server(&[]).await;
    super::fill(&plane.http(), 150).await;
    let running = plane.server().resident_bytes();
    plane.kill().await;
    plane.start_again().await;
    assert_eq!(plane.http().get(CONFIG_MAPS).await.json()["items"].as_array().unwrap().len(), 150);
    let restarted = plane.server().peak_bytes();
    let allowed = running + running / 5 + 32 * MIB;
    assert!(restarted < allowed, "{} MiB running, {} MiB after", running / MIB, restarted / MIB);
}

/// Objects whose update needs more memory than the limit (docs/overload.md, "Memory"): each form of a write still succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_can_be_created_can_be_updated_patched_and_deleted() {
    let plane = server(&["--memory-limit=16Mi"]).await;
    let http = plane.http();
    // A large value; and many keys, for which managed fields count more than the data.
    let large = json!({"x": "x".repeat(1 << 20)});
    let keys: serde_json::Map<String, Value> = (0..6_000).map(|n| (format!("k{n}"), json!("v"))).collect();
    for (name, data) in [("large", large), ("keys", Value::from(keys))] {
        let path = format!("{CONFIG_MAPS}/{name}");
        let object = json!({"metadata": {"name": name}, "data": data});
        http.create(CONFIG_MAPS, &object).await;
        http.put(&path, &object).await.expect(200);
        let mut read = http.get(&path).await.expect(200);
        read["metadata"]["labels"] = json!({"a": "b"});
        http.put(&path, &read).await.expect(200);
        http.patch(&path, &json!({"metadata": {"labels": {"a": "c"}}})).await.expect(200);
        http.delete(&path).await.expect(200);
    }
    // A body that does not fit by itself.
    let values: Vec<String> = (0..60_000).map(|n| format!("\"k{n}\":\"\"")).collect();
    let body = format!("{{\"metadata\":{{\"name\":\"many\"}},\"data\":{{{}}}}}", values.join(","));
    let many: Value = serde_json::from_str(&body).unwrap();
    http.post(CONFIG_MAPS, &many).await.expect(413);
}
