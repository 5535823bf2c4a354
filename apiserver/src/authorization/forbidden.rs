//! The response to a request that is not permitted.

use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};

/// A hint for a path such as `namespaces/NAMESPACE/stream`, which is the subresource `stream` of a namespace and does not exist.
fn whole_cluster(at: &ResourceTarget) -> String {
    let is_stream = matches!(at.subresource.as_str(), "stream" | "timeline" | "capture" | "revisions");
    if (at.group.as_str(), at.resource.as_str()) != ("orlop.dev", "namespaces") || !is_stream {
        return String::new();
    }
    format!(
        "; streams, timelines, captures and revisions include all namespaces: use /apis/orlop.dev/v1/{}",
        at.subresource
    )
}

/// 403 with upstream's text (apiserver `pkg/endpoints/handlers/responsewriters/errors.go`).
pub(crate) fn forbidden(user: &UserInfo, request: &RequestInfo, reason: &str) -> ApiError {
    let (user, verb) = (&user.username, &request.verb);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match &request.target {
        RequestTarget::Path(path) => {
            ApiError::forbidden_path(format!("forbidden: User {user:?} cannot {verb} path {path:?}{reason}"))
        }
        RequestTarget::Resource(at) => {
            let resource = match at.subresource.as_str() {
                "" => at.resource.clone(),
                subresource => format!("{}/{subresource}", at.resource),
            };
            let place = match at.namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let why = format!(
                "User {user:?} cannot {verb} resource {resource:?} in API group {:?} {place}{reason}",
                at.group
            );
            let why = why + &whole_cluster(at);
            ApiError::forbidden_resource(&at.group, &at.resource, &at.name, &why)
        }
    }
}
