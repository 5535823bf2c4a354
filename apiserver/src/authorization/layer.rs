//! The middleware that rejects requests that are not permitted, before their body is read.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::ACCEPT;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::impersonation::Impersonation;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};

use crate::audit::context::AuditContext;
use crate::encode::answer;
use crate::encode::negotiate::error_media;
use crate::exchange::header_text;
use crate::registry::Names;
use crate::state::Inner;
use crate::verbs::request as verbs;

/// Runs a request if its user may perform it, as the user that it impersonates.
pub(crate) async fn authorize(
    State(server): State<Arc<Inner>>,
    mut request: Request,
    next: Next,
) -> Response {
    let audited = request.extensions().get::<Arc<AuditContext>>().cloned();
    let audited = audited.as_deref();
    match impersonate(&server, &mut request, audited).and_then(|()| check(&server, &request, audited)) {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let accept = header_text(request.headers(), ACCEPT);
            answer::error(&error, error_media(accept.as_deref()), false)
        }
    }
}

/// Checks that the user may create the object that a request names: a PUT or an apply of a missing object creates it.
///
/// # Errors
/// 403 if not.
pub(crate) fn may_create(request: &verbs::Request) -> Result<(), ApiError> {
    let at = &request.resource;
    may(&request.server, &request.user, "create", request.names(), &at.namespace, &at.name)
}

/// Checks that a user may perform a verb on an object.
///
/// # Errors
/// 403 if not.
pub(crate) fn may(
    server: &Inner,
    user: &UserInfo,
    verb: &'static str,
    names: &Names,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    let target = ResourceTarget {
        group: names.group.to_owned(),
        version: names.version.to_owned(),
        namespace: namespace.to_owned(),
        resource: names.plural.to_owned(),
        subresource: String::new(),
        name: name.to_owned(),
        required_fields: Vec::new(),
    };
    let right = RequestInfo { verb: verb.into(), target: RequestTarget::Resource(target) };
    let decision = server.authorizer.decide(user, &right);
    if decision.allowed { Ok(()) } else { Err(forbidden(user, &right, &decision.reason)) }
}

/// Replaces the user of a request by the one that its headers name.
fn impersonate(
    server: &Inner,
    request: &mut Request,
    audited: Option<&AuditContext>,
) -> Result<(), ApiError> {
    let wanted =
        Impersonation::of(request.headers()).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let Some(wanted) = wanted else { return Ok(()) };
    // Only a router without authentication adds no user.
    let user = request.extensions().get::<UserInfo>().cloned().unwrap_or_else(UserInfo::admin);
    let may = |right: &RequestInfo| server.authorizer.decide(&user, right);
    let on = wanted.on(&RequestInfo::of_request(request));
    let constrained = may(&on);
    let is_permitted = (constrained.allowed && wanted.constrained().iter().all(|right| may(right).allowed))
        || wanted.unconstrained().iter().all(|right| may(right).allowed);
    if !is_permitted {
        return Err(forbidden(&user, &on, &constrained.reason));
    }
    let user = wanted.user();
    if let Some(audited) = audited {
        audited.impersonates(&user);
    }
    request.extensions_mut().insert(user);
    Ok(())
}

fn check(server: &Inner, request: &Request, audited: Option<&AuditContext>) -> Result<(), ApiError> {
    // Only a router without authentication adds no user.
    let user = request.extensions().get::<UserInfo>().filter(|user| server.authorizer.restricts(user));
    let Some(user) = user else {
        if let Some(audited) = audited {
            audited.authorized(true, "");
        }
        return Ok(());
    };
    let info = match audited {
        Some(audited) => Cow::Borrowed(audited.info()),
        None => Cow::Owned(RequestInfo::of_request(request)),
    };
    let decision = server.authorizer.decide(user, &info);
    if let Some(audited) = audited {
        audited.authorized(decision.allowed, &decision.reason);
    }
    if decision.allowed { Ok(()) } else { Err(forbidden(user, &info, &decision.reason)) }
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
            ApiError::forbidden_resource(&at.group, &at.resource, &at.name, &why)
        }
    }
}
