//! The authenticators of bearer tokens: the first that accepts a token names its user.
//!
//! Upstream: apiserver `pkg/authentication/token/union`, `pkg/authentication/authenticator/audagnostic.go`.

use std::sync::Arc;

use orlop_auth::UserInfo;
use orlop_auth::limits::{self, MAX_TOKEN_BYTES};
use orlop_auth::service_account::claims::TokenError;
use orlop_auth::token_file::TokenFile;

use super::bootstrap_tokens::BootstrapTokens;
use super::oidc::Issuer;
use super::page::PageSignIn;
use super::webhook::Webhook;
use crate::service_account::{AccountUser, Accounts, TokenKey};

/// Upstream's text for a token that no authenticator knows.
const INVALID: &str = "invalid bearer token";
/// The annotation of a request with a token whose Secret is marked as invalid.
const INVALIDATED: &str = "authentication.k8s.io/legacy-token-invalidated";

/// The user of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenUser {
    pub(crate) user: UserInfo,
    /// For which of the requested audiences the token is valid.
    pub(crate) audiences: Vec<String>,
    /// The annotation for the audit log about the kind of token, if any: key and text.
    pub(crate) annotation: Option<(&'static str, String)>,
    /// The warning for the client, if any.
    pub(crate) warning: Option<&'static str>,
    /// The key of a service account token.
    pub(crate) key: Option<TokenKey>,
}

impl TokenUser {
    fn new(user: UserInfo, audiences: Vec<String>) -> Self {
        TokenUser { user, audiences, annotation: None, warning: None, key: None }
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
    fn of(error: String) -> Self {
        TokenRefusal { errors: vec![error], annotation: None }
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
        if let Some(user) = self.pages.as_ref().and_then(|pages| pages.user_of(token)) {
            let found = user.and_then(|user| self.for_this_server(user, wanted));
            return found.ok_or_else(TokenRefusal::default);
        }
        let mut refusal = TokenRefusal::default();
        let found = match self.local(token, wanted, &mut refusal) {
            Some(found) => Some(found),
            None => self.remote(token, wanted, &mut refusal.errors).await,
        };
        let Some(found) = found else { return Err(refusal) };
        limits::check(&found.user).map_err(|error| TokenRefusal::of(error.to_string()))?;
        Ok(found)
    }

    /// The authenticators that need only this process.
    fn local(&self, token: &str, wanted: &[String], refusal: &mut TokenRefusal) -> Option<TokenUser> {
        let of_file = self.file.as_ref().and_then(|file| file.user_of(token.as_bytes()));
        if let Some(found) = of_file.and_then(|user| self.for_this_server(user, wanted)) {
            return Some(found);
        }
        match self.accounts.as_ref().and_then(|accounts| accounts.user_of(token, wanted)) {
            Some(Ok(found)) => {
                let AccountUser { user, audiences, annotation, warning, key } = found;
                return Some(TokenUser { user, audiences, annotation, warning, key: Some(key) });
            }
            Some(Err(error)) => {
                refusal.errors.push(error.to_string());
                if let TokenError::Invalidated { secret, .. } = error {
                    refusal.annotation = Some((INVALIDATED, secret));
                }
            }
            None => {}
        }
        let user = self.bootstrap.as_ref().and_then(|tokens| tokens.user_of(token))?;
        self.for_this_server(user, wanted)
    }

    /// The authenticators that may call another server.
    async fn remote(&self, token: &str, wanted: &[String], errors: &mut Vec<String>) -> Option<TokenUser> {
        if let Some(issuer) = &self.oidc {
            match issuer.user_of(token).await {
                Ok(Some(user)) => {
                    if let Some(found) = self.for_this_server(user, wanted) {
                        return Some(found);
                    }
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        match self.webhook.as_ref()?.user_of(token, wanted, &self.audiences).await {
            Ok(Some((user, audiences))) => Some(TokenUser::new(user, audiences)),
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
