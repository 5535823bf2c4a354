//! The filter that authenticates requests.

use axum::extract::Request;
use axum::response::Response;
use orlop_auth::UserInfo;

use super::anonymous::AnonymousAccess;
use super::bearer::{EXTRA_BLANK, has_extra_blank};
use super::chain::{Authenticators, TokenWarning};
use super::refusal::refusal;
use crate::api_service::ApiService;
use crate::audit::id::{self, AUDIT_ID};
use crate::audit::layer::authentication_failed;
use crate::encode::answer;

/// Adds the user of the credentials to a request.
///
/// # Errors
/// The response to a request that is rejected.
pub(crate) async fn authenticate(
    authenticators: &Authenticators,
    request: &mut Request,
) -> Result<CredentialWarnings, Box<Response>> {
    // The header is removed before the request is handled.
    let has_extra_blank =
        authenticators.anonymous == AnonymousAccess::AllPaths && has_extra_blank(request.headers());
    match authenticators.user_of(request).await {
        Ok(user) => {
            let token = request.extensions_mut().remove::<TokenWarning>();
            request.extensions_mut().insert(user);
            Ok(CredentialWarnings { token, has_extra_blank })
        }
        Err(error) => {
            if let Some(id) = id::of(request.headers()) {
                request.headers_mut().insert(AUDIT_ID, id);
            }
            let audited =
                authenticators.audit.as_ref().map(|audit| authentication_failed(audit, request, &error));
            if let Some(pending) = audited {
                pending.accepted().await;
            }
            Err(Box::new(refusal(&error, request.headers())))
        }
    }
}

/// Warnings about the credentials of a request, for its response.
pub(crate) struct CredentialWarnings {
    token: Option<TokenWarning>,
    has_extra_blank: bool,
}

impl CredentialWarnings {
    /// Adds the warnings to the response.
    pub(crate) fn add_to(self, mut response: Response) -> Response {
        if let Some(TokenWarning(text)) = self.token {
            answer::add_warnings(response.headers_mut(), &[text.to_owned()]);
        }
        if self.has_extra_blank {
            answer::add_warnings(response.headers_mut(), &[EXTRA_BLANK.to_owned()]);
        }
        response
    }
}

/// Marks a request of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InThisProcess;

/// The service for callers in this process: they are this user without authentication, and the limits of requests do not
/// apply to them. Authorization and admission do.
pub fn in_process(service: impl Into<ApiService>, user: UserInfo) -> ApiService {
    let service = service.into();
    ApiService::new(move |mut request| {
        request.extensions_mut().insert(user.clone());
        request.extensions_mut().insert(InThisProcess);
        service.respond(request)
    })
}
