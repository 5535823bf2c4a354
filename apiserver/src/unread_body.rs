//! The rest of request bodies that were not read, for example of requests that fail authentication.
//!
//! The rest of a body precedes the next request of an HTTP/1 connection. If it arrives after the response, the connection is closed,
//! and the client reports its next request as failed. So the rest is read and discarded before the response, or the response
//! announces that the connection ends.
//!
//! Upstream: Go's net/http discards up to 256 KiB in the same situation.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;

/// Maximum number of bytes that are discarded.
const DISCARD_LIMIT: usize = 256 << 10;
/// How long a response waits for the rest of the body.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// The body of a request, as far as it is not read.
pub(crate) struct UnreadBody {
    rest: Arc<Mutex<Option<Body>>>,
    /// Whether the client sends the body only after the server has begun to read it.
    waits: bool,
}

impl UnreadBody {
    /// Follows the body of a request; `None` if no other request can follow it on its stream.
    pub(crate) fn of(request: &mut Request) -> Option<Self> {
        // A request of HTTP/2 has a stream of its own.
        if request.version() >= Version::HTTP_2 || request.body().is_end_stream() {
            return None;
        }
        let waits = request.headers().contains_key(EXPECT);
        let rest = Arc::new(Mutex::new(None));
        let body = Some(std::mem::take(request.body_mut()));
        *request.body_mut() = Body::new(TrackedBody { body, rest: rest.clone() });
        Some(UnreadBody { rest, waits })
    }

    /// Discards the rest of the body, or announces the end of the connection.
    pub(crate) async fn finish(self, mut response: Response) -> Response {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        // Before `rest` is read: a task that drops the body now puts the rest there.
        let is_in_use = Arc::strong_count(&self.rest) > 1;
        let rest = self.rest.lock().take();
        let is_read = match rest {
            // A task that forwards the body can read it still, or drop it later.
            None => !is_in_use,
            Some(_) if self.waits => false,
            Some(rest) => tokio::time::timeout(DISCARD_TIME, discard(rest)).await.unwrap_or(false),
        };
        if !is_read {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads the rest of a body. False if it is too long or cannot be read.
async fn discard(mut body: Body) -> bool {
    let mut left = DISCARD_LIMIT;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return false };
        left = rest;
    }
    true
}

/// A body that is put into `rest` if it is dropped before its end.
struct TrackedBody {
    /// `None` at the end.
    body: Option<Body>,
    rest: Arc<Mutex<Option<Body>>>,
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.rest.lock() = Some(body);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::middleware::{Next, from_fn};
    use axum::routing::post;
    use futures::StreamExt as _;
    use tower::ServiceExt as _;

    use super::*;

    /// A body of 64 chunks of this size, which counts the chunks that are read; without an end if `is_endless`.
    fn body(size: usize, is_endless: bool) -> (Body, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let chunks = futures::stream::iter(0..64).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; size]))
        });
        let end = futures::stream::pending().take(usize::from(is_endless));
        (Body::from_stream(chunks.chain(end)), count)
    }

    #[tokio::test(start_paused = true)]
    async fn rest_of_a_body_is_discarded_or_the_connection_ends() {
        let in_another_task = Arc::new(Mutex::new(None));
        let forwarded = in_another_task.clone();
        let router = Router::new()
            .route("/read", post(async |body: Bytes| body.len().to_string()))
            .route("/refuse", post(async || StatusCode::UNAUTHORIZED))
            .route("/forward", post(async move |body: Body| *forwarded.lock() = Some(body)))
            .layer(from_fn(async |mut request: Request, next: Next| {
                let unread = UnreadBody::of(&mut request);
                let response = next.run(request).await;
                match unread {
                    Some(unread) => unread.finish(response).await,
                    None => response,
                }
            }));
        for (case, path, version, expect, size, is_endless, want) in [
            ("1 read", "/read", Version::HTTP_11, false, 10, false, (64, false)),
            ("2 discarded", "/refuse", Version::HTTP_11, false, 4096, false, (64, false)),
            ("3 too long", "/refuse", Version::HTTP_11, false, 8192, false, (33, true)),
            ("4 endless", "/refuse", Version::HTTP_11, false, 10, true, (64, true)),
            ("5 not sent yet", "/refuse", Version::HTTP_11, true, 10, false, (0, true)),
            ("6 HTTP/2", "/refuse", Version::HTTP_2, false, 10, false, (0, false)),
            ("7 in another task", "/forward", Version::HTTP_11, false, 10, false, (0, true)),
            ("8 in another task, HTTP/2", "/forward", Version::HTTP_2, false, 10, false, (0, false)),
        ] {
            let (body, count) = body(size, is_endless);
            let mut request = Request::post(path).version(version).body(body).unwrap();
            if expect {
                request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
            }
            let response = router.clone().oneshot(request).await.unwrap();
            let closes = response.headers().get(CONNECTION).is_some_and(|value| value == "close");
            assert_eq!((count.load(Ordering::Relaxed), closes), want, "{case}");
        }
    }
}
