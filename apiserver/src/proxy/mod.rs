//! `proxy` of nodes, pods and services: forwards a request of a client to an HTTP server in the cluster, and returns its response.
//!
//! ```text
//! verbs::connect ─ selects the target ─▶ forward ─▶ kubelet_client (kubelets) or a plain connection (pods, services)
//!                                             │
//!                                             └─ links: rewrites Location and the links of pages
//! ```
//!
//! The target gets no credentials of the client. Its pages run in the client's browser in an origin of their own ([`SANDBOX`]), because
//! they are those of any user that can create a pod.
//!
//! Upstream: apimachinery `pkg/util/proxy` (UpgradeAwareHandler, Transport).

mod links;
mod page;
pub(crate) mod request;

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use orlop_api::status::ApiError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::encode::ComputedBody;
use crate::forwarding::body::passed_body;
use crate::forwarding::exchange;
use crate::forwarding::headers::{self, remove_for_this_server};
use crate::https::{self, host_port};
use crate::kubelet_client::address::KubeletAddress;
use crate::kubelet_client::relay::{StreamLife, relay};
use crate::limits::compute::leave_place;
use crate::verbs::request::Request;
use crate::verbs::watch::account;
use links::Links;
use request::ProxiedRequest;

/// The policy of proxied responses: a page may run scripts and show forms, but its origin is not that of this server, so it has neither
/// the session of orlop's page nor access to the API.
const SANDBOX: &str = "sandbox allow-downloads allow-forms allow-popups allow-scripts";
/// How long a connection to a pod may take to begin. Upstream's dialer has the same limit.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

/// The server to which a proxy leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyTarget {
    /// A kubelet.
    Kubelet(KubeletAddress),
    /// Another server of a node.
    Node(KubeletAddress, Scheme),
    /// A pod or an endpoint of a service. Without a port, that of the scheme.
    Address(IpAddr, Option<u16>, Scheme),
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    /// The certificate is not verified, as upstream: pods have certificates of any authority.
    Https,
}

impl Scheme {
    /// The scheme in the name of a target; `http` without one.
    pub(crate) fn of(text: &str) -> Self {
        if text == "https" { Scheme::Https } else { Scheme::Http }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl ProxyTarget {
    fn host(&self) -> String {
        match self {
            ProxyTarget::Kubelet(address) | ProxyTarget::Node(address, _) => address.to_string(),
            ProxyTarget::Address(ip, Some(port), _) => host_port(&ip.to_string(), port),
            ProxyTarget::Address(IpAddr::V6(ip), None, _) => format!("[{ip}]"),
            ProxyTarget::Address(ip, None, _) => ip.to_string(),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// Why there is no connection, as Go describes it.
    async fn connect(&self, request: &Request) -> Result<Box<dyn Stream>, String> {
        let kubelets = &request.server.kubelets;
        let (stream, name, scheme) = match self {
            ProxyTarget::Kubelet(address) => return Ok(Box::new(kubelets.connect(address).await?)),
            ProxyTarget::Node(address, scheme) => (kubelets.dial(address).await?, address.host(), *scheme),
            ProxyTarget::Address(ip, port, scheme) => {
                let (host, port) = (ip.to_string(), port.unwrap_or(scheme.port()));
                kubelets
                    .check_not_own(*ip, port)
                    .map_err(|why| format!("dial tcp {}: {why}", host_port(&host, port)))?;
                let connecting = tokio::time::timeout(CONNECT_WITHIN, https::connect(&host, port));
                let late = |_| Err(format!("dial tcp {}: i/o timeout", host_port(&host, port)));
                (connecting.await.unwrap_or_else(late)?, ip.to_string(), *scheme)
            }
        };
        match scheme {
            Scheme::Http => Ok(Box::new(stream)),
            Scheme::Https => {
                let tls = TlsConnector::from(https::unverified_config(None)?);
                let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
                let shaken = tokio::time::timeout(CONNECT_WITHIN, tls.connect(name, stream)).await;
                let shaken = shaken.map_err(|_| "net/http: TLS handshake timeout".to_owned())?;
                Ok(Box::new(shaken.map_err(|error| https::handshake_error(&error))?))
            }
        }
    }
}

/// Forwards the request of a client, and returns the response while it arrives.
///
/// # Errors
/// 429 if there are too many connections, 503 if the target cannot be reached.
pub(crate) async fn forward(request: &Request, target: &ProxyTarget) -> Result<Response, ApiError> {
    let Some(proxied) = request.proxied.as_deref() else {
        return Err(ApiError::bad_request("a proxy needs the request of a client"));
    };
    let (prefix, path) = proxied.split_path();
    let query = proxied.uri.query().map_or(String::new(), |query| format!("?{query}"));
    let is_read = matches!(proxied.method, Method::GET | Method::HEAD);
    if path.is_empty() && is_read && request.upgrade.is_none() {
        return Ok(redirect(&format!("{prefix}/{query}")));
    }
    let place = request.server.kubelets.place().ok_or_else(|| {
        ApiError::too_many_requests(
            "there are too many connections to pods: close others, or try again later",
            1,
        )
    })?;
    let failed = |why: String| ApiError::unreachable(format!("error trying to reach service: {why}"));
    leave_place();
    let stream = target.connect(request).await.map_err(failed)?;
    let path = if path.is_empty() { "/" } else { path };
    let uri: Uri =
        format!("{path}{query}").parse().map_err(|_| ApiError::bad_request("the path is invalid"))?;
    let peer = request.connection.as_ref().map(|connection| connection.peer().ip().to_canonical());
    let mut sent = http::Request::new(Body::from(request.body.clone()));
    *sent.method_mut() = proxied.method.clone();
    *sent.headers_mut() = headers_for(&proxied.headers, target, &proxied.uri, peer);
    *sent.uri_mut() = uri;
    if let Some(client) = &request.upgrade {
        let switch = client.take_switch().ok_or_else(|| {
            ApiError::bad_request("this connection cannot switch its protocol: use HTTP/1.1")
        })?;
        sent.headers_mut().extend(client.headers());
        let answer = exchange::over(stream, sent).await.map_err(failed)?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answered(request, answer, Links::of(proxied, prefix, target), place));
        }
        let held =
            (place, request.connection.as_ref().map(|connection| connection.begin(http::Version::HTTP_11)));
        let life = StreamLife {
            held,
            end: request.server.closing.clone().cancelled_owned(),
            is_alive: account::is_alive(&request.server, &request.user, request.credential.clone()),
        };
        return Ok(relay(switch, answer, life));
    }
    let answer = exchange::over(stream, sent).await.map_err(failed)?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(failed("it switched the protocol without a request for it".to_owned()));
    }
    Ok(answered(request, answer, Links::of(proxied, prefix, target), place))
}

impl Links {
    fn of(proxied: &ProxiedRequest, prefix: &str, target: &ProxyTarget) -> Self {
        let asked = proxied.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        Links { prefix: prefix.to_owned(), hosts: [asked.unwrap_or_default().to_owned(), target.host()] }
    }
}

/// The answer to a request for the proxy's path without a slash: relative links of the page need one.
fn redirect(location: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The headers for the target: those of the client without credentials, and where the request came from.
fn headers_for(from: &HeaderMap, target: &ProxyTarget, uri: &Uri, peer: Option<IpAddr>) -> HeaderMap {
    let mut all = from.clone();
    remove_for_this_server(&mut all);
    if let Some(peer) = peer {
        headers::append_forwarded_for(&mut all, peer);
    }
    // The links of a compressed page could not be rewritten.
    all.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let asked = from.get(header::HOST).cloned();
    let further = [
        (HeaderName::from_static("x-forwarded-host"), asked),
        (HeaderName::from_static("x-forwarded-uri"), HeaderValue::try_from(uri.path()).ok()),
        (header::HOST, HeaderValue::try_from(target.host()).ok()),
    ];
    for (name, value) in further {
        match value {
            Some(value) => drop(all.insert(name, value)),
            None => drop(all.remove(name)),
        }
    }
    all
}

/// The response for the client.
fn answered(
    request: &Request,
    answer: http::Response<hyper::body::Incoming>,
    links: Links,
    place: tokio::sync::OwnedSemaphorePermit,
) -> Response {
    let (mut parts, body) = answer.into_parts();
    let location = parts.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let location = location.and_then(|location| links.rewritten(location));
    headers::answered(&mut parts.headers);
    if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
        parts.headers.insert(header::LOCATION, location);
    }
    parts.headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    let is_page = is_page(&parts.headers);
    let method = request.proxied.as_deref().map_or(Method::GET, |proxied| proxied.method.clone());
    let length = body.size_hint().exact().filter(|_| !is_page);
    headers::set_length(&mut parts.headers, &method, parts.status, length);
    if is_page {
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::ETAG);
    }
    (parts.version, parts.extensions) = (http::Version::default(), http::Extensions::new());
    if is_page {
        parts.extensions.insert(ComputedBody);
    }
    let body = if is_page { page::rewritten(body, links) } else { Body::new(body) };
    let body = passed_body(body, None, request.server.closing.clone());
    // Held until the end of the response.
    let body = Body::new(body.map_frame(move |frame| {
        let _place = &place;
        frame
    }));
    Response::from_parts(parts, body)
}

/// Whether the links of a response are rewritten.
fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/html") && !headers.contains_key(header::CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_gets_no_credentials() {
        let mut from = HeaderMap::new();
        for (name, value) in [
            ("host", "api.example:6443"),
            ("authorization", "Bearer secret"),
            ("cookie", "secret"),
            ("impersonate-user", "root"),
            ("x-remote-user", "root"),
            ("connection", "x-mine"),
            ("x-mine", "1"),
            ("accept-encoding", "gzip"),
            ("x-custom", "a"),
        ] {
            from.insert(name, HeaderValue::from_static(value));
        }
        let target = ProxyTarget::Address(IpAddr::from([10, 0, 0, 1]), None, Scheme::Http);
        let uri = Uri::from_static("/api/v1/namespaces/n/pods/p/proxy/a");
        let got = headers_for(&from, &target, &uri, Some(IpAddr::from([192, 0, 2, 1])));
        let mut got: Vec<String> =
            got.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("a text"))).collect();
        got.sort();
        assert_eq!(
            got,
            [
                "accept-encoding: identity",
                "host: 10.0.0.1",
                "x-custom: a",
                "x-forwarded-for: 192.0.2.1",
                "x-forwarded-host: api.example:6443",
                "x-forwarded-uri: /api/v1/namespaces/n/pods/p/proxy/a",
            ]
        );
    }

    #[test]
    fn only_plain_pages_are_rewritten() {
        for (kind, encoding, want) in [
            ("text/html", "", true),
            ("Text/HTML; charset=utf-8", "", true),
            ("text/html", "gzip", false),
            ("text/htmlx", "", false),
            ("application/json", "", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            if !encoding.is_empty() {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            assert_eq!(is_page(&headers), want, "{kind} {encoding}");
        }
    }
}
