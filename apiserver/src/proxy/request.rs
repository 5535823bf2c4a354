//! The request of a client for a proxy.

use http::header::HeaderMap;
use http::{Method, Uri};

/// A request for a proxy, as the client sent it.
pub(crate) struct ProxiedRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl ProxiedRequest {
    /// The request with these parts.
    pub(crate) fn of(parts: &http::request::Parts) -> Self {
        ProxiedRequest {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
        }
    }

    /// The path of the proxy, and the path at the target.
    pub(super) fn split_path(&self) -> (&str, &str) {
        let path = self.uri.path();
        // The segments before: `api`, `v1`, and `nodes` and a name, or `namespaces`, a namespace, a resource and a name.
        let is_namespaced = path.split('/').nth(3) == Some("namespaces");
        let segments = if is_namespaced { 8 } else { 6 };
        let end = path.match_indices('/').nth(segments - 1).map_or(path.len(), |(at, _)| at);
        path.split_at(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_split_after_the_proxy() {
        for (path, want) in [
            ("/api/v1/nodes/n/proxy", ("/api/v1/nodes/n/proxy", "")),
            ("/api/v1/nodes/n:10250/proxy/", ("/api/v1/nodes/n:10250/proxy", "/")),
            ("/api/v1/nodes/proxy/proxy/a/proxy/b", ("/api/v1/nodes/proxy/proxy", "/a/proxy/b")),
            ("/api/v1/namespaces/n/pods/p/proxy", ("/api/v1/namespaces/n/pods/p/proxy", "")),
            (
                "/api/v1/namespaces/n/services/https:s:x/proxy/a%2Fb",
                ("/api/v1/namespaces/n/services/https:s:x/proxy", "/a%2Fb"),
            ),
        ] {
            let request = http::Request::get(path).body(()).expect("a request");
            assert_eq!(ProxiedRequest::of(&request.into_parts().0).split_path(), want, "{path}");
        }
    }
}
