//! Maps method and path to a verb and a resource.

use http::Method;

use crate::custom::Kinds;
use crate::dispatch::{self, PathTarget, Resource};
use crate::registry::by_resource;
use crate::verbs::part::Part;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// An operation on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update(Part),
    Patch(Part),
    Delete,
    DeleteCollection,
    Bind,
    Finalize,
    GetScale,
    UpdateScale,
    PatchScale,
    Evict,
    /// Forwards to a kubelet or a pod.
    Connect,
    RequestToken,
}

impl Verb {
    pub(super) fn is_mutating(self) -> bool {
        !matches!(self, Verb::Get | Verb::GetScale | Verb::List | Verb::Watch | Verb::Connect)
    }

    /// The verb as metrics name it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Verb::Get | Verb::GetScale => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create | Verb::Bind | Verb::Evict | Verb::RequestToken => "POST",
            Verb::Connect => "CONNECT",
            Verb::Update(_) | Verb::UpdateScale | Verb::Finalize => "PUT",
            Verb::Patch(_) | Verb::PatchScale => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }
}

/// The verb and resource of a request; `None` for paths that do not exist.
pub(super) fn plan(
    kinds: &Kinds,
    method: &Method,
    path: &str,
    query: &Query,
) -> Result<Option<(Verb, Resource)>, ApiError> {
    if !path.starts_with("/api/") && !path.starts_with("/apis/") {
        return Ok(None);
    }
    match dispatch::target(kinds, path) {
        PathTarget::UnknownGroup => Ok(None),
        PathTarget::UnknownResource => Err(ApiError::no_such_resource()),
        PathTarget::UnknownSubresource(resource) => {
            Err(ApiError::not_found(resource.kind.names(), &resource.name))
        }
        PathTarget::NoNamespace => Err(ApiError::bad_request("Namespace parameter required.")),
        PathTarget::BadName(name) => {
            Err(ApiError::bad_request(format!("invalid name {name:?}: may not be '.' or '..'")))
        }
        PathTarget::Bindings { namespace } => {
            if *method != Method::POST {
                return Err(ApiError::method_not_allowed());
            }
            let kind = by_resource("", "v1", "pods").ok_or_else(ApiError::no_such_resource)?;
            let resource = Resource {
                kind: kind.into(),
                namespace,
                name: String::new(),
                subresource: "binding".to_owned(),
                watch_path: false,
            };
            Ok(Some((Verb::Bind, resource)))
        }
        PathTarget::Resource(resource) => {
            let verb = verb(method, &resource, query)?;
            Ok(Some((verb, resource)))
        }
    }
}

fn verb(method: &Method, resource: &Resource, query: &Query) -> Result<Verb, ApiError> {
    let refused = || {
        let kind = &resource.kind;
        Err(match verb_name(method, resource).filter(|_| kind.is_custom()) {
            Some(verb) => ApiError::verb_not_supported(kind.names(), verb),
            None => ApiError::method_not_allowed(),
        })
    };
    let has = |name: &str| resource.kind.verbs().contains(&name);
    if resource.watch_path {
        return match *method {
            _ if !has("watch") => Err(ApiError::no_such_resource()),
            Method::GET => Ok(Verb::Watch),
            _ => refused(),
        };
    }
    if resource.subresource.is_empty() {
        let item = !resource.name.is_empty();
        return match *method {
            // Kinds that are never stored have no items.
            _ if item && !has("get") => Err(ApiError::no_such_resource()),
            Method::GET if item => Ok(Verb::Get),
            Method::GET if has("list") && query.flag("watch") => match has("watch") {
                true => Ok(Verb::Watch),
                false => Err(ApiError::verb_not_supported(resource.kind.names(), "watch")),
            },
            Method::GET if has("list") => Ok(Verb::List),
            Method::POST if !item && !resource.is_all_namespaces() && has("create") => Ok(Verb::Create),
            Method::PUT if item && has("update") => Ok(Verb::Update(Part::Main)),
            Method::PATCH if item && has("patch") => Ok(Verb::Patch(Part::Main)),
            Method::DELETE if item && has("delete") => Ok(Verb::Delete),
            Method::DELETE if !item && !resource.is_all_namespaces() && has("deletecollection") => {
                Ok(Verb::DeleteCollection)
            }
            _ => refused(),
        };
    }
    match (resource.subresource.as_str(), method) {
        ("status", &Method::GET) => Ok(Verb::Get),
        ("status", &Method::PUT) => Ok(Verb::Update(Part::Status)),
        ("status", &Method::PATCH) => Ok(Verb::Patch(Part::Status)),
        ("binding", &Method::POST) => Ok(Verb::Bind),
        ("finalize", &Method::PUT) => Ok(Verb::Finalize),
        ("eviction", &Method::POST) => Ok(Verb::Evict),
        ("ephemeralcontainers" | "resize", &Method::GET) => Ok(Verb::Get),
        ("ephemeralcontainers", &Method::PUT) => Ok(Verb::Update(Part::Named("ephemeralcontainers"))),
        ("ephemeralcontainers", &Method::PATCH) => Ok(Verb::Patch(Part::Named("ephemeralcontainers"))),
        ("approval", &Method::GET) => Ok(Verb::Get),
        ("approval", &Method::PUT) => Ok(Verb::Update(Part::Named("approval"))),
        ("approval", &Method::PATCH) => Ok(Verb::Patch(Part::Named("approval"))),
        ("resize", &Method::PUT) => Ok(Verb::Update(Part::Named("resize"))),
        ("resize", &Method::PATCH) => Ok(Verb::Patch(Part::Named("resize"))),
        ("log", &Method::GET) => Ok(Verb::Connect),
        ("attach" | "exec" | "portforward", &(Method::GET | Method::POST)) => Ok(Verb::Connect),
        ("proxy", &(Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH))
        | ("proxy", &(Method::DELETE | Method::OPTIONS)) => Ok(Verb::Connect),
        ("scale", &Method::GET) => Ok(Verb::GetScale),
        ("scale", &Method::PUT) => Ok(Verb::UpdateScale),
        ("scale", &Method::PATCH) => Ok(Verb::PatchScale),
        ("token", &Method::POST) => Ok(Verb::RequestToken),
        _ => refused(),
    }
}

/// The verb that a method stands for, as upstream names it in errors of custom kinds.
fn verb_name(method: &Method, resource: &Resource) -> Option<&'static str> {
    Some(match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if resource.name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        match plan(&Kinds::default(), &method, path, &Query::parse(Some(query))) {
            Ok(Some((verb, resource))) => format!("{verb:?} {}", resource.kind.names().plural),
            Ok(None) => "nothing".to_owned(),
            Err(error) => error.code.to_string(),
        }
    }

    #[test]
    fn method_and_path_select_verb_and_resource() {
        for (method, target, want) in [
            ("GET", "/api/v1/nodes", "List nodes"),
            ("GET", "/api/v1/nodes/a", "Get nodes"),
            ("GET", "/api/v1/nodes/a?watch=1", "Get nodes"),
            ("GET", "/api/v1/nodes?watch", "Watch nodes"),
            ("GET", "/api/v1/nodes?watch=abc", "Watch nodes"),
            ("GET", "/api/v1/nodes?watch=0", "List nodes"),
            ("GET", "/api/v1/nodes?watch=False", "List nodes"),
            ("GET", "/api/v1/watch/nodes/a", "Watch nodes"),
            ("GET", "/api/v1/componentstatuses", "List componentstatuses"),
            ("GET", "/api/v1/componentstatuses/a", "Get componentstatuses"),
            ("GET", "/api/v1/componentstatuses?watch=1", "405"),
            ("GET", "/api/v1/watch/componentstatuses", "404"),
            ("POST", "/api/v1/componentstatuses", "405"),
            ("DELETE", "/api/v1/componentstatuses/a", "405"),
            ("PUT", "/api/v1/namespaces/a/services/b/proxy/c", "Connect services"),
            ("POST", "/api/v1/watch/nodes", "405"),
            ("GET", "/api/v1/watch/nodes/a/status", "404"),
            ("POST", "/api/v1/watch/namespaces/a/bindings", "404"),
            ("POST", "/api/v1/nodes", "Create nodes"),
            ("POST", "/api/v1/nodes/a", "405"),
            ("POST", "/api/v1/pods", "405"),
            ("POST", "/api/v1/namespaces/a/pods/b/status", "405"),
            ("PUT", "/api/v1/nodes", "405"),
            ("PUT", "/api/v1/nodes/a", "Update(Main) nodes"),
            ("PUT", "/api/v1/nodes/a/status", "Update(Status) nodes"),
            ("PATCH", "/api/v1/nodes/a", "Patch(Main) nodes"),
            ("PATCH", "/api/v1/nodes/a/status", "Patch(Status) nodes"),
            ("PATCH", "/api/v1/namespaces/a/finalize", "405"),
            ("PUT", "/api/v1/namespaces/a/finalize", "Finalize namespaces"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", "GetScale deployments"),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale", "UpdateScale deployments"),
            (
                "PATCH",
                "/api/v1/namespaces/a/replicationcontrollers/b/scale",
                "PatchScale replicationcontrollers",
            ),
            ("POST", "/apis/apps/v1/namespaces/a/deployments/b/scale", "405"),
            ("GET", "/apis/apps/v1/namespaces/a/daemonsets/b/scale", "404"),
            ("GET", "/api/v1/namespaces/a/pods/b/ephemeralcontainers", "Get pods"),
            ("PUT", "/api/v1/namespaces/a/pods/b/resize", "Update(Named(\"resize\")) pods"),
            ("POST", "/api/v1/namespaces/a/pods/b/resize", "405"),
            ("POST", "/api/v1/namespaces/a/pods/b/eviction", "Evict pods"),
            ("GET", "/api/v1/namespaces/a/pods/b/eviction", "405"),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "Connect pods"),
            ("POST", "/api/v1/namespaces/a/pods/b/log", "405"),
            ("POST", "/api/v1/namespaces/a/pods/b/exec", "Connect pods"),
            ("DELETE", "/api/v1/namespaces/a/pods/b:80/proxy/c/d", "Connect pods"),
            ("GET", "/api/v1/nodes/a/proxy/metrics", "Connect nodes"),
            ("GET", "/api/v1/namespaces/a/pods/b/exec/c", "404"),
            ("DELETE", "/api/v1/nodes/a", "Delete nodes"),
            ("DELETE", "/api/v1/nodes", "DeleteCollection nodes"),
            ("DELETE", "/api/v1/pods", "405"),
            ("DELETE", "/api/v1/namespaces", "405"),
            ("DELETE", "/api/v1/nodes/a/status", "405"),
            ("HEAD", "/api/v1/nodes", "405"),
            ("OPTIONS", "/api/v1/nodes/a", "405"),
            ("TRACE", "/api/v1/nodes/a", "405"),
            ("POST", "/api/v1/namespaces/a/bindings", "Bind pods"),
            ("POST", "/api/v1/namespaces/a/pods/b/binding", "Bind pods"),
            ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", "RequestToken serviceaccounts"),
            ("GET", "/api/v1/namespaces/a/serviceaccounts/b/token", "405"),
            ("GET", "/api/v1/namespaces/a/bindings", "405"),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "Create tokenreviews"),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", "405"),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews/a", "404"),
            ("POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", "405"),
            ("GET", "/api/v1/nope", "404"),
            ("GET", "/apis/nope/v1", "nothing"),
            (
                "PUT",
                "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval",
                "Update(Named(\"approval\")) certificatesigningrequests",
            ),
            ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval", "405"),
            ("GET", "/favicon.ico", "nothing"),
        ] {
            assert_eq!(show(method, target), want, "{method} {target}");
        }
    }
}
