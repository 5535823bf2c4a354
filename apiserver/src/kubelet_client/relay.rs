//! Passes the bytes of an upgraded connection between a client and a kubelet on, whatever their protocol is (SPDY/3.1 or WebSocket).
//!
//! Upstream: apimachinery `pkg/util/proxy` (UpgradeAwareHandler).

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;

/// The headers of the two protocols, in both directions. Others, and credentials above all, do not pass.
const PASSED: [HeaderName; 6] = [
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_ACCEPT,
    header::SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("x-stream-protocol-version"),
];
/// The WebSocket protocol in which browsers send a token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// Time limit for the switch of the protocol after both sides have agreed on it.
const SWITCH_WITHIN: Duration = Duration::from_secs(30);
/// How often the client's account and session are checked.
const CHECK_EVERY: Duration = Duration::from_secs(20);

/// The request of a client to switch the protocol.
pub(crate) struct ClientUpgrade {
    pub(crate) method: Method,
    headers: HeaderMap,
    /// `None` on a connection that cannot switch, and after it was taken.
    switch: Mutex<Option<OnUpgrade>>,
}

impl ClientUpgrade {
    /// The request with these parts; `None` if it does not ask for another protocol.
    pub(crate) fn of(parts: &mut http::request::Parts) -> Option<Self> {
        let wanted = parts.headers.get(header::UPGRADE)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::UPGRADE, wanted.clone());
        pass(&parts.headers, &mut headers);
        let switch = Mutex::new(parts.extensions.remove::<OnUpgrade>());
        Some(ClientUpgrade { method: parts.method.clone(), headers, switch })
    }

    /// Takes the switch of the connection; `None` if it cannot switch. Call this before the kubelet runs anything.
    pub(crate) fn take_switch(&self) -> Option<OnUpgrade> {
        self.switch.lock().take()
    }

    /// The headers for the kubelet.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers
    }
}

/// Copies the headers of the protocols, without tokens.
fn pass(from: &HeaderMap, to: &mut HeaderMap) {
    for name in &PASSED[1..] {
        for value in from.get_all(name) {
            if *name != header::SEC_WEBSOCKET_PROTOCOL {
                to.append(name.clone(), value.clone());
                continue;
            }
            let offered = value.to_str().unwrap_or_default().split(',').map(str::trim);
            let kept: Vec<&str> = offered.filter(|one| !one.starts_with(TOKEN_PROTOCOL)).collect();
            if let Ok(value) = HeaderValue::try_from(kept.join(", "))
                && !kept.is_empty()
            {
                to.append(name.clone(), value);
            }
        }
    }
}

/// What a stream holds and what ends it.
pub(crate) struct StreamLife<H, E> {
    /// Held until the stream ends.
    pub(crate) held: H,
    /// Ends the stream: the server stops.
    pub(crate) end: E,
    /// Whether the client's account still exists.
    pub(crate) is_alive: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// Returns the response of a kubelet that has switched the protocol, and passes the bytes on in the background.
pub(crate) fn relay<H, E>(
    switch: OnUpgrade,
    response: hyper::Response<Incoming>,
    life: StreamLife<H, E>,
) -> Response
where
    H: Send + 'static,
    E: Future<Output = ()> + Send + 'static,
{
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    if let Some(protocol) = response.headers().get(header::UPGRADE) {
        headers.insert(header::UPGRADE, protocol.clone());
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    pass(response.headers(), headers);
    tokio::spawn(async move {
        let StreamLife { held, end, is_alive } = life;
        let switching = async { tokio::try_join!(switch, hyper::upgrade::on(response)) };
        let (client, kubelet) = match tokio::time::timeout(SWITCH_WITHIN, switching).await {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return tracing::debug!("a stream to a kubelet did not begin: {error}"),
            Err(_) => return,
        };
        let (mut client, mut kubelet) = (TokioIo::new(client), TokioIo::new(kubelet));
        let gone = async {
            match is_alive {
                None => std::future::pending().await,
                Some(is_alive) => {
                    while is_alive() {
                        tokio::time::sleep(CHECK_EVERY).await;
                    }
                }
            }
        };
        tokio::select! {
            copied = copy_bidirectional(&mut client, &mut kubelet) => {
                if let Err(error) = copied {
                    tracing::debug!("a stream to a kubelet broke: {error}");
                }
            }
            () = end => {}
            () = gone => {}
        }
        drop(held);
    });
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_the_protocols_pass() {
        let request = http::Request::get("/")
            .header("upgrade", "websocket")
            .header("connection", "Upgrade")
            .header("authorization", "Bearer secret")
            .header("cookie", "secret")
            .header("origin", "https://a.example")
            .header("sec-websocket-key", "k")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-extensions", "permessage-deflate")
            .header(
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io",
            )
            .header("x-stream-protocol-version", "v4.channel.k8s.io")
            .header("x-stream-protocol-version", "channel.k8s.io")
            .body(())
            .expect("a request");
        let (mut parts, ()) = request.into_parts();
        let upgrade = ClientUpgrade::of(&mut parts).expect("an upgrade");
        assert!(upgrade.take_switch().is_none(), "no connection");
        let headers = upgrade.headers();
        let mut shown: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
            .collect();
        shown.sort();
        let want = [
            "connection: Upgrade",
            "sec-websocket-key: k",
            "sec-websocket-protocol: v5.channel.k8s.io",
            "sec-websocket-version: 13",
            "upgrade: websocket",
            "x-stream-protocol-version: channel.k8s.io",
            "x-stream-protocol-version: v4.channel.k8s.io",
        ];
        assert_eq!(shown, want);
        let (mut parts, ()) = http::Request::get("/").body(()).expect("a request").into_parts();
        assert!(ClientUpgrade::of(&mut parts).is_none());
    }
}
