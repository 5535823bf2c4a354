//! `orlop lab`: every story runs as described, each in its own lab; in a running lab, stories can be repeated;
//! and a server that is not a lab, or a state that differs from the story's, is reported with exit code 1.

use std::process::{Output, Stdio};

use serde_json::json;
use tokio::sync::Semaphore;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, Process, command};
use crate::harness::wait;

/// `orlop lab ARGS`, in a separate thread.
async fn lab(args: &[&str]) -> Output {
    let args: Vec<String> = ["lab"].iter().chain(args).map(|word| (*word).to_owned()).collect();
    let run = move || {
        let home = tempfile::tempdir().unwrap();
        command(&*ORLOP, home.path()).args(args).stdin(Stdio::null()).output().unwrap()
    };
    wait::in_time("orlop lab ends", tokio::task::spawn_blocking(run)).await.unwrap()
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}\n{errors}");
    format!("{said}{errors}")
}

/// Limits the labs that run at the same time: each is a server, a driver and three nodes, with its own timeouts.
static ROOMS: Semaphore = Semaphore::const_new(3);

async fn plays(name: &str, steps: usize) {
    let _room = ROOMS.acquire().await.unwrap();
    let output = lab(&["run", name, "--pace", "0", "--node-monitor-grace-period", "5s"]).await;
    let said = ends(&output, 0);
    assert!(said.contains(&format!("\n{steps}. ")), "{said}");
    assert!(said.contains(&format!("End of {name}.")), "{said}");
}

#[tokio::test]
async fn bind_plays_to_its_end() {
    plays("bind", 5).await;
}

#[tokio::test]
async fn lost_plays_to_its_end() {
    plays("lost", 4).await;
}

#[tokio::test]
async fn recycle_failure_plays_to_its_end() {
    plays("recycle-failure", 5).await;
}

#[tokio::test]
async fn first_consumer_plays_to_its_end() {
    plays("first-consumer", 3).await;
}

#[tokio::test]
async fn resize_plays_to_its_end() {
    plays("resize", 3).await;
}

#[tokio::test]
async fn multi_attach_plays_to_its_end() {
    plays("multi-attach", 4).await;
}

#[tokio::test]
async fn node_lost_plays_to_its_end() {
    plays("node-lost", 6).await;
}

#[tokio::test]
async fn leak_plays_to_its_end() {
    plays("leak", 4).await;
}

#[tokio::test]
async fn running_lab_repeats_and_resets() {
    let dir = tempfile::tempdir().unwrap();
    let address = dir.path().join("address");
    let args = ["lab", "--listen=127.0.0.1:0", &format!("--address-file={}", address.display())];
    let mut process = Process::start("lab", dir.path(), &args.map(str::to_owned));
    let url = wait::until("the lab is ready", async || {
        if let Some(status) = process.ended() {
            panic!("it ended at its start ({status}): {}", process.log());
        }
        std::fs::read_to_string(&address).map_err(|_| process.log())
    })
    .await;
    let http = Http::new(url.trim());
    for _ in 0..2 {
        ends(&lab(&["run", "bind", "--pace=0", "--server", url.trim()]).await, 0);
    }
    let events =
        "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name=lab,reason=Says";
    let said = http.get(events).await.expect(200);
    assert_eq!(said["items"].as_array().unwrap().len(), 10, "five sentences, twice: {said:#}");
    assert_eq!(said["items"][0]["regarding"]["kind"], "ConfigMap");

    // All nodes were left silent; a new story resets them.
    let broken = json!({"data": {"silent": "virtual-1,virtual-2,virtual-3"}});
    http.patch("/api/v1/namespaces/default/configmaps/lab", &broken).await.expect(200);
    http.until("/api/v1/namespaces/default/configmaps/lab", "heard", |it| {
        it["data"]["silent.heard"] == it["data"]["silent"]
    })
    .await;
    ends(&lab(&["run", "multi-attach", "--pace=0", "--server", url.trim()]).await, 0);
    process.signal(rustix::process::Signal::TERM);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
}

#[tokio::test]
async fn other_servers_and_unexpected_states_are_reported() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let url = plane.url();
    let said = ends(&lab(&["run", "bind", "--server", &url]).await, 1);
    assert!(said.contains("this server is not a lab"), "{said}");
    // The server looks like a lab, but nothing reacts.
    let map = json!({"metadata": {"name": "lab"}, "data": {"silent.heard": "", "faults.heard": "[]"}});
    plane.http().create("/api/v1/namespaces/default/configmaps", &map).await;
    let said = ends(&lab(&["run", "bind", "--pace=0", "--patience=1s", "--server", &url]).await, 1);
    assert!(said.contains("expected within 1 s") && said.contains("actual state of"), "{said}");
    let said = ends(&lab(&["run", "nonsense"]).await, 2);
    assert!(said.contains("there is no scenario \"nonsense\"; the scenarios are bind, "), "{said}");
    let said = ends(&lab(&["list"]).await, 0);
    assert_eq!(said.lines().count(), 8, "{said}");
}
