//! The metrics of the limits that do not depend on priority levels.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

/// A counter whose value is counted elsewhere.
pub(super) struct ReportedCounter {
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

pub(super) fn set_counter(counter: &ReportedCounter, count: u64) {
    // Reports may run concurrently: the second one adds only what the first did not count.
    let reported = counter.reported.fetch_max(count, Ordering::AcqRel);
    counter.counter.inc_by(count.saturating_sub(reported));
}

/// The metrics of the limits.
pub(super) struct LimitMetrics {
    pub(super) inflight: IntGaugeVec,
    pub(super) inqueue: IntGaugeVec,
    pub(super) connections: IntGauge,
    pub(super) refused_connections: ReportedCounter,
    pub(super) memory: IntGauge,
    pub(super) memory_limit: IntGauge,
    pub(super) memory_rejected: ReportedCounter,
    pub(super) unread_closed: ReportedCounter,
    pub(super) slow_closed: ReportedCounter,
}

impl LimitMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
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
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.memory.clone()))?;
        registry.register(Box::new(metrics.memory_limit.clone()))?;
        Ok(metrics)
    }
}
