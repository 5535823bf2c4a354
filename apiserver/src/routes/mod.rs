//! Non-resource endpoints: discovery, OpenAPI, health, metrics, version, web page.

mod debug;
mod discovery;
mod health;
pub(crate) mod offload;
mod openapi;
mod openid;
mod snapshot;
mod tagged;
pub(crate) mod version;

pub use snapshot::OMITTED_FROM_SNAPSHOTS;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, header};
use serde_json::json;

use crate::authentication::page;
use crate::encode::answer;
use crate::encode::negotiate::{Media, RequestedEncoding, error_media};
use crate::exchange::{header_text, out_of_memory, user_of};
use crate::limits;
use crate::state::Inner;
use orlop_api::status::ApiError;

/// The size of the aggregated discovery document.
#[cfg(test)]
pub(crate) fn aggregated_size(served: &crate::custom::Served) -> usize {
    discovery::named(served, &crate::aggregation::Remotes::default()).bytes.len()
}

/// Whether a path can only name a resource: [`router`] has no route for it. Pure.
pub(crate) fn is_of_resource(path: &str) -> bool {
    if path.starts_with(crate::insight::ROOT) {
        return false;
    }
    let resource = match (path.strip_prefix("/api/"), path.strip_prefix("/apis/")) {
        (Some(core), _) => core.split('/').nth(1),
        (None, Some(group)) => group.split('/').nth(2),
        (None, None) => None,
    };
    resource.is_some_and(|resource| !resource.is_empty())
}

/// The router of the non-resource endpoints. Any other path falls through to the resources.
pub(crate) fn router(server: &Arc<Inner>) -> Router<Arc<Inner>> {
    let offload = || axum::middleware::from_fn_with_state(server.clone(), offload::requests);
    let of_kinds = axum::middleware::from_fn_with_state(server.clone(), offload::discovery);
    Router::new()
        .merge(discovery::router().route("/", get(root)).route_layer(of_kinds))
        .merge(debug::router())
        .merge(health::router())
        .merge(openapi::router().route_layer(offload()))
        .merge(openid::router())
        .merge(crate::insight::router().route_layer(offload()))
        .route("/version", get(version::version))
        .route("/version/", get(version::version))
        .route("/metrics", get(metrics))
        .route(page::CODES, post(page_code))
        .route("/orlop/snapshot", get(snapshot::snapshot).route_layer(offload()))
        .merge(orlop_web::router().with_state(()))
}

/// The list of paths, or the web page for a browser.
async fn root(State(server): State<Arc<Inner>>, headers: HeaderMap) -> Response {
    let served = server.kinds.now();
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if let Some(page) = orlop_web::index(accept) {
        return page.into_response();
    }
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend([openid::CONFIGURATION, openid::KEYS].map(str::to_owned));
    let remotes = server.aggregation.now();
    for (group, versions) in discovery::groups(&served, &remotes) {
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
        paths.push(format!("/apis/{group}"));
    }
    paths.sort();
    let wanted = RequestedEncoding { pretty: true, ..RequestedEncoding::JSON };
    answer::json_bytes(200, wanted, json!({ "paths": paths }).to_string().into_bytes())
}

/// A one-time code with which the web page signs in as the user of the request.
async fn page_code(State(server): State<Arc<Inner>>, request: Request) -> Response {
    let sign_in = server.config.auth.page_sign_in.as_deref();
    let made = user_of(request.extensions()).and_then(|user| page::code_answer(sign_in, user, &request));
    made.unwrap_or_else(|error| {
        let accept = header_text(request.headers(), header::ACCEPT);
        answer::error(&error, error_media(accept.as_deref()), false)
    })
}

/// The error of a scrape beyond the limit of those in progress.
const TOO_MANY_SCRAPES: &str = "Too many requests for metrics, please try again later.";

async fn metrics(State(server): State<Arc<Inner>>) -> Response {
    server.limits.report();
    let busy = || answer::error(&ApiError::too_many_requests(TOO_MANY_SCRAPES, 1), Media::Json, false);
    // They count all objects and the files of the store: one at a time, on another thread.
    let Ok(_waiting) = server.metrics.waiting.try_acquire() else { return busy() };
    let _one = server.metrics.reading.lock().await;
    let reader = server.clone();
    let read = move || {
        let mut metrics = reader.metrics.text(&*reader.store, &reader.kinds);
        metrics.extend_from_slice((reader.config.more_metrics)().as_bytes());
        metrics
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(text) => match server.limits.memory.reserve(text.len() as u64) {
            Ok(memory) => {
                let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
                limits::hold_memory(answer::body(200, media, text), memory)
            }
            Err(error) => answer::error(&out_of_memory(error), Media::Json, false),
        },
        Err(error) => answer::error(&ApiError::internal(error), Media::Json, false),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{Method, StatusCode};
    use orlop_store::Memory;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Config, Server};

    #[tokio::test]
    async fn paths_of_resources_have_no_route() {
        let server =
            Server::start(Arc::new(Memory::new()), Config::default()).await.expect("a server").inner();
        let router = router(&server).fallback(|| async { StatusCode::IM_A_TEAPOT }).with_state(server);
        for (path, want) in [
            ("/", false),
            ("/api", false),
            ("/api/", false),
            ("/api/v1", false),
            ("/api/v1/", false),
            ("/api/v1/nodes", true),
            ("/api/v1/nodes/", true),
            ("/api/v1/namespaces/a/pods/b/log", true),
            ("/api/v2/nodes", true),
            ("/apis", false),
            ("/apis/", false),
            ("/apis/apps", false),
            ("/apis/apps/", false),
            ("/apis/apps/v1", false),
            ("/apis/apps/v1/", false),
            ("/apis/apps/v1/deployments", true),
            ("/apis/other.example/v1/things/a", true),
            ("/apis//v1/x", true),
            ("/apis/orlop.dev", false),
            ("/apis/orlop.dev/v1", false),
            ("/apis/orlop.dev/v1/stream", false),
            ("/apis/orlop.dev/v1/why/x", false),
            ("/apis/orlop.dev/v2/stream", true),
            ("/healthz/ping", false),
            ("/openapi/v3/api/v1", false),
            ("/openapi/v3/apis/apps/v1", false),
            ("/version", false),
        ] {
            assert_eq!(is_of_resource(path), want, "{path}");
            let request = Request::builder().method(Method::OPTIONS).uri(path).body(Body::empty());
            let response = router.clone().oneshot(request.expect("a request")).await.expect("a response");
            let has_route = response.status() != StatusCode::IM_A_TEAPOT;
            assert!(!(want && has_route), "{path} has a route");
        }
    }
}
