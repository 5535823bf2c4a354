//! What every request shares: the configuration, the store, and what the server keeps in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use orlop_store::Kv;
use tokio_util::sync::CancellationToken;

use crate::accounts::Accounts;
use crate::admission::Chain;
use crate::auth::Auth;
use crate::auth::kubelet::KubeletTokens;
use crate::clock::Clock;
use crate::custom::Kinds;
use crate::explain::Explains;
use crate::limits::{Limits, LimitsConfig};
use crate::metrics::Metrics;
use crate::namespace_locks::NamespaceLocks;
use crate::projection::Projection;
use crate::services::pool::{Pool, Ranges};

/// How the server is to behave.
#[derive(Clone)]
pub struct Config {
    /// Admission plugins that are off, by upstream's names.
    pub disabled_admission_plugins: Vec<String>,
    /// How long Events are kept after their last write.
    pub event_ttl: Duration,
    /// How long a request other than a watch may take.
    pub request_timeout: Duration,
    /// A watch whose client names no time lives between this and twice this.
    pub min_request_timeout: Duration,
    /// Select volumes, claims and attachments also by fields that upstream refuses, such as
    /// `status.phase` and `spec.volumeName`.
    pub extra_field_selectors: bool,
    /// List the group `orlop.dev` in discovery and OpenAPI. Its paths are served in any case; a server that is to be
    /// exactly as upstream says nothing of them.
    pub lists_own_group: bool,
    /// Who may come. Reviews of tokens ask it, and [`crate::Server::protect`] puts it before a router.
    pub auth: Auth,
    /// What services get their addresses and node ports from.
    pub services: Ranges,
    /// Where other processes reach this server; the service `kubernetes` leads there. `None`: there is no
    /// such service.
    pub advertised: Option<SocketAddr>,
    /// How tokens of service accounts call this server, and whom they are for unless they say otherwise.
    pub service_account_issuer: String,
    /// Whether clients reach this server over TLS.
    pub tls: bool,
    /// How much is served at the same time.
    pub limits: LimitsConfig,
    /// Who says why objects are as they are.
    pub explainer: Explains,
    /// The clock.
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            disabled_admission_plugins: Vec::new(),
            event_ttl: Duration::from_secs(3600),
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
            extra_field_selectors: true,
            lists_own_group: true,
            auth: Auth::default(),
            services: Ranges::default(),
            advertised: None,
            service_account_issuer: DEFAULT_ISSUER.to_owned(),
            tls: false,
            limits: LimitsConfig::default(),
            explainer: Explains::default(),
            clock: Arc::new(Timestamp::now),
        }
    }
}

/// How tokens of service accounts call a server that is called nothing else.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// What every request shares.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Kv<Projection>>,
    /// The kinds that definitions have brought.
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) admission: Chain,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Arc<Limits>,
    /// Tokens of service accounts.
    pub(crate) accounts: Arc<Accounts>,
    /// Shows this server to the agents of nodes.
    pub(crate) kubelet_tokens: KubeletTokens,
    /// Addresses of services that are given and not yet written.
    pub(crate) pool: Arc<Pool>,
    /// Serialize the writes that charge the quotas of a namespace.
    pub(crate) quota_locks: NamespaceLocks,
    /// Set once shutdown has begun: readyz fails, everything else goes on.
    pub(crate) leaving: AtomicBool,
    /// Cancelled when watches have to end.
    pub(crate) closing: CancellationToken,
}

impl Inner {
    /// The time, in whole seconds as objects show it.
    pub(crate) fn now(&self) -> Timestamp {
        let now = (self.config.clock)();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }
}
