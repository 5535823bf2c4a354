//! The server: a store, the plugins, and the router that leads requests to them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use jiff::Timestamp;
use orlop_store::Kv;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;

use crate::accounts::Accounts;
use crate::admission::Chain;
use crate::auth::Auth;
use crate::auth::kubelet::KubeletTokens;
use crate::custom::{Kinds, crd_controller};
use crate::encode::{COMPRESS_ABOVE, LongBody};
use crate::handler;
use crate::insight::why::Explains;
use crate::limits::connection::Connections;
use crate::limits::{Limits, LimitsConfig};
use crate::metrics::Metrics;
use crate::projection::Projection;
use crate::services::{Pool, Ranges};
use crate::verbs::counted::Turns;
use crate::{background, routes};

/// Tells the time. Tests put their own in.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

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
    /// Who may come. Reviews of tokens ask it, and [`Server::protect`] puts it before a router.
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

/// A server could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration names something that does not exist.
    #[error("{0}")]
    Config(String),
    /// What every cluster has could not be written.
    #[error("cannot create the objects that every cluster has: {0}")]
    Bootstrap(String),
    /// There is no key for the tokens of service accounts.
    #[error("{0}")]
    SigningKey(String),
}

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
    /// Whose turn it is to charge quotas.
    pub(crate) quota_turns: Turns,
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

/// An API server on a store. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
    tasks: TaskTracker,
}

impl Server {
    /// What stands behind the router, for tests of what has no path of its own.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> Arc<Inner> {
        self.inner.clone()
    }

    /// A server on a store; writes the system namespaces when they are missing and starts what
    /// runs beside requests (expiry of Events).
    ///
    /// # Errors
    /// When the configuration names an unknown plugin or the store takes no writes.
    pub async fn start(store: Arc<dyn Kv<Projection>>, config: Config) -> Result<Self, ServerError> {
        let admission = Chain::new(&config.disabled_admission_plugins)
            .map_err(|error| ServerError::Config(error.to_string()))?;
        let metrics = Metrics::new().map_err(|error| ServerError::Config(error.to_string()))?;
        let kinds = Arc::new(Kinds::listing(config.lists_own_group));
        let limits = Limits::new(&config.limits, metrics.registry(), kinds.clone())
            .map_err(|error| ServerError::Config(error.to_string()))?;
        let issuer = config.service_account_issuer.clone();
        let accounts = Accounts::new(store.clone(), issuer, config.clock.clone())
            .await
            .map_err(|error| ServerError::SigningKey(error.to_string()))?;
        let accounts = Arc::new(accounts);
        let kubelet_tokens = KubeletTokens::new();
        let kubelet_tokens = kubelet_tokens
            .ok_or_else(|| ServerError::SigningKey("the system gives no random numbers".to_owned()))?;
        let mut config = config;
        config.auth.accounts = Some(accounts.clone());
        let inner = Arc::new(Inner {
            store,
            kinds,
            admission,
            config,
            metrics,
            limits,
            accounts,
            kubelet_tokens,
            pool: Arc::default(),
            quota_turns: Turns::default(),
            leaving: AtomicBool::new(false),
            closing: CancellationToken::new(),
        });
        background::create_system_namespaces(&inner).await.map_err(ServerError::Bootstrap)?;
        background::create_system_priority_classes(&inner).await.map_err(ServerError::Bootstrap)?;
        background::keep_own_service(&inner).await;
        crd_controller::serve_stored(&inner);
        let tasks = TaskTracker::new();
        tasks.spawn(crd_controller::follow(inner.clone()));
        tasks.spawn(background::keep_system_objects(inner.clone()));
        tasks.spawn(background::expire_events(inner.clone()));
        tasks.close();
        Ok(Server { inner, tasks })
    }

    /// Everything that is served, as a router, within the limits of the configuration; a tower
    /// service as well, so that controllers in the same process reach it without a socket
    /// ([`crate::auth::in_process`]).
    pub fn router(&self) -> Router {
        let compress =
            CompressionLayer::new().quality(tower_http::CompressionLevel::Fastest).compress_when(LargeLists);
        let router = routes::router()
            .fallback(any(handler::resource))
            .method_not_allowed_fallback(handler::method_not_allowed)
            .layer(compress)
            .with_state(self.inner.clone());
        let limits = self.inner.limits.clone();
        limits.protect(router).layer(axum::middleware::from_fn_with_state(self.inner.clone(), handler::frame))
    }

    /// A router behind the authentication of the configuration.
    pub fn protect(&self, router: Router) -> Router {
        self.inner.config.auth.clone().protect(router)
    }

    /// The connections that there may be, for whoever owns the socket.
    pub fn connections(&self) -> Arc<Connections> {
        self.inner.limits.connections.clone()
    }

    /// Counts a scheduled snapshot under `success`, `failure` or `unchanged`; `written_s` is when one
    /// was written, seconds since the epoch.
    pub fn count_snapshot(&self, result: &str, written_s: Option<i64>) {
        self.inner.metrics.count_snapshot(result, written_s);
    }

    /// From now on readyz fails; requests and watches go on.
    pub fn begin_shutdown(&self) {
        self.inner.leaving.store(true, Ordering::Release);
    }

    /// Ends the watches and what runs beside requests, and waits for the latter.
    pub async fn drain(&self) {
        self.begin_shutdown();
        self.inner.closing.cancel();
        self.tasks.wait().await;
    }
}

/// Upstream's rule: answers of more than 128 KiB are compressed, streams never.
#[derive(Clone, Copy)]
struct LargeLists;

impl Predicate for LargeLists {
    fn should_compress<B: http_body::Body>(&self, response: &http::Response<B>) -> bool {
        let size = response.body().size_hint();
        response.extensions().get::<LongBody>().is_some()
            || size.exact().is_some_and(|exact| exact > COMPRESS_ABOVE as u64)
    }
}
