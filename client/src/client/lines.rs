//! Connections that can be dropped together. After a network failure, connections look alive: no data arrives, and no error
//! either, so a watch may wait for minutes after the network is back. A caller that knows that the server is reachable again
//! drops all earlier requests, and their senders repeat them.

use parking_lot::Mutex;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::{BoxError, Layer, Service};

/// The requests and watches of one client. Clones refer to the same ones. A value that no client was created with
/// has none.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<CancellationToken>>);

impl Lines {
    /// Fails every pending request and watch, as if its connection had broken.
    pub fn cut(&self) {
        let before = std::mem::take(&mut *self.0.lock());
        before.cancel();
    }

    /// A token that is cancelled when requests that start now are dropped.
    pub fn now(&self) -> CancellationToken {
        self.0.lock().clone()
    }
}

impl<S> Layer<S> for Lines {
    type Service = OnLine<S>;

    fn layer(&self, inner: S) -> OnLine<S> {
        OnLine { inner, lines: self.clone() }
    }
}

/// A client's service whose requests can be dropped.
pub struct OnLine<S> {
    inner: S,
    lines: Lines,
}

fn given_up() -> BoxError {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the server was unreachable; the pending request is dropped",
    )
    .into()
}

impl<S, B> Service<Request<Body>> for OnLine<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<OnLineBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let line = self.lines.now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = line.run_until_cancelled(answer).await.ok_or_else(given_up)?;
            let cut = Box::pin(line.cancelled_owned());
            Ok(answer.map_err(Into::into)?.map(|body| OnLineBody {
                body: Box::pin(body),
                cut,
                is_over: false,
            }))
        })
    }
}

/// A response body that can end early.
pub struct OnLineBody<B> {
    body: Pin<Box<B>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
}

impl<B> http_body::Body for OnLineBody<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.cut.as_mut().poll(context).is_ready() {
            self.is_over = true;
            return Poll::Ready(Some(Err(given_up())));
        }
        self.body.as_mut().poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::StreamExt as _;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::WatchParams;
    use kube::{Api, Client};

    use super::*;

    /// A server that responds to a watch with one event and then sends nothing, and never responds to other requests.
    fn client(lines: &Lines) -> Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            if !request.uri().query().unwrap_or_default().contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let event = "{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}}\n";
            let first = futures::stream::iter([Ok::<_, io::Error>(Frame::data(Bytes::from(event)))]);
            Ok::<_, BoxError>(Response::new(StreamBody::new(first.chain(futures::stream::pending()))))
        });
        Client::new(lines.layer(service), "default")
    }

    #[tokio::test]
    async fn earlier_requests_are_dropped_and_later_ones_are_not() {
        let lines = Lines::default();
        let api: Api<ConfigMap> = Api::default_namespaced(client(&lines));
        let mut watch = Box::pin(api.watch(&WatchParams::default(), "1").await.unwrap());
        assert!(watch.next().await.unwrap().is_ok(), "an event");
        let asked = tokio::spawn({
            let api = api.clone();
            async move { api.get("a").await }
        });
        tokio::task::yield_now().await;
        lines.cut();
        assert!(watch.next().await.unwrap().is_err(), "the watch is given up");
        assert!(watch.next().await.is_none(), "and is over");
        asked.await.unwrap().unwrap_err();
        let mut watch = Box::pin(api.watch(&WatchParams::default(), "1").await.unwrap());
        assert!(watch.next().await.unwrap().is_ok(), "a later one is not");
    }
}
