//! Long-running requests of the group.

use http::Method;
use percent_encoding::percent_decode_str;

use orlop_api::query::Query;

/// The path prefix of the group.
pub(crate) const ROOT: &str = "/apis/orlop.dev/v1/";

/// The segments of a path below the group, decoded.
pub(super) fn parts(path: &str) -> Vec<String> {
    let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    path.trim_end_matches('/').split('/').map(decoded).collect()
}

/// Whether a request stays open like a watch: a stream with follow.
pub(crate) fn is_live(method: &Method, path: &str, query: &Query) -> bool {
    let is_stream = |rest: &str| parts(rest) == ["stream"];
    *method == Method::GET && path.strip_prefix(ROOT).is_some_and(is_stream) && follows(query)
}

/// Whether a stream request stays open.
pub(super) fn follows(query: &Query) -> bool {
    let follow = !query.has("follow") || query.flag("follow");
    follow && query.text("until").is_empty()
}
