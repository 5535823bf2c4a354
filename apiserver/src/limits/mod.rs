//! Limits of concurrent requests, watches and connections (docs/overload.md).
//!
//! [`flow_control`] finds the priority level of a request. [`level_pool`] decides which level gets a permit, and [`fair_queue`] which
//! request of the level is served, waits or is rejected; [`inflight`] does the waiting;
//! [`client`] classifies a request and identifies its client; [`permit_body`] holds a permit until the response
//! has been sent, and [`stall`] finds responses that are not read; [`old_states`] bounds the replaced objects that slow responses hold; [`compute`] runs expensive requests on threads of their own, and
//! [`driven_body`] computes long responses there; [`connection`] is the state of a connection, and [`tracked`] records requests in progress
//! there. [`decoded`] estimates the memory of documents.

mod client;
pub(crate) mod compute;
pub mod connection;
pub(crate) mod decoded;
mod driven_body;
mod fair_queue;
mod flow_control;
mod inflight;
mod level_pool;
mod metrics;
pub(crate) mod old_states;
mod permit_body;
mod stall;
pub mod tracked;
pub(crate) mod unread;

use std::sync::Arc;
use std::time::Duration;

use crate::custom::Kinds;
use axum::extract::Request;
use axum::response::Response;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Version};
use http_body::Body as _;
use orlop_auth::UserInfo;
use orlop_store::{Kv, MemoryBudget, ReservedMemory, Snapshot};
use prometheus::{IntGaugeVec, Registry};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::encode::{HeldMemory, PieceMemory, answer};
use crate::projection::Projection;
use client::Sort;
use connection::{Connection, Connections};
use fair_queue::Bounds;
pub(crate) use fair_queue::Client;
use flow_control::classifier::{ClassPermits, Classified, FlowControl, FlowPlan};
use flow_control::flow::{ExecutingRequest, Flow, WaitingRequest};
use flow_control::follow::FlowObjects;
use flow_control::{dump, follow};
use inflight::{Entry, Inflight, LimitRefusal, Permit};
use metrics::{LimitMetrics, set_counter};
use old_states::OldStates;
use permit_body::Charge;
use unread::UnreadData;

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
    /// Whether FlowSchemas assign requests to priority levels. Otherwise all requests have the same level.
    pub priority_and_fairness: bool,
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
            priority_and_fairness: true,
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
    flow_control: FlowControl,
    /// Whether the levels are those of the store.
    follows_store: bool,
    flow_objects_changed: Notify,
    watches: Arc<Inflight>,
    /// Requests of controllers in this process are never rejected, so these have no limit.
    own_reads: Arc<Inflight>,
    own_writes: Arc<Inflight>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) memory: Arc<MemoryBudget>,
    /// The part of it for data that clients read slowly.
    slow: Arc<MemoryBudget>,
    /// The part of it for the selectors of open watches.
    pub(crate) selectors: Arc<MemoryBudget>,
    /// The steps of initial states of watches and streams that run at the same time. The others wait their turn, so that a health check
    /// waits for few steps, however many clients open watches.
    pub(crate) initial_steps: Arc<Semaphore>,
    /// The data that watches have not sent yet.
    pub(crate) unread: Arc<UnreadData>,
    /// The old states that responses in progress hold.
    pub(crate) old_states: Arc<OldStates>,
    /// Whether a request is a watch depends on the kinds that are served.
    kinds: Arc<Kinds>,
    metrics: LimitMetrics,
}

impl Limits {
    /// Fails only if a metric is defined twice, which a test rules out. `requires_credentials` is false if every client without
    /// credentials is an administrator.
    pub(crate) fn new(
        config: &LimitsConfig,
        registry: &Registry,
        kinds: Arc<Kinds>,
        requires_credentials: bool,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let number = |permits: usize| if permits == 0 { usize::MAX } else { permits };
        let queued = |permits: usize| Inflight::new(Bounds::of_permits(permits), config.wait);
        let plain = |permits: usize| {
            Inflight::new(Bounds { permits: number(permits), per_client: 0, waiting: 0 }, Duration::ZERO)
        };
        let permits =
            ClassPermits { reads: number(config.requests), writes: number(config.mutating_requests) };
        let (flow_control, plan) =
            FlowControl::new(registry, permits, config.priority_and_fairness, requires_credentials)?;
        // Half of the memory is reserved for requests whose clients read fast.
        let slow = MemoryBudget::half_of(&config.memory);
        // Selectors and heads of requests take at most a part of it, so that they never close the connections of slow clients.
        let retained = MemoryBudget::half_of(&slow);
        let limits = Limits {
            kinds,
            reads: queued(permits.reads),
            writes: queued(permits.writes),
            flow_control,
            follows_store: config.priority_and_fairness,
            flow_objects_changed: Notify::new(),
            watches: plain(config.watches),
            own_reads: plain(0),
            own_writes: plain(0),
            connections: Connections::new(config.connections, MemoryBudget::half_of(&retained)),
            memory: config.memory.clone(),
            initial_steps: Arc::new(Semaphore::new(
                std::thread::available_parallelism().map_or(1, usize::from),
            )),
            unread: UnreadData::new(slow.clone()),
            old_states: OldStates::new(slow.clone()),
            selectors: MemoryBudget::half_of(&retained),
            slow,
            metrics: LimitMetrics::new(registry)?,
        };
        limits.publish(plan);
        Ok(Arc::new(limits))
    }

    /// Applies the flow schemas and priority levels of the store. Runs once before the server answers requests.
    pub(crate) fn read_flow_control(&self, head: &Snapshot<Projection>) {
        if self.follows_store {
            self.apply(&FlowObjects::read(head));
        }
    }

    /// Applies the flow schemas and priority levels of the store, and their changes, until the server closes.
    pub(crate) async fn follow_flow_control(
        self: Arc<Self>,
        store: Arc<dyn Kv<Projection>>,
        closing: CancellationToken,
    ) {
        if self.follows_store {
            follow::follow(store, closing, |objects| self.apply(objects)).await;
        }
    }

    fn apply(&self, objects: &FlowObjects) {
        self.publish(self.flow_control.plan(objects));
        self.flow_objects_changed.notify_one();
    }

    /// Waits for a change of flow schemas or priority levels since the last call.
    pub(crate) async fn flow_objects_changed(&self) {
        self.flow_objects_changed.notified().await;
    }

    fn publish(&self, plan: FlowPlan) {
        // The levels exist before requests use them.
        self.reads.configure(&plan.reads);
        self.writes.configure(&plan.writes);
        self.flow_control.publish(plan);
    }

    /// The table of the priority levels.
    pub(crate) fn dump_priority_levels(&self) -> String {
        dump::priority_levels(&[&self.reads, &self.writes])
    }

    /// The table of the queues.
    pub(crate) fn dump_queues(&self) -> String {
        dump::dump_queues(&[&self.reads, &self.writes])
    }

    /// The table of the waiting requests.
    pub(crate) fn dump_requests(&self, has_details: bool) -> String {
        dump::dump_requests(&[&self.reads, &self.writes], has_details)
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
        let budgets = [&self.memory, &self.slow, &self.selectors, self.connections.heads()];
        let refused = budgets.iter().map(|budget| budget.refused()).sum();
        set_counter(&self.metrics.memory_rejected, refused);
        set_counter(&self.metrics.unread_closed, self.unread.closed());
        set_counter(&self.metrics.slow_closed, self.old_states.closed());
        let (open, refused) = self.connections.count();
        self.metrics.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
        set_counter(&self.metrics.refused_connections, refused);
    }

    /// Counts a rejected request. Those of controllers in this process are never rejected.
    fn refused(&self, flow: Option<&Flow>, refusal: LimitRefusal) {
        let Some(flow) = flow else { return };
        let labels = [flow.schema.as_str(), flow.level_name.as_str(), refusal.reason()];
        self.flow_control.metrics.rejected.with_label_values(&labels).inc();
    }

    /// Determines the permit that a request needs, without waiting. `is_forwarded` is true if another server serves it.
    fn ask(&self, request: &Request, is_forwarded: bool) -> PermitRequest {
        let at_once = |gate: &Arc<Inflight>| gate.try_enter().map(Entry::Admitted);
        let gate = match client::sort(&self.kinds, request, is_forwarded) {
            Sort::Free | Sort::WatchInThisProcess => return PermitRequest::Free,
            Sort::InThisProcess(writes) => {
                let gate = if writes { &self.own_writes } else { &self.own_reads };
                return PermitRequest::Unclassified(at_once(gate));
            }
            Sort::Watch => {
                return PermitRequest::Watch(self.flow_control.classify(request), at_once(&self.watches));
            }
            Sort::Read => &self.reads,
            Sort::Write => &self.writes,
        };
        let classified = self.flow_control.classify(request);
        let entry = gate.arrive(classified.flow.level, classified.queue, || {
            let user = request.extensions().get::<UserInfo>().map(|user| user.username.clone());
            let (method, uri) = (request.method().clone(), request.uri().clone());
            Some(WaitingRequest::new(classified.flow.clone(), user.unwrap_or_default(), method, uri))
        });
        PermitRequest::Queue(classified, entry)
    }
}

/// The permit that a request needs.
enum PermitRequest {
    /// No permit is needed.
    Free,
    /// A permit of the controllers in this process.
    Unclassified(Result<Entry, LimitRefusal>),
    Watch(Classified, Result<Entry, LimitRefusal>),
    /// A permit of a priority level, possibly after a wait.
    Queue(Classified, Result<Entry, LimitRefusal>),
}

/// Admits a request within the limits, possibly after a wait. `is_forwarded` is true if another server serves it.
///
/// # Errors
/// The response to a request that is rejected.
pub(crate) async fn admit(
    limits: &Limits,
    request: &mut Request,
    is_forwarded: bool,
) -> Result<Admission, Box<Response>> {
    let (classified, entry, is_queued) = match limits.ask(request, is_forwarded) {
        PermitRequest::Free => return Ok(Admission::default()),
        PermitRequest::Unclassified(entry) => (None, entry, false),
        PermitRequest::Watch(classified, entry) => (Some(classified), entry, false),
        PermitRequest::Queue(classified, entry) => (Some(classified), entry, true),
    };
    let flow = classified.map(|Classified { flow, client, info, .. }| {
        // Also for watches: to authorize or to open one may be expensive.
        request.extensions_mut().insert(client);
        if let Some(info) = info {
            request.extensions_mut().insert(info);
        }
        flow
    });
    match admitted(flow.as_ref(), entry, is_queued).await {
        Ok(permit) => {
            let connection = request.extensions().get::<Connection>().cloned();
            let held = HeldPermit { permit, is_queued, version: request.version(), connection };
            Ok(Admission { flow, held: Some(held) })
        }
        Err(refusal) => {
            limits.refused(flow.as_deref(), refusal);
            let mut response = answer::text(429, "Too many requests, please try again later.\n");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            if let Some(flow) = flow {
                flow.report(response.headers_mut());
            }
            Err(Box::new(response))
        }
    }
}

/// A request within the limits. Dropping it releases the permit.
#[derive(Default)]
pub(crate) struct Admission {
    flow: Option<Arc<Flow>>,
    /// `None` if the request needs no permit.
    held: Option<HeldPermit>,
}

struct HeldPermit {
    permit: Permit,
    /// False for permits without a queue, which last until the response was sent.
    is_queued: bool,
    version: Version,
    connection: Option<Connection>,
}

impl Admission {
    /// Ends the request with its response, which may have to hold the permit, or memory.
    pub(crate) fn finish(self, limits: &Limits, response: Response) -> Response {
        let mut response = match self.held {
            Some(held) => held.pass_to(limits, response),
            None => response,
        };
        if let Some(flow) = self.flow {
            flow.report(response.headers_mut());
        }
        response
    }
}

/// The client of a request, also of one that needs no permit.
pub(crate) fn client_of(request: &Request) -> Client {
    request.extensions().get().copied().unwrap_or_else(|| client::client(request))
}

/// Holds memory until the connection has accepted the whole response.
pub(crate) fn hold_memory(response: Response, memory: ReservedMemory) -> Response {
    permit_body::hold(response, memory, None)
}

/// Waits for the permit of a request. A request with `is_queued` counts as executing while it has the permit; a watch does not.
async fn admitted(
    flow: Option<&Arc<Flow>>,
    entry: Result<Entry, LimitRefusal>,
    is_queued: bool,
) -> Result<Permit, LimitRefusal> {
    let entry = entry?;
    let started = entry.waits().then(Instant::now);
    let permit = entry.permit().await?;
    let Some(flow) = flow else { return Ok(permit) };
    flow.dispatched(started.map_or(Duration::ZERO, |started| started.elapsed()));
    Ok(if is_queued { permit.counts(ExecutingRequest::new(flow.clone())) } else { permit })
}

impl HeldPermit {
    fn pass_to(self, limits: &Limits, mut response: Response) -> Response {
        let HeldPermit { permit, is_queued, version, connection } = self;
        let memory = response.extensions_mut().remove::<HeldMemory>();
        let pieces = response.extensions_mut().remove::<PieceMemory>();
        if response.body().is_end_stream() {
            return response;
        }
        if !is_queued {
            return permit_body::hold(response, (permit, memory, pieces), None);
        }
        let Some(size) = response.body().size_hint().exact() else {
            let stalls = limits.connections.stalls();
            let charge = Charge::Permit { permit, pieces };
            let response =
                permit_body::hold_permit(response, charge, limits.slow.clone(), stalls, connection);
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
}

#[cfg(test)]
mod tests;
