//! The time of the server to which requests are sent, a text in its objects, and its responses.

use http::Method;

/// Noon on 2026-01-01 (UTC), in milliseconds.
pub(super) const START_MS: i64 = 1_767_268_800_000;

/// A text in stored objects that only the administrator may read.
pub(super) const HIDDEN: &str = "only-an-administrator-reads-this";

/// The response to a request.
pub(super) struct Answer {
    /// The request, for messages.
    pub(super) asked: String,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) code: u16,
    pub(super) bytes: Vec<u8>,
}
