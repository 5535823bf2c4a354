//! The filter that authenticates requests.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use orlop_auth::UserInfo;

use super::anonymous::AnonymousAccess;
use super::bearer::{EXTRA_BLANK, has_extra_blank};
use super::chain::{Authenticators, TokenWarning};
use super::refusal::refusal;
use crate::audit::id::{self, AUDIT_ID};
use crate::audit::layer::authentication_failed;
use crate::encode::answer;

/// Runs a request as the user of its credentials, or rejects it.
pub(crate) async fn authenticate<F: Future<Output = Response>>(
    authenticators: &Authenticators,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    // The header is removed before the request is handled.
    let has_extra_blank =
        authenticators.anonymous == AnonymousAccess::AllPaths && has_extra_blank(request.headers());
    match authenticators.user_of(&mut request).await {
        Ok(user) => {
            let token_warning = request.extensions_mut().remove::<TokenWarning>();
            request.extensions_mut().insert(user);
            let mut response = next(request).await;
            if let Some(TokenWarning(text)) = token_warning {
                answer::add_warnings(response.headers_mut(), &[text.to_owned()]);
            }
            if has_extra_blank {
                answer::add_warnings(response.headers_mut(), &[EXTRA_BLANK.to_owned()]);
            }
            response
        }
        Err(error) => {
            if let Some(id) = id::of(request.headers()) {
                request.headers_mut().insert(AUDIT_ID, id);
            }
            let audited =
                authenticators.audit.as_ref().map(|audit| authentication_failed(audit, &request, &error));
            if let Some(pending) = audited {
                pending.accepted().await;
            }
            refusal(&error, request.headers())
        }
    }
}

/// Marks a request of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InThisProcess;

/// The router for callers in this process: they are this user without authentication, and the limits of requests do not
/// apply to them. Authorization and admission do.
pub fn in_process(router: Router, user: UserInfo) -> Router {
    router.layer(axum::Extension(user)).layer(axum::Extension(InThisProcess))
}
