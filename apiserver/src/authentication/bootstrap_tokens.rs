//! Bootstrap tokens in the Secrets of the store.

use std::sync::Arc;

use orlop_auth::UserInfo;
use orlop_auth::bootstrap_token::{BootstrapFingerprint, NAMESPACE};
use orlop_store::Kv;

use crate::clock::Clock;
use crate::encode::stored;
use crate::projection::Projection;
use crate::service_account::find;

/// The largest Secret of a bootstrap token, bytes in the store. Every request with the token decodes it.
const MAX_SECRET: usize = 16 << 10;

/// The store with the Secrets, and the clock that decides whether they have expired.
pub(super) struct BootstrapTokens {
    store: Arc<dyn Kv<Projection>>,
    clock: Clock,
}

impl BootstrapTokens {
    pub(super) fn new(store: Arc<dyn Kv<Projection>>, clock: Clock) -> Self {
        BootstrapTokens { store, clock }
    }

    /// The user of a token; `None` for an invalid one. The Secret is read for each request, so that changes take effect
    /// immediately.
    pub(super) fn user_of(&self, token: &BootstrapFingerprint) -> Option<UserInfo> {
        let secret = match find(&self.store.head(), "secrets", NAMESPACE, &token.secret_name()) {
            Ok(secret) => secret?,
            Err(error) => {
                tracing::warn!(%error, "a bootstrap token is rejected, because its Secret cannot be read");
                return None;
            }
        };
        let record = secret.record();
        if record.value.len() > MAX_SECRET {
            // Before the comparison with the secret: a warning would let every client write to the log.
            tracing::debug!(
                secret = token.secret_name(),
                "a bootstrap token is rejected, because its Secret has more than {MAX_SECRET} bytes"
            );
            return None;
        }
        token.user(&stored::decode(record).ok()?, (self.clock)())
    }
}
