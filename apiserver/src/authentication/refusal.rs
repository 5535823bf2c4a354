//! The response to a request that authentication rejects.

use axum::http::header::{ACCEPT, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use orlop_api::status::ApiError;

use crate::audit::id::AUDIT_ID;
use crate::encode::answer;
use crate::encode::negotiate::error_media;

/// The response to a rejected request.
pub(super) fn refusal(error: &ApiError, headers: &HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let mut response = answer::error(error, error_media(accept), false);
    let put = response.headers_mut();
    put.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    put.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(id) = headers.get(&AUDIT_ID) {
        put.insert(AUDIT_ID, id.clone());
    }
    response
}
