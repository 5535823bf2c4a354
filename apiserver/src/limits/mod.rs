//! Limits of concurrent requests, watches and connections (docs/overload.md).
//!
//! [`fair_queue`] decides which request is served, waits or is rejected; [`inflight`] does the waiting;
//! [`client`] classifies a request and identifies its client; [`permit_body`] holds a permit until the response
//! has been sent; [`compute`] runs expensive requests on threads of their own, and
//! [`driven_body`] computes long responses there; [`connection`] is the state of a connection, and [`tracked`] records requests in progress
//! there.

mod client;
pub(crate) mod compute;
pub mod connection;
mod driven_body;
mod fair_queue;
mod inflight;
mod permit_body;
pub mod tracked;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::custom::Kinds;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::encode::answer;
use client::Sort;
use connection::Connections;
use fair_queue::Bounds;
pub(crate) use fair_queue::Client;
use inflight::{Inflight, LimitRefusal, Permit};

/// Maximum number of waiting requests of one client (upstream: queueLengthLimit).
const WAITING_PER_CLIENT: usize = 50;
/// Maximum number of waiting requests per permit.
const WAITING_PER_PERMIT: usize = 4;

/// The limits of a server. 0 means no limit.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// Maximum number of concurrent reads.
    pub requests: usize,
    /// Maximum number of concurrent writes.
    pub mutating_requests: usize,
    /// How long a request waits for a permit.
    pub wait: Duration,
    /// Maximum number of open watches.
    pub watches: usize,
    /// Maximum number of open connections. The owner of the socket checks each connection with [`Connections`].
    pub connections: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsConfig {
            requests: 400,
            mutating_requests: 200,
            wait: Duration::from_secs(2),
            watches: 20_000,
            connections: 20_000,
        }
    }
}

/// The limits of a running server.
pub(crate) struct Limits {
    reads: Arc<Inflight>,
    writes: Arc<Inflight>,
    watches: Arc<Inflight>,
    /// Requests of controllers in this process are never rejected, so these have no limit.
    own_reads: Arc<Inflight>,
    own_writes: Arc<Inflight>,
    pub(crate) connections: Arc<Connections>,
    /// Whether a request is a watch depends on the kinds that are served.
    kinds: Arc<Kinds>,
    metrics: LimitMetrics,
}

impl Limits {
    /// Fails only if a metric is defined twice, which a test rules out.
    pub(crate) fn new(
        config: &LimitsConfig,
        registry: &Registry,
        kinds: Arc<Kinds>,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let queued = |permits: usize| {
            let permits = if permits == 0 { usize::MAX } else { permits };
            let waiting = permits.saturating_mul(WAITING_PER_PERMIT).max(WAITING_PER_CLIENT);
            Inflight::new(Bounds { permits, per_client: WAITING_PER_CLIENT, waiting }, config.wait)
        };
        let plain = |permits: usize| {
            let permits = if permits == 0 { usize::MAX } else { permits };
            Inflight::new(Bounds { permits, per_client: 0, waiting: 0 }, Duration::ZERO)
        };
        Ok(Arc::new(Limits {
            kinds,
            reads: queued(config.requests),
            writes: queued(config.mutating_requests),
            watches: plain(config.watches),
            own_reads: plain(0),
            own_writes: plain(0),
            connections: Connections::new(config.connections),
            metrics: LimitMetrics::new(registry)?,
        }))
    }

    /// Applies the limits to a router.
    pub(crate) fn protect(self: Arc<Self>, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, admit))
    }

    /// Updates the metrics.
    pub(crate) fn report(&self) {
        for (kind, outside, own) in
            [("readOnly", &self.reads, &self.own_reads), ("mutating", &self.writes, &self.own_writes)]
        {
            let (admitted, waiting) = outside.count();
            let put = |gauge: &IntGaugeVec, count: usize| {
                gauge.with_label_values(&[kind]).set(i64::try_from(count).unwrap_or(i64::MAX));
            };
            put(&self.metrics.inflight, admitted + own.count().0);
            put(&self.metrics.inqueue, waiting);
        }
        let (open, refused) = self.connections.count();
        self.metrics.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
        // Reports may run concurrently: the second one adds only what the first did not count.
        let reported = self.metrics.reported_refused.fetch_max(refused, Ordering::AcqRel);
        self.metrics.refused_connections.inc_by(refused.saturating_sub(reported));
    }

    /// Determines the permit that a request needs, without waiting.
    fn ask(&self, request: &Request) -> PermitRequest<'_> {
        let at_once = |gate: &Arc<Inflight>| match gate.try_enter() {
            Ok(permit) => PermitRequest::Admitted(permit),
            Err(refusal) => PermitRequest::Refused(refusal),
        };
        let gate = match client::sort(&self.kinds, request) {
            Sort::Free | Sort::WatchInThisProcess => return PermitRequest::Free,
            Sort::InThisProcess(writes) => {
                return at_once(if writes { &self.own_writes } else { &self.own_reads });
            }
            Sort::Watch => return at_once(&self.watches),
            Sort::Read => &self.reads,
            Sort::Write => &self.writes,
        };
        PermitRequest::Queue(gate, client::client(request))
    }
}

/// The permit that a request needs.
enum PermitRequest<'l> {
    /// No permit is needed.
    Free,
    Admitted(Permit),
    Refused(LimitRefusal),
    /// A permit of these, possibly after a wait.
    Queue(&'l Arc<Inflight>, Client),
}

async fn admit(State(limits): State<Arc<Limits>>, mut request: Request, next: Next) -> Response {
    let version = request.version();
    let asked = limits.ask(&request);
    if let PermitRequest::Queue(_, client) = &asked {
        request.extensions_mut().insert(*client);
    }
    let permit = match asked {
        PermitRequest::Free => return next.run(request).await,
        PermitRequest::Admitted(permit) => Ok(permit),
        PermitRequest::Refused(refusal) => Err(refusal),
        PermitRequest::Queue(gate, client) => gate.enter(client).await,
    };
    let permit = match permit {
        Ok(permit) => permit,
        Err(refusal) => {
            limits.metrics.refused(refusal);
            let mut response = answer::text(429, "Too many requests, please try again later.\n");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        }
    };
    let response = next.run(request).await;
    if permit_body::is_handed_over(version, response.body()) {
        response
    } else {
        permit_body::hold(response, permit, None)
    }
}

/// The metrics of the limits.
struct LimitMetrics {
    inflight: IntGaugeVec,
    inqueue: IntGaugeVec,
    rejected: IntCounterVec,
    connections: IntGauge,
    refused_connections: IntCounter,
    /// The count that has been added to `refused_connections`.
    reported_refused: AtomicU64,
}

impl LimitMetrics {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let kind = &["request_kind"];
        let metrics = LimitMetrics {
            inflight: IntGaugeVec::new(
                Opts::new("apiserver_current_inflight_requests", "Requests that are being served."),
                kind,
            )?,
            inqueue: IntGaugeVec::new(
                Opts::new("apiserver_current_inqueue_requests", "Requests that wait to be served."),
                kind,
            )?,
            rejected: IntCounterVec::new(
                Opts::new("apiserver_flowcontrol_rejected_requests_total", "Requests refused by 429."),
                &["flow_schema", "priority_level", "reason"],
            )?,
            connections: IntGauge::new("orlop_open_connections", "Connections that are open.")?,
            refused_connections: IntCounter::new(
                "orlop_refused_connections_total",
                "Connections closed because the limit was reached.",
            )?,
            reported_refused: AtomicU64::new(0),
        };
        registry.register(Box::new(metrics.inflight.clone()))?;
        registry.register(Box::new(metrics.inqueue.clone()))?;
        registry.register(Box::new(metrics.rejected.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.refused_connections.clone()))?;
        Ok(metrics)
    }

    fn refused(&self, refusal: LimitRefusal) {
        // All requests from outside share one priority level, with upstream's name.
        self.rejected.with_label_values(&["global-default", "global-default", refusal.reason()]).inc();
    }
}

#[cfg(test)]
mod tests;
