//! The log server with a fake runtime and a fake API server.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::runtime::logs::LogPlace;
use crate::runtime::logs::testing::shaken_client;
use crate::runtime::{PodPath, PodState, RuntimeError};

/// A runtime with one log.
struct OneLog {
    dir: PathBuf,
    state: watch::Sender<PodState>,
}

#[async_trait]
impl Runtime for OneLog {
    async fn start(&self, _: Arc<Pod>, _: Vec<PodPath>) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn state(&self, _: &str) -> Option<watch::Receiver<PodState>> {
        None
    }

    async fn stop(&self, _: &str, _: Duration) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn known(&self) -> Vec<String> {
        Vec::new()
    }

    fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Result<LogPlace, LogError> {
        match (namespace, pod, container, previous) {
            ("n", "p", "c", false) => Ok(LogPlace {
                dir: self.dir.clone(),
                restart: 0,
                container: container.to_owned(),
                state: self.state.subscribe(),
            }),
            ("n", "p", "c", true) => Err(LogError::NotYet("none before".to_owned())),
            _ => Err(LogError::NoPod(pod.to_owned())),
        }
    }
}

/// Accepts only the token `good` as the API server's.
async fn reviewer() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: Request<Incoming>| async {
                assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/tokenreviews");
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                let is_good = review["spec"]["token"] == "good";
                review["status"] = json!({
                    "authenticated": is_good, "user": {"username": SERVER_USER},
                    "audiences": review["spec"]["audiences"],
                });
                let bytes = Bytes::from(serde_json::to_vec(&review).unwrap());
                let mut response = Response::new(Full::new(bytes));
                response.headers_mut().insert("content-type", "application/json".parse().unwrap());
                Ok::<_, Infallible>(response)
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    Client::try_from(kube::Config::new(url)).unwrap()
}

async fn connected(server: &LogServer, path: &str, token: &str) -> TlsStream<TcpStream> {
    let mut stream = shaken_client(server.address(), server.key()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn asked(server: &LogServer, path: &str, token: &str) -> String {
    let mut text = String::new();
    connected(server, path, token).await.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn only_the_api_server_reads_logs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("0.log"), "2026-01-01T00:00:01.000000000Z stdout F secret\n").unwrap();
    let running = json!({
        "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}},
    });
    let state =
        PodState { containers: vec![serde_json::from_value(running).unwrap()], ..PodState::default() };
    let runtime = Arc::new(OneLog { dir: dir.path().to_owned(), state: watch::Sender::new(state) });
    let config = LogConfig { port: 0, ..LogConfig::new("node", reviewer().await, runtime.clone()) };
    let server = LogServer::start(config).await.unwrap();
    for (path, token, code, text) in [
        ("/healthz", "", "200", "ok"),
        ("/containerLogs/n/p/c", "bad", "401", "Unauthorized"),
        ("/", "bad", "401", "Unauthorized"),
        ("/containerLogs/n/p/c", "good", "200", "secret\n"),
        ("/containerLogs/n/p/c?tailLines=0", "good", "200", "0\r\n\r\n"),
        ("/containerLogs/n/p/c?tailLines=x", "good", "400", "is not understood"),
        ("/containerLogs/n/p/c?previous=true", "good", "400", "none before"),
        ("/containerLogs/n/other/c", "good", "400", "in pod \"other\" is not available"),
        ("/metrics", "good", "404", "404 page not found"),
    ] {
        let answer = asked(&server, path, token).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path} {token}: {answer}");
        assert!(answer.contains(text), "{path} {token}: {answer}");
        assert!(code != "401" || !answer.contains("secret"));
    }
    let mut followed = connected(&server, "/containerLogs/n/p/c?follow=true", "good").await;
    let mut text = String::new();
    while !text.contains("secret") {
        let mut buffer = [0; 1024];
        let n = followed.read(&mut buffer).await.unwrap();
        assert_ne!(n, 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
    }
    runtime.state.send_replace(PodState::default());
    followed.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("0\r\n\r\n"), "the last chunk is sent: {text}");
}

/// Clients that connect and send no request must not use up the permits.
#[tokio::test]
async fn silent_clients_release_their_permits() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Arc::new(OneLog { dir: dir.path().to_owned(), state: watch::Sender::default() });
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let patience = Duration::from_secs(2);
    let config = LogConfig { port: 0, requests: 4, patience, ..LogConfig::new("node", client, runtime) };
    let server = LogServer::start(config).await.unwrap();
    let mut silent = Vec::new();
    for said in ["", "GET /healthz HTTP/1.1\r\nHost: "] {
        let mut stream = shaken_client(server.address(), server.key()).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    let mut unshaken = Vec::new();
    for _ in 0..2 {
        unshaken.push(TcpStream::connect(server.address()).await.unwrap());
    }
    let served = async {
        // On a slow machine, the handshake of this client can also take too long.
        loop {
            let Ok(mut stream) = shaken_client(server.address(), server.key()).await else { continue };
            let mut text = String::new();
            let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
            if stream.write_all(request.as_bytes()).await.is_ok() {
                let _ = stream.read_to_string(&mut text).await;
            }
            if text.starts_with("HTTP/1.1 200 ") {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("all permits are in use");
    drop((silent, unshaken));
}

#[tokio::test]
async fn plain_http_is_refused() {
    for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
        let dir = tempfile::tempdir().unwrap();
        let runtime = Arc::new(OneLog { dir: dir.path().to_owned(), state: watch::Sender::default() });
        let config = LogConfig::new("node", reviewer().await, runtime);
        let address = address.into();
        let server = LogServer::start(LogConfig { address, port: 0, ..config }).await.unwrap();
        assert_eq!(server.key().len(), 64);
        let mut stream = TcpStream::connect(("127.0.0.1", server.address().port())).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut said = Vec::new();
        // The server closes the connection, with or without a TLS alert.
        let _ = stream.read_to_end(&mut said).await;
        assert!(!said.starts_with(b"HTTP"), "{said:?}");
    }
}

#[test]
fn token_must_be_of_the_api_server_and_for_this_node() {
    let user = |name: &str| json!({"username": name});
    for (name, status, want) in [
        ("no answer", Value::Null, false),
        ("it is", json!({"authenticated": true, "user": user(SERVER_USER), "audiences": ["a"]}), true),
        ("not good", json!({"authenticated": false, "user": user(SERVER_USER), "audiences": ["a"]}), false),
        (
            "another client",
            json!({"authenticated": true, "user": user("system:admin"), "audiences": ["a"]}),
            false,
        ),
        (
            "for another node",
            json!({"authenticated": true, "user": user(SERVER_USER), "audiences": ["b"]}),
            false,
        ),
        ("without an audience", json!({"authenticated": true, "user": user(SERVER_USER)}), false),
    ] {
        let review = serde_json::from_value(json!({"spec": {}, "status": status})).unwrap();
        assert_eq!(is_server(&review, "a"), want, "{name}");
    }
}
