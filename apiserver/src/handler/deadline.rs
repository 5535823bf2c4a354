//! The parameter `timeout` of requests (upstream: apiserver `pkg/endpoints/filters/request_deadline.go`).

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::header;
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_apimachinery::{duration, quoted};

use crate::encode::answer;
use crate::encode::negotiate::error_media;
use crate::exchange::{header_text, info_of, wants_pretty};

/// The response to a request whose `timeout` is no duration, whatever its path; `None` for all others. Long-running requests ignore the
/// parameter.
pub(crate) fn rejection(request: &Request) -> Option<Response> {
    let uri = request.uri();
    // Most requests have no such parameter.
    if !uri.query().is_some_and(|query| query.contains("timeout=")) {
        return None;
    }
    let query = Query::parse(uri.query());
    let error = requested(&query).err()?;
    if info_of(request).is_long_running() {
        return None;
    }
    let accept = header_text(request.headers(), header::ACCEPT);
    Some(answer::error(&error, error_media(accept.as_deref()), wants_pretty(request.headers(), &query)))
}

/// The duration that the client requests; `None` if it leaves the limit to the server.
///
/// # Errors
/// 400 if the parameter is no duration.
pub(super) fn requested(query: &Query) -> Result<Option<Duration>, ApiError> {
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(None);
    }
    let (unsigned, is_negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let asked = duration::parse(unsigned).map_err(|why| {
        // Go quotes the whole text.
        let why = if is_negative { why.replace(&quoted(unsigned), &quoted(text)) } else { why };
        ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    Ok(Some(asked).filter(|asked| !asked.is_zero() && !is_negative))
}
