//! The service of one connection: attaches the [`Connection`] to each request and marks requests in progress.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use tower::Service;

use super::connection::Connection;
use super::permit_body;

/// A service for the requests of one connection.
#[derive(Clone, Debug)]
pub struct Tracked<S> {
    inner: S,
    connection: Connection,
    patience: Duration,
}

impl<S> Tracked<S> {
    /// `patience`: how long an HTTP/2 client may stall a response before its connection is closed.
    pub fn new(inner: S, connection: Connection, patience: Duration) -> Self {
        Tracked { inner, connection, patience }
    }
}

impl<S, B> Service<http::Request<B>> for Tracked<S>
where
    S: Service<http::Request<B>, Response = Response>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let version = request.version();
        let connection = self.connection.clone();
        let at_work = connection.begin(version);
        request.extensions_mut().insert(connection);
        let answer = self.inner.call(request);
        let patience = self.patience;
        Box::pin(async move {
            let response = answer.await?;
            if permit_body::is_handed_over(version, response.body()) {
                return Ok(response);
            }
            let connection = at_work.connection().clone();
            let clock = (version >= http::Version::HTTP_2).then_some((&connection, patience));
            Ok(permit_body::hold(response, at_work, clock))
        })
    }
}
