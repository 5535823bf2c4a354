//! A client that floods the server delays only itself.

use std::collections::BTreeMap;

use serde_json::json;

use super::raw::Raw;
use super::{CONFIG_MAPS, WAITING_WRITES, WRITES, server, until_figure};

const QUEUE_FULL: &str = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",\
                          priority_level=\"global-default\",reason=\"queue-full\"}";

#[tokio::test]
async fn flood_does_not_block_other_clients() {
    let plane = server(&["--max-mutating-requests-inflight", "1", "--max-request-wait", "5m"]).await;
    let http = plane.http();
    let mut holder = Raw::connect(&plane).await;
    holder.post_without_body().await;
    until_figure(&http, WRITES, 1).await;
    // Up to 50 requests of one client may wait; the queue has space for all of these.
    let mut flood = Vec::new();
    for number in 0..60 {
        let mut client = Raw::connect(&plane).await;
        client.post(&format!("flood-{number}"), "flood").await;
        flood.push(client);
    }
    until_figure(&http, WAITING_WRITES, 50).await;
    // The total limit is reached as well (50 for one permit), but a client without waiting requests is still
    // admitted.
    let mut modest = Raw::connect(&plane).await;
    modest.post("modest", "modest").await;
    // 10 find their queue full, and one is removed to admit the other client.
    until_figure(&http, QUEUE_FULL, 11).await;
    drop(holder);
    let heard = modest.answer().await;
    assert_eq!(heard.code, 201, "{}", heard.text);
    let mut codes = BTreeMap::new();
    for mut client in flood {
        *codes.entry(client.answer().await.code).or_insert(0) += 1;
    }
    assert_eq!(codes, [(201, 49), (429, 11)].into());
    let list = http.get(CONFIG_MAPS).await.expect(200);
    let revision = |item: &serde_json::Value| -> u64 {
        item["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    let items = list["items"].as_array().unwrap();
    let own = items.iter().find(|item| item["metadata"]["name"] == json!("modest")).map(revision).unwrap();
    let before = items.iter().filter(|item| revision(item) < own).count();
    assert!(before <= 2, "{before} of the flood were served first");
}
