//! Limits of concurrent requests, watches and connections (docs/overload.md).
//!
//! [`fair_queue`] decides which request is served, waits or is rejected; [`inflight`] does the waiting;
//! [`client`] classifies a request and identifies its client; [`permit_body`] holds a permit until the response
//! has been sent; [`old_states`] bounds the replaced objects that slow responses hold; [`compute`] runs expensive requests on threads of their own, and
//! [`driven_body`] computes long responses there; [`connection`] is the state of a connection, and [`tracked`] records requests in progress
//! there.

mod client;
pub(crate) mod compute;
pub mod connection;
mod driven_body;
mod fair_queue;
mod inflight;
pub(crate) mod old_states;
mod permit_body;
pub mod tracked;
pub(crate) mod unread;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::custom::Kinds;
use axum::extract::Request;
use axum::response::Response;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use http_body::Body as _;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::encode::{HeldMemory, answer};
use client::Sort;
use connection::{Connection, Connections};
use fair_queue::Bounds;
pub(crate) use fair_queue::Client;
use inflight::{Inflight, LimitRefusal, Permit};
use old_states::OldStates;
use orlop_store::MemoryBudget;
use unread::UnreadData;

/// Maximum number of waiting requests of one client (upstream: queueLengthLimit).
const WAITING_PER_CLIENT: usize = 50;
/// Maximum number of waiting requests per permit.
const WAITING_PER_PERMIT: usize = 4;

/// Responses up to this size are part of the memory of a connection, bytes.
pub(crate) const UNCOUNTED: u64 = 4 << 10;

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
    /// The memory that is held for clients.
    pub memory: Arc<MemoryBudget>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsConfig {
            requests: 400,
            mutating_requests: 200,
            wait: Duration::from_secs(2),
            watches: 20_000,
            connections: 20_000,
            memory: MemoryBudget::new(0),
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
    pub(crate) memory: Arc<MemoryBudget>,
    /// The part of it for data that clients read slowly.
    slow: Arc<MemoryBudget>,
    /// The data that watches have not sent yet.
    pub(crate) unread: Arc<UnreadData>,
    /// The old states that responses in progress hold.
    pub(crate) old_states: Arc<OldStates>,
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
        // Half of the memory is reserved for requests whose clients read fast.
        let slow = MemoryBudget::half_of(&config.memory);
        Ok(Arc::new(Limits {
            kinds,
            reads: queued(config.requests),
            writes: queued(config.mutating_requests),
            watches: plain(config.watches),
            own_reads: plain(0),
            own_writes: plain(0),
            connections: Connections::new(config.connections),
            memory: config.memory.clone(),
            unread: UnreadData::new(slow.clone()),
            old_states: OldStates::new(slow.clone()),
            slow,
            metrics: LimitMetrics::new(registry)?,
        }))
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
        let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.metrics.memory_limit.set(self.memory.limit().map_or(0, size));
        self.metrics.memory.set(size(self.memory.used()));
        set_counter(&self.metrics.memory_rejected, self.memory.refused() + self.slow.refused());
        set_counter(&self.metrics.unread_closed, self.unread.closed());
        set_counter(&self.metrics.slow_closed, self.old_states.closed());
        let (open, refused) = self.connections.count();
        self.metrics.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
        set_counter(&self.metrics.refused_connections, refused);
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

/// Runs a request within the limits, or rejects it.
pub(crate) async fn admit<F: Future<Output = Response>>(
    limits: &Limits,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let version = request.version();
    let asked = limits.ask(&request);
    if let PermitRequest::Queue(_, client) = &asked {
        request.extensions_mut().insert(*client);
    }
    let queued = matches!(asked, PermitRequest::Queue(..));
    let permit = match asked {
        PermitRequest::Free => return next(request).await,
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
    let connection = request.extensions().get::<Connection>().cloned();
    let mut response = next(request).await;
    let memory = response.extensions_mut().remove::<HeldMemory>();
    if response.body().is_end_stream() {
        return response;
    }
    if !queued {
        return permit_body::hold(response, (permit, memory), None);
    }
    let Some(size) = response.body().size_hint().exact() else {
        let response = permit_body::hold_permit(response, permit, limits.slow.clone(), connection);
        // A compressed response: the text that is being compressed stays in memory.
        return match memory {
            Some(memory) => permit_body::hold(response, memory, None),
            None => response,
        };
    };
    // The response is computed: it needs memory, and no permit.
    let memory = match memory {
        Some(memory) => Some(memory),
        None if size <= UNCOUNTED => None,
        None => match limits.memory.reserve(size) {
            Ok(memory) => Some(HeldMemory(Arc::new(memory))),
            Err(_) => return permit_body::hold(response, permit, None),
        },
    };
    drop(permit);
    match memory {
        Some(memory) if !permit_body::is_handed_over(version, response.body()) => {
            permit_body::hold(response, memory, None)
        }
        Some(_) | None => response,
    }
}

/// A counter whose value is counted elsewhere.
struct ReportedCounter {
    counter: IntCounter,
    /// The count that has been added to `counter`.
    reported: AtomicU64,
}

impl ReportedCounter {
    fn new(registry: &Registry, name: &str, help: &str) -> Result<Self, prometheus::Error> {
        let counter = IntCounter::new(name, help)?;
        registry.register(Box::new(counter.clone()))?;
        Ok(ReportedCounter { counter, reported: AtomicU64::new(0) })
    }
}

fn set_counter(counter: &ReportedCounter, count: u64) {
    // Reports may run concurrently: the second one adds only what the first did not count.
    let reported = counter.reported.fetch_max(count, Ordering::AcqRel);
    counter.counter.inc_by(count.saturating_sub(reported));
}

/// The metrics of the limits.
struct LimitMetrics {
    inflight: IntGaugeVec,
    inqueue: IntGaugeVec,
    rejected: IntCounterVec,
    connections: IntGauge,
    refused_connections: ReportedCounter,
    memory: IntGauge,
    memory_limit: IntGauge,
    memory_rejected: ReportedCounter,
    unread_closed: ReportedCounter,
    slow_closed: ReportedCounter,
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
            refused_connections: ReportedCounter::new(
                registry,
                "orlop_refused_connections_total",
                "Connections closed because the limit was reached.",
            )?,
            memory: IntGauge::new(
                "orlop_client_memory_bytes",
                "Memory reserved for clients: bodies, decoded objects, responses, log pages and unread watch events.",
            )?,
            memory_limit: IntGauge::new(
                "orlop_client_memory_limit_bytes",
                "The limit of that memory; 0 if there is none.",
            )?,
            memory_rejected: ReportedCounter::new(
                registry,
                "orlop_client_memory_rejected_total",
                "Reservations of that memory that exceeded the limit.",
            )?,
            unread_closed: ReportedCounter::new(
                registry,
                "orlop_unread_watches_closed_total",
                "Connections closed because a watch was not read while the memory limit was reached.",
            )?,
            slow_closed: ReportedCounter::new(
                registry,
                "orlop_slow_responses_closed_total",
                "Connections closed because a response held replaced objects while the memory limit was reached.",
            )?,
        };
        registry.register(Box::new(metrics.inflight.clone()))?;
        registry.register(Box::new(metrics.inqueue.clone()))?;
        registry.register(Box::new(metrics.rejected.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.memory.clone()))?;
        registry.register(Box::new(metrics.memory_limit.clone()))?;
        Ok(metrics)
    }

    fn refused(&self, refusal: LimitRefusal) {
        // All requests from outside share one priority level, with upstream's name.
        self.rejected.with_label_values(&["global-default", "global-default", refusal.reason()]).inc();
    }
}

#[cfg(test)]
mod tests;
