//! The metrics of the audit log, with upstream's names.
//!
//! Upstream: apiserver `pkg/audit/metrics.go`.

use orlop_auth::audit::Level;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// The counters.
#[derive(Clone)]
pub(crate) struct AuditMetrics {
    pub(super) events: IntCounter,
    /// By level, in the order of [`Level::ALL`].
    levels: [IntCounter; 4],
    pub(super) rejected: IntCounter,
    errors: IntCounterVec,
    dropped: IntCounterVec,
}

impl AuditMetrics {
    /// Fails only if a metric is defined twice.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let levels = IntCounterVec::new(
            Opts::new("apiserver_audit_level_total", "Requests by the audit level of their policy rule."),
            &["level"],
        )?;
        let metrics = AuditMetrics {
            events: IntCounter::new("apiserver_audit_event_total", "Audit events.")?,
            levels: Level::ALL.map(|level| levels.with_label_values(&[level.name()])),
            rejected: IntCounter::new(
                "apiserver_audit_requests_rejected_total",
                "Requests rejected because their audit event could not be written.",
            )?,
            errors: IntCounterVec::new(
                Opts::new("apiserver_audit_error_total", "Audit events that were not written, by plugin."),
                &["plugin"],
            )?,
            dropped: IntCounterVec::new(
                Opts::new(
                    "orlop_audit_dropped_events_total",
                    "Audit events that were dropped because the queue of their plugin was full, or unauthenticated requests \
                     exceeded their part of the log.",
                ),
                &["plugin"],
            )?,
        };
        registry.register(Box::new(levels))?;
        registry.register(Box::new(metrics.events.clone()))?;
        registry.register(Box::new(metrics.rejected.clone()))?;
        registry.register(Box::new(metrics.errors.clone()))?;
        registry.register(Box::new(metrics.dropped.clone()))?;
        Ok(metrics)
    }

    pub(super) fn level(&self, level: Level) {
        self.levels[level as usize].inc();
    }

    /// Counts events that a plugin could not write.
    pub(super) fn failed(&self, plugin: &str, count: usize) {
        self.errors.with_label_values(&[plugin]).inc_by(count as u64);
    }

    /// Counts an event for which the queue or the budget had no space. Upstream's counter has the label of the queue.
    pub(super) fn dropped(&self, plugin: &str) {
        self.errors.with_label_values(&["buffered"]).inc();
        self.dropped.with_label_values(&[plugin]).inc();
    }

    /// Creates the series of a plugin, so that they exist before the first error.
    pub(super) fn prepare(&self, plugin: &str) {
        self.errors.with_label_values(&[plugin]).inc_by(0);
        self.dropped.with_label_values(&[plugin]).inc_by(0);
    }

    #[cfg(test)]
    pub(super) fn drops(&self, plugin: &str) -> u64 {
        self.dropped.with_label_values(&[plugin]).get()
    }
}
