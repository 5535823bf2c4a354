//! Bodies and headers of requests and answers.

use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::{BodyExt, Limited};

use crate::metrics::OpenWatch;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The largest body that is read, bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// So much of a body that is too large is read for the answer's sake, bytes; nothing of it is kept.
const DISCARD_LIMIT: u64 = 16 * 1024 * 1024;
/// The longest that a write may take, as upstream has it.
pub(crate) const WRITE_TIME_MAX: Duration = Duration::from_secs(34);

/// After an answer to a body that was not read the rest of it stands where the next request would.
pub(crate) fn close_where_body_is_left(error: &ApiError, version: http::Version, headers: &mut HeaderMap) {
    if matches!(error.code, 413 | 504) && version < http::Version::HTTP_2 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Keeps a watch counted until its body ends.
pub(crate) fn hold(response: Response, open_watch: OpenWatch) -> Response {
    response.map(|body| {
        axum::body::Body::new(body.map_frame(move |frame| {
            let _counted = &open_watch;
            frame
        }))
    })
}

pub(crate) fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    // Several lines of one header count as one list.
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Whether a person reads the answer.
pub(crate) fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if query.has("pretty") {
        return query.flag("pretty");
    }
    let agent = headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    ["curl/", "Wget/", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person.as_bytes()))
}

/// The body of a request that writes.
///
/// # Errors
/// 413 when it is too large, 400 when it cannot be read.
pub(crate) async fn read(mut body: axum::body::Body) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}"));
    if http_body::Body::size_hint(&body).lower() > DISCARD_LIMIT {
        return Err(too_large());
    }
    match Limited::new(&mut body, BODY_LIMIT).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            discard(body).await;
            Err(too_large())
        }
        Err(error) => Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
    }
}

/// Takes what is left of a body that is too large, if it is not too large for that as well. A client
/// that writes does not read, and would see a broken connection and never the answer.
async fn discard(mut body: axum::body::Body) {
    let mut left = DISCARD_LIMIT;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(rest) = left.checked_sub(length) else { return };
        left = rest;
    }
}
