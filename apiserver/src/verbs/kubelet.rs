//! Client of the node agents: sends one request and streams the response. The connection is TLS with the key whose
//! digest the Node publishes ([`raw_public_key`](super::raw_public_key)): the agent wrote the digest with its own
//! credentials, and no other peer receives the request or its token. This also holds on loopback, where a Node
//! could otherwise direct the requests of this server to any local program.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::raw_public_key::{self, Digest};
use crate::kubelet_client::address::is_somewhere_else;
use orlop_api::status::ApiError;

/// How long an agent may take to begin its response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of bytes of an error response that are passed on (upstream: GenericHttpResponseChecker).
const REFUSAL: usize = 50 * 1024;

/// The address and key of a node agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agent {
    address: SocketAddr,
    key: Digest,
}

impl Agent {
    /// Creates a client from the address, the port and the key digest that a Node publishes.
    ///
    /// # Errors
    /// The address cannot be that of an agent, or there is no key.
    pub(super) fn new(address: &str, port: i64, key: Option<&str>) -> Result<Self, String> {
        let ip: IpAddr = address.parse().map_err(|_| format!("{address:?} is no IP address"))?;
        let ip = ip.to_canonical();
        if !ip.is_loopback() && !is_somewhere_else(address) {
            return Err(format!("{ip} cannot be the address of a machine"));
        }
        let Some(key) = key else {
            let what = "the Node publishes no key, and logs are not fetched over plain HTTP";
            return Err(format!("{what}; restart the node agent with the version of this server"));
        };
        let key = Digest::parse(key)?;
        let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
        Ok(Agent { address: SocketAddr::new(ip, port), key })
    }

    /// Requests a path and streams the response until its end or until `closing` is cancelled.
    pub(super) async fn get(
        self,
        path: &str,
        token: &str,
        closing: CancellationToken,
    ) -> Result<Response, ApiError> {
        let url = format!("https://{}{path}", self.address);
        let failed = |why: &dyn fmt::Display| ApiError::plain_internal(format!("Get \"{url}\": {why}"));
        let answer = match tokio::time::timeout(PATIENCE, self.ask(path, token)).await {
            Ok(answer) => answer.map_err(|why| failed(&why))?,
            Err(_) => return Err(failed(&"context deadline exceeded")),
        };
        log_of(answer, &url, closing).await
    }

    async fn ask(self, path: &str, token: &str) -> Result<http::Response<Incoming>, String> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| format!("dial tcp {}: {error}", self.address))?;
        let stream = raw_public_key::shake(stream, self.address.ip(), self.key).await;
        self.ask_over(stream.map_err(|error| error.to_string())?, path, token).await
    }

    async fn ask_over(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
        token: &str,
    ) -> Result<http::Response<Incoming>, String> {
        let words = |error: hyper::Error| error.to_string();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
        // The task ends with the response body.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to a node's agent broke: {error}");
            }
        });
        let request = Request::get(path)
            .header(header::HOST, self.address.to_string())
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::USER_AGENT, "orlop")
            .body(Empty::<bytes::Bytes>::new())
            .map_err(|error| error.to_string())?;
        sender.send_request(request).await.map_err(words)
    }
}

/// The log in a response, until its end or until `closing` is cancelled.
///
/// # Errors
/// The response is an error.
pub(super) async fn log_of(
    answer: http::Response<Incoming>,
    url: &str,
    closing: CancellationToken,
) -> Result<Response, ApiError> {
    if !answer.status().is_success() {
        return Err(refused(answer, url).await);
    }
    let stream = answer.into_body().into_data_stream().take_until(closing.cancelled_owned());
    let mut response = Response::new(Body::from_stream(stream));
    // Regardless of the headers of the node: a browser must not run a log as a page of this server.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The error in a response.
pub(super) async fn refused(answer: http::Response<Incoming>, url: &str) -> ApiError {
    let code = answer.status();
    let text = Limited::new(answer.into_body(), REFUSAL).collect();
    let text = match tokio::time::timeout(PATIENCE, text).await {
        Ok(Ok(text)) => String::from_utf8_lossy(&text.to_bytes()).into_owned(),
        Ok(Err(_)) | Err(_) => String::new(),
    };
    refusal(code, text, url)
}

/// Converts an error response of the agent to an error of this server (upstream: GenericHttpResponseChecker).
fn refusal(code: StatusCode, text: String, url: &str) -> ApiError {
    match code.as_u16() {
        400 => ApiError::bad_request(text),
        404 => ApiError::no_such_resource(),
        500.. => ApiError::plain_internal(text),
        other => {
            ApiError::plain_internal(format!("Get \"{url}\": the node's agent answered {other}: {text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_need_a_unicast_address_and_a_key() {
        let key = "ab".repeat(32);
        let key = Some(key.as_str());
        let no_key = "the Node publishes no key, and logs are not fetched over plain HTTP; restart the node agent with the version of this server";
        for (address, port, key, want) in [
            ("127.0.0.1", 10250, None, Err(no_key)),
            ("::1", 1, key, Ok("[::1]:1")),
            ("127.0.0.1", 10250, key, Ok("127.0.0.1:10250")),
            ("10.0.0.1", 10250, key, Ok("10.0.0.1:10250")),
            ("2001:db8::1", 10250, key, Ok("[2001:db8::1]:10250")),
            ("::ffff:127.0.0.1", 10250, key, Ok("127.0.0.1:10250")),
            ("::ffff:10.0.0.1", 10250, key, Ok("10.0.0.1:10250")),
            ("10.0.0.1", 10250, None, Err(no_key)),
            ("10.0.0.1", 10250, Some("ab"), Err("\"ab\" is no SHA-256 digest (64 hexadecimal digits)")),
            ("169.254.169.254", 80, key, Err("169.254.169.254 cannot be the address of a machine")),
            ("::ffff:169.254.169.254", 80, key, Err("169.254.169.254 cannot be the address of a machine")),
            ("::ffff:0.0.0.0", 80, key, Err("0.0.0.0 cannot be the address of a machine")),
            ("0.0.0.0", 80, key, Err("0.0.0.0 cannot be the address of a machine")),
            ("localhost", 10250, key, Err("\"localhost\" is no IP address")),
            ("127.0.0.1", 70000, key, Err("70000 is no port")),
        ] {
            let got = Agent::new(address, port, key).map(|agent| agent.address.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{address}:{port} {key:?}");
        }
    }
}
