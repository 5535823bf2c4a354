//! The log server: `/containerLogs/<namespace>/<pod>/<container>`, as in a kubelet. It serves only the API
//! server: a request carries a token that the API server has signed for this node with a lifetime of one minute,
//! and the server verifies the token with a TokenReview. It uses TLS with a key whose digest is published in the Node
//! ([`identity`](super::identity)), also on loopback: the API server connects only to the owner of this key, so a Node cannot
//! make it send a request to another program on its machine.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Client;
use kube::api::PostParams;
use orlop_client::api::Api;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::identity::ServerIdentity;
use super::reader;
use super::{LogError, LogQuery};
use crate::runtime::Runtime;

/// The user name of the API server in its tokens for nodes.
pub const SERVER_USER: &str = "system:kube-apiserver";
/// Prefix of the audience of such a token; the name of the node follows.
pub const AUDIENCE_PREFIX: &str = "orlop.dev/node/";
/// Maximum number of concurrent requests.
const REQUESTS: usize = 256;
/// The default of [`LogConfig::patience`].
const PATIENCE: Duration = Duration::from_secs(10);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Configuration of a log server.
pub struct LogConfig {
    /// Name of the node.
    pub node: String,
    /// The listen address.
    pub address: IpAddr,
    /// The port; 0 selects a free one.
    pub port: u16,
    /// Verifies tokens.
    pub client: Client,
    /// Locates logs.
    pub runtime: Arc<dyn Runtime>,
    /// Maximum number of concurrent requests.
    pub requests: usize,
    /// Timeout of the TLS handshake, and of the request header.
    pub patience: Duration,
}

impl LogConfig {
    /// Listens on `127.0.0.1`, at the kubelet's port.
    pub fn new(node: impl Into<String>, client: Client, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            node: node.into(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 10_250,
            client,
            runtime,
            requests: REQUESTS,
            patience: PATIENCE,
        }
    }
}

/// A log server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogServerError {
    /// No TLS key can be created.
    #[error("logs cannot be served on {address}: {why}")]
    Key {
        /// The listen address.
        address: SocketAddr,
        /// The reason.
        why: String,
    },
    /// The address is in use, or does not belong to this machine.
    #[error("logs cannot be served on {address}: {source}")]
    Listen {
        /// The listen address.
        address: SocketAddr,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

/// A log server, which runs until it is dropped.
pub struct LogServer {
    address: SocketAddr,
    key: String,
    _end: DropGuard,
}

struct ServerState {
    node: String,
    client: Client,
    runtime: Arc<dyn Runtime>,
    requests: Arc<Semaphore>,
    patience: Duration,
}

impl LogServer {
    /// Starts a server that runs in the background.
    ///
    /// # Errors
    /// The address cannot be bound, or no key can be created.
    pub async fn start(config: LogConfig) -> Result<Self, LogServerError> {
        let address = SocketAddr::new(config.address, config.port);
        let identity = ServerIdentity::make().map_err(|why| LogServerError::Key { address, why })?;
        let key = identity.digest.clone();
        let cannot = |source| LogServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let end = CancellationToken::new();
        let shared = Arc::new(ServerState {
            node: config.node,
            client: config.client,
            runtime: config.runtime,
            requests: Arc::new(Semaphore::new(config.requests)),
            patience: config.patience,
        });
        let token = end.clone();
        tokio::spawn(async move {
            token.run_until_cancelled(serve(listener, identity, shared, token.clone())).await;
        });
        Ok(Self { address, key, _end: end.drop_guard() })
    }

    /// The address on which it listens: the Node publishes the port in `status.daemonEndpoints` and the address in an
    /// annotation.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Digest of the public key, for the annotation of the Node.
    pub fn key(&self) -> &str {
        &self.key
    }
}

async fn serve(
    listener: TcpListener,
    identity: ServerIdentity,
    shared: Arc<ServerState>,
    end: CancellationToken,
) {
    let acceptor = identity.acceptor;
    loop {
        // When all permits are in use, the next connection waits in the listen queue.
        let Ok(permit) = shared.requests.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("a connection for logs is lost: {error}");
                // Out of file descriptors: wait until some are closed.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (shared, end, acceptor) = (shared.clone(), end.clone(), acceptor.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let served = async { speak(shaken(&acceptor, stream, shared.patience).await?, shared).await };
            if let Some(Err(error)) = end.run_until_cancelled(served).await {
                tracing::debug!("a connection for logs broke: {error}");
            }
        });
    }
}

async fn shaken(
    acceptor: &tokio_rustls::TlsAcceptor,
    stream: TcpStream,
    patience: Duration,
) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    let shaken = tokio::time::timeout(patience, acceptor.accept(stream)).await;
    shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Serves one connection.
async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<ServerState>) -> io::Result<()> {
    let patience = shared.patience;
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, &request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .serve_connection(TokioIo::new(stream), service);
    served.await.map_err(io::Error::other)
}

fn plain(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text.into())).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}

async fn answer(shared: &ServerState, request: &Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    if path == "/healthz" {
        return plain(StatusCode::OK, "ok");
    }
    if !is_allowed(shared, request).await {
        return plain(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let ["containerLogs", namespace, pod, container] = steps.as_slice() else {
        return plain(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
    }
    let query = match LogQuery::parse(request.uri().query().unwrap_or_default(), Timestamp::now()) {
        Ok(query) => query,
        Err(why) => return plain(StatusCode::BAD_REQUEST, why),
    };
    let place = match shared.runtime.log(namespace, pod, container, query.previous) {
        Ok(place) => place,
        Err(why @ LogError::NoContainer { .. }) => return plain(StatusCode::NOT_FOUND, why.to_string()),
        // The API server has the pod, or it would not have called. With a status of 404, the client would not get this
        // message.
        Err(LogError::NoPod(_)) => {
            let text = format!(
                "container {container:?} in pod {pod:?} is not available: the node has not started it; \
                 see the events of the pod (kubectl describe pod {pod})"
            );
            return plain(StatusCode::BAD_REQUEST, text);
        }
        Err(why @ LogError::NotYet(_)) => return plain(StatusCode::BAD_REQUEST, why.to_string()),
    };
    let (to, from) = mpsc::channel(16);
    let name = format!("{namespace}/{pod}/{container}");
    tokio::spawn(async move {
        if let Err(error) = reader::read(place, query, to).await {
            tracing::warn!("the log of {name} cannot be read: {error}");
        }
    });
    let frames = stream::unfold(from, |mut from| async {
        let bytes = from.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), from))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}

/// Whether a request comes from the API server.
async fn is_allowed(shared: &ServerState, request: &Request<Incoming>) -> bool {
    let value = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = value.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
    let audience = format!("{AUDIENCE_PREFIX}{}", shared.node);
    let spec = TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![audience.clone()]) };
    let question = TokenReview { spec, ..TokenReview::default() };
    let api: Api<TokenReview> = Api::all(shared.client.clone());
    match api.create(&PostParams::default(), &question).await {
        Ok(review) => is_server(&review, &audience),
        Err(error) => {
            tracing::warn!("cannot verify the token of a log request: {error}");
            false
        }
    }
}

fn is_server(review: &TokenReview, audience: &str) -> bool {
    let Some(status) = &review.status else { return false };
    let user = status.user.as_ref().and_then(|user| user.username.as_deref());
    let is_for = status.audiences.iter().flatten().any(|one| one == audience);
    status.authenticated == Some(true) && is_for && user == Some(SERVER_USER)
}

#[cfg(test)]
mod tests {
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

        fn log(
            &self,
            namespace: &str,
            pod: &str,
            container: &str,
            previous: bool,
        ) -> Result<LogPlace, LogError> {
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
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
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
            (
                "not good",
                json!({"authenticated": false, "user": user(SERVER_USER), "audiences": ["a"]}),
                false,
            ),
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
}
