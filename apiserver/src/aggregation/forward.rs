//! Forwards a request to the server of its API group.
//!
//! Upstream: kube-aggregator `pkg/apiserver/handler_proxy.go`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use orlop_api::status::ApiError;
use orlop_auth::request_info::{RequestInfo, RequestTarget};
use percent_encoding::percent_decode_str;

use super::{RemoteService, exchange, target};
use crate::encode::answer;
use crate::encode::negotiate::error_media;
use crate::exchange::{header_text, info_of, user_of};
use crate::forwarding::body::passed_body;
use crate::forwarding::headers;
use crate::limits::connection::Connection;
use crate::state::Inner;

/// Maximum duration of requests for the resources of a version. Clients discover all groups, and one server that does not respond must not
/// delay them for long. Upstream: aggregatedDiscoveryTimeout.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends an authorized request to its server, and returns the response while it arrives.
pub(crate) async fn forward(server: &Arc<Inner>, remote: &RemoteService, request: Request) -> Response {
    if !remote.is_available || remote.address.is_none() {
        return failed(503, "service unavailable");
    }
    if server.aggregation.via.has_marked(request.headers()) {
        return failed(508, "the endpoint of the API group is this server itself");
    }
    if !is_plain(request.uri().path()) {
        return failed(400, "the path has an empty segment, \".\" or \"..\"");
    }
    if request.headers().contains_key(header::UPGRADE) {
        return failed(501, "the server does not forward requests with the header Upgrade");
    }
    let accept = header_text(request.headers(), header::ACCEPT);
    let limit = time_limit(&info_of(&request), server.config.request_timeout);
    let (mut parts, body) = request.into_parts();
    let user = match user_of(&parts.extensions) {
        Ok(user) => user.clone(),
        Err(error) => return answer::error(&error, error_media(accept.as_deref()), false),
    };
    let peer = parts.extensions.get::<Connection>().map(|connection| connection.peer().ip().to_canonical());
    if let Err(why) = headers::forwarded(&mut parts.headers, &user, peer) {
        return failed(503, &why);
    }
    let Ok(uri) = target::target(&parts.uri) else { return failed(400, "the path is invalid") };
    (parts.uri, parts.version) = (uri, Version::HTTP_11);
    let method = parts.method.clone();
    parts.extensions.clear();
    let sent = exchange::send(remote, &server.aggregation, Request::from_parts(parts, body));
    let response = match limit {
        None => sent.await,
        Some(limit) => match tokio::time::timeout(limit, sent).await {
            Ok(response) => response,
            Err(_) => {
                let error = "Timeout: request did not complete within the allotted timeout";
                return answer::error(&ApiError::timeout(error), error_media(accept.as_deref()), false);
            }
        },
    };
    match response {
        Ok(response) => match rejection(response.status(), response.headers()) {
            Some(why) => failed(502, why),
            None => passed(server, &method, response, limit),
        },
        Err(why) => failed(503, &why),
    }
}

/// The time limit of a request; `None` for watches and logs.
fn time_limit(info: &RequestInfo, request_timeout: Duration) -> Option<Duration> {
    match &info.target {
        RequestTarget::Path(path) if path.trim_matches('/').split('/').count() == 3 => {
            Some(DISCOVERY_TIMEOUT.min(request_timeout))
        }
        RequestTarget::Path(_) | RequestTarget::Resource(_) => {
            (!info.is_long_running()).then_some(request_timeout)
        }
    }
}

/// Whether every server reads the same segments from a path. Otherwise the other server could serve a resource for which this one has not
/// authorized the request.
fn is_plain(path: &str) -> bool {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let inner = decoded.strip_prefix('/').unwrap_or(&decoded);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    !inner.split('/').any(|segment| matches!(segment, "" | "." | ".."))
}

/// A response in plain text, as Go's `http.Error` writes it.
fn failed(code: u16, why: &str) -> Response {
    answer::text(code, format!("{why}\n"))
}

/// Why a response may not reach the client.
fn rejection(status: StatusCode, headers: &HeaderMap) -> Option<&'static str> {
    if status.is_redirection() && headers.contains_key(header::LOCATION) {
        return Some("the backend attempted to redirect this request, which is not permitted");
    }
    // No forwarded request asks for another protocol.
    (status == StatusCode::SWITCHING_PROTOCOLS)
        .then_some("the backend attempted to switch the protocol, which is not permitted")
}

/// The response for the client.
fn passed(
    server: &Inner,
    method: &Method,
    response: http::Response<Incoming>,
    limit: Option<Duration>,
) -> Response {
    let (mut parts, body) = response.into_parts();
    headers::answered(&mut parts.headers);
    headers::set_length(&mut parts.headers, method, parts.status, body.size_hint().exact());
    (parts.version, parts.extensions) = (Version::default(), http::Extensions::new());
    Response::from_parts(parts, passed_body(body, limit, server.closing.clone()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use orlop_api::query::Query;

    use super::*;

    #[test]
    fn redirects_and_other_protocols_are_rejected() {
        for (code, has_location, want) in [
            (200, false, false),
            (201, true, false),
            (101, false, true),
            (302, true, true),
            (304, false, false),
            (503, false, false),
        ] {
            let mut headers = HeaderMap::new();
            if has_location {
                headers.insert(header::LOCATION, http::HeaderValue::from_static("/x"));
            }
            let status = StatusCode::from_u16(code).expect("a code");
            assert_eq!(rejection(status, &headers).is_some(), want, "{code} {has_location}");
        }
    }

    #[test]
    fn discovery_has_a_short_time_limit() {
        let request_timeout = Duration::from_secs(60);
        for (method, uri, want) in [
            ("GET", "/apis/g.example/v1", Some(5)),
            ("GET", "/apis/g.example/v1/", Some(5)),
            ("GET", "/apis/g.example/v1/things", Some(60)),
            ("POST", "/apis/g.example/v1/things", Some(60)),
            ("GET", "/apis/g.example/v1/things?watch=true", None),
            ("GET", "/apis/g.example/v1/namespaces/n/things/x/log", None),
        ] {
            let request = Request::builder().method(method).uri(uri).body(Body::empty()).expect("a request");
            let limit = time_limit(&RequestInfo::of_request(&request), request_timeout);
            assert_eq!(limit, want.map(Duration::from_secs), "{method} {uri}");
        }
        let info = RequestInfo::of(&Method::GET, "/apis/g.example/v1", &Query::parse(None));
        assert_eq!(time_limit(&info, Duration::from_secs(2)), Some(Duration::from_secs(2)));
    }

    #[test]
    fn paths_with_two_meanings_are_refused() {
        for (path, want) in [
            ("/apis/g/v1", true),
            ("/apis/g/v1/", true),
            ("/apis/g/v1/namespaces/n/things/x.y", true),
            ("/apis/g/v1/things/a%2Fb", true),
            ("/apis/g/v1//things", false),
            ("/apis/g/v1/things//", false),
            ("/apis/g/v1/../v2/things", false),
            ("/apis/g/v1/%2e%2E/v2/things", false),
            ("/apis/g/v1/x%2F..%2Fthings", false),
            ("/apis/g/v1/./things", false),
        ] {
            assert_eq!(is_plain(path), want, "{path}");
        }
    }
}
