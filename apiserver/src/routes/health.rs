//! Health endpoints: `/healthz`, `/livez` and `/readyz`, with verbose output and individual checks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::any;

use crate::encode::answer;
use crate::state::Inner;
use orlop_api::query::Query;
use orlop_apimachinery::quoted;

/// A health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The server responds.
    Ping,
    /// The log is writable.
    Log,
    /// The store accepts writes.
    Store,
    /// The same check under the name that readyz uses.
    StoreReadiness,
    /// The KMS plugins are healthy. Only if a configuration has KMS providers, or can be changed to have them.
    KmsProviders,
    /// The in-memory state is complete, which is always the case once the server listens.
    InformerSync,
    /// The server is not shutting down.
    Shutdown,
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::Ping => "ping",
            Check::Log => "log",
            Check::Store => "etcd",
            Check::StoreReadiness => "etcd-readiness",
            Check::KmsProviders => "kms-providers",
            Check::InformerSync => "informer-sync",
            Check::Shutdown => "shutdown",
        }
    }

    fn exists(self, server: &Inner) -> bool {
        self != Check::KmsProviders || server.config.kms_health.is_some()
    }

    /// The error is the problem.
    async fn run(self, server: &Inner) -> Result<(), String> {
        let is_well = match self {
            Check::Ping | Check::Log | Check::InformerSync => true,
            Check::Store | Check::StoreReadiness => server.store.poisoned().is_none(),
            Check::Shutdown => !server.leaving.load(Ordering::Acquire),
            Check::KmsProviders => match &server.config.kms_health {
                Some(health) => return health().await,
                None => true,
            },
        };
        if is_well { Ok(()) } else { Err(format!("{} failed", self.name())) }
    }
}

const HEALTHY: &[Check] = &[Check::Ping, Check::Log, Check::Store, Check::KmsProviders];
/// Without the KMS plugins, as upstream: a restart of the server does not repair them.
const LIVE: &[Check] = &[Check::Ping, Check::Log, Check::Store];
const READY: &[Check] = &[
    Check::Ping,
    Check::Log,
    Check::Store,
    Check::StoreReadiness,
    Check::KmsProviders,
    Check::InformerSync,
    Check::Shutdown,
];

pub(super) fn router() -> Router<Arc<Inner>> {
    let mut router = Router::new();
    for (name, checks) in [("healthz", HEALTHY), ("livez", LIVE), ("readyz", READY)] {
        let all = move |State(server): State<Arc<Inner>>, RawQuery(query): RawQuery| async move {
            report(&server, name, checks, &Query::parse(query.as_deref())).await
        };
        let one = move |State(server): State<Arc<Inner>>, Path(check): Path<String>| async move {
            single(&server, checks, &check).await
        };
        router = router.route(&format!("/{name}"), any(all)).route(&format!("/{name}/{{check}}"), any(one));
    }
    router
}

async fn report(server: &Inner, name: &str, checks: &[Check], query: &Query) -> Response {
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut text = String::new();
    let mut well = true;
    let checks: Vec<Check> = checks.iter().copied().filter(|check| check.exists(server)).collect();
    for check in &checks {
        let line = if excluded.contains(&check.name()) {
            format!("[+]{} excluded: ok\n", check.name())
        } else if check.run(server).await.is_ok() {
            format!("[+]{} ok\n", check.name())
        } else {
            well = false;
            format!("[-]{} failed: reason withheld\n", check.name())
        };
        text.push_str(&line);
    }
    let unknown: BTreeSet<&str> =
        excluded.iter().copied().filter(|name| !checks.iter().any(|check| check.name() == *name)).collect();
    let unknown: Vec<String> = unknown.into_iter().map(quoted).collect();
    if !unknown.is_empty() {
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(",")
        ));
    }
    if !well {
        return answer::text(500, format!("{text}{name} check failed\n"));
    }
    if query.has("verbose") {
        return answer::text(200, format!("{text}{name} check passed\n"));
    }
    answer::text(200, "ok")
}

async fn single(server: &Inner, checks: &[Check], name: &str) -> Response {
    let Some(check) = checks.iter().find(|check| check.name() == name && check.exists(server)) else {
        return answer::text(404, "404 page not found\n");
    };
    match check.run(server).await {
        Ok(()) => answer::text(200, "ok"),
        Err(problem) => answer::text(500, format!("internal server error: {problem}\n")),
    }
}
