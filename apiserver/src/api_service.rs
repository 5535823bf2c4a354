//! All endpoints of the API server, as one service.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method};
use http_body::Body as _;
use tower::{BoxError, Service, ServiceExt as _};

/// The response to a request, when it is ready.
pub type ResponseFuture = BoxFuture<'static, Result<Response, Infallible>>;

/// All endpoints of a server. Cheap to clone. It needs no socket, so that clients in the same process can use it.
///
/// A [`Router`] of axum in its place would match the path, and copy the request and the future of the response, once for each
/// router inside another.
#[derive(Clone)]
pub struct ApiService(Arc<dyn Fn(Request) -> ResponseFuture + Send + Sync>);

impl ApiService {
    /// A service that calls a function for each request.
    pub(crate) fn new(respond: impl Fn(Request) -> ResponseFuture + Send + Sync + 'static) -> Self {
        ApiService(Arc::new(respond))
    }

    /// The response to a request.
    pub(crate) fn respond(&self, request: Request) -> ResponseFuture {
        (self.0)(request)
    }
}

impl From<Router> for ApiService {
    fn from(router: Router) -> Self {
        ApiService::new(move |request| router.clone().oneshot(request).boxed())
    }
}

impl<B> Service<http::Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> ResponseFuture {
        let is_head = request.method() == Method::HEAD;
        let response = self.respond(request.map(Body::new));
        if is_head { response.map_ok(without_body).boxed() } else { response }
    }
}

/// The response to a HEAD request: the headers of the response to a GET request, and no body.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    response.map(|_| Body::empty())
}

#[cfg(test)]
mod tests {
    use axum::routing::any;
    use futures::StreamExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn responses_to_head_requests_have_no_body() {
        let stream = || futures::stream::iter(["te", "xt"]).map(Ok::<_, Infallible>);
        let endless = any(async move || Body::from_stream(stream()));
        let router = Router::new().route("/text", any(async || "text")).route("/stream", endless);
        let service = ApiService::new(move |request| {
            let router = router.clone();
            // Another method, so that the router does not remove the body.
            let request = request.map(|_| Body::empty());
            let (mut parts, body) = request.into_parts();
            parts.method = Method::GET;
            router.oneshot(Request::from_parts(parts, body)).boxed()
        });
        for (method, path, length, body) in [
            (Method::GET, "/text", Some("4"), "text"),
            (Method::HEAD, "/text", Some("4"), ""),
            (Method::GET, "/stream", None, "text"),
            (Method::HEAD, "/stream", None, ""),
        ] {
            let request = Request::builder().method(&method).uri(path).body(Body::empty());
            let response = service.clone().oneshot(request.expect("a request")).await.expect("a response");
            let got = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
            assert_eq!(got, length, "{method} {path}");
            let sent = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(sent, body, "{method} {path}");
        }
    }
}
