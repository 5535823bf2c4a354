//! Entity tags: a client that already has a document receives a 304. kubectl caches the OpenAPI documents for
//! days and revalidates them on each use.

use axum::body::{Body, to_bytes};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// Upper bound of a document's size, in bytes.
const LONGEST: usize = 64 << 20;

/// Adds an entity tag to every document, and answers 304 without a body if the request contains that tag.
pub(super) async fn entity_tag(request: axum::extract::Request, next: Next) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The documents are in memory, so reading one cannot fail.
    let bytes = to_bytes(body, LONGEST).await.unwrap_or_default();
    let digest = Sha256::digest(&bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    let Ok(tag) = HeaderValue::from_str(&format!("\"{hex}\"")) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let is_known = known.is_some_and(|known| names(known.as_bytes(), tag.as_bytes()));
    parts.headers.insert(header::ETAG, tag);
    if is_known {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_TYPE);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// Whether an `If-None-Match` header matches a tag: as one of a list, as a weak tag, or with `*`.
fn names(header: &[u8], tag: &[u8]) -> bool {
    header.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|one| {
        let strong = one.strip_prefix(b"W/").unwrap_or(one);
        one == b"*" || strong == tag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_none_match_lists_weak_tags_and_wildcard_match() {
        for (header, want) in [
            ("\"A\"", true),
            ("\"B\"", false),
            ("\"B\", \"A\"", true),
            ("W/\"A\"", true),
            ("*", true),
            ("A", false),
            ("", false),
        ] {
            assert_eq!(names(header.as_bytes(), b"\"A\""), want, "{header}");
        }
    }
}
