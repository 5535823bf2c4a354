//! The filters in front of the handlers of requests, in the order in which a request passes them.
//!
//! Most filters are functions that return the response to a request which they reject, and otherwise change the request or do nothing. So
//! the future of a request stays small, and is copied once. A layer of tower, or a filter that gets the rest of the chain as an argument, copies the
//! futures of all filters inside it for every request. What is rare and large in a filter is boxed.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::FutureExt as _;
use http::header::ACCEPT;
use orlop_api::status::ApiError;
use tower::{Layer as _, ServiceExt as _};
use tower_http::compression::predicate::Predicate;
use tower_http::compression::{Compression, CompressionLayer};

use crate::aggregation::RemoteService;
use crate::api_service::ApiService;
use crate::authentication::page_router::OpenPage;
use crate::authentication::{Authenticators, InThisProcess, page_router};
use crate::encode::negotiate::error_media;
use crate::encode::{COMPRESS_ABOVE, LongBody, answer};
use crate::exchange::header_text;
use crate::routes::{self, offload};
use crate::state::Inner;
use crate::unread_body::UnreadBody;
use crate::{aggregation, audit, authentication, authorization, handler, limits};

/// The handlers behind audit log, limits and authorization. A request has a user when it arrives here.
pub(crate) struct HandlerChain {
    server: Arc<Inner>,
    handlers: Compression<ApiService, LargeLists>,
}

impl HandlerChain {
    /// The chain in front of the handler of resources and a router of all other handlers.
    pub(crate) fn new(server: Arc<Inner>, others: Router) -> Self {
        let compress = CompressionLayer::new().quality(tower_http::CompressionLevel::Fastest);
        let of_resources = server.clone();
        let handlers = ApiService::new(move |request| match routes::is_of_resource(request.uri().path()) {
            true => handler::resource(State(of_resources.clone()), request).map(Ok).boxed(),
            false => others.clone().oneshot(request).boxed(),
        });
        HandlerChain { server, handlers: compress.compress_when(LargeLists).layer(handlers) }
    }

    /// The chain as a service.
    pub(crate) fn into_service(self) -> ApiService {
        let chain = Arc::new(self);
        ApiService::new(move |request| chain.clone().handle(request).map(Ok).boxed())
    }

    async fn handle(self: Arc<Self>, request: Request) -> Response {
        let server = &*self.server;
        handler::frame(request, |request| async {
            match &server.audit {
                None => self.admitted(request).await,
                Some(audit) => {
                    let recorded = audit::layer::record(audit, request, |request| self.admitted(request));
                    recorded.boxed().await
                }
            }
        })
        .await
    }

    /// Impersonation, limits and authorization.
    async fn admitted(&self, mut request: Request) -> Response {
        let server = &self.server;
        if let Some(rejection) = handler::deadline::rejection(&request) {
            return rejection;
        }
        if let Err(refusal) = authorization::impersonate(server, &mut request).await {
            return *refusal;
        }
        let remote = server.aggregation.of_path(request.uri().path());
        let admission = match limits::admit(&server.limits, &mut request, remote.is_some()).await {
            Ok(admission) => admission,
            Err(refusal) => return *refusal,
        };
        let is_component = request.extensions().get::<InThisProcess>().is_some();
        let response = match authorization::authorize(server, &mut request).await {
            Ok(()) => {
                let response = self.handled(request, remote).await;
                if is_component { response } else { offload::body(server, response) }
            }
            Err(refusal) => *refusal,
        };
        admission.finish(&server.limits, response)
    }

    /// The handlers, or the server `remote`.
    async fn handled(&self, request: Request, remote: Option<Arc<RemoteService>>) -> Response {
        if let Some(remote) = remote {
            return aggregation::forward(&self.server, &remote, request).boxed().await;
        }
        match self.handlers.clone().oneshot(request).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        }
    }
}

/// A service behind authentication.
pub(crate) struct Protected {
    authenticators: Arc<Authenticators>,
    /// The files of the web page and its sign-in, which need no credentials.
    page: Option<Arc<OpenPage>>,
    service: ApiService,
}

impl Protected {
    /// Authentication, and optionally the sign-in of the web page, in front of a service.
    pub(crate) fn new(
        authenticators: Arc<Authenticators>,
        page: Option<Arc<OpenPage>>,
        service: ApiService,
    ) -> Self {
        Protected { authenticators, page, service }
    }

    /// The protected service as a service.
    pub(crate) fn into_service(self) -> ApiService {
        let protected = Arc::new(self);
        ApiService::new(move |request| protected.clone().handle(request).map(Ok).boxed())
    }

    async fn handle(self: Arc<Self>, mut request: Request) -> Response {
        let unread = UnreadBody::of(&mut request);
        let response = match excess_parameters(&request) {
            Some(rejection) => rejection,
            None => self.opened(request).await,
        };
        match unread {
            Some(unread) => unread.finish(response).boxed().await,
            None => response,
        }
    }

    /// The open page and authentication.
    async fn opened(&self, mut request: Request) -> Response {
        if let Some(page) = &self.page
            && let Some(response) = page_router::respond(page, &mut request).await
        {
            return response;
        }
        let warnings = match authentication::authenticate(&self.authenticators, &mut request).await {
            Ok(warnings) => warnings,
            Err(refusal) => return *refusal,
        };
        match self.service.respond(request).await {
            Ok(response) => warnings.add_to(response),
            Err(never) => match never {},
        }
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
