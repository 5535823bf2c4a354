//! Serves the bundled page: static files inside the binary.
//!
//! The page consists of plain ES modules over the public Kubernetes API, without a build step and without routes
//! of its own for objects. This module only maps paths to files and headers.

use std::borrow::Cow;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};

/// The files below `web/static`.
#[derive(RustEmbed)]
#[folder = "static/"]
struct Files;

/// All content comes from this server, nothing is inline, and no site may embed the page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the page: `/ui/` and below, and `/docs`, the API documentation.
pub fn router() -> Router {
    Router::new()
        .route("/docs", get(|headers: HeaderMap| async move { file("docs.html", &headers) }))
        .route("/docs/", get(|| async { Redirect::permanent("/docs") }))
        .route("/ui", get(|| async { Redirect::permanent("/ui/") }))
        .route("/ui/", get(|headers: HeaderMap| async move { file("index.html", &headers) }))
        .route(
            "/ui/{*path}",
            get(|Path(path): Path<String>, headers: HeaderMap| async move { file(&path, &headers) }),
        )
}

/// The page for `/` if the client is a browser; `None` for other clients, which receive the API's response.
pub fn index(accept: &str) -> Option<Response> {
    if !prefers_html(accept) {
        return None;
    }
    let mut response = file("index.html", &HeaderMap::new());
    // For other clients the response of `/` is JSON, so caches must distinguish them by `Accept`.
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

/// Whether `Accept` names `text/html` with at least the quality of `application/json`.
fn prefers_html(accept: &str) -> bool {
    let quality = |wanted: &str| {
        let clauses = accept.split(',').filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            if !parts.next()?.eq_ignore_ascii_case(wanted) {
                return None;
            }
            let q = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            Some(q.and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0))
        });
        clauses.fold(0.0_f32, f32::max)
    };
    let html = quality("text/html");
    html > 0.0 && html >= quality("application/json")
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some(found) = Files::get(path) else {
        return (StatusCode::NOT_FOUND, "the page has no such file\n").into_response();
    };
    let etag = etag(&found);
    let unchanged = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag));
    let mut response = if unchanged {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let body = match found.data {
            Cow::Borrowed(bytes) => axum::body::Body::from(bytes),
            Cow::Owned(bytes) => axum::body::Body::from(bytes),
        };
        Response::new(body)
    };
    let kind = mime_guess::from_path(path).first_or_octet_stream();
    let kind = match kind.type_() {
        mime_guess::mime::TEXT => format!("{kind}; charset=utf-8"),
        _ => kind.to_string(),
    };
    let put = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&kind) {
        put.insert(CONTENT_TYPE, kind);
    }
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        put.insert(ETAG, etag);
    }
    // Caches revalidate each time, so that an upgrade takes effect immediately.
    put.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    put.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    put.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    put.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The ETag of a file: the first half of the SHA-256 digest of its content.
fn etag(file: &EmbeddedFile) -> String {
    let digest = file.metadata.sha256_hash();
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

#[cfg(test)]
mod tests;
