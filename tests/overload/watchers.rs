//! Many watches, half of whose clients never read: the others receive everything, those are disconnected
//! and detect it, and memory stays within bounds.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::others::other_clients;
use super::raw::Raw;
use super::{CONFIG_MAPS, figure, server, until_figure};
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The number of watches; half of them read.
fn watchers() -> usize {
    let asked = std::env::var("ORLOP_WATCHERS").ok();
    asked.map_or(100, |text| text.parse().expect("ORLOP_WATCHERS is a number"))
}

/// The number of writes, and the bytes of each: more than all buffers between the server and a client can store.
const WRITES: u64 = 60;
const BYTES: usize = 20_000;
/// Resident bytes of the server for an idle watch (docs/overload.md).
const BYTES_PER_WATCHER: u64 = 48 << 10;
/// The same for a watch whose client does not read, before it is disconnected: the buffers.
const BYTES_PER_BLOCKED_WATCHER: u64 = 512 << 10;

fn open_watches(text: &str) -> u64 {
    text.lines()
        .filter(|line| line.starts_with("apiserver_longrunning_requests{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

async fn until_open(plane: &Plane, want: u64) {
    let http = plane.http();
    wait::until(&format!("{want} open watches"), async || {
        match open_watches(&http.try_get("/metrics").await?.text()) {
            found if found == want => Ok(()),
            found => Err(found.to_string()),
        }
    })
    .await;
}

/// The events of a watch, from the bytes of the connection: `(type, number of the write)`. An
/// incomplete last line is ignored.
fn numbers(heard: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(heard);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let events = body.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter_map(|event| event["object"]["data"]["number"].as_str()?.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_bounded_when_half_never_read() {
    let count = watchers();
    raise_files();
    let mut plane = Plane::of(Layout::ServerAlone)
        .server_flags(&["--write-timeout", "10s", "--max-watches", "0"])
        .start()
        .await;
    let http = plane.http();
    let object = |number: u64| json!({"metadata": {"name": "it"}, "data": {"number": number.to_string(), "x": "x".repeat(BYTES)}});
    let first = http.create(CONFIG_MAPS, &object(0)).await;
    let from = first["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
    let before = plane.server().resident_bytes();
    let mut silent = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..count / 2 {
        let mut client = Raw::narrow(&plane).await;
        client.get(&path).await;
        silent.push(client);
        readers.push(http.watch(&path).await);
    }
    let watches = u64::try_from(count / 2 * 2).unwrap();
    until_open(&plane, watches).await;
    let each = plane.server().resident_bytes().saturating_sub(before) / watches;
    println!("{watches} watches that wait: {each} bytes each");
    assert!(each < BYTES_PER_WATCHER, "{each} bytes for each watch that waits");

    let mut reading = JoinSet::new();
    for mut watch in readers {
        reading.spawn(async move {
            let mut seen = Vec::new();
            while seen.last() != Some(&WRITES) {
                let event = watch.next().await.expect("the watch continues");
                seen.push(event["object"]["data"]["number"].as_str().unwrap().parse::<u64>().unwrap());
            }
            seen
        });
    }
    let it = format!("{CONFIG_MAPS}/it");
    let mut most = 0;
    for number in 1..=WRITES {
        http.put(&it, &object(number)).await.expect(200);
        most = most.max(plane.server().resident_bytes());
    }
    let everything: Vec<u64> = (1..=WRITES).collect();
    while let Some(seen) = reading.join_next().await {
        assert_eq!(seen.unwrap(), everything, "a reader receives each event once and in order");
    }
    most = most.max(plane.server().resident_bytes());
    let each = most.saturating_sub(before) / watches;
    println!("at most, half of them blocked: {each} bytes each");
    assert!(each < BYTES_PER_BLOCKED_WATCHER, "{each} bytes for each watch, half of them blocked");

    // The readers have disconnected, and the server has disconnected the others.
    until_open(&plane, 0).await;
    for mut client in silent {
        let seen = numbers(&client.until_closed().await);
        assert!(!seen.is_empty(), "what had been sent is not lost");
        assert!(seen.len() < everything.len(), "it was cut off");
        assert_eq!(seen, everything[..seen.len()], "what it got has no gap");
    }
    assert_eq!(http.get("/healthz").await.code, 200);
    until_figure(&http, super::READS, 0).await;
    assert_eq!(figure(&http, super::WRITES).await, Ok(0));
}

/// Each watch is an open file, in this process too.
fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}

/// Watches that reach their timeout end cleanly, also many at the same time.
#[tokio::test]
async fn timed_out_watches_end_cleanly() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let mut ending = JoinSet::new();
    for _ in 0..20 {
        let mut watch =
            http.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")).await;
        ending.spawn(async move { while watch.next().await.is_some() {} });
    }
    while let Some(ended) = tokio::time::timeout(Duration::from_secs(60), ending.join_next()).await.unwrap() {
        ended.unwrap();
    }
    until_open(&plane, 0).await;
}

/// A watch as a table decodes whole objects: that does not delay other clients, or the end of the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn table_watches_of_large_objects_delay_neither_others_nor_shutdown() {
    let mut plane = server(&["--shutdown-grace", "1s"]).await;
    let http = plane.http();
    for nth in 0..20 {
        let object =
            json!({"metadata": {"name": format!("quotes-{nth}")}, "data": {"x": "\"\n".repeat(400_000)}});
        http.create(CONFIG_MAPS, &object).await;
    }
    let ended = CancellationToken::new();
    let others = tokio::spawn(other_clients(plane.http(), ended.clone()));
    let mut watches = Vec::new();
    for _ in 0..30 {
        let mut watch = Raw::narrow(&plane).await;
        watch.get_as(&format!("{CONFIG_MAPS}?watch=1"), TABLE).await;
        watches.push(watch);
    }
    // One that is read receives a row for each object.
    let mut rows = Raw::connect(&plane).await;
    rows.get_as(&format!("{CONFIG_MAPS}?watch=1"), TABLE).await;
    rows.until_contains("quotes-19").await;
    ended.cancel();
    println!("others: {}", others.await.unwrap());
    plane.server().signal(Signal::TERM);
    assert_eq!(plane.server().exit_code().await, 0);
}
