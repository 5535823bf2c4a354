//! Health endpoints: `/healthz`, `/livez` and `/readyz`, with verbose output and individual checks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::any;

use crate::encode::answer;
use crate::state::Inner;
use orlop_api::query::Query;

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
            Check::InformerSync => "informer-sync",
            Check::Shutdown => "shutdown",
        }
    }

    fn is_well(self, server: &Inner) -> bool {
        match self {
            Check::Ping | Check::Log | Check::InformerSync => true,
            Check::Store | Check::StoreReadiness => server.store.poisoned().is_none(),
            Check::Shutdown => !server.leaving.load(Ordering::Acquire),
        }
    }
}

const LIVE: &[Check] = &[Check::Ping, Check::Log, Check::Store];
const READY: &[Check] =
    &[Check::Ping, Check::Log, Check::Store, Check::StoreReadiness, Check::InformerSync, Check::Shutdown];

pub(super) fn router() -> Router<Arc<Inner>> {
    let mut router = Router::new();
    for (name, checks) in [("healthz", LIVE), ("livez", LIVE), ("readyz", READY)] {
        let all = move |State(server): State<Arc<Inner>>, RawQuery(query): RawQuery| async move {
            report(&server, name, checks, &Query::parse(query.as_deref()))
        };
        let one = move |State(server): State<Arc<Inner>>, Path(check): Path<String>| async move {
            single(&server, checks, &check)
        };
        router = router.route(&format!("/{name}"), any(all)).route(&format!("/{name}/{{check}}"), any(one));
    }
    router
}

fn report(server: &Inner, name: &str, checks: &[Check], query: &Query) -> Response {
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut text = String::new();
    let mut well = true;
    for check in checks {
        let line = if excluded.contains(&check.name()) {
            format!("[+]{} excluded: ok\n", check.name())
        } else if check.is_well(server) {
            format!("[+]{} ok\n", check.name())
        } else {
            well = false;
            format!("[-]{} failed: reason withheld\n", check.name())
        };
        text.push_str(&line);
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.iter().any(|check| check.name() == **name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(", ")
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

fn single(server: &Inner, checks: &[Check], name: &str) -> Response {
    match checks.iter().find(|check| check.name() == name) {
        None => answer::text(404, "404 page not found\n"),
        Some(check) if check.is_well(server) => answer::text(200, "ok"),
        Some(_) => answer::text(500, format!("internal server error: {name} failed\n")),
    }
}
