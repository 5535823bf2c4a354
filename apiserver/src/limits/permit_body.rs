//! A response body that holds a value, such as a permit, until the connection has accepted the whole response.
//!
//! On HTTP/1 a client that does not read stops the socket, and the owner of the socket notices. On HTTP/2 a
//! client can stall one response while it reads the others, so each held response has a stall timer: it runs
//! while the client has to read, and it closes the connection. HTTP/2 responses are also split into slices: h2
//! accepts a frame of any size however little the client reads, and requests the next one only when the client
//! has read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Version;
use http_body::{Body as _, Frame, SizeHint};
use orlop_store::{MemoryBudget, ReservedMemory};
use parking_lot::Mutex;

use super::connection::Connection;
use super::inflight::Permit;
use super::stall::{StallWatch, Ticking};
use crate::encode::PieceMemory;

/// HTTP/1 responses of up to this many bytes fit in the connection's buffer.
const AT_ONCE: u64 = 64 * 1024;
/// Size of the slices of an HTTP/2 response, in bytes: one HTTP/2 frame.
const SLICE: usize = 16 * 1024;

/// Whether the connection accepts the whole response as soon as it is complete.
pub(super) fn is_handed_over(version: Version, body: &Body) -> bool {
    body.is_end_stream()
        || version < Version::HTTP_2 && body.size_hint().exact().is_some_and(|size| size <= AT_ONCE)
}

/// Holds `what` until the connection has accepted the whole response. On HTTP/2, `connection` is closed if the
/// client reads nothing of the response for `patience`.
pub(super) fn hold<T: Send + Unpin + 'static>(
    response: Response,
    what: T,
    clock: Option<(&Connection, Duration)>,
) -> Response {
    let clock = clock.map(|(connection, patience)| {
        let (stalls, connection) = (connection.all().stalls(), connection.clone());
        stalls.start(patience, move || {
            tracing::debug!(peer = %connection.peer(), "a response is not read; its connection is closed");
            connection.stall();
        })
    });
    let slices = clock.is_some();
    response.map(|inner| {
        Body::new(PermitBody { inner, rest: Bytes::new(), what: Some(what), clock, slices, longest: None })
    })
}

/// Holds a permit until the connection has accepted the whole response, or until the client has read nothing for
/// [`SLOW_AFTER`]: a client that does not read needs memory, not a permit. The memory is reserved then; if there is none,
/// the permit stays, or `connection` is closed if the response contains large objects.
pub(super) fn hold_permit(
    response: Response,
    charge: Charge,
    memory: Arc<MemoryBudget>,
    stalls: &Arc<StallWatch>,
    connection: Option<Connection>,
) -> Response {
    let charge = Arc::new(Mutex::new(charge));
    let returned = Arc::downgrade(&charge);
    let longest = Arc::new(AtomicU64::new(0));
    let seen = longest.clone();
    let clock = stalls.start(SLOW_AFTER, move || {
        let Some(charge) = returned.upgrade() else { return };
        // Memory of the same pieces, which would be counted twice. Its objects may still follow.
        let reserved = charge.lock().take_pieces();
        let follow = reserved.as_ref().map_or(0, |reserved| reserved.0.bytes());
        drop(reserved);
        // One piece is in the buffer of the connection, and one is computed.
        let pieces = (2 * seen.load(Ordering::Relaxed)).max(follow);
        match memory.reserve(STALLED_STREAM.max(pieces)) {
            Ok(memory) => {
                // Dropped outside of the lock, because the next request gets the permit.
                let permit = std::mem::replace(&mut *charge.lock(), Charge::Memory(memory));
                drop(permit);
            }
            Err(_) if pieces <= STALLED_STREAM => {}
            Err(error) => {
                if let Some(connection) = connection {
                    tracing::info!(
                        peer = %connection.peer(), %error,
                        "the memory limit is reached, and a client does not read a list of large objects; its connection is closed"
                    );
                    connection.stall();
                }
            }
        }
    });
    response.map(|inner| {
        let (rest, longest) = (Bytes::new(), Some(longest));
        Body::new(PermitBody { inner, rest, what: Some(charge), clock: Some(clock), slices: false, longest })
    })
}

/// The resource of a response that is computed while it is sent.
pub(super) enum Charge {
    /// The permit, and the memory of large pieces.
    Permit {
        #[allow(dead_code, reason = "dropping it passes the permit on")]
        permit: Permit,
        pieces: Option<PieceMemory>,
    },
    /// The memory of the pieces of a client that does not read.
    Memory(#[allow(dead_code, reason = "dropping it returns the memory")] ReservedMemory),
}

impl Charge {
    fn take_pieces(&mut self) -> Option<PieceMemory> {
        match self {
            Charge::Permit { pieces, .. } => pieces.take(),
            Charge::Memory(_) => None,
        }
    }
}

/// How long a client may read nothing before its response loses its permit.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// The least memory of a stream that its client does not read, bytes: the pieces that are computed ahead, and those in the buffers of
/// the connection.
const STALLED_STREAM: u64 = 256 << 10;

struct PermitBody<T> {
    inner: Body,
    /// The part of the last frame that has not been sent yet.
    rest: Bytes,
    what: Option<T>,
    clock: Option<Ticking>,
    /// Frames are split into slices.
    slices: bool,
    /// The length of the longest frame so far, bytes.
    longest: Option<Arc<AtomicU64>>,
}

impl<T: Unpin + Send + 'static> http_body::Body for PermitBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let polled = if this.rest.is_empty() {
            Pin::new(&mut this.inner).poll_frame(context)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.rest)))))
        };
        if let (Some(longest), Poll::Ready(Some(Ok(frame)))) = (&this.longest, &polled) {
            longest.fetch_max(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
        }
        if let Poll::Ready(None | Some(Err(_))) = polled {
            this.what = None;
            this.clock = None;
        }
        let Some(clock) = &this.clock else { return polled };
        clock.set(matches!(polled, Poll::Ready(Some(_))));
        if !this.slices {
            return polled;
        }
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(mut data) => {
                this.rest = data.split_off(data.len().min(SLICE));
                Frame::data(data)
            }
            Err(trailers) => trailers,
        })))
    }

    /// Always false, so that the last frame is followed by another poll. On HTTP/2 this poll shows that the client
    /// reads: everything except one slice and the connection's buffer has been sent.
    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
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
        Connections::new(0, MemoryBudget::new(0)).open("127.0.0.1:1".parse().unwrap()).unwrap()
    }

    fn is_stalled(connection: &Connection) -> bool {
        connection.is_stalled(Waker::noop())
    }

    #[test]
    fn only_small_bodies_on_http1_are_handed_over_immediately() {
        let small = || Body::from("x");
        let large = || Body::from(vec![0; 64 * 1024 + 1]);
        let stream = || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        for (case, version, body, want) in [
            ("1 nothing", Version::HTTP_2, Body::empty(), true),
            ("2 little", Version::HTTP_11, small(), true),
            ("3 little, and a stream that can stall", Version::HTTP_2, small(), false),
            ("4 much", Version::HTTP_11, large(), false),
            ("5 of unknown length", Version::HTTP_10, stream(), false),
        ] {
            assert_eq!(is_handed_over(version, &body), want, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn value_is_held_until_the_poll_after_the_last_frame() {
        let what = Arc::new(());
        let mut body = hold(Response::new(Body::from("text")), what.clone(), None).into_body();
        assert_eq!(body.size_hint().exact(), Some(4));
        body.frame().await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&what), 2, "the last frame may be in a buffer");
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&what), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_stops_reading_loses_its_connection() {
        let patience = Duration::from_secs(60);
        let connection = connection();
        let (mut to, from) = futures::channel::mpsc::channel::<Result<Bytes, std::io::Error>>(9);
        let mut body =
            hold(Response::new(Body::from_stream(from)), (), Some((&connection, patience))).into_body();
        let almost = patience - Duration::from_secs(1);
        // Nothing to send: the server may take as long as it needs.
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
    async fn dropped_response_stops_its_stall_clock() {
        let all = Connections::new(0, MemoryBudget::new(0));
        let connection = all.open("127.0.0.1:1".parse().unwrap()).unwrap();
        let patience = Duration::from_secs(60);
        let unread = hold(Response::new(Body::from("x")), (), Some((&connection, patience)));
        let read = hold(Response::new(Body::from("x")), (), Some((&connection, patience)));
        // Both clocks are running.
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(unread);
        read.into_body().collect().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!is_stalled(&connection));
        assert_eq!(all.count().0, 1);
        drop(connection);
        assert_eq!(all.count().0, 0, "no clock holds the connection");
    }

    #[tokio::test(start_paused = true)]
    async fn http2_bodies_are_split_into_slices() {
        const LENGTH: usize = 3 * SLICE + 5;
        let text: Vec<u8> = (0..LENGTH).map(|at| at as u8).collect();
        let patience = Duration::from_secs(60);
        for (case, sliced, want) in
            [("1 HTTP/1", false, &[LENGTH][..]), ("2 HTTP/2", true, &[SLICE, SLICE, SLICE, 5])]
        {
            let connection = connection();
            let what = Arc::new(());
            let clock = sliced.then_some((&connection, patience));
            let mut body = hold(Response::new(Body::from(text.clone())), what.clone(), clock).into_body();
            let (mut lengths, mut got) = (Vec::new(), Vec::new());
            while let Some(frame) = body.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                assert_eq!(Arc::strong_count(&what), 2, "{case}: held");
                lengths.push(data.len());
                got.extend_from_slice(&data);
                assert_eq!(body.size_hint().exact(), Some((LENGTH - got.len()) as u64), "{case}");
            }
            assert_eq!((lengths.as_slice(), &got), (want, &text), "{case}");
            assert_eq!(Arc::strong_count(&what), 1, "{case}: gone");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_single_frame_response_has_a_stall_timer() {
        let connection = connection();
        let patience = Duration::from_secs(60);
        let large = Response::new(Body::from(vec![0; 9 * SLICE]));
        let mut body = hold(large, (), Some((&connection, patience))).into_body();
        for _ in 0..5 {
            body.frame().await.unwrap().unwrap();
            tokio::time::sleep(patience / 2).await;
            assert!(!is_stalled(&connection), "it takes some");
        }
        tokio::time::sleep(patience).await;
        assert!(is_stalled(&connection));
    }
}
