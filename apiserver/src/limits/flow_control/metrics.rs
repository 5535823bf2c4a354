//! The metrics of flow control, with upstream's names.
//!
//! Upstream: apiserver `pkg/util/flowcontrol/metrics/metrics.go`.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Upstream's buckets, seconds.
const WAIT_BUCKETS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

const LABELS: [&str; 2] = ["flow_schema", "priority_level"];

/// The metrics of all schemas.
#[derive(Clone)]
pub(in crate::limits) struct FlowMetrics {
    pub(in crate::limits) rejected: IntCounterVec,
    dispatched: IntCounterVec,
    inqueue: IntGaugeVec,
    executing: IntGaugeVec,
    waited: HistogramVec,
    nominal: IntGaugeVec,
}

/// The metrics of one schema.
#[derive(Debug)]
pub(super) struct SchemaMetrics {
    pub(super) dispatched: IntCounter,
    pub(super) inqueue: IntGauge,
    pub(super) executing: IntGauge,
    /// How long the admitted requests waited, seconds.
    pub(super) waited: Histogram,
}

impl FlowMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = |name: &str, help: &str| Opts::new(format!("apiserver_flowcontrol_{name}"), help);
        let executed = [LABELS[0], LABELS[1], "execute"];
        let rejected = [LABELS[0], LABELS[1], "reason"];
        let wait =
            options("request_wait_duration_seconds", "How long requests waited in queues, in seconds.");
        let wait = HistogramOpts { common_opts: wait, buckets: WAIT_BUCKETS.to_vec() };
        let metrics = FlowMetrics {
            rejected: IntCounterVec::new(
                options("rejected_requests_total", "Requests refused by 429."),
                &rejected,
            )?,
            dispatched: IntCounterVec::new(
                options("dispatched_requests_total", "Requests that were admitted."),
                &LABELS,
            )?,
            inqueue: IntGaugeVec::new(options("current_inqueue_requests", "Waiting requests."), &LABELS)?,
            executing: IntGaugeVec::new(
                options("current_executing_requests", "Requests that are being served."),
                &LABELS,
            )?,
            waited: HistogramVec::new(wait, &executed)?,
            nominal: IntGaugeVec::new(
                options("nominal_limit_seats", "The nominal share of a priority level, in requests."),
                &LABELS[1..],
            )?,
        };
        registry.register(Box::new(metrics.rejected.clone()))?;
        registry.register(Box::new(metrics.dispatched.clone()))?;
        registry.register(Box::new(metrics.inqueue.clone()))?;
        registry.register(Box::new(metrics.executing.clone()))?;
        registry.register(Box::new(metrics.waited.clone()))?;
        registry.register(Box::new(metrics.nominal.clone()))?;
        Ok(metrics)
    }

    pub(super) fn of(&self, schema: &str, level: &str) -> SchemaMetrics {
        let labels = [schema, level];
        SchemaMetrics {
            dispatched: self.dispatched.with_label_values(&labels),
            inqueue: self.inqueue.with_label_values(&labels),
            executing: self.executing.with_label_values(&labels),
            waited: self.waited.with_label_values(&[schema, level, "true"]),
        }
    }

    pub(super) fn set_nominal(&self, level: &str, permits: usize) {
        self.nominal.with_label_values(&[level]).set(i64::try_from(permits).unwrap_or(i64::MAX));
    }

    /// Removes the metrics of a schema that no longer exists, so that the number of metrics stays bounded.
    pub(super) fn forget_schema(&self, schema: &str, level: &str) {
        // An error means that there is no such metric.
        let labels = [schema, level];
        let _ = self.dispatched.remove_label_values(&labels);
        let _ = self.inqueue.remove_label_values(&labels);
        let _ = self.executing.remove_label_values(&labels);
        let _ = self.waited.remove_label_values(&[schema, level, "true"]);
        for reason in ["queue-full", "time-out", "concurrency-limit"] {
            let _ = self.rejected.remove_label_values(&[schema, level, reason]);
        }
    }

    /// Removes the metrics of a level that no longer exists.
    pub(super) fn forget_level(&self, level: &str) {
        let _ = self.nominal.remove_label_values(&[level]);
    }
}
