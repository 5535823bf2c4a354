//! The limits of concurrent requests: excess requests wait, and are then rejected with upstream's message.

use serde_json::json;

use super::raw::{Raw, get};
use super::{CONFIG_MAPS, READS, WAITING_WRITES, WRITES, figure, fill, server, until_figure};

const REFUSED: &str = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",\
                       priority_level=\"global-default\",reason=\"time-out\"}";

#[tokio::test]
async fn excess_writes_are_rejected() {
    let plane = server(&["--max-mutating-requests-inflight", "1", "--max-request-wait", "200ms"]).await;
    let http = plane.http();
    let mut holder = Raw::connect(&plane).await;
    holder.post_without_body().await;
    until_figure(&http, WRITES, 1).await;
    let mut refused = Raw::connect(&plane).await;
    refused.post("a", "test").await;
    refused.answer().await.is_one_too_many();
    assert_eq!(figure(&http, REFUSED).await, Ok(1));
    http.get(CONFIG_MAPS).await.expect(200);
    for free in ["/healthz", "/livez/ping", "/readyz", "/version", "/metrics"] {
        assert_eq!(http.get(free).await.code, 200, "{free}");
    }
    drop(holder);
    until_figure(&http, WRITES, 0).await;
    // The connection of a rejected request remains usable.
    refused.post("a", "test").await;
    assert_eq!(refused.answer().await.code, 201);
}

#[tokio::test]
async fn waiting_request_is_served() {
    let plane = server(&["--max-mutating-requests-inflight", "1", "--max-request-wait", "5m"]).await;
    let http = plane.http();
    let mut holder = Raw::connect(&plane).await;
    holder.post_without_body().await;
    until_figure(&http, WRITES, 1).await;
    let mut waiting = Raw::connect(&plane).await;
    waiting.post("waits", "test").await;
    until_figure(&http, WAITING_WRITES, 1).await;
    // A waiting request whose client disconnects is removed.
    let mut leaving = Raw::connect(&plane).await;
    leaving.post("leaves", "test").await;
    until_figure(&http, WAITING_WRITES, 2).await;
    drop(leaving);
    until_figure(&http, WAITING_WRITES, 1).await;
    drop(holder);
    let heard = waiting.answer().await;
    assert_eq!(heard.code, 201, "{}", heard.text);
    until_figure(&http, WRITES, 0).await;
    http.get(&format!("{CONFIG_MAPS}/leaves")).await.expect(404);
}

#[tokio::test]
async fn large_answer_counts_until_it_is_read() {
    let plane = server(&["--max-requests-inflight", "1", "--max-request-wait", "200ms"]).await;
    let http = plane.http();
    fill(&http, 8).await;
    let mut slow = Raw::narrow(&plane).await;
    slow.get(CONFIG_MAPS).await;
    until_figure(&http, READS, 1).await;
    get(&plane, CONFIG_MAPS).await.is_one_too_many();
    assert_eq!(http.get("/healthz").await.code, 200);
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "writes-go-on"}})).await;
    let heard = slow.answer().await;
    assert_eq!(heard.code, 200);
    assert!(heard.text.len() > 8 << 20, "all of it: {}", heard.text.len());
    until_figure(&http, READS, 0).await;
    http.get(&format!("{CONFIG_MAPS}/large-0")).await.expect(200);
}

#[tokio::test]
async fn excess_watches_are_rejected() {
    let plane = server(&["--max-watches", "2"]).await;
    let http = plane.http();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=0");
    let first = http.watch(&path).await;
    let _second = http.watch(&path).await;
    get(&plane, &path).await.is_one_too_many();
    http.get(CONFIG_MAPS).await.expect(200);
    drop(first);
    crate::harness::wait::until("a watch can be opened", async || {
        let heard = get(&plane, &format!("{path}&timeoutSeconds=1")).await;
        if heard.code == 200 { Ok(()) } else { Err(heard.text) }
    })
    .await;
}
