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
mod tests;
