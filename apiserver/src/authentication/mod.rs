//! Authenticates requests.
//!
//! [`Auth`] is a middleware around the whole router. It adds the [`UserInfo`] to the extensions of each authenticated request,
//! where the handlers read it. In order:
//!
//! 1. A request that already has a `UserInfo` comes from this process ([`in_process`]): extensions are not part of HTTP.
//! 2. Without any means of authentication, which the listener allows on loopback only, a client of the server's own user or of root
//!    is [`UserInfo::admin`] ([`PeerUser`]); [`guard`] rejects requests of foreign sites.
//! 3. Else a bearer token ([`orlop_auth::token_file`], or one of a service account) or a client certificate
//!    ([`orlop_auth::certificate`]) must be valid.
//!    Invalid credentials are rejected on every path; [`PUBLIC_PATHS`] need none.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::audit::Audit;
use crate::audit::id::{self, AUDIT_ID};
use crate::audit::layer::authentication_failed;
use crate::encode::answer;
use crate::encode::negotiate::error_media;
use crate::service_account::Accounts;
use orlop_api::status::ApiError;
use orlop_auth::certificate::ClientCertificate;
use orlop_auth::token_file::TokenFile;
use orlop_auth::{PUBLIC_PATHS, UserInfo, guard};

/// The means of authentication of a server.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// Bearer tokens.
    pub tokens: Option<Arc<TokenFile>>,
    /// Service account tokens; the server sets them.
    pub(crate) accounts: Option<Arc<Accounts>>,
    /// Whether the listener verifies client certificates and gives their [`ClientCertificate`] to
    /// each request.
    pub client_certificates: bool,
    /// The server's own user, if only its clients and those of root are administrators on loopback.
    local_user: Option<u32>,
    /// Whether requests without credentials run as `system:anonymous` on every path, because roles decide what it may do.
    pub(crate) anonymous: bool,
    /// The audit log, for requests that fail authentication; the server sets it.
    pub(crate) audit: Option<Arc<Audit>>,
}

impl Auth {
    /// Creates the means of authentication; the server adds service account tokens.
    pub fn new(tokens: Option<Arc<TokenFile>>, client_certificates: bool) -> Self {
        Auth { tokens, accounts: None, client_certificates, local_user: None, anonymous: false, audit: None }
    }

    /// Restricts the administrators on loopback to clients of this user and of root. Without a user, every client is one.
    pub fn with_local_user(self, local_user: Option<u32>) -> Self {
        Auth { local_user, ..self }
    }

    /// The user of a token, and for which of the requested audiences it is valid (none: for this server). The error is
    /// upstream's text for the client.
    pub(crate) fn user_of_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(UserInfo, Vec<String>), String> {
        const INVALID: &str = "invalid bearer token";
        let of_file = self.tokens.as_ref().and_then(|tokens| tokens.user_of(token.as_bytes()));
        if let Some(user) = of_file {
            // These tokens are for this server.
            let own = self.accounts.as_ref().map_or("", |accounts| accounts.issuer());
            return if audiences.is_empty() || audiences.iter().any(|audience| audience == own) {
                Ok((user, vec![own.to_owned()]))
            } else {
                Err(INVALID.to_owned())
            };
        }
        match self.accounts.as_ref().and_then(|accounts| accounts.user_of(token, audiences)) {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(format!("[{INVALID}, {error}]")),
            None => Err(INVALID.to_owned()),
        }
    }

    /// The service account of a request's token; `None` without a token or for another kind of token.
    fn account_of(&self, request: &Request) -> Option<Result<UserInfo, ApiError>> {
        let token = std::str::from_utf8(bearer_token(request.headers())?).ok()?;
        let user = self.accounts.as_ref()?.user_of(token, &[])?;
        Some(user.map(|(user, _)| user).map_err(|error| {
            tracing::debug!(%error, "a token of a service account is refused");
            ApiError::unauthorized()
        }))
    }

    /// Whether clients must authenticate.
    pub fn is_configured(&self) -> bool {
        self.tokens.is_some() || self.client_certificates
    }

    /// The router behind this authentication.
    pub fn protect(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(Arc::new(self), authenticate))
    }

    /// The user of a request without credentials over loopback.
    fn local(&self, request: &Request) -> Result<UserInfo, ApiError> {
        let Some(own) = self.local_user else { return Ok(UserInfo::admin()) };
        let peer = request.extensions().get::<PeerUser>().and_then(|peer| peer.0);
        match peer {
            Some(user) if user == own || user == ROOT => Ok(UserInfo::admin()),
            Some(_) | None if self.anonymous || PUBLIC_PATHS.contains(&request.uri().path()) => {
                Ok(UserInfo::anonymous())
            }
            Some(_) | None => Err(ApiError { message: OTHER_USER.to_owned(), ..ApiError::unauthorized() }),
        }
    }

    /// The user of this request, or the error to respond with.
    fn user_of(&self, request: &Request) -> Result<UserInfo, ApiError> {
        if let Some(user) = request.extensions().get::<UserInfo>() {
            return Ok(user.clone());
        }
        if !self.is_configured() {
            guard::check_host(request)?;
            guard::check_origin(request)?;
            // A client with such a token acts as that account, even where authentication is not required.
            return self.account_of(request).unwrap_or_else(|| self.local(request));
        }
        // Clients send a token deliberately, and a certificate whenever it is configured: the token takes precedence.
        if let Some(tokens) = &self.tokens
            && let Some(token) = bearer_token(request.headers())
        {
            return match tokens.user_of(token) {
                Some(user) => Ok(user),
                None => self.account_of(request).unwrap_or_else(|| Err(ApiError::unauthorized())),
            };
        }
        if let Some(account) = self.account_of(request) {
            return account;
        }
        if self.client_certificates
            && let Some(certificate) = request.extensions().get::<ClientCertificate>()
        {
            // A browser sends its certificate with the requests of any page.
            guard::check_origin(request)?;
            return Ok(certificate.user.clone());
        }
        let has_credentials = match self.anonymous {
            true => bearer_token(request.headers()).is_some(),
            false => request.headers().contains_key(AUTHORIZATION),
        };
        if !has_credentials && (self.anonymous || PUBLIC_PATHS.contains(&request.uri().path())) {
            return Ok(UserInfo::anonymous());
        }
        Err(ApiError::unauthorized())
    }
}

async fn authenticate(State(auth): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    match auth.user_of(&request) {
        Ok(user) => {
            let has_extra_blank = auth.anonymous && has_extra_blank(request.headers());
            request.extensions_mut().insert(user);
            let mut response = next.run(request).await;
            if has_extra_blank {
                answer::add_warnings(response.headers_mut(), &[EXTRA_BLANK.to_owned()]);
            }
            response
        }
        Err(error) => {
            if let Some(id) = id::of(request.headers()) {
                request.headers_mut().insert(AUDIT_ID, id);
            }
            let audited = auth.audit.as_ref().map(|audit| authentication_failed(audit, &request, &error));
            if let Some(pending) = audited {
                pending.accepted().await;
            }
            refusal(&error, request.headers())
        }
    }
}

/// The user of the process that opened the connection of a request; `None` if it is not known. The listener adds it to each
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUser(pub Option<u32>);

const ROOT: u32 = 0;

/// The response to other users of this machine.
const OTHER_USER: &str = "Unauthorized: without credentials, this server accepts requests only from processes of its own user and of \
    root. Use the token of a service account (kubectl create token), or start the server with --insecure-loopback to accept every \
    process of this machine";

/// Upstream's warning about [`has_extra_blank`].
const EXTRA_BLANK: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Marks a request of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InThisProcess;

/// The router for callers in this process: they are this user without authentication, and the limits of requests do not
/// apply to them. Authorization and admission do.
pub fn in_process(router: Router, user: UserInfo) -> Router {
    router.layer(axum::Extension(user)).layer(axum::Extension(InThisProcess))
}

/// The token of `Authorization: Bearer TOKEN`; the scheme in any case. As upstream, further blanks separate other words, which
/// are ignored.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = value.split(|byte| *byte == b' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case(b"bearer");
    words.next().filter(|token| is_bearer && !token.is_empty())
}

/// Whether a blank too many precedes a bearer token, so that it is ignored.
fn has_extra_blank(headers: &HeaderMap) -> bool {
    let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase());
    value.is_some_and(|value| value.starts_with(b"bearer  "))
}

/// The response to a rejected request.
fn refusal(error: &ApiError, headers: &HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let mut response = answer::error(error, error_media(accept), false);
    let put = response.headers_mut();
    put.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    put.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(id) = headers.get(&AUDIT_ID) {
        put.insert(AUDIT_ID, id.clone());
    }
    response
}

#[cfg(test)]
mod tests;
