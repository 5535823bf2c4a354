//! Signals under load: SIGTERM ends the process whatever it computes, and SIGHUP cuts no request.

use axum::http::Method;
use rustix::process::Signal;
use tokio::task::JoinSet;

use super::raw::Raw;
use super::{CONFIG_MAPS, WRITES, figure, server, until_figure, worst};
use crate::harness::wait;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_a_server_that_computes() {
    let mut plane = server(&["--shutdown-grace", "1s"]).await;
    let http = plane.http();
    worst::prepare(&http).await;
    let slow = worst::worst_requests().into_iter().find(|worst| worst.name == "additions to a list").unwrap();
    let mut computing = JoinSet::new();
    for _ in 0..30 {
        let (http, path, media, body) = (plane.http(), slow.path.clone(), slow.media, slow.body.clone());
        computing.spawn(async move {
            let request =
                axum::http::Request::builder().method(Method::PATCH).uri(path).header("content-type", media);
            http.try_send(request.body(body.into_bytes()).unwrap()).await.map(|answer| answer.code)
        });
    }
    wait::until("requests are computed", async || match figure(&http, WRITES).await? {
        0..=3 => Err("too few".to_owned()),
        _ => Ok(()),
    })
    .await;
    plane.server().signal(Signal::TERM);
    assert_eq!(plane.server().exit_code().await, 0);
    computing.shutdown().await;
}

#[tokio::test]
async fn sighup_cuts_no_request() {
    let mut plane = server(&[]).await;
    let http = plane.http();
    let mut client = Raw::connect(&plane).await;
    client.post_without_body().await;
    until_figure(&http, WRITES, 1).await;
    plane.server().signal(Signal::HUP);
    let log = || plane.log();
    wait::until("the signal is logged", async || match log().contains("SIGHUP received") {
        true => Ok(()),
        false => Err(log()),
    })
    .await;
    let name = "{\"metadata\":{\"name\":\"after\"}}";
    assert!(client.send(format!("{name:<100}")).await);
    assert_eq!(client.answer().await.code, 201);
    http.get(&format!("{CONFIG_MAPS}/after")).await.expect(200);
}
