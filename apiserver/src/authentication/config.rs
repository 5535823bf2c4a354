//! The configuration of authentication.

use std::sync::Arc;

pub use orlop_auth::front_proxy::FrontProxyConfig;
pub use orlop_auth::jwt::algorithm::Algorithm;
pub use orlop_auth::oidc::OidcConfig;
use orlop_auth::token_file::TokenFile;

use super::oidc::OidcSettings;
use super::page::PageSignIn;
use super::webhook::WebhookSettings;
use crate::peer_certificates::ClientAuthorities;

/// The means of authentication of a server. The default has none: each client is an administrator.
#[derive(Clone, Debug, Default)]
pub struct AuthConfig {
    /// Bearer tokens of a file.
    pub tokens: Option<Arc<TokenFile>>,
    /// The authorities of client certificates. The listener adds the [`PeerCertificates`] of a connection to its requests.
    ///
    /// [`PeerCertificates`]: crate::peer_certificates::PeerCertificates
    pub client_authorities: Option<Arc<ClientAuthorities>>,
    /// The headers of front proxies, whose certificates `client_authorities` verifies.
    pub front_proxy: Option<FrontProxyConfig>,
    /// Bootstrap tokens in Secrets.
    pub bootstrap_tokens: bool,
    /// Tokens of an OpenID Connect issuer.
    pub oidc: Option<OidcSettings>,
    /// Tokens that a webhook reviews.
    pub webhook: Option<WebhookSettings>,
    /// Whether requests without credentials are permitted. Without a value, they are permitted on the public paths, and on all paths
    /// if roles decide.
    pub anonymous: Option<bool>,
    /// Requests without credentials are permitted on the public paths only, whatever the authorization mode. `anonymous` takes precedence.
    pub only_public_paths: bool,
    /// The sign-in of the web page. The server then has credentials for its administrator, and responses with 401 describe where to
    /// find them.
    pub page_sign_in: Option<Arc<PageSignIn>>,
    /// Clients have to authenticate, even if no other field configures a means of authentication.
    pub is_required: bool,
    /// The user of the server's process. Without authentication, only processes of this user and of root are administrators; with
    /// `None`, all clients are.
    pub local_user: Option<u32>,
}

impl AuthConfig {
    /// Whether clients must authenticate.
    pub(crate) fn is_configured(&self) -> bool {
        self.is_required
            || self.tokens.is_some()
            || self.client_authorities.is_some()
            || self.front_proxy.is_some()
            || self.bootstrap_tokens
            || self.oidc.is_some()
            || self.webhook.is_some()
            || self.page_sign_in.is_some()
    }
}
