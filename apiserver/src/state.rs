//! State shared by all requests: the configuration, the store, and the data that the server caches in memory.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use orlop_store::{BoxFuture, Kv};
use tokio_util::sync::CancellationToken;

use crate::admission::policy::StoredPolicies;
use crate::admission::webhook::{StoredWebhooks, WebhookClient};
use crate::admission::{Chain, NODE_RESTRICTION, SERVICE_ACCOUNT};
use crate::aggregation::Aggregation;
use crate::audit::Audit;
use crate::audit::config::AuditConfig;
use crate::authentication::{AuthConfig, Authenticators};
use crate::authorization::{AuthorizationMode, AuthorizationWebhookConfig, Authorizer};
use crate::client_identity::ClientIdentity;
use crate::clock::Clock;
use crate::custom::Kinds;
use crate::explain::Explains;
use crate::kubelet_client::{KubeletClient, KubeletConfig};
use crate::limits::compute::Compute;
use crate::limits::{Limits, LimitsConfig};
use crate::metrics::Metrics;
use crate::namespace_locks::NamespaceLocks;
use crate::projection::Projection;
use crate::service_account::{Accounts, ServiceAccountConfig};
use crate::services::pool::{Pool, Ranges};
use orlop_auth::kubelet_token::KubeletTokens;

/// The configuration of a server.
#[derive(Clone)]
pub struct Config {
    /// Enabled admission plugins in addition to the default, by upstream's names.
    pub enabled_admission_plugins: Vec<String>,
    /// Disabled admission plugins, by upstream's names.
    pub disabled_admission_plugins: Vec<String>,
    /// Whether a controller creates the service accounts of namespaces from the first request on. Pods then need an account;
    /// otherwise they need one as soon as the controller has created the first.
    pub has_account_controller: bool,
    /// Whether to publish the date since which the server records the use of tokens in Secrets.
    pub tracks_legacy_tokens: bool,
    /// Whether controllers run in this process, which ends if they fail; for `ComponentStatus`.
    pub runs_controllers: bool,
    /// Whether the scheduler is one of these controllers.
    pub runs_scheduler: bool,
    /// How long Events are retained after their last write.
    pub event_ttl: Duration,
    /// Timeout of requests other than watches.
    pub request_timeout: Duration,
    /// Minimum duration of a watch without a timeout; the actual duration is random, up to twice this value.
    pub min_request_timeout: Duration,
    /// Support field selectors on volumes, claims and attachments that upstream rejects, such as `status.phase` and
    /// `spec.volumeName`.
    pub extra_field_selectors: bool,
    /// List the group `orlop.dev` in discovery and OpenAPI. Its endpoints are served in any case; disable this to
    /// match upstream's documents exactly.
    pub lists_own_group: bool,
    /// The certificate with which the server forwards requests to aggregated API servers.
    pub proxy_identity: Option<Arc<ClientIdentity>>,
    /// How the server connects to kubelets.
    pub kubelets: KubeletConfig,
    /// Authentication. Token reviews use it, and [`crate::Server::protect`] puts it in front of a router.
    pub auth: AuthConfig,
    /// How requests are authorized, in order.
    pub authorization: Vec<AuthorizationMode>,
    /// The authorization webhooks that the modes refer to.
    pub authorization_webhooks: Vec<AuthorizationWebhookConfig>,
    /// The audit log; `None` disables it.
    pub audit: Option<AuditConfig>,
    /// The ranges of cluster IPs and node ports.
    pub services: Ranges,
    /// The address where other processes reach this server, for the Service `kubernetes`. `None` disables that
    /// service.
    pub advertised: Option<SocketAddr>,
    /// How nodes join; `None` if they cannot get certificates.
    pub cluster_info: Option<ClusterInfo>,
    /// Service account tokens.
    pub service_accounts: ServiceAccountConfig,
    /// The file with the keys of service account tokens ([`crate::service_account::key_file`]). Without it, the keys exist only in
    /// memory, and tokens become invalid when the process ends.
    pub service_account_key_file: Option<PathBuf>,
    /// Whether clients reach this server over TLS.
    pub tls: bool,
    /// Limits of concurrent requests, watches and connections.
    pub limits: LimitsConfig,
    /// Explains the state of objects.
    pub explainer: Explains,
    /// Metrics of other parts of the process, in Prometheus' text format, for `/metrics`.
    pub more_metrics: MoreMetrics,
    /// The check `kms-providers` of `/healthz` and `/readyz`. Without it, there is no such check.
    pub kms_health: Option<HealthCheck>,
    /// The clock.
    pub clock: Clock,
}

/// How nodes reach the server.
#[derive(Clone, Debug)]
pub struct ClusterInfo {
    /// The URL of the server.
    pub server: String,
    /// The certificates of its authorities, in PEM.
    pub authority: String,
}

/// A health check of another part of the process. The error is the problem.
pub type HealthCheck = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Writes further metrics.
pub type MoreMetrics = Arc<dyn Fn() -> String + Send + Sync>;

impl Default for Config {
    fn default() -> Self {
        Config {
            enabled_admission_plugins: Vec::new(),
            disabled_admission_plugins: Vec::new(),
            has_account_controller: false,
            tracks_legacy_tokens: false,
            runs_controllers: false,
            runs_scheduler: false,
            event_ttl: Duration::from_secs(3600),
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
            extra_field_selectors: true,
            lists_own_group: true,
            proxy_identity: None,
            kubelets: KubeletConfig::default(),
            auth: AuthConfig::default(),
            authorization: vec![AuthorizationMode::AlwaysAllow],
            authorization_webhooks: Vec::new(),
            audit: None,
            services: Ranges::default(),
            advertised: None,
            cluster_info: None,
            service_accounts: ServiceAccountConfig::default(),
            service_account_key_file: None,
            tls: false,
            limits: LimitsConfig::default(),
            explainer: Explains::default(),
            more_metrics: Arc::new(String::new),
            kms_health: None,
            clock: Arc::new(Timestamp::now),
        }
    }
}

impl Config {
    /// The admission plugins that are enabled in addition to the default. The authorization mode Node needs `NodeRestriction`: it leaves
    /// it to the plugin which objects nodes write.
    pub(crate) fn additional_plugins(&self) -> Vec<String> {
        let mut names = self.enabled_admission_plugins.clone();
        let is_off = |plugin: &str| self.disabled_admission_plugins.iter().any(|name| name == plugin);
        if self.authorization.contains(&AuthorizationMode::Node) && !is_off(NODE_RESTRICTION) {
            names.push(NODE_RESTRICTION.to_owned());
        }
        if self.has_account_controller && !is_off(SERVICE_ACCOUNT) {
            names.push(SERVICE_ACCOUNT.to_owned());
        }
        names
    }
}

/// The state shared by all requests.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Kv<Projection>>,
    /// The kinds of CustomResourceDefinitions.
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) admission: Chain,
    /// The admission policies of the store.
    pub(crate) policies: StoredPolicies,
    /// The admission webhooks of the store.
    pub(crate) webhooks: StoredWebhooks,
    pub(crate) webhook_client: WebhookClient,
    /// The API groups of other servers.
    pub(crate) aggregation: Aggregation,
    pub(crate) authorizer: Authorizer,
    /// `None` if the audit log is disabled.
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Arc<Limits>,
    /// The threads for requests whose cost the client chooses.
    pub(crate) compute: Compute,
    /// Issues and verifies service account tokens.
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) authenticators: Arc<Authenticators>,
    /// Issues the tokens that authenticate this server to node agents.
    pub(crate) kubelet_tokens: KubeletTokens,
    /// Connects to kubelets.
    pub(crate) kubelets: KubeletClient,
    /// Service addresses and node ports that are allocated but not committed yet.
    pub(crate) pool: Arc<Pool>,
    /// Serializes the writes that charge the quotas of a namespace.
    pub(crate) quota_locks: NamespaceLocks,
    /// Set when shutdown begins: readyz fails, everything else continues.
    pub(crate) leaving: AtomicBool,
    /// Cancelled when watches have to end.
    pub(crate) closing: CancellationToken,
}

impl Inner {
    /// The current time, truncated to whole seconds as in objects.
    pub(crate) fn now(&self) -> Timestamp {
        let now = (self.config.clock)();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }
}
