//! Bootstrap tokens in the Secrets of the store.

use std::sync::Arc;

use orlop_auth::UserInfo;
use orlop_auth::bootstrap_token::{BootstrapFingerprint, NAMESPACE};
use orlop_store::Kv;

use crate::clock::Clock;
use crate::projection::Projection;
use crate::service_account::find;

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
        token.user(&secret, (self.clock)())
    }
}
