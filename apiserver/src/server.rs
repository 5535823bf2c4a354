//! The server: a store, the admission plugins, and the service that dispatches requests to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::routing::any;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use orlop_store::Kv;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Chain;
use crate::admission::policy::StoredPolicies;
use crate::admission::webhook::{StoredWebhooks, WebhookClient};
use crate::aggregation::{self, Aggregation};
use crate::api_service::ApiService;
use crate::audit::Audit;
use crate::audit::metrics::AuditMetrics;
use crate::authentication::page_router::OpenPage;
use crate::authentication::{AnonymousAccess, Authenticators};
use crate::authorization::{self, Authorizer};
pub use crate::clock::Clock;
use crate::custom::{Kinds, crd_controller};
use crate::handler;
use crate::handler_chain::{HandlerChain, Protected};
use crate::kubelet_client::KubeletClient;
use crate::limits::Limits;
use crate::limits::compute::Compute;
use crate::limits::connection::Connections;
use crate::metrics::Metrics;
use crate::namespace_locks::NamespaceLocks;
use crate::projection::Projection;
use crate::service_account::Accounts;
pub use crate::service_account::DEFAULT_ISSUER;
pub use crate::state::Config;
use crate::state::Inner;
use crate::{background, cluster_info, routes, system_objects};
use orlop_auth::kubelet_token::KubeletTokens;
use orlop_auth::service_account::legacy::LegacyClaims;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration contains an unknown name.
    #[error("{0}")]
    Config(String),
    /// The objects of every cluster cannot be written.
    #[error("cannot create the objects that every cluster has: {0}")]
    Bootstrap(String),
    /// The threads for expensive requests cannot be started.
    #[error("cannot start threads: {0}; raise the limit of processes (ulimit -u) or stop other processes")]
    Threads(#[source] std::io::Error),
    /// The audit log cannot be written.
    #[error("the audit log cannot be written: {0}; check --audit-log-path")]
    Audit(#[source] std::io::Error),
    /// The signing key of service account tokens is not available.
    #[error("{0}")]
    SigningKey(String),
}

/// An API server on a store. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
    tasks: TaskTracker,
}

impl Server {
    /// The state of the server, for tests of functions without an endpoint.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> Arc<Inner> {
        self.inner.clone()
    }

    /// Starts a server on a store: writes missing system namespaces and starts the background tasks, such as the
    /// expiry of Events.
    ///
    /// # Errors
    /// The configuration names an unknown plugin, or the store rejects writes.
    pub fn start(
        store: Arc<dyn Kv<Projection>>,
        config: Config,
    ) -> BoxFuture<'static, Result<Self, ServerError>> {
        // Boxed here: the compiler generates the code of a future where it is polled or boxed, else in the crate of each caller.
        Self::begin(store, config).boxed()
    }

    async fn begin(store: Arc<dyn Kv<Projection>>, config: Config) -> Result<Self, ServerError> {
        let admission = Chain::new(&config.additional_plugins(), &config.disabled_admission_plugins)
            .map_err(|error| ServerError::Config(error.to_string()))?;
        let metrics = Metrics::new().map_err(|error| ServerError::Config(error.to_string()))?;
        let kinds = Arc::new(Kinds::listing(config.lists_own_group));
        let limits =
            Limits::new(&config.limits, metrics.registry(), kinds.clone(), config.auth.is_configured())
                .map_err(|error| ServerError::Config(error.to_string()))?;
        let (key_file, accounts) = (config.service_account_key_file.clone(), &config.service_accounts);
        let accounts = Accounts::new(store.clone(), key_file, accounts, config.clock.clone())
            .await
            .map_err(|error| ServerError::SigningKey(error.to_string()))?;
        let accounts = Arc::new(accounts);
        let kubelet_tokens = KubeletTokens::new();
        let kubelet_tokens = kubelet_tokens
            .ok_or_else(|| ServerError::SigningKey("the system has no random numbers".to_owned()))?;
        let compute = Compute::start(config.request_timeout).map_err(ServerError::Threads)?;
        let mut config = config;
        let authorizer = Authorizer::new(
            config.authorization.clone(),
            std::mem::take(&mut config.authorization_webhooks),
            store.clone(),
        );
        let are_all_paths_open = authorizer.permits_anonymous()
            && !(config.auth.only_public_paths && config.auth.anonymous.is_none());
        let anonymous = AnonymousAccess::new(config.auth.anonymous, are_all_paths_open);
        let audit_metrics = AuditMetrics::new(metrics.registry());
        let audit_metrics = audit_metrics.map_err(|error| ServerError::Config(error.to_string()))?;
        let audit = match config.audit.take() {
            Some(settings) => {
                let audit = Audit::start(settings, audit_metrics, config.clock.clone());
                Some(audit.map_err(ServerError::Audit)?)
            }
            None => None,
        };
        let authenticators = Authenticators::new(
            &config.auth,
            anonymous,
            &store,
            accounts.clone(),
            config.clock.clone(),
            audit.clone(),
        );
        let inner = Arc::new(Inner {
            policies: StoredPolicies::new(store.clone()),
            webhooks: StoredWebhooks::new(store.clone()),
            webhook_client: WebhookClient::new(limits.memory.clone()),
            aggregation: Aggregation::new(config.proxy_identity.clone()),
            kubelets: KubeletClient::new(config.kubelets.clone(), config.advertised),
            store,
            kinds,
            admission,
            authorizer,
            audit,
            config,
            metrics,
            limits,
            compute,
            accounts,
            authenticators: Arc::new(authenticators),
            kubelet_tokens,
            pool: Arc::default(),
            quota_locks: NamespaceLocks::default(),
            leaving: AtomicBool::new(false),
            closing: CancellationToken::new(),
        });
        background::create_system_namespaces(&inner).await.map_err(ServerError::Bootstrap)?;
        background::create_system_priority_classes(&inner).await.map_err(ServerError::Bootstrap)?;
        if inner.authorizer.uses_roles() {
            authorization::bootstrap::write(&inner).await.map_err(ServerError::Bootstrap)?;
        }
        if let Some(info) = &inner.config.cluster_info {
            cluster_info::publish(&inner, info).await.map_err(ServerError::Bootstrap)?;
        }
        inner.authorizer.read_relations().await;
        background::keep_kubernetes_service(&inner).await;
        background::keep_extension_authentication(&inner).await;
        crd_controller::serve_stored(&inner);
        system_objects::keep(&inner, &mut system_objects::Progress::default(), true).await;
        inner.limits.read_flow_control(&inner.store.head());
        aggregation::read_stored(&inner);
        let tasks = TaskTracker::new();
        tasks.spawn(crd_controller::follow(inner.clone()));
        tasks.spawn(aggregation::follow(inner.clone()));
        tasks.spawn(background::keep_system_objects(inner.clone()));
        tasks.spawn(background::keep_flow_conditions(inner.clone()));
        let (limits, closing) = (inner.limits.clone(), inner.closing.clone());
        tasks.spawn(limits.follow_flow_control(inner.store.clone(), closing));
        tasks.spawn(background::expire_events(inner.clone()));
        tasks.spawn(background::keep_authorizer_current(inner.clone()));
        tasks.spawn(background::keep_signing_keys_current(inner.clone()));
        inner.authenticators.start(&tasks, &inner.closing);
        tasks.spawn(background::measure_old_states(inner.clone()));
        tasks.close();
        Ok(Server { inner, tasks })
    }

    /// All endpoints, with the configured limits. Requests need a user: [`Server::protect`] finds that of a client outside, and
    /// [`crate::authentication::in_process`] adds that of a controller in the same process.
    pub fn service(&self) -> ApiService {
        let router = routes::router(&self.inner)
            .fallback(any(handler::resource))
            .method_not_allowed_fallback(handler::method_not_allowed)
            .with_state(self.inner.clone());
        HandlerChain::new(self.inner.clone(), router).into_service()
    }

    /// Signs a token of a service account that is stored in a Secret; `None` if the system returns no random numbers.
    pub fn sign_legacy_token(&self, claims: &LegacyClaims) -> Option<String> {
        self.inner.accounts.issue_legacy(claims)
    }

    /// Puts the configured authentication in front of a service.
    pub fn protect(&self, service: ApiService) -> ApiService {
        let authenticators = self.inner.authenticators.clone();
        let sign_in = self.inner.config.auth.page_sign_in.clone();
        let page = sign_in.map(|sign_in| Arc::new(OpenPage::new(authenticators.clone(), sign_in)));
        Protected::new(authenticators, page, service).into_service()
    }

    /// The limit of open connections, for the owner of the socket.
    pub fn connections(&self) -> Arc<Connections> {
        self.inner.limits.connections.clone()
    }

    /// Counts a scheduled snapshot as `success`, `failure` or `unchanged`; `written_s` is the time of the snapshot in
    /// seconds since the epoch, if one was written.
    pub fn count_snapshot(&self, result: &str, written_s: Option<i64>) {
        self.inner.metrics.count_snapshot(result, written_s);
    }

    /// Makes readyz fail from now on; requests and watches continue.
    pub fn begin_shutdown(&self) {
        self.inner.leaving.store(true, Ordering::Release);
    }

    /// Writes the rest of the audit log. Later requests are not recorded.
    pub async fn close_audit(&self) {
        if let Some(audit) = &self.inner.audit {
            audit.close().await;
        }
    }

    /// Ends watches and background tasks, and waits for the background tasks.
    pub async fn drain(&self) {
        self.begin_shutdown();
        self.inner.closing.cancel();
        self.tasks.wait().await;
    }
}
