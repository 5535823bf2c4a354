//! The authenticators of bearer tokens: the first that accepts a token names its user.
//!
//! Upstream: apiserver `pkg/authentication/token/union`, `pkg/authentication/authenticator/audagnostic.go`.

use std::sync::Arc;

use futures::FutureExt as _;
use orlop_auth::bootstrap_token::BootstrapToken;
use orlop_auth::limits::{self, MAX_TOKEN_BYTES};
use orlop_auth::service_account::claims::TokenError;
use orlop_auth::token_file::TokenFile;
use orlop_auth::{SecretDigest, UserInfo};

use super::bootstrap_tokens::BootstrapTokens;
use super::oidc::Issuer;
use super::page::PageSignIn;
use super::session_origin::{OpenSession, SessionOrigin};
use super::webhook::Webhook;
use crate::service_account::{AccountUser, Accounts, TokenKey};

/// Upstream's text for a token that no authenticator knows.
const INVALID: &str = "invalid bearer token";
/// The annotation of a request with a token whose Secret is marked as invalid.
const INVALIDATED: &str = "authentication.k8s.io/legacy-token-invalidated";

/// The credential whose end also ends the open watches and streams of its user.
#[derive(Clone, Debug)]
pub(crate) enum StreamCredential {
    /// A service account token, by the key that has signed it.
    Account(TokenKey),
    /// A session of the web page.
    Session(OpenSession),
}

/// The user of a valid token.
#[derive(Clone, Debug)]
pub(crate) struct TokenUser {
    pub(crate) user: UserInfo,
    /// For which of the requested audiences the token is valid.
    pub(crate) audiences: Vec<String>,
    /// The annotation for the audit log about the kind of token, if any: key and text.
    pub(crate) annotation: Option<(&'static str, String)>,
    /// The warning for the client, if any.
    pub(crate) warning: Option<&'static str>,
    /// The credential that the streams of the user depend on, if any.
    pub(crate) credential: Option<StreamCredential>,
    /// The record of the token for a session of the web page; `None` for the token of such a session.
    pub(crate) origin: Option<SessionOrigin>,
}

impl TokenUser {
    pub(super) fn new(user: UserInfo, audiences: Vec<String>) -> Self {
        TokenUser { user, audiences, annotation: None, warning: None, credential: None, origin: None }
    }

    fn with_origin(self, origin: SessionOrigin) -> Self {
        TokenUser { origin: Some(origin), ..self }
    }
}

impl From<AccountUser> for TokenUser {
    fn from(found: AccountUser) -> Self {
        let AccountUser { user, audiences, annotation, warning, token } = found;
        let credential = Some(StreamCredential::Account(token.key().clone()));
        let origin = Some(SessionOrigin::Account(token));
        TokenUser { user, audiences, annotation, warning, credential, origin }
    }
}

/// Why no authenticator accepts a token.
#[derive(Debug, Default)]
pub(crate) struct TokenRefusal {
    /// The texts of the authenticators that know the token.
    errors: Vec<String>,
    /// The annotation for the audit log, if any: key and text.
    pub(crate) annotation: Option<(&'static str, String)>,
}

impl TokenRefusal {
    pub(super) fn of(error: String) -> Self {
        TokenRefusal { errors: vec![error], annotation: None }
    }

    /// The refusal of a service account token.
    pub(super) fn of_account(error: TokenError) -> Self {
        let mut refusal = TokenRefusal::of(error.to_string());
        if let TokenError::Invalidated { secret, .. } = error {
            refusal.annotation = Some((INVALIDATED, secret));
        }
        refusal
    }

    /// The text for a review, as upstream lists the errors.
    pub(crate) fn text(&self) -> String {
        match self.errors.as_slice() {
            [] => INVALID.to_owned(),
            errors => format!("[{INVALID}, {}]", errors.join(", ")),
        }
    }
}

/// The configured authenticators, in upstream's order.
#[derive(Default)]
pub(super) struct TokenAuthenticators {
    pub(super) file: Option<Arc<TokenFile>>,
    pub(super) accounts: Option<Arc<Accounts>>,
    pub(super) bootstrap: Option<BootstrapTokens>,
    pub(super) oidc: Option<Arc<Issuer>>,
    pub(super) webhook: Option<Webhook>,
    pub(super) pages: Option<Arc<PageSignIn>>,
    /// The audiences of this server.
    pub(super) audiences: Vec<String>,
}

impl TokenAuthenticators {
    /// The user of a token. `wanted` are the requested audiences; empty means those of this server.
    ///
    /// # Errors
    /// The refusal, if no authenticator accepts the token.
    pub(super) async fn user_of(&self, token: &str, wanted: &[String]) -> Result<TokenUser, TokenRefusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenRefusal::default());
        }
        let wanted = if wanted.is_empty() { &self.audiences } else { wanted };
        // No other authenticator receives the token of a page.
        if let Some((pages, session)) =
            self.pages.as_ref().and_then(|pages| Some((pages, pages.session_of(token)?)))
        {
            let session = session.ok_or_else(TokenRefusal::default)?;
            let found = self.user_of_session(&session, pages.clock()).boxed().await?;
            let own = self.for_this_server(found.user, wanted).ok_or_else(TokenRefusal::default)?;
            let credential = Some(StreamCredential::Session(session));
            return Ok(TokenUser { annotation: found.annotation, warning: found.warning, credential, ..own });
        }
        let mut refusal = TokenRefusal::default();
        let found = match self.local(token, wanted, &mut refusal) {
            Some(found) => Some(found),
            None => self.remote(token, wanted, &mut refusal.errors).boxed().await,
        };
        let Some(found) = found else { return Err(refusal) };
        limits::check(&found.user).map_err(|error| TokenRefusal::of(error.to_string()))?;
        Ok(found)
    }

    /// The authenticators that need only this process.
    fn local(&self, token: &str, wanted: &[String], refusal: &mut TokenRefusal) -> Option<TokenUser> {
        if let Some(file) = &self.file {
            let digest = SecretDigest::of(token.as_bytes());
            let user = file.user_of_digest(&digest);
            if let Some(found) = user.and_then(|user| self.for_this_server(user, wanted)) {
                return Some(found.with_origin(SessionOrigin::StaticToken(digest)));
            }
        }
        match self.accounts.as_ref().and_then(|accounts| accounts.user_of(token, wanted)) {
            Some(Ok(found)) => return Some(TokenUser::from(found)),
            Some(Err(error)) => *refusal = TokenRefusal::of_account(error),
            None => {}
        }
        let token = BootstrapToken::parse(token)?.fingerprint();
        let user = self.bootstrap.as_ref().and_then(|tokens| tokens.user_of(&token))?;
        Some(self.for_this_server(user, wanted)?.with_origin(SessionOrigin::Bootstrap(token)))
    }

    /// The authenticators that may call another server.
    async fn remote(&self, token: &str, wanted: &[String], errors: &mut Vec<String>) -> Option<TokenUser> {
        if let Some(issuer) = &self.oidc {
            match issuer.user_of(token).await {
                Ok(Some((user, claims))) => {
                    if let Some(found) = self.for_this_server(user, wanted) {
                        return Some(found.with_origin(SessionOrigin::Oidc(claims)));
                    }
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        match self.webhook.as_ref()?.user_of(token, wanted, &self.audiences).await {
            Ok(Some((user, audiences))) => {
                let found = TokenUser::new(user, audiences);
                // Without a web page, no copy of the token is needed.
                let origin = self.pages.as_ref().map(|_| SessionOrigin::Webhook(token.into()));
                Some(TokenUser { origin, ..found })
            }
            Ok(None) => None,
            Err(error) => {
                errors.push(error);
                None
            }
        }
    }

    /// A user whose token names no audience: it is for this server.
    fn for_this_server(&self, user: UserInfo, wanted: &[String]) -> Option<TokenUser> {
        let audiences: Vec<String> =
            self.audiences.iter().filter(|own| wanted.contains(own)).cloned().collect();
        let is_for_it = !audiences.is_empty();
        is_for_it.then(|| TokenUser::new(user, audiences))
    }
}
