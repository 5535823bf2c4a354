//! Entity tags: a client that has a document already is told so and gets nothing else. kubectl keeps
//! the OpenAPI documents for days and asks each time whether they are still good.

use axum::body::{Body, to_bytes};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// No document is longer, bytes.
const LONGEST: usize = 64 << 20;

/// Gives every document its tag, and answers 304 without a body to who names it.
pub(super) async fn entity_tag(request: axum::extract::Request, next: Next) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The documents are in memory, so that reading one cannot fail.
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

/// Whether an `If-None-Match` header names a tag: one of a list, weak ones too, or any.
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
    fn which_headers_name_a_tag() {
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
