//! The flow schema and the priority level of a request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::matching::Distinguisher;
use super::metrics::SchemaMetrics;
use crate::limits::level_pool::LevelId;

/// Upstream's response headers.
const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// A flow schema and its priority level.
#[derive(Debug)]
pub(in crate::limits) struct Flow {
    pub(in crate::limits) schema: String,
    pub(in crate::limits) level_name: String,
    pub(in crate::limits) level: LevelId,
    pub(super) method: Option<Distinguisher>,
    /// The UIDs of both; `None` without classification.
    uids: Option<(HeaderValue, HeaderValue)>,
    metrics: SchemaMetrics,
}

impl Flow {
    pub(super) fn new(
        schema: &str,
        level_name: &str,
        level: LevelId,
        method: Option<Distinguisher>,
        uids: Option<(&str, &str)>,
        metrics: SchemaMetrics,
    ) -> Arc<Self> {
        let value = |uid: &str| HeaderValue::from_str(uid).ok();
        Arc::new(Flow {
            schema: schema.to_owned(),
            level_name: level_name.to_owned(),
            level,
            method,
            uids: uids.and_then(|(schema, level)| value(schema).zip(value(level))),
            metrics,
        })
    }

    /// Adds the headers of classified requests to a response.
    pub(in crate::limits) fn report(&self, headers: &mut HeaderMap) {
        let Some((schema, level)) = &self.uids else { return };
        headers.insert(SCHEMA_UID, schema.clone());
        headers.insert(LEVEL_UID, level.clone());
    }

    /// Counts a request as admitted.
    pub(in crate::limits) fn dispatched(&self, waited: Duration) {
        self.metrics.dispatched.inc();
        self.metrics.waited.observe(waited.as_secs_f64());
    }
}

/// Counts a request as executing until it is dropped.
pub(in crate::limits) struct ExecutingRequest(Arc<Flow>);

impl ExecutingRequest {
    pub(in crate::limits) fn new(flow: Arc<Flow>) -> Self {
        flow.metrics.executing.inc();
        ExecutingRequest(flow)
    }
}

impl Drop for ExecutingRequest {
    fn drop(&mut self) {
        self.0.metrics.executing.dec();
    }
}

/// Counts a request as waiting until it is dropped, and describes it on the debug pages.
pub(in crate::limits) struct WaitingRequest(pub(in crate::limits) Arc<RequestDetails>);

/// The description of a waiting request.
pub(in crate::limits) struct RequestDetails {
    pub(in crate::limits) flow: Arc<Flow>,
    pub(in crate::limits) user: String,
    pub(in crate::limits) method: Method,
    /// Shares its memory with the request.
    pub(in crate::limits) uri: Uri,
    pub(in crate::limits) arrived: jiff::Timestamp,
}

impl WaitingRequest {
    pub(in crate::limits) fn new(flow: Arc<Flow>, user: String, method: Method, uri: Uri) -> Self {
        flow.metrics.inqueue.inc();
        let arrived = jiff::Timestamp::now();
        WaitingRequest(Arc::new(RequestDetails { flow, user, method, uri, arrived }))
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.flow.metrics.inqueue.dec();
    }
}
