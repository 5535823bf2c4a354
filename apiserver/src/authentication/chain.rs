//! The order of the authenticators of a request.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use orlop_api::status::ApiError;
use orlop_auth::front_proxy::{self, FrontProxyConfig};
use orlop_auth::page_session::TOKEN_PREFIX;
use orlop_auth::{UserInfo, guard, limits};
use orlop_store::Kv;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::anonymous::AnonymousAccess;
use super::bearer::bearer_token;
use super::bootstrap_tokens::BootstrapTokens;
use super::config::AuthConfig;
use super::oidc::Issuer;
use super::page::{self, PageSignIn, PageToken};
use super::peer_user::{local_user, without_credentials};
use super::session_origin::{OpenSession, SessionOrigin};
use super::tokens::{TokenAuthenticators, TokenUser};
use super::webhook::Webhook;
use crate::audit::Audit;
use crate::audit::layer::AuthenticationAnnotation;
use crate::clock::Clock;
use crate::peer_certificates::PeerCertificates;
use crate::projection::Projection;
use crate::service_account::Accounts;

/// A warning for the client about its token.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenWarning(pub(super) &'static str);

/// The authenticators of a server.
pub(crate) struct Authenticators {
    /// Clients have to authenticate.
    is_required: bool,
    /// Whether client certificates are verified.
    has_certificates: bool,
    front_proxy: Option<FrontProxyConfig>,
    tokens: TokenAuthenticators,
    pub(super) anonymous: AnonymousAccess,
    page_sign_in: Option<Arc<PageSignIn>>,
    local_user: Option<u32>,
    pub(super) audit: Option<Arc<Audit>>,
    clock: Clock,
}

impl Authenticators {
    /// Connects the configured authenticators to the server.
    pub(crate) fn new(
        config: &AuthConfig,
        anonymous: AnonymousAccess,
        store: &Arc<dyn Kv<Projection>>,
        accounts: Arc<Accounts>,
        clock: Clock,
        audit: Option<Arc<Audit>>,
    ) -> Self {
        if let (Some(sign_in), Some(audit)) = (&config.page_sign_in, &audit) {
            sign_in.set_audit(audit.clone());
        }
        let audiences = accounts.audiences().to_vec();
        let tokens = TokenAuthenticators {
            file: config.tokens.clone(),
            accounts: Some(accounts),
            bootstrap: config.bootstrap_tokens.then(|| BootstrapTokens::new(store.clone(), clock.clone())),
            oidc: config.oidc.clone().map(|oidc| Arc::new(Issuer::new(oidc, clock.clone()))),
            webhook: config.webhook.clone().map(Webhook::new),
            pages: config.page_sign_in.clone(),
            audiences,
        };
        Authenticators {
            is_required: config.is_configured(),
            has_certificates: config.client_authorities.is_some(),
            front_proxy: config.front_proxy.clone(),
            tokens,
            anonymous,
            page_sign_in: config.page_sign_in.clone(),
            local_user: config.local_user,
            audit,
            clock,
        }
    }

    /// Starts the tasks that authenticators need, until `closing`.
    pub(crate) fn start(&self, tasks: &TaskTracker, closing: &CancellationToken) {
        if let Some(issuer) = self.tokens.oidc.clone() {
            let closing = closing.clone();
            tasks.spawn(async move {
                let _ = closing.run_until_cancelled(issuer.follow()).await;
            });
        }
    }

    /// The user of a token, for a review. `wanted` are the requested audiences; empty means those of this server.
    ///
    /// # Errors
    /// Upstream's text for the client.
    pub(crate) async fn review(&self, token: &str, wanted: &[String]) -> Result<TokenUser, String> {
        self.tokens.user_of(token, wanted).await.map_err(|refusal| refusal.text())
    }

    /// Whether a session of the web page and its credentials are still valid, for an open stream.
    pub(crate) fn is_open(&self, session: &OpenSession) -> bool {
        self.tokens.is_open(session, &self.clock)
    }

    /// Whether the token of a new session of the web page is valid.
    pub(super) async fn accepts_session(&self, token: &str) -> bool {
        self.tokens.user_of(token, &[]).await.is_ok()
    }

    /// Records the credentials of a request for a code.
    fn note_origin(&self, request: &mut Request, origin: impl FnOnce() -> SessionOrigin) {
        if self.page_sign_in.is_some() && request.uri().path() == page::CODES {
            request.extensions_mut().insert(origin());
        }
    }

    /// The user of this request, or the error to respond with.
    pub(super) async fn user_of(&self, request: &mut Request) -> Result<UserInfo, ApiError> {
        if let Some(user) = request.extensions().get::<UserInfo>() {
            return Ok(user.clone());
        }
        let user = match self.is_required {
            true => self.with_credentials(request).await,
            false => self.without_authentication(request).await,
        }?;
        // Most servers have no sign-in, and read the header only once.
        if self.page_sign_in.is_some()
            && bearer_token(request.headers()).is_some_and(|token| token.starts_with(TOKEN_PREFIX.as_bytes()))
        {
            request.extensions_mut().insert(PageToken);
        }
        // Removed, so that no later code uses them as credentials.
        request.headers_mut().remove(AUTHORIZATION);
        front_proxy::remove_headers(self.front_proxy.as_ref(), request.headers_mut());
        Ok(user)
    }

    /// The user of a request to a server without authentication. A client with the token of a service account acts as that account.
    async fn without_authentication(&self, request: &mut Request) -> Result<UserInfo, ApiError> {
        guard::check_host(request)?;
        guard::check_origin(request)?;
        let token = bearer_token(request.headers()).and_then(|token| std::str::from_utf8(token).ok());
        let is_account =
            |token: &&str| self.tokens.accounts.as_ref().is_some_and(|own| own.has_issued(token));
        match token.filter(is_account).map(str::to_owned) {
            Some(token) => self.of_token(&token, request).await,
            None => local_user(request, self.local_user, self.anonymous),
        }
    }

    /// The user of a request to a server with authentication.
    async fn with_credentials(&self, request: &mut Request) -> Result<UserInfo, ApiError> {
        let mut refused = false;
        if self.has_certificates
            && let Some(peer) = request.extensions().get::<PeerCertificates>().cloned()
        {
            let checked = peer.check((self.clock)());
            match checked.proxy.as_ref().zip(self.front_proxy.as_ref()) {
                Some((Ok(name), proxy)) if proxy.allows(name.as_deref()) => {
                    if let Some(user) = proxy.user_of(request.headers()) {
                        let proxy = || Arc::new(proxy.clone());
                        self.note_origin(request, || SessionOrigin::FrontProxy(peer.clone(), proxy()));
                        return within_limits(user);
                    }
                }
                Some((Ok(name), _)) => {
                    tracing::debug!(?name, "a front proxy is not in --requestheader-allowed-names");
                    refused = true;
                }
                Some((Err(why), _)) => {
                    tracing::debug!(why, "a certificate is not of a front proxy");
                    refused = true;
                }
                None => {}
            }
            match &checked.user {
                Some(Ok(user)) => {
                    // A browser sends its certificate with the requests of any page.
                    guard::check_origin(request)?;
                    self.note_origin(request, || SessionOrigin::Certificate(peer.clone()));
                    return within_limits(user.clone());
                }
                Some(Err(why)) => {
                    tracing::debug!(why, "a client certificate is refused");
                    refused = true;
                }
                None => {}
            }
        }
        if let Some(token) = bearer_token(request.headers()) {
            let token = std::str::from_utf8(token).map(str::to_owned);
            return match token {
                Ok(token) => self.of_token(&token, request).await,
                Err(_) => Err(ApiError::unauthorized()),
            };
        }
        // If roles decide about anonymous requests, a header with another scheme is not a credential, as in upstream.
        let has_other = match self.anonymous {
            AnonymousAccess::AllPaths => false,
            AnonymousAccess::Denied | AnonymousAccess::PublicPaths => {
                request.headers().contains_key(AUTHORIZATION)
            }
        };
        if !refused && !has_other && self.anonymous.permits(request.uri().path()) {
            return Ok(UserInfo::anonymous());
        }
        let has_none = !refused && !request.headers().contains_key(AUTHORIZATION);
        match has_none && self.page_sign_in.is_some() {
            true => Err(without_credentials()),
            false => Err(ApiError::unauthorized()),
        }
    }

    async fn of_token(&self, token: &str, request: &mut Request) -> Result<UserInfo, ApiError> {
        match self.tokens.user_of(token, &[]).await {
            Ok(found) => {
                if let Some((key, text)) = found.annotation {
                    request.extensions_mut().insert(AuthenticationAnnotation(key, text));
                }
                if let Some(warning) = found.warning {
                    request.extensions_mut().insert(TokenWarning(warning));
                }
                if let Some(credential) = found.credential {
                    request.extensions_mut().insert(credential);
                }
                if let Some(origin) = found.origin {
                    self.note_origin(request, || origin);
                }
                Ok(found.user)
            }
            Err(refusal) => {
                tracing::debug!(error = refusal.text(), "a bearer token is refused");
                if let Some((key, text)) = refusal.annotation {
                    request.extensions_mut().insert(AuthenticationAnnotation(key, text));
                }
                Err(ApiError::unauthorized())
            }
        }
    }
}

fn within_limits(user: UserInfo) -> Result<UserInfo, ApiError> {
    match limits::check(&user) {
        Ok(()) => Ok(user),
        Err(error) => {
            tracing::debug!(%error, "the user of a certificate or of a front proxy is refused");
            Err(ApiError::unauthorized())
        }
    }
}
