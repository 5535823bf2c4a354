//! The debug pages of priority and fairness, as text.
//!
//! Upstream: apiserver `pkg/util/flowcontrol/apf_controller_debug.go`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use orlop_api::query::Query;

use crate::encode::answer;
use crate::state::Inner;

pub(super) fn router() -> Router<Arc<Inner>> {
    let path = |page: &str| format!("/debug/api_priority_and_fairness/{page}");
    Router::new()
        .route(&path("dump_priority_levels"), get(priority_levels))
        .route(&path("dump_queues"), get(queues))
        .route(&path("dump_requests"), get(requests))
}

async fn priority_levels(State(server): State<Arc<Inner>>) -> Response {
    answer::text(200, server.limits.dump_priority_levels())
}

async fn queues(State(server): State<Arc<Inner>>) -> Response {
    answer::text(200, server.limits.dump_queues())
}

async fn requests(State(server): State<Arc<Inner>>, RawQuery(query): RawQuery) -> Response {
    let has_details = !Query::parse(query.as_deref()).text("includeRequestDetails").is_empty();
    answer::text(200, server.limits.dump_requests(has_details))
}
