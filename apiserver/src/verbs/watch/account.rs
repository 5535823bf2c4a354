//! Whether the user of a watch or a stream still exists.

use std::sync::Arc;
use std::time::Duration;

use orlop_auth::UserInfo;
use rand::Rng;

use crate::authentication::StreamCredential;
use crate::service_account;
use crate::state::Inner;

/// Whether the user of a stream still exists.
pub(crate) type IsAlive = Box<dyn Fn() -> bool + Send + Sync>;

/// The check for a client that is a service account, or that has authenticated with the token of one or with a session of the web page
/// and impersonates another user.
pub(crate) fn is_alive(
    server: &Arc<Inner>,
    user: &UserInfo,
    credential: Option<StreamCredential>,
) -> Option<IsAlive> {
    if credential.is_none() && service_account::account_name(user).is_none() {
        return None;
    }
    let (server, user) = (server.clone(), user.clone());
    Some(Box::new(move || {
        let is_valid = match &credential {
            None => true,
            Some(StreamCredential::Account(key)) => server.accounts.accepts(key),
            Some(StreamCredential::Session(session)) => server.authenticators.is_open(session),
        };
        is_valid && server.accounts.is_alive(&user)
    }))
}

/// The duration of a watch without a timeout of the client: between the minimum and twice the minimum, so that clients do not reconnect
/// all together.
pub(crate) fn usual_timeout(server: &Inner) -> Duration {
    server.config.min_request_timeout.mul_f64(rand::rng().random_range(1.0..2.0))
}
