//! The audit log: records the user, the object and the result of each request (docs/audit.md). The rules and the form of events are in
//! [`orlop_auth::audit`].
//!
//! [`layer`] records requests; [`context`] is the state of a recorded request. Events go through a bounded [`queue`] to a thread for
//! each destination ([`sink`]), which converts them to JSON and writes them to the [`log`] (files: [`log_file`]) or to the
//! [`webhook`].

pub(crate) mod body;
mod bucket;
mod budget;
pub mod config;
pub(crate) mod context;
pub(crate) mod id;
pub(crate) mod layer;
mod log;
mod log_file;
pub(crate) mod metrics;
pub mod policy_file;
mod queue;
mod queued;
pub(crate) mod response_body;
mod sink;
mod webhook;

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use orlop_auth::audit::Policy;

use crate::clock::Clock;
use budget::Budget;
use config::{AuditConfig, LogConfig, LogTarget};
use log::Log;
use metrics::AuditMetrics;
use queued::QueuedEvent;
use sink::{Pending, Sink};
use webhook::Webhook;

/// The budget of unauthenticated requests in a log; `None` if they displace no other events.
fn budget_of(log: &LogConfig) -> Option<Budget> {
    match log.target {
        LogTarget::Stdout => None,
        LogTarget::File(_) => Budget::of(&log.rotation),
    }
}

/// The audit log of a server.
pub(crate) struct Audit {
    policy: Policy,
    sinks: Vec<Sink>,
    metrics: AuditMetrics,
    clock: Clock,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Audit({} destinations)", self.sinks.len())
    }
}

impl Audit {
    /// Opens the log, and starts the threads.
    ///
    /// # Errors
    /// The log cannot be opened, or the system has no threads left.
    pub(crate) fn start(config: AuditConfig, metrics: AuditMetrics, clock: Clock) -> io::Result<Arc<Self>> {
        let mut sinks = Vec::new();
        if let Some(log) = &config.log {
            let backend = Log::open(log, clock.clone())?;
            sinks.push(Sink::start("log", log.delivery, metrics.clone(), backend)?.within(budget_of(log)));
        }
        if let Some(webhook) = config.webhook {
            let backend = Webhook::new(webhook.post, webhook.initial_backoff);
            sinks.push(Sink::start("webhook", webhook.delivery, metrics.clone(), backend)?);
        }
        Ok(Arc::new(Audit { policy: config.policy, sinks, metrics, clock }))
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Queues an event for all destinations.
    fn submit(&self, event: QueuedEvent) -> Pending {
        self.metrics.events.inc();
        let event = Arc::new(event);
        let mut pending = Pending::default();
        for sink in &self.sinks {
            sink.submit(&event, &mut pending);
        }
        pending
    }

    /// Writes the queued events. Further events are dropped.
    pub(crate) async fn close(&self) {
        for sink in &self.sinks {
            sink.close().await;
        }
    }
}
