//! The attributes of a request that authorizers decide on.
//!
//! Upstream: apiserver `pkg/endpoints/request/requestinfo.go`.

use std::borrow::Cow;

use http::{Method, Request};
use orlop_api::query::Query;
use orlop_apimachinery::{fields, labels};
use percent_encoding::percent_decode_str;

use crate::selection::{self, Selection};

/// Verb and target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// A verb such as `get`, `list` or `deletecollection`; the method in lower case for a non-resource path.
    pub verb: Cow<'static, str>,
    /// The target.
    pub target: RequestTarget,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// An object, a collection or a subresource.
    Resource(ResourceTarget),
    /// A non-resource path.
    Path(String),
}

/// An object, a collection or a subresource. Empty texts stand for absent parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace; empty for the whole cluster.
    pub namespace: String,
    /// The plural name of the kind.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The name of the object; of a list or a watch, the name that its field selector requires.
    pub name: String,
    /// The requirements of the selectors of a list, watch or deletecollection.
    pub selection: Selection,
}

/// The API group of orlop.
const OWN_GROUP: &str = "orlop.dev";
/// The version of that group.
const OWN_VERSION: &str = "v1";
/// Maximum length of a selector that authorizers read, bytes. Each term needs memory as long as the request is recorded.
const SELECTOR_MAX: usize = 4096;
/// The number of segments of a path that name its target: `apis`, group, version, `watch` or `proxy`, `namespaces`, namespace, resource,
/// name and subresource. Those behind them belong to another server.
const SEGMENTS_MAX: usize = 9;
/// Subresources of a namespace; any other segment behind its name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// The attributes of an HTTP request.
    pub fn of_request<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        // Most paths are not encoded.
        let decoded = match path.contains('%') {
            true => percent_decode_str(path).decode_utf8_lossy(),
            false => Cow::Borrowed(path),
        };
        Self::of(request.method(), &decoded, &Query::parse(request.uri().query()))
    }

    /// The attributes of a request. `path` is decoded.
    pub fn of(method: &Method, path: &str, query: &Query) -> Self {
        Self::of_resource(method, path, query).unwrap_or_else(|| RequestInfo {
            verb: method.as_str().to_ascii_lowercase().into(),
            target: RequestTarget::Path(path.to_owned()),
        })
    }

    /// Whether a decoded path names a resource.
    pub fn is_resource_path(path: &str) -> bool {
        let mut segments = path.trim_matches('/').split('/');
        match segments.next() {
            Some("api") => segments.nth(1).is_some(),
            Some("apis") => segments.nth(2).is_some(),
            _ => false,
        }
    }

    /// Whether the client decides how long the response takes: a watch, a stream, a log, or a connection to a pod.
    ///
    /// Upstream: apiserver `pkg/server/filters/longrunning.go`, kubernetes `cmd/kube-apiserver/app/options`.
    pub fn is_long_running(&self) -> bool {
        const SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
        let RequestTarget::Resource(at) = &self.target else { return false };
        matches!(&*self.verb, "watch" | "proxy")
            || SUBRESOURCES.contains(&at.subresource.as_str())
            || ((at.group.as_str(), at.version.as_str()) == (OWN_GROUP, OWN_VERSION)
                && at.resource == "stream"
                && at.name.is_empty())
    }

    fn of_resource(method: &Method, path: &str, query: &Query) -> Option<Self> {
        let (mut segments, mut count) = ([""; SEGMENTS_MAX], 0);
        for (place, segment) in segments.iter_mut().zip(path.trim_matches('/').split('/')) {
            *place = segment;
            count += 1;
        }
        let (group, version, rest) = match &segments[..count] {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return None,
        };
        let (special, rest) = match rest {
            [verb @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (Some(*verb), rest),
            rest => (None, rest),
        };
        let (namespace, rest) = match rest {
            // Explanations and safe verbs of a namespace are its subresources.
            ["namespaces", _, _] if (group, version) == (OWN_GROUP, OWN_VERSION) => ("", rest),
            ["namespaces", namespace, rest @ ..]
                if rest.first().is_some_and(|part| !NAMESPACE_SUBRESOURCES.contains(part)) =>
            {
                (*namespace, rest)
            }
            // The namespace of a Namespace object is its own name.
            ["namespaces", namespace, ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        // The rest of a proxied path belongs to another server.
        let subresource = if special.is_some() { "" } else { part(2) };
        let mut target = ResourceTarget {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: part(0).to_owned(),
            subresource: subresource.to_owned(),
            name: part(1).to_owned(),
            selection: Selection::default(),
        };
        let verb = match special {
            Some("watch") => Cow::Borrowed("watch"),
            Some(_) => Cow::Borrowed("proxy"),
            None => verb(method, target.name.is_empty(), query),
        };
        if matches!(&*verb, "list" | "watch" | "deletecollection") {
            select(&mut target, &verb, query);
        }
        Some(RequestInfo { verb, target: RequestTarget::Resource(target) })
    }
}

fn verb(method: &Method, is_collection: bool, query: &Query) -> Cow<'static, str> {
    Cow::Borrowed(match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD if is_collection && query.flag("watch") => "watch",
        Method::GET | Method::HEAD if is_collection => "list",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_collection => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    })
}

/// Adds the requirements of the selectors of a request for a collection.
fn select(target: &mut ResourceTarget, verb: &str, query: &Query) {
    // Longer selectors count as missing: an authorizer that needs a requirement then permits nothing.
    let text = |name: &str| Some(query.text(name)).filter(|text| text.len() <= SELECTOR_MAX);
    // The parsers of list requests: another parser could find a name that the list does not require.
    if let Some(selector) = text("fieldSelector").and_then(|text| fields::Selector::parse(text).ok()) {
        if target.name.is_empty() && verb != "deletecollection" {
            target.name = selected_name(&selector).unwrap_or_default().to_owned();
        }
        target.selection.fields = selection::of_fields(&selector);
    }
    if let Some(selector) = text("labelSelector").and_then(|text| labels::Selector::parse(text).ok()) {
        target.selection.labels = selection::of_labels(&selector);
    }
}

/// The name that a field selector requires, if it can be part of a path.
fn selected_name(selector: &fields::Selector) -> Option<&str> {
    let name = selector.requires_exact("metadata.name")?;
    (name != "." && name != ".." && !name.contains(['/', '%'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::SelectionOperator;

    fn shown(method: &str, uri: &str) -> String {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let info = RequestInfo::of(&method, path, &Query::parse(Some(query)));
        let is_resource = matches!(info.target, RequestTarget::Resource(_));
        assert_eq!(RequestInfo::is_resource_path(path), is_resource, "{uri}");
        match info.target {
            RequestTarget::Path(path) => format!("{} path {path}", info.verb),
            RequestTarget::Resource(at) => format!(
                "{} {}|{}|{}|{}|{}",
                info.verb, at.group, at.namespace, at.resource, at.subresource, at.name
            ),
        }
    }

    /// The rows without a query follow upstream's requestinfo_test.go.
    #[test]
    fn paths_have_the_attributes_of_upstream() {
        for (method, uri, want) in [
            ("GET", "/api/v1/namespaces", "list ||namespaces||"),
            ("GET", "/api/v1/namespaces/other", "get |other|namespaces||other"),
            ("PUT", "/api/v1/namespaces/other/finalize", "update |other|namespaces|finalize|other"),
            ("GET", "/api/v1/namespaces/other/pods", "list |other|pods||"),
            ("GET", "/api/v1/namespaces/other/pods/foo", "get |other|pods||foo"),
            ("HEAD", "/api/v1/namespaces/other/pods/foo", "get |other|pods||foo"),
            ("GET", "/api/v1/namespaces/other/pods/foo/log", "get |other|pods|log|foo"),
            ("POST", "/api/v1/namespaces/other/pods/foo/exec", "create |other|pods|exec|foo"),
            ("GET", "/api/v1/pods", "list ||pods||"),
            ("GET", "/api/v1/watch/namespaces/other/pods", "watch |other|pods||"),
            ("GET", "/api/v1/watch/nodes/a", "watch ||nodes||a"),
            ("GET", "/api/v1/nodes?watch=true", "watch ||nodes||"),
            ("GET", "/api/v1/nodes?watch=false", "list ||nodes||"),
            ("DELETE", "/api/v1/nodes", "deletecollection ||nodes||"),
            ("DELETE", "/api/v1/nodes/a", "delete ||nodes||a"),
            ("PATCH", "/apis/apps/v1/namespaces/n/deployments/d/scale", "patch apps|n|deployments|scale|d"),
            ("GET", "/apis/apps/v1/deployments", "list apps||deployments||"),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name%3Da", "list ||secrets||a"),
            ("GET", "/api/v1/secrets?fieldSelector=type%3Db,metadata.name%3D%3Da", "list ||secrets||a"),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name!%3Da", "list ||secrets||"),
            ("DELETE", "/api/v1/secrets?fieldSelector=metadata.name%3Da", "deletecollection ||secrets||"),
            ("GET", "/api/v1/secrets/b?fieldSelector=metadata.name%3Da", "get ||secrets||b"),
            // An escaped comma is part of the value, so this selector requires no name.
            (
                "GET",
                "/api/v1/secrets?fieldSelector=metadata.name!%3Db\\,metadata.name%3Da",
                "list ||secrets||",
            ),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name%3Da/b", "list ||secrets||"),
            ("GET", "/apis/orlop.dev/v1/namespaces/n/why", "get orlop.dev||namespaces|why|n"),
            ("POST", "/apis/orlop.dev/v1/namespaces/n/pods/p/undelete", "create orlop.dev|n|pods|undelete|p"),
            ("GET", "/apis/orlop.dev/v2/namespaces/n/why", "list orlop.dev|n|why||"),
            ("GET", "/", "get path /"),
            ("GET", "/api", "get path /api"),
            ("GET", "/api/v1", "get path /api/v1"),
            ("GET", "/apis/apps/v1", "get path /apis/apps/v1"),
            ("POST", "/healthz", "post path /healthz"),
            ("GET", "/apis/apps/v1/", "get path /apis/apps/v1/"),
        ] {
            assert_eq!(shown(method, uri), want, "{method} {uri}");
        }
    }

    #[test]
    fn required_fields_are_those_of_collections() {
        for (method, uri, want) in [
            (
                "GET",
                "/api/v1/pods?fieldSelector=spec.nodeName%3Dn,status.phase!%3DFailed",
                &[("spec.nodeName", "n")][..],
            ),
            ("DELETE", "/api/v1/pods?fieldSelector=spec.nodeName%3D%3Dn", &[("spec.nodeName", "n")]),
            ("GET", "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn", &[("spec.nodeName", "n")]),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!%3Da\\,spec.nodeName%3Dn", &[]),
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName", &[]),
            ("GET", "/api/v1/namespaces/a/pods/b?fieldSelector=spec.nodeName%3Dn", &[]),
            ("POST", "/api/v1/namespaces/a/pods?fieldSelector=spec.nodeName%3Dn", &[]),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let info = RequestInfo::of(&method, path, &Query::parse(Some(query)));
            let RequestTarget::Resource(target) = info.target else { panic!("{uri} is a resource") };
            let equal = target.selection.fields.iter().filter(|one| one.operator == SelectionOperator::In);
            let found: Vec<_> = equal.map(|one| (one.key.as_str(), one.values[0].as_str())).collect();
            assert_eq!(found, want, "{uri}");
        }
    }

    #[test]
    fn streams_are_long_running() {
        for (path, want) in [
            ("/api/v1/pods", false),
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/watch/pods", true),
            ("/api/v1/namespaces/n/pods/a/log", true),
            ("/api/v1/namespaces/n/pods/a/exec", true),
            ("/api/v1/namespaces/n/pods/a/status", false),
            ("/apis/orlop.dev/v1/stream", true),
            ("/apis/orlop.dev/v1/timeline", false),
            ("/watch", false),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let info = RequestInfo::of(&Method::GET, path, &Query::parse(Some(query)));
            assert_eq!(info.is_long_running(), want, "{path}");
        }
    }
}
