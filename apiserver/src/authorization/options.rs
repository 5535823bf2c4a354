//! The configuration of the modes, before the webhooks are connected.

use std::path::PathBuf;
use std::time::Duration;

pub use orlop_auth::access_review::ReviewVersion;

use crate::webhook_client::REQUEST_TIMEOUT;

/// A mode with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthorizerOptions {
    /// Permits every request of an authenticated user.
    AlwaysAllow,
    /// Permits nothing.
    AlwaysDeny,
    /// Permits the requests that node agents need for the pods on their nodes.
    Node,
    /// Permits requests that roles grant.
    Rbac,
    /// Calls another server.
    Webhook(WebhookOptions),
}

/// A webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookOptions {
    /// The kubeconfig file with its address and credentials.
    pub kubeconfig: PathBuf,
    /// The settings of the calls.
    pub settings: WebhookSettings,
}

/// The settings of the calls of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookSettings {
    /// The version of the reviews.
    pub version: ReviewVersion,
    /// The time limit of a call.
    pub timeout: Duration,
    /// How long the answer that permits a request is cached; zero disables the cache.
    pub authorized_ttl: Duration,
    /// How long any other answer is cached; zero disables the cache.
    pub unauthorized_ttl: Duration,
    /// Whether a failed call rejects the request. Otherwise the next mode decides.
    pub denies_on_failure: bool,
    /// CEL expressions over `request`, the `spec` of the review: the webhook is called only if all are true.
    pub match_conditions: Vec<String>,
}

impl Default for WebhookSettings {
    /// Upstream's defaults.
    fn default() -> Self {
        WebhookSettings {
            version: ReviewVersion::V1,
            timeout: REQUEST_TIMEOUT,
            authorized_ttl: Duration::from_secs(5 * 60),
            unauthorized_ttl: Duration::from_secs(30),
            denies_on_failure: false,
            match_conditions: Vec::new(),
        }
    }
}
