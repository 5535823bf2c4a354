//! The page in a real browser, used as a person uses it: each story is a program in `tests/browser` that gets a
//! server's URL and must exit with 0. A story asks this module for actions that it cannot perform itself, such as
//! killing the server or cutting the connection.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::line::Line;
use crate::clients::past::{forget, revision};
use crate::clients::script::{Script, browser_installed};
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{Process, command};
use crate::harness::wait;

/// Each wait in a story has a shorter timeout and reports the state that it saw.
const PATIENCE: Duration = Duration::from_secs(600);
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn node(home: &Path) -> Command {
    let mut node = command("node", home);
    node.env("NO_PROXY", "*");
    node
}

/// Starts a story. Its first argument is the server's URL.
fn begin(name: &str, home: &Path, args: &[&str]) -> Script {
    let mut story = node(home);
    story.arg(root().join(format!("tests/browser/{name}.mjs"))).args(args);
    Script::start(name, story, home)
}

/// Waits until a story asks for an action.
async fn asks(story: &mut Script, word: &str) {
    story.says(word, |lines| lines.contains(&Value::from(word))).await;
}

/// Runs a story that needs only a server with its controllers.
async fn tells(name: &str) {
    if browser_installed().await {
        let plane = Plane::start().await;
        begin(name, plane.dir(), &[&plane.url()]).ok_within(PATIENCE).await;
    }
}

/// A lab with nodes and a driver, so that pods run and volumes are attached.
struct Lab {
    url: String,
    _process: Process,
    // The last field: the process must end before its files are removed.
    dir: TempDir,
}

impl Lab {
    async fn start() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let address = dir.path().join("address");
        let file = format!("--address-file={}", address.display());
        // A busy machine must not cause the loss of a node.
        let args =
            ["lab", "--listen=127.0.0.1:0", "--node-monitor-grace-period=10m", &file].map(str::to_owned);
        let mut process = Process::start("lab", dir.path(), &args);
        let url = wait::until("the lab is ready", async || {
            if let Some(status) = process.ended() {
                panic!("it ended at its start ({status}): {}", process.log());
            }
            std::fs::read_to_string(&address).map_err(|_| process.log())
        })
        .await;
        Lab { url: url.trim().to_owned(), _process: process, dir }
    }
}

async fn tells_in_a_lab(name: &str) {
    if browser_installed().await {
        let lab = Lab::start().await;
        begin(name, lab.dir.path(), &[&lab.url]).ok_within(PATIENCE).await;
    }
}

#[tokio::test]
async fn live() {
    tells("live").await;
}

#[tokio::test]
async fn graph() {
    tells_in_a_lab("graph").await;
}

#[tokio::test]
async fn editor() {
    tells("editor").await;
}

#[tokio::test]
async fn past() {
    tells("past").await;
}

#[tokio::test]
async fn verbs() {
    tells("verbs").await;
}

#[tokio::test]
async fn keys() {
    tells("keys").await;
}

#[tokio::test]
async fn accessibility() {
    tells_in_a_lab("accessibility").await;
}

#[tokio::test]
async fn hostile() {
    tells("hostile").await;
}

#[tokio::test]
async fn heap() {
    if browser_installed().await {
        let plane = Plane::of(Layout::ServerAlone).start().await;
        begin("heap", plane.dir(), &[&plane.url()]).ok_within(PATIENCE).await;
    }
}

#[tokio::test]
async fn recording() {
    if !browser_installed().await {
        return;
    }
    let mut plane = Plane::start().await;
    let mut story = begin("recording", plane.dir(), &[&plane.url()]);
    asks(&mut story, "kill").await;
    plane.kill().await;
    story.ok_within(PATIENCE).await;
}

#[tokio::test]
async fn cut_off() {
    if !browser_installed().await {
        return;
    }
    // A server that compacts its history as soon as possible.
    let flags = ["--store-retention-age", "0s", "--store-retention-revisions", "1"];
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let line = Line::to(&plane.url()).await;
    let mut story = begin("cut_off", plane.dir(), &[line.url(), &plane.url()]);
    asks(&mut story, "kill").await;
    plane.kill().await;
    asks(&mut story, "start").await;
    plane.start_again().await;
    asks(&mut story, "cut and forget").await;
    line.cut();
    let http = plane.http();
    let seen = revision(&http).await;
    let after = format!("{CLAIMS}/after");
    http.delete(&after).await.expect(200);
    wait::until("the claim is gone", async || match http.get(&after).await.code {
        404 => Ok(()),
        code => Err(format!("the answer is {code}")),
    })
    .await;
    let claim = json!({"metadata": {"name": "meanwhile"}, "spec": {"storageClassName": "none",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    http.create(CLAIMS, &claim).await;
    forget(&http, &seen).await;
    asks(&mut story, "mend").await;
    line.mend();
    story.ok_within(PATIENCE).await;
}

/// The tests of the page that need no browser; Node.js runs them.
#[tokio::test]
async fn page_modules_pass_their_node_tests() {
    let home = tempfile::tempdir().unwrap();
    let mut run = node(home.path());
    let files = std::fs::read_dir(root().join("web/test")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".test.mjs")).collect();
    assert!(!files.is_empty());
    run.current_dir(root()).arg("--test").args(files);
    Script::start("web-test", run, home.path()).ok_within(PATIENCE).await;
}
