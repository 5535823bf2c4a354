//! Middleware that moves work from the threads of connections to those for expensive requests.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::FutureExt as _;
use http::header;
use orlop_api::query::Query;

use crate::encode::negotiate::error_media;
use crate::encode::{ComputedBody, answer};
use crate::exchange::header_text;
use crate::insight::live;
use crate::limits::Client;
use crate::state::Inner;

/// Runs the requests of a router on the threads for expensive requests.
pub(crate) async fn requests(State(server): State<Arc<Inner>>, request: Request, next: Next) -> Response {
    // A stream computes little at a time, and its timers belong to the threads that poll it.
    if live::is_live(request.method(), request.uri().path(), &Query::parse(request.uri().query())) {
        return next.run(request).await;
    }
    let client = request.extensions().get::<Client>().copied();
    let accept = header_text(request.headers(), header::ACCEPT);
    let response = server.compute.run(client, async move { Ok(next.run(request).await) }.boxed()).await;
    response.unwrap_or_else(|error| answer::error(&error, error_media(accept.as_deref()), false))
}

/// A list of this many custom kinds is computed in less than a millisecond.
const FEW_KINDS: usize = 100;

/// Like [`requests`], if there are many custom kinds: discovery lists them.
pub(crate) async fn discovery(server: State<Arc<Inner>>, request: Request, next: Next) -> Response {
    match server.kinds.now().definition_count() <= FEW_KINDS {
        true => next.run(request).await,
        false => requests(server, request, next).await,
    }
}

/// Computes the bodies of compressed responses there, and those that are marked as [`ComputedBody`]. Not for a component of this process:
/// it reads bodies on threads of its own.
pub(crate) fn body(server: &Inner, response: Response) -> Response {
    let extensions = response.extensions();
    let is_computed = extensions.get::<ComputedBody>().is_some();
    if is_computed || response.headers().contains_key(header::CONTENT_ENCODING) {
        server.compute.drive(response)
    } else {
        response
    }
}
