//! An API server on a given directory, and a client that keeps a ledger of the acknowledged writes.

use std::path::{Path, PathBuf};

use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::crash::ledger::{KnownState, Ledger, Wish};
use crate::harness::http::{Answer, Http};
use crate::harness::process::Process;
use crate::harness::wait;

pub(super) const MAPS: &str = "/api/v1/namespaces/load/configmaps";
pub(super) const EVENTS: &str = "/api/v1/namespaces/load/events";

/// A server on a data directory, and the ledger of its writes.
pub(super) struct Server {
    data: PathBuf,
    process: Option<Process>,
    pub(super) http: Http,
    pub(super) ledger: Ledger,
    events: u64,
    // The last field: the process must end before its log is removed.
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts a server, and creates the test's namespace.
    pub(super) async fn start(data: &Path) -> Server {
        let mut server = Server {
            data: data.to_owned(),
            process: None,
            http: Http::new("http://127.0.0.1:1"),
            ledger: Ledger::default(),
            events: 0,
            dir: tempfile::tempdir().unwrap(),
        };
        server.start_again().await;
        server.http.create("/api/v1/namespaces", &json!({"metadata": {"name": "load"}})).await;
        server
    }

    /// Starts it on the existing data, and waits until it is ready.
    pub(super) async fn start_again(&mut self) {
        let (mut process, address) = self.launch();
        let url = wait::until("the server says where it listens", async || {
            if let Some(status) = process.ended() {
                panic!("the server ended at its start ({status}); its log:\n{}", process.log());
            }
            std::fs::read_to_string(&address).map_err(|_| process.log())
        })
        .await;
        self.process = Some(process);
        self.http = Http::new(url.trim());
        wait::until("the server is ready", async || {
            let answer = self.http.try_get("/readyz").await?;
            if answer.code == 200 { Ok(()) } else { Err(answer.text()) }
        })
        .await;
    }

    /// Starts it where it must fail. Returns the log of all starts.
    pub(super) async fn start_in_vain(&mut self) -> String {
        let (mut process, _) = self.launch();
        assert_ne!(process.exit_code().await, 0, "it runs; its log:\n{}", process.log());
        process.log()
    }

    /// Starts the process; returns it with the file to which it writes its address.
    fn launch(&self) -> (Process, PathBuf) {
        let address = self.dir.path().join("address");
        let _ = std::fs::remove_file(&address);
        let path = |path: &Path| path.display().to_string();
        let args = ["apiserver", "--listen", "127.0.0.1:0", "--data-dir", &path(&self.data)];
        let mut args = args.map(str::to_owned).to_vec();
        args.extend(["--address-file".to_owned(), path(&address)]);
        (Process::start("server", self.dir.path(), &args), address)
    }

    /// kill -9 and restart on the same data; every acknowledged write is present.
    pub(super) async fn kill_and_restart(&mut self) {
        self.kill().await;
        self.start_again().await;
        self.check().await;
    }

    /// kill -9.
    pub(super) async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }

    /// The log of all processes so far.
    pub(super) fn log(&self) -> String {
        self.process.as_ref().map_or(String::new(), Process::log)
    }

    /// The list contains exactly the acknowledged writes.
    pub(super) async fn check(&mut self) {
        let list = self.http.get(MAPS).await.expect(200);
        self.ledger.check_list(&list);
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Answer, String> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        wait::in_time(path, self.http.try_send(request.body(body).unwrap())).await
    }

    /// Creates or updates a ConfigMap. The ledger records the outcome, or that it is unknown.
    pub(super) async fn put(&mut self, name: &str, value: String) -> Answer {
        let (now, floor) = (self.ledger.at(name).0, self.ledger.highest);
        let mut object = json!({"metadata": {"name": name}, "data": {"value": value}});
        self.ledger.sent(name, Wish::Put(value));
        let answer = match &now {
            None => self.send(Method::POST, MAPS, object.to_string().into()).await,
            Some(now) => {
                object["metadata"]["resourceVersion"] = now.revision.to_string().into();
                self.send(Method::PUT, &format!("{MAPS}/{name}"), object.to_string().into()).await
            }
        };
        let answer = answer.unwrap();
        match answer.code {
            200 | 201 => self.ledger.acknowledged(name, Some(KnownState::of(&answer.json())), floor),
            // The server wrote nothing.
            507 => self.ledger.refused(name),
            // The outcome is unknown.
            500 | 503 => {}
            code => panic!("{name}: {code} {}", answer.text()),
        }
        answer
    }

    /// Deletes an existing ConfigMap.
    pub(super) async fn delete(&mut self, name: &str) -> Answer {
        self.ledger.sent(name, Wish::Delete);
        let answer = self.send(Method::DELETE, &format!("{MAPS}/{name}"), Vec::new()).await.unwrap();
        if answer.code == 200 {
            let floor = self.ledger.highest;
            self.ledger.acknowledged(name, None, floor);
        }
        answer
    }

    /// Creates an Event.
    pub(super) async fn event(&mut self) -> Answer {
        self.events += 1;
        let event: Value = json!({
            "metadata": {"name": format!("e{}", self.events), "namespace": "load"}, "reason": "Tested", "type": "Normal",
            "message": "something has happened", "involvedObject": {"kind": "ConfigMap", "namespace": "load", "name": "x"}});
        self.http.post(EVENTS, &event).await
    }

    /// A text of this size, different in every write.
    pub(super) fn text(&self, size: usize) -> String {
        let mut text = format!("{} ", self.ledger.highest);
        // Incompressible.
        let mut state = self.ledger.highest + 1;
        while text.len() < size {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{:016x}", state ^ (state >> 29)));
        }
        text
    }
}
