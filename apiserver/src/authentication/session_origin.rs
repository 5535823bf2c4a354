//! The credentials behind a session of the web page.
//!
//! A session never outlives the credentials that requested its code. Each request of the session checks them again, in the same way as a
//! request with the credentials themselves. A token is recorded as its verified claims or its digest. Only the token of a webhook stays in
//! memory, because nothing else can be reviewed again.

use std::sync::Arc;

use jiff::Timestamp;
use orlop_auth::bootstrap_token::BootstrapFingerprint;
use orlop_auth::front_proxy::FrontProxyConfig;
use orlop_auth::oidc::VerifiedClaims;
use orlop_auth::{SecretDigest, UserInfo};

use crate::peer_certificates::PeerCertificates;
use crate::service_account::AccountToken;

/// Credentials that have been verified, and what a later check of them needs.
#[derive(Clone)]
pub(crate) enum SessionOrigin {
    /// The server itself issued the code, for the terminal that started it.
    Server,
    /// The client certificate of a user.
    Certificate(PeerCertificates),
    /// The client certificate of a front proxy, which named the user.
    FrontProxy(PeerCertificates, Arc<FrontProxyConfig>),
    /// A line of the token file.
    StaticToken(SecretDigest),
    /// A service account token.
    Account(AccountToken),
    /// A bootstrap token.
    Bootstrap(BootstrapFingerprint),
    /// A token of an OpenID Connect issuer.
    Oidc(Arc<VerifiedClaims>),
    /// A token that the webhook has accepted.
    Webhook(Arc<str>),
}

impl std::fmt::Debug for SessionOrigin {
    /// Without the claims and the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SessionOrigin::Server => "Server",
            SessionOrigin::Certificate(_) => "Certificate",
            SessionOrigin::FrontProxy(..) => "FrontProxy",
            SessionOrigin::StaticToken(_) => "StaticToken",
            SessionOrigin::Account(_) => "Account",
            SessionOrigin::Bootstrap(_) => "Bootstrap",
            SessionOrigin::Oidc(_) => "Oidc",
            SessionOrigin::Webhook(_) => "Webhook",
        })
    }
}

impl SessionOrigin {
    /// When the credentials expire, as far as they contain that time. The Secret of a bootstrap token and the webhook may change it, so
    /// only the check of a request determines whether these have expired.
    pub(super) fn expires(&self) -> Option<Timestamp> {
        match self {
            SessionOrigin::Certificate(peer) | SessionOrigin::FrontProxy(peer, _) => peer.expires(),
            SessionOrigin::Account(token) => token.expires(),
            SessionOrigin::Oidc(claims) => claims.expires(),
            SessionOrigin::Server
            | SessionOrigin::StaticToken(_)
            | SessionOrigin::Bootstrap(_)
            | SessionOrigin::Webhook(_) => None,
        }
    }
}

/// The user of a session, and the credentials that it has signed in with.
#[derive(Clone, Debug)]
pub(super) struct SignedIn {
    pub(super) user: UserInfo,
    pub(super) origin: SessionOrigin,
}

/// A session that has not expired. Whether its credentials are still valid is checked separately.
#[derive(Clone, Debug)]
pub(crate) struct OpenSession {
    pub(super) signed_in: Arc<SignedIn>,
    /// When the session expires.
    pub(super) until: Timestamp,
}
