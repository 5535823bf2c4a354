//! An answer that holds something (a seat, the mark that a request is worked on) until it has been
//! handed over to its connection in full.
//!
//! On HTTP/1 a client that does not read stops the socket, and the socket's owner sees that. On
//! HTTP/2 a client can let one answer stand and the others move; so there each answer that is held
//! has a clock that runs while the client's turn is to take more, and ends the connection.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Version;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;

use super::connection::Connection;

/// Answers of HTTP/1 up to this many bytes go to the connection's buffer at once.
const AT_ONCE: u64 = 64 * 1024;

/// Whether an answer is handed over as soon as it is made.
pub(super) fn is_handed_over(version: Version, body: &Body) -> bool {
    body.is_end_stream()
        || version < Version::HTTP_2 && body.size_hint().exact().is_some_and(|size| size <= AT_ONCE)
}

/// The answer, which holds `what` until it is handed over. On HTTP/2, a client that takes nothing
/// of it for `patience` loses `connection`.
pub(super) fn hold<T: Send + Unpin + 'static>(
    response: Response,
    what: T,
    clock: Option<(&Connection, Duration)>,
) -> Response {
    let clock = clock.map(|(connection, patience)| Clock::start(connection.clone(), patience));
    response.map(|inner| Body::new(Held { inner, what: Some(what), clock }))
}

struct Held<T> {
    inner: Body,
    what: Option<T>,
    clock: Option<Arc<Clock>>,
}

impl<T: Unpin + Send + 'static> http_body::Body for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Some(clock) = &self.clock {
            clock.set(matches!(polled, Poll::Ready(Some(_))));
        }
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.what = None;
            self.clock = None;
        }
        polled
    }

    /// Never before it has been asked for more than its last frame: then that frame is on its way,
    /// and not only in a buffer.
    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Since when it is the client's turn: milliseconds after `start`, and 0 when it is not.
struct Clock {
    start: Instant,
    since: AtomicU64,
}

impl Clock {
    fn start(connection: Connection, patience: Duration) -> Arc<Self> {
        // A new answer waits for its client at once.
        let clock = Arc::new(Clock { start: Instant::now(), since: AtomicU64::new(1) });
        tokio::spawn(Self::run(Arc::downgrade(&clock), connection, patience));
        clock
    }

    fn set(&self, clients_turn: bool) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(if clients_turn { now.max(1) } else { 0 }, Ordering::Release);
    }

    /// When the client's turn has lasted too long, if it does not end before.
    fn deadline(&self, patience: Duration) -> Option<Instant> {
        let since = self.since.load(Ordering::Acquire);
        (since > 0).then(|| self.start + Duration::from_millis(since) + patience)
    }

    async fn run(clock: Weak<Self>, connection: Connection, patience: Duration) {
        loop {
            // The answer is gone: so is its clock.
            let Some(found) = clock.upgrade() else { return };
            let now = Instant::now();
            let deadline = found.deadline(patience).unwrap_or(now + patience);
            drop(found);
            if deadline <= now {
                tracing::debug!(peer = %connection.peer(), "an answer is not read; its connection is closed");
                connection.stall();
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::task::Waker;

    use http_body_util::BodyExt as _;

    use super::*;
    use crate::limits::connection::Connections;

    fn connection() -> Connection {
        Connections::new(0).open("127.0.0.1:1".parse().unwrap()).unwrap()
    }

    fn is_stalled(connection: &Connection) -> bool {
        connection.is_stalled(Waker::noop())
    }

    #[test]
    fn what_is_handed_over() {
        let small = || Body::from("x");
        let large = || Body::from(vec![0; 64 * 1024 + 1]);
        let stream = || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        for (case, version, body, want) in [
            ("1 nothing", Version::HTTP_2, Body::empty(), true),
            ("2 little", Version::HTTP_11, small(), true),
            ("3 little, and a stream that can stall", Version::HTTP_2, small(), false),
            ("4 much", Version::HTTP_11, large(), false),
            ("5 nobody knows", Version::HTTP_10, stream(), false),
        ] {
            assert_eq!(is_handed_over(version, &body), want, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn held_until_it_is_asked_for_more() {
        let what = Arc::new(());
        let mut body = hold(Response::new(Body::from("text")), what.clone(), None).into_body();
        assert_eq!(body.size_hint().exact(), Some(4));
        body.frame().await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&what), 2, "the last frame may be in a buffer");
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&what), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_loses_its_connection() {
        let patience = Duration::from_secs(60);
        let connection = connection();
        let (mut to, from) = futures::channel::mpsc::channel::<Result<Bytes, std::io::Error>>(9);
        let mut body =
            hold(Response::new(Body::from_stream(from)), (), Some((&connection, patience))).into_body();
        let almost = patience - Duration::from_secs(1);
        // Nothing to send: the server's turn, for as long as it likes.
        assert!(futures::poll!(body.frame()).is_pending());
        tokio::time::sleep(patience * 3).await;
        assert!(!is_stalled(&connection));
        to.try_send(Ok(Bytes::from_static(b"x"))).unwrap();
        body.frame().await.unwrap().unwrap();
        tokio::time::sleep(almost).await;
        to.try_send(Ok(Bytes::from_static(b"x"))).unwrap();
        body.frame().await.unwrap().unwrap();
        tokio::time::sleep(almost).await;
        assert!(!is_stalled(&connection), "it took one in time");
        tokio::time::sleep(Duration::from_secs(62)).await;
        assert!(is_stalled(&connection));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_gone_has_no_clock() {
        let connection = connection();
        let answer = hold(Response::new(Body::from("x")), (), Some((&connection, Duration::from_secs(1))));
        drop(answer);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!is_stalled(&connection));
    }
}
