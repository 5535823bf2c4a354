//! Tokens of an OpenID Connect issuer (`--oidc-issuer-url`).
//!
//! [`Issuer::follow`] reads the issuer's keys in the background, and again after an hour or when a token names an unknown key, but not
//! more often than every ten seconds. [`orlop_auth::oidc`] verifies the tokens.

mod document;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use orlop_auth::UserInfo;
use orlop_auth::jwt::unverified_issuer;
use orlop_auth::oidc::{self, IssuerKeys, OidcConfig, OidcError, VerifiedClaims};
use rustls::ClientConfig;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::clock::Clock;
use crate::https;
pub use crate::https::check_authorities;

/// Minimum time between two attempts to read the keys.
const PAUSE: Duration = Duration::from_secs(10);
/// The age at which keys are read again. It bounds the use of a key that the issuer has withdrawn.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// How long a request waits for new keys.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum number of requests that wait for new keys; further ones fail.
const WAITING: usize = 256;

/// An issuer, and the authorities of its server.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The issuer and its claims.
    pub config: OidcConfig,
    /// The authorities of the issuer's server, PEM; empty for those of the system.
    pub ca_bundle: Vec<u8>,
}

/// The state of [`Issuer::follow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reads the keys.
    Reading,
    /// Waits for [`PAUSE`] after an attempt.
    Pausing,
    /// Waits for [`MAX_AGE`], or until a token names an unknown key.
    Idle,
}

/// The issuer, and its current keys.
pub(super) struct Issuer {
    config: OidcConfig,
    tls: Result<Arc<ClientConfig>, String>,
    clock: Clock,
    keys: ArcSwapOption<IssuerKeys>,
    phase: watch::Sender<Phase>,
    wanted: Notify,
    waiting: Semaphore,
}

impl Issuer {
    pub(super) fn new(settings: OidcSettings, clock: Clock) -> Self {
        Issuer {
            config: settings.config,
            tls: https::client_config(&settings.ca_bundle),
            clock,
            keys: ArcSwapOption::empty(),
            phase: watch::Sender::new(Phase::Reading),
            wanted: Notify::new(),
            waiting: Semaphore::new(WAITING),
        }
    }

    /// The user and the claims of a token; `None` for tokens of other issuers.
    ///
    /// # Errors
    /// The token is invalid, or the keys are not known yet.
    pub(super) async fn user_of(
        &self,
        token: &str,
    ) -> Result<Option<(UserInfo, Arc<VerifiedClaims>)>, String> {
        if unverified_issuer(token).as_deref() != Some(&self.config.issuer) {
            return Ok(None);
        }
        let verify = |keys: &IssuerKeys| oidc::verify_signature(&self.config, keys, token);
        let claims = self.with_keys(verify).await?;
        let user = self.user_now(&claims)?;
        Ok(Some((user, Arc::new(claims))))
    }

    /// The user of a token that was verified before, if it is still valid.
    ///
    /// # Errors
    /// The token is not valid any more, or the keys are not known yet.
    pub(super) async fn user_again(&self, claims: &VerifiedClaims) -> Result<UserInfo, String> {
        self.with_keys(|keys| claims.user(&self.config, keys, (self.clock)())).await
    }

    /// The user of verified claims according to the current keys, without a call.
    ///
    /// # Errors
    /// As for [`user_again`](Self::user_again).
    pub(super) fn user_now(&self, claims: &VerifiedClaims) -> Result<UserInfo, String> {
        let keys = self.current_keys()?;
        claims.user(&self.config, &keys, (self.clock)()).map_err(|error| error.to_string())
    }

    /// Verifies with the current keys, and again with new ones if the key is unknown.
    async fn with_keys<T>(&self, verify: impl Fn(&IssuerKeys) -> Result<T, OidcError>) -> Result<T, String> {
        let mut verified = verify(&*self.current_keys()?);
        if matches!(verified, Err(OidcError::UnknownKey)) && self.has_read_again().await {
            verified = verify(&*self.current_keys()?);
        }
        verified.map_err(|error| error.to_string())
    }

    fn current_keys(&self) -> Result<Arc<IssuerKeys>, String> {
        self.keys.load_full().ok_or_else(|| "oidc: authenticator not initialized".to_owned())
    }

    /// Waits for new keys. Returns false if they were read within [`PAUSE`], or cannot be read within [`WAIT`].
    async fn has_read_again(&self) -> bool {
        let Ok(_waiting) = self.waiting.try_acquire() else { return false };
        let mut phase = self.phase.subscribe();
        let now = *phase.borrow_and_update();
        match now {
            Phase::Pausing => return false,
            Phase::Idle => self.wanted.notify_one(),
            Phase::Reading => {}
        }
        timeout(WAIT, phase.wait_for(|phase| *phase == Phase::Pausing)).await.is_ok_and(|found| found.is_ok())
    }

    /// Reads the keys, and reads them again when they are too old or a token names an unknown key. Never returns.
    pub(super) async fn follow(&self) {
        loop {
            self.phase.send_replace(Phase::Reading);
            match self.read().await {
                Ok(keys) => self.keys.store(Some(Arc::new(keys))),
                Err(error) => {
                    let issuer = &self.config.issuer;
                    tracing::warn!(issuer, error, "cannot read the keys of --oidc-issuer-url");
                }
            }
            self.phase.send_replace(Phase::Pausing);
            tokio::time::sleep(PAUSE).await;
            // Without keys, no token can be verified.
            if self.keys.load().is_none() {
                continue;
            }
            self.phase.send_replace(Phase::Idle);
            let _ = timeout(MAX_AGE, self.wanted.notified()).await;
        }
    }

    async fn read(&self) -> Result<IssuerKeys, String> {
        let tls = self.tls.clone()?;
        let url = format!("{}/.well-known/openid-configuration", self.config.issuer.trim_end_matches('/'));
        let configuration = document::get(&url, tls.clone()).await?;
        let url = document::keys_url(&configuration, &self.config.issuer)?;
        IssuerKeys::parse(&document::get(&url, tls).await?)
    }
}

#[cfg(test)]
mod tests;
