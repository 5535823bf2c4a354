//! Entity tags: a client that already has a document receives a 304. kubectl caches the OpenAPI documents for
//! days and revalidates them on each use.

use axum::body::Body;
use axum::middleware::Next;
use axum::response::Response;
use http::{StatusCode, header};

/// Answers 304 without a body if the request contains the entity tag of the document.
pub(super) async fn entity_tag(request: axum::extract::Request, next: Next) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let is_known = match (known, parts.headers.get(header::ETAG)) {
        (Some(known), Some(tag)) => names(known.as_bytes(), tag.as_bytes()),
        (None, _) | (_, None) => false,
    };
    if is_known {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_TYPE);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, body)
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
