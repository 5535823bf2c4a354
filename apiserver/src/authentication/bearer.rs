//! The bearer token in a request's `Authorization` header.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// Upstream's warning about [`has_extra_blank`].
pub(super) const EXTRA_BLANK: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The token of `Authorization: Bearer TOKEN`; the scheme in any case. As upstream, further blanks separate other words, which
/// are ignored.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = value.split(|byte| *byte == b' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case(b"bearer");
    words.next().filter(|token| is_bearer && !token.is_empty())
}

/// Whether an extra blank precedes a bearer token, so that the token is ignored.
pub(super) fn has_extra_blank(headers: &HeaderMap) -> bool {
    const START: &[u8] = b"bearer  ";
    let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes().trim_ascii());
    value.and_then(|value| value.get(..START.len())).is_some_and(|start| start.eq_ignore_ascii_case(START))
}
