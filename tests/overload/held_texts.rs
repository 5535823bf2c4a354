//! Texts that clients let the server keep: the selectors of open watches, and the heads of requests that never end.

use super::raw::Raw;
use super::{CONFIG_MAPS, figure, server};
use crate::harness::wait;

const MIB: u64 = 1 << 20;
/// The memory of the process beyond the limit: code, buffers of connections, fragmentation.
const BESIDE: u64 = 100 * MIB;
const REJECTED: &str = "orlop_client_memory_rejected_total";

/// Each of 100 watches has a selector of 60 KB, which needs 3 MB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_of_watches_stay_within_the_limit() {
    let mut plane = server(&["--memory-limit=64Mi"]).await;
    let http = plane.http();
    let keys: Vec<String> = (0..10_000).map(|number| format!("!{number:04}")).collect();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&labelSelector={}", keys.join(","));
    let before = plane.server().resident_bytes();
    let mut open = Vec::new();
    let mut rejected = 0;
    for _ in 0..100 {
        let mut client = Raw::connect(&plane).await;
        client.get(&path).await;
        match client.status().await {
            200 => open.push(client),
            429 => rejected += 1,
            code => panic!("{code}"),
        }
    }
    assert!(!open.is_empty() && rejected > 50, "{} are open, {rejected} are rejected", open.len());
    let more = plane.server().resident_bytes().saturating_sub(before);
    assert!(more < BESIDE, "{} MiB more", more / MIB);
    // Watches with short selectors need none of this memory.
    drop(http.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=a=b")).await);
    drop(open);
    wait::until("the memory is free", async || match figure(&http, "orlop_client_memory_bytes").await? {
        0 => Ok(()),
        bytes => Err(format!("{bytes} bytes")),
    })
    .await;
}

/// 600 clients without credentials send 100 KiB of a head each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_heads_stay_within_the_limit() {
    let mut plane = server(&["--memory-limit=64Mi"]).await;
    let http = plane.http();
    let before = plane.server().resident_bytes();
    let head = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(100 << 10));
    let mut clients = Vec::new();
    for _ in 0..600 {
        let mut client = Raw::connect(&plane).await;
        // The server may close the connection meanwhile.
        let _ = client.send(&head).await;
        clients.push(client);
    }
    wait::until("most connections are closed", async || match figure(&http, REJECTED).await? {
        count if count > 400 => Ok(()),
        count => Err(format!("{count} are")),
    })
    .await;
    let more = plane.server().resident_bytes().saturating_sub(before);
    assert!(more < BESIDE, "{} MiB more", more / MIB);
    http.get("/livez").await.expect_text("ok");
}
