//! The filters in front of the handlers of requests, in the order in which a request passes them.
//!
//! Each filter is a function that gets the rest of the chain as `next`. Filters as tower layers would cost more: each layer copies and boxes all
//! layers inside it for every request.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::FutureExt as _;
use http::header::ACCEPT;
use orlop_api::status::ApiError;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::compression::predicate::Predicate;
use tower_http::compression::{Compression, CompressionLayer};

use crate::authentication::page_router::OpenPage;
use crate::authentication::{Authenticators, page_router};
use crate::encode::negotiate::error_media;
use crate::encode::{COMPRESS_ABOVE, LongBody, answer};
use crate::exchange::header_text;
use crate::routes::offload;
use crate::state::Inner;
use crate::{aggregation, audit, authentication, authorization, handler, limits, unread_body};

/// The handlers behind audit log, limits and authorization. A request has a user when it arrives here.
#[derive(Clone)]
pub(crate) struct HandlerChain {
    server: Arc<Inner>,
    handlers: Compression<Router, LargeLists>,
}

impl HandlerChain {
    /// The chain in front of a router of handlers.
    pub(crate) fn new(server: Arc<Inner>, handlers: Router) -> Self {
        let compress = CompressionLayer::new().quality(tower_http::CompressionLevel::Fastest);
        HandlerChain { server, handlers: compress.compress_when(LargeLists).layer(handlers) }
    }

    /// The chain as a router.
    pub(crate) fn into_router(self) -> Router {
        Router::new()
            .fallback_service(service_fn(move |request| self.clone().handle(request).map(Ok).boxed()))
    }

    async fn handle(self, request: Request) -> Response {
        let HandlerChain { server, handlers } = self;
        let server = &server;
        let compressed = async move |request: Request| match handlers.oneshot(request).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        let routed = async move |request: Request| match server.aggregation.of_path(request.uri().path()) {
            Some(remote) => aggregation::forward(server, &remote, request).boxed().await,
            None => compressed(request).await,
        };
        let computed = |request| offload::bodies(server, request, routed);
        let authorized = |request| authorization::authorize(server, request, computed);
        let admitted = |request| limits::admit(&server.limits, request, authorized);
        let impersonated =
            async move |request: Request| match authorization::impersonate(server, request).await {
                Ok(request) => admitted(request).await,
                Err(refusal) => *refusal,
            };
        let timed = async move |request: Request| match handler::deadline::rejection(&request) {
            Some(rejection) => rejection,
            None => impersonated(request).await,
        };
        let recorded = |request| audit::layer::record(server.audit.as_ref(), request, timed);
        handler::frame(server, request, recorded).await
    }
}

/// A router behind authentication.
#[derive(Clone)]
pub(crate) struct Protected {
    authenticators: Arc<Authenticators>,
    /// The files of the web page and its sign-in, which need no credentials.
    page: Option<Arc<OpenPage>>,
    router: Router,
}

impl Protected {
    /// Authentication, and optionally the sign-in of the web page, in front of a router.
    pub(crate) fn new(
        authenticators: Arc<Authenticators>,
        page: Option<Arc<OpenPage>>,
        router: Router,
    ) -> Self {
        Protected { authenticators, page, router }
    }

    /// The protected router as a router.
    pub(crate) fn into_router(self) -> Router {
        Router::new()
            .fallback_service(service_fn(move |request| self.clone().handle(request).map(Ok).boxed()))
    }

    async fn handle(self, request: Request) -> Response {
        let Protected { authenticators, page, router } = self;
        let routed = async move |request: Request| match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let authenticated = |request| authentication::authenticate(&authenticators, request, routed);
        let opened = |request| page_router::serve(page.as_deref(), request, authenticated);
        let bounded = async move |request: Request| match excess_parameters(&request) {
            Some(rejection) => rejection,
            None => opened(request).await,
        };
        unread_body::finish(request, bounded).await
    }
}

/// Maximum number of parameters of a query. Several filters and the handler parse all of them, also of requests that the server rejects.
/// Go accepts 10,000 (GODEBUG `urlmaxqueryparams`).
const QUERY_PARAMETERS_MAX: usize = 1_000;

/// The response to a request with too many parameters in its query; `None` for all others.
fn excess_parameters(request: &Request) -> Option<Response> {
    if !has_excess_parameters(request.uri().query().unwrap_or_default()) {
        return None;
    }
    let accept = header_text(request.headers(), ACCEPT);
    let error = ApiError::bad_request(format!(
        "the query has more than {QUERY_PARAMETERS_MAX} parameters; send fewer, or divide the request into several"
    ));
    Some(answer::error(&error, error_media(accept.as_deref()), false))
}

/// Whether a query has too many parameters. Pure.
fn has_excess_parameters(query: &str) -> bool {
    query.bytes().filter(|byte| *byte == b'&').count() >= QUERY_PARAMETERS_MAX
}

/// Upstream's rule: responses of more than 128 KiB are compressed, streams never.
#[derive(Clone, Copy)]
struct LargeLists;

impl Predicate for LargeLists {
    fn should_compress<B: http_body::Body>(&self, response: &http::Response<B>) -> bool {
        let size = response.body().size_hint();
        response.extensions().get::<LongBody>().is_some()
            || size.exact().is_some_and(|exact| exact > COMPRESS_ABOVE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_query_are_limited() {
        for (case, query, want) in [
            ("1 none", String::new(), false),
            ("2 the most", vec!["a=b"; 1_000].join("&"), false),
            ("3 one more", vec!["a=b"; 1_001].join("&"), true),
            ("4 empty parameters", "&".repeat(60_000), true),
            ("5 no separators", "a;b,c=".repeat(10_000), false),
        ] {
            assert_eq!(has_excess_parameters(&query), want, "{case}");
        }
    }
}
