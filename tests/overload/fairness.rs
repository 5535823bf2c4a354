//! A client that floods the server delays only itself.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::Request;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::raw::{Raw, address};
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
    // Up to 50 requests of one client may wait; the queue has space for all of these. On loopback, a connection is a client.
    let stream = TcpStream::connect(address(&plane)).await.unwrap();
    let (sender, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut flood = JoinSet::new();
    for number in 0..60 {
        let body = json!({"metadata": {"name": format!("flood-{number}")}}).to_string();
        let request = Request::post(format!("{}{CONFIG_MAPS}", plane.url()))
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap();
        let mut sender = sender.clone();
        flood.spawn(async move { sender.send_request(request).await.unwrap().status().as_u16() });
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
    while let Some(code) = flood.join_next().await {
        *codes.entry(code.unwrap()).or_insert(0) += 1;
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
