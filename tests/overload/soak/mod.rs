//! All attacks in parallel, beside a normal load of claims: the worst requests, mutated objects, unread watches, lists of old revisions
//! and slow readers. `hack/soak` runs it for an hour on a release build and draws memory and latencies over time.
//!
//! `ORLOP_SOAK_SECONDS` sets the duration, `ORLOP_SOAK_DIR` the directory of `soak.csv` and `soak.svg`.

mod chart;

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::chart::{Second, write};
use super::mutated::{self, Attack};
use super::others::others_are_served;
use super::raw::Raw;
use super::worst;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

/// Seconds without `ORLOP_SOAK_SECONDS`.
const SHORT: u64 = 12;
const MEMORY_LIMIT: u64 = 256 << 20;
/// The memory of the process beside `--memory-limit`: the objects, the rings, the controllers' caches, and computations in progress.
const BESIDE: u64 = 900 << 20;
const LARGE: &str = "/api/v1/namespaces/large/configmaps";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The latencies of one second, in microseconds.
type Latencies = Mutex<Vec<u64>>;

/// Asks for the server's health.
async fn health(http: Http, latencies: &Latencies, ended: &CancellationToken) {
    while !ended.is_cancelled() {
        let started = Instant::now();
        assert_eq!(http.get("/livez").await.code, 200);
        latencies.lock().push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A normal load: volumes and claims are created, bound and deleted. They have a namespace of their own: a quota among the mutated objects
/// rejects claims beside it until its status is known.
async fn claims(http: Http, bound: &Mutex<u64>, ended: &CancellationToken) {
    let (volumes, claims) = ("/api/v1/persistentvolumes", "/api/v1/namespaces/normal/persistentvolumeclaims");
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "normal"}})).await;
    let mut nth = 0_u64;
    while !ended.is_cancelled() {
        nth += 1;
        let name = format!("normal-{nth}");
        let spec = json!({"storageClassName": "", "accessModes": ["ReadWriteOnce"], "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}}});
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "hostPath": {"path": format!("/tmp/{name}")}, "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "normal", "name": name}}});
        http.create(volumes, &volume).await;
        http.create(claims, &json!({"metadata": {"name": name}, "spec": spec})).await;
        http.until(&format!("{claims}/{name}"), "bound", |claim| claim["status"]["phase"] == "Bound").await;
        *bound.lock() += 1;
        http.delete(&format!("{claims}/{name}")).await;
        http.delete(&format!("{volumes}/{name}")).await;
    }
}

/// The worst requests, one after the other.
async fn worst_requests(http: Http, ended: &CancellationToken) {
    while !ended.is_cancelled() {
        for request in worst::worst_requests() {
            if ended.is_cancelled() {
                return;
            }
            let answer = request.send(&http).await;
            let known = answer.code < 500 || answer.code == 504 || request.codes.contains(&answer.code);
            assert!(known, "{}: {}", request.name, answer.text());
        }
    }
}

/// Mutated objects of every kind.
async fn mutations(mut attack: Attack, ended: &CancellationToken) {
    let mut round = 0_u64;
    while !ended.is_cancelled() {
        attack.round(&format!("m{}", round % 3), ended).await;
        round += 1;
    }
}

/// Replacements of a large object, watches that are not read, and lists of old revisions.
async fn large_objects(plane: &Plane, ended: &CancellationToken) {
    let http = plane.http();
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "large"}})).await;
    let object = |nth: u64| json!({"metadata": {"name": "it"}, "data": {"x": format!("{nth}{}", "x".repeat(1_000_000))}});
    let created = http.create(LARGE, &object(0)).await;
    let mut from = created["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut silent: Vec<Raw> = Vec::new();
    for nth in 1_u64.. {
        if ended.is_cancelled() {
            return;
        }
        let replaced = http.put(&format!("{LARGE}/it"), &object(nth)).await;
        if nth % 50 == 0 {
            silent.clear();
            let version: Value = replaced.json()["metadata"]["resourceVersion"].clone();
            from = version.as_str().map_or(from, str::to_owned);
        }
        if silent.len() < 40 {
            let mut watch = Raw::narrow(plane).await;
            watch.get(&format!("{LARGE}?watch=1&resourceVersion={from}")).await;
            let mut reader = Raw::narrow(plane).await;
            reader.get(LARGE).await;
            silent.extend([watch, reader]);
        }
        let exact = format!("{LARGE}?resourceVersion={from}&resourceVersionMatch=Exact");
        let lists = futures::future::join_all((0..4).map(|_| http.get(&exact))).await;
        for list in lists {
            assert!([200, 410, 429].contains(&list.code), "{}", list.text());
        }
    }
}

/// The value of a metric without labels.
fn gauge(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("no metric {name}")) as u64
}

/// Reads memory and latencies each second.
async fn sample(plane: &Plane, latencies: &Latencies, bound: &Mutex<u64>, seconds: u64) -> Vec<Second> {
    let http = plane.http();
    let mut samples = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    for at in 1..=seconds {
        ticks.tick().await;
        let metrics = http.get("/metrics").await.text();
        let mut latencies = std::mem::take(&mut *latencies.lock());
        latencies.sort_unstable();
        let part =
            |part: usize| latencies.get(latencies.len().saturating_sub(1) * part / 100).copied().unwrap_or(0);
        samples.push(Second {
            at,
            resident_bytes: plane.resident_bytes(),
            client_bytes: gauge(&metrics, "orlop_client_memory_bytes"),
            data_bytes: gauge(&metrics, "orlop_store_data_bytes"),
            p50_us: part(50),
            p99_us: part(99),
            claims: std::mem::take(&mut *bound.lock()),
        });
    }
    samples
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_of_all_sorts_beside_a_normal_load() {
    let seconds = number("ORLOP_SOAK_SECONDS").unwrap_or(SHORT);
    let seed = number("ORLOP_MUTATION_SEED").unwrap_or_else(rand::random);
    println!("ORLOP_SOAK_SECONDS={seconds} ORLOP_MUTATION_SEED={seed}");
    let limit = format!("--memory-limit={MEMORY_LIMIT}");
    let flags = [&limit, "--virtual-nodes=2", "--store-max-bytes=512Mi", "--write-timeout=10s"];
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    worst::prepare(&plane.http()).await;
    let attack = mutated::prepare(&plane.http(), StdRng::seed_from_u64(seed)).await;
    let ended = CancellationToken::new();
    let (latencies, bound) = (Latencies::default(), Mutex::new(0));
    let measured = async {
        let samples = sample(&plane, &latencies, &bound, seconds).await;
        ended.cancel();
        samples
    };
    let (samples, ..) = tokio::join!(
        measured,
        health(plane.http(), &latencies, &ended),
        claims(plane.http(), &bound, &ended),
        worst_requests(plane.http(), &ended),
        mutations(attack, &ended),
        large_objects(&plane, &ended),
    );
    write(&samples);
    others_are_served(&plane.http(), 1).await;
    mutated::no_panic(&mut plane);
    let peak = plane.server().peak_bytes();
    assert!(peak < MEMORY_LIMIT + BESIDE, "{} MiB", peak >> 20);
    plane.stop().await;
    plane.start_again().await;
    others_are_served(&plane.http(), 2).await;
    plane.stop().await;
}
