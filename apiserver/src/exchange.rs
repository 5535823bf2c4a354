//! Bodies and headers of requests and responses.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::BodyExt as _;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use orlop_store::{MemoryBudget, OutOfMemory, ReservedMemory};

use crate::metrics::OpenWatch;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// Maximum size of a request body, bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// Maximum number of bytes that are read from a rejected body and discarded, so that the client receives
/// the response.
const DISCARD_LIMIT: u64 = 16 * 1024 * 1024;
/// Maximum duration of a write, as upstream.
pub(crate) const WRITE_TIME_MAX: Duration = Duration::from_secs(34);

/// Closes the connection after the response if the body was not read: the rest of the body would precede the next
/// request.
pub(crate) fn close_where_body_is_left(error: &ApiError, version: http::Version, headers: &mut HeaderMap) {
    if matches!(error.code, 413 | 504) && version < http::Version::HTTP_2 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Counts a watch as open until its body ends.
pub(crate) fn hold(response: Response, open_watch: OpenWatch) -> Response {
    response.map(|body| {
        axum::body::Body::new(body.map_frame(move |frame| {
            let _counted = &open_watch;
            frame
        }))
    })
}

/// The user that authentication has added to a request.
///
/// # Errors
/// 500: the request did not pass authentication. No request runs without a user.
pub(crate) fn user_of(extensions: &Extensions) -> Result<&UserInfo, ApiError> {
    extensions.get().ok_or_else(|| ApiError::internal("no user found for request"))
}

/// The attributes of a request; an earlier step may have computed them.
pub(crate) fn info_of(request: &Request) -> Cow<'_, RequestInfo> {
    match request.extensions().get::<Arc<RequestInfo>>() {
        Some(info) => Cow::Borrowed(info),
        None => Cow::Owned(RequestInfo::of_request(request)),
    }
}

pub(crate) fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    // Several lines of one header form one list.
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Whether to indent the response: on request, or for curl, Wget and browsers (upstream: apiserver
/// `handlers/negotiation/negotiate.go`, isPrettyPrint).
pub(crate) fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.text("pretty") {
        "" => {
            let agent = headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person.as_bytes()))
        }
        // Go's `strconv.ParseBool`.
        given => matches!(given, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

/// 429: the request needs more memory than is free; 413 if it needs more than the limit.
pub(crate) fn out_of_memory(error: OutOfMemory) -> ApiError {
    if error.is_permanent() {
        return ApiError::too_large(format!(
            "Request entity too large: it needs {} bytes of memory, and --memory-limit is {}",
            error.needed, error.limit
        ));
    }
    tracing::debug!(%error, "a request was rejected because the memory limit is reached");
    ApiError::too_many_requests("The server is out of memory for requests, please try again later.", 1)
}

/// Reads the body of a write request, and reserves its memory.
///
/// # Errors
/// 413 if the body is too large, 400 if it cannot be read, 429 if there is no memory for it.
pub(crate) async fn read(
    mut body: axum::body::Body,
    memory: &Arc<MemoryBudget>,
) -> Result<(Bytes, ReservedMemory), ApiError> {
    let too_large = || ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}"));
    let hint = http_body::Body::size_hint(&body);
    if hint.lower() > DISCARD_LIMIT {
        return Err(too_large());
    }
    let most = hint.upper().unwrap_or(u64::MAX).min(BODY_LIMIT as u64);
    let mut reserved = match memory.reserve(most) {
        Ok(reserved) => reserved,
        Err(error) => {
            discard(body).await;
            return Err(out_of_memory(error));
        }
    };
    match whole(&mut body).await {
        Ok(body) => {
            // Never more than before.
            reserved.resize(body.len() as u64).map_err(out_of_memory)?;
            Ok((body, reserved))
        }
        Err(Unreadable::TooLarge) => {
            discard(body).await;
            Err(too_large())
        }
        Err(Unreadable::Broken(error)) => {
            Err(ApiError::bad_request(format!("cannot read the body: {error}")))
        }
    }
}

/// Why a body cannot be read.
enum Unreadable {
    /// It is larger than [`BODY_LIMIT`].
    TooLarge,
    /// The client or the connection has failed.
    Broken(axum::Error),
}

/// Reads a body into one buffer. A client can send each byte in a chunk of its own, and each chunk occupies a buffer of the connection,
/// so several chunks are copied as they arrive.
async fn whole(body: &mut axum::body::Body) -> Result<Bytes, Unreadable> {
    let mut first = Bytes::new();
    let mut buffer = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unreadable::Broken)?.into_data() else { continue };
        if first.len() + buffer.len() + data.len() > BODY_LIMIT {
            return Err(Unreadable::TooLarge);
        }
        if first.is_empty() && buffer.is_empty() {
            first = data;
            continue;
        }
        if buffer.is_empty() {
            // The announced length, whose memory is reserved.
            let most = BODY_LIMIT - first.len() - data.len();
            let rest = http_body::Body::size_hint(&*body).upper().and_then(|rest| usize::try_from(rest).ok());
            buffer.reserve_exact(first.len() + data.len() + rest.unwrap_or(0).min(most));
        }
        buffer.extend_from_slice(&std::mem::take(&mut first));
        buffer.extend_from_slice(&data);
    }
    // Without unused capacity.
    Ok(if buffer.is_empty() { first } else { buffer.into_boxed_slice().into() })
}

/// Reads and discards the rest of a body that is rejected, up to a limit. A client that writes does not read,
/// and would report a broken connection instead of the response.
async fn discard(mut body: axum::body::Body) {
    let mut left = DISCARD_LIMIT;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(rest) = left.checked_sub(length) else { return };
        left = rest;
    }
}
