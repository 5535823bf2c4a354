//! The filter that rejects requests that are not permitted, before their body is read.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{StatusCode, Uri};
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::node;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};

use super::elsewhere::{decide_elsewhere, decide_right};
use super::forbidden::forbidden;
use super::{AuthorizationDecision, Progress, impersonation};
use crate::audit::context::AuditContext;
use crate::authentication::InThisProcess;
use crate::encode::answer;
use crate::encode::negotiate::error_media;
use crate::exchange::{header_text, info_of, user_of};
use crate::limits::{Client, client_of};
use crate::registry::Names;
use crate::state::Inner;
use crate::verbs::request as verbs;

/// The request as the user that it impersonates.
///
/// # Errors
/// The response, if the user may not impersonate that user.
pub(crate) async fn impersonate(server: &Arc<Inner>, request: &mut Request) -> Result<(), Box<Response>> {
    let wanted = match impersonation::wanted(request) {
        Ok(None) => return Ok(()),
        Ok(Some(wanted)) => wanted,
        Err(error) => return Err(refused(&error, request)),
    };
    let client = (!is_component(request)).then(|| client_of(request));
    match impersonation::impersonate(server, wanted, client).boxed().await {
        Ok((user, mode)) => {
            if let Some(audited) = request.extensions().get::<Arc<AuditContext>>() {
                audited.impersonates(&user, mode.constraint());
            }
            request.extensions_mut().insert(user);
            Ok(())
        }
        Err(error) => Err(refused(&error, request)),
    }
}

fn refused(error: &ApiError, request: &Request) -> Box<Response> {
    let accept = header_text(request.headers(), ACCEPT);
    Box::new(answer::error(error, error_media(accept.as_deref()), false))
}

/// Checks whether the user of a request may perform it.
///
/// # Errors
/// The response to a request that is rejected.
pub(crate) async fn authorize(server: &Arc<Inner>, request: &mut Request) -> Result<(), Box<Response>> {
    let audited = request.extensions().get::<Arc<AuditContext>>().cloned();
    let audited = audited.as_deref();
    let checked = match check(server, request, audited) {
        Checked::Decided(decided) => decided,
        // Requests cannot be shared between threads, so no future may borrow one. Boxed, as it is rare and large.
        Checked::Undecided(subject) => check_elsewhere(server, *subject, audited).boxed().await,
    };
    checked.map_err(|refusal| match refusal {
        Refusal::Api(error) => refused(&error, request),
        Refusal::Undecided(why) => Box::new(internal_error(request.uri(), &why)),
    })
}

/// Why authorization rejects a request.
enum Refusal {
    /// The modes reject it, or it has no user.
    Api(ApiError),
    /// A mode could not decide, and no other mode permits the request.
    Undecided(String),
}

/// 500 with upstream's text (apiserver `pkg/endpoints/handlers/responsewriters/errors.go`, InternalError).
fn internal_error(uri: &Uri, why: &str) -> Response {
    let uri: String = uri.to_string().chars().map(|c| if "&<>".contains(c) { '_' } else { c }).collect();
    let text = format!("Internal Server Error: {uri:?}: {why}\n");
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (StatusCode::INTERNAL_SERVER_ERROR, headers, text).into_response()
}

/// Checks that the user may create the object that a request names: a PUT or an apply of a missing object creates it.
///
/// # Errors
/// 403 if not.
pub(crate) async fn may_create(request: &verbs::Request) -> Result<(), ApiError> {
    let at = &request.resource;
    let right = right("create", request.names(), &at.namespace, &at.name);
    let decision = decide_right(&request.server, &request.user, &right, None).await?;
    permitted(&request.user, &right, &decision)
}

/// Checks that a user may perform a verb on an object, in code that cannot wait for a future.
///
/// # Errors
/// 403 if not.
pub(crate) fn may_blocking(
    server: &Inner,
    user: &UserInfo,
    verb: &'static str,
    names: &Names,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    let right = right(verb, names, namespace, name);
    permitted(user, &right, &server.authorizer.decide_blocking(user, &right))
}

/// The right to perform a verb on an object.
pub(crate) fn right(verb: &'static str, names: &Names, namespace: &str, name: &str) -> RequestInfo {
    let target = ResourceTarget {
        group: names.group.to_owned(),
        version: names.version.to_owned(),
        namespace: namespace.to_owned(),
        resource: names.plural.to_owned(),
        name: name.to_owned(),
        ..ResourceTarget::default()
    };
    RequestInfo { verb: verb.into(), target: RequestTarget::Resource(target) }
}

/// 403 if the decision does not permit the request, 500 if a mode could not decide.
fn permitted(user: &UserInfo, right: &RequestInfo, decision: &AuthorizationDecision) -> Result<(), ApiError> {
    match decision.error.as_str() {
        _ if decision.allowed => Ok(()),
        "" => Err(forbidden(user, right, &decision.reason)),
        why => Err(ApiError::plain_internal(why)),
    }
}

/// The user of a request, if the server restricts it.
///
/// # Errors
/// The request has no user.
fn restricted<'r>(
    server: &Inner,
    request: &'r Request,
    audited: Option<&AuditContext>,
) -> Result<Option<&'r UserInfo>, ApiError> {
    let user = Some(user_of(request.extensions())?).filter(|user| server.authorizer.restricts(user));
    if let (None, Some(audited)) = (user, audited) {
        audited.authorized(true, "");
    }
    Ok(user)
}

/// A restricted user and its request.
struct Subject {
    user: UserInfo,
    info: RequestInfo,
    is_component: bool,
    client: Option<Client>,
    progress: Progress,
}

/// The result of authorization on a thread for connections.
enum Checked {
    /// The modes permit or reject the request.
    Decided(Result<(), Refusal>),
    /// A webhook must be called, or there are too many rules to compare.
    Undecided(Box<Subject>),
}

fn check(server: &Inner, request: &Request, audited: Option<&AuditContext>) -> Checked {
    let user = match restricted(server, request, audited) {
        Ok(Some(user)) => user,
        Ok(None) => return Checked::Decided(Ok(())),
        Err(error) => return Checked::Decided(Err(Refusal::Api(error))),
    };
    let info = info_of(request);
    let is_component = is_component(request);
    match server.authorizer.decide_briefly(user, &info) {
        Ok(decision) => Checked::Decided(conclude(user, &info, is_component, decision, audited)),
        Err(progress) => Checked::Undecided(Box::new(Subject {
            user: user.clone(),
            info: info.into_owned(),
            is_component,
            client: (!is_component).then(|| client_of(request)),
            progress,
        })),
    }
}

/// Decides about a request with webhooks, or on the threads for expensive requests.
async fn check_elsewhere(
    server: &Arc<Inner>,
    subject: Subject,
    audited: Option<&AuditContext>,
) -> Result<(), Refusal> {
    let Subject { user, info, is_component, client, progress } = subject;
    let decision = decide_elsewhere(server, &user, &info, client, progress).await.map_err(Refusal::Api)?;
    conclude(&user, &info, is_component, decision, audited)
}

fn conclude(
    user: &UserInfo,
    info: &RequestInfo,
    is_component: bool,
    decision: AuthorizationDecision,
    audited: Option<&AuditContext>,
) -> Result<(), Refusal> {
    let is_undecided = !decision.allowed && !decision.error.is_empty();
    if let Some(audited) = audited {
        let reason = if is_undecided { "internal error" } else { &decision.reason };
        audited.authorized(decision.allowed, reason);
    }
    match decision.allowed {
        true => Ok(()),
        false if is_undecided => Err(Refusal::Undecided(decision.error)),
        false => {
            let error = forbidden(user, info, &decision.reason);
            if is_component {
                report_missing_right(user, &decision.reason, &error);
            }
            Err(Refusal::Api(error))
        }
    }
}

/// Whether a request comes from a component of this process.
fn is_component(request: &Request) -> bool {
    request.extensions().get::<InThisProcess>().is_some()
}

/// Logs that a component of this process was refused.
fn report_missing_right(user: &UserInfo, reason: &str, error: &ApiError) {
    // A node may read an object after its last pod on the node was deleted, or before the object exists.
    if reason.contains(node::UNRELATED) {
        tracing::debug!(user = user.username, "{}", error.message);
        return;
    }
    tracing::error!(
        user = user.username,
        "a component of this process lacks a right: {}. Restart the server to restore its roles and bindings; node \
         agents need the mode Node in --authorization-mode",
        error.message
    );
}
