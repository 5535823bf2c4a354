//! Watches the bytes received on a connection with two timeouts (docs/overload.md).
//!
//! A request head that is incomplete for too long, and a connection that is idle for too long: either closes the
//! connection. Neither timeout runs while a request is processed; the request has its own.
//! [`sending`](super::sending) ensures that the client reads.
//!
//! The received bytes of an incomplete head occupy memory, and clients need no credentials to send them: all incomplete heads that exceed
//! the buffer of an ordinary request share a limit. A connection whose head does not fit is closed.
//!
//! The timeouts share one timer that is not reset for each request: it fires at the earliest possible deadline,
//! checks the current state, and is set again. The timer exists while a request is processed too: after a
//! response, the socket may not be polled until the client sends more.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use orlop_apiserver::limits::connection::Connection;
use orlop_store::OutOfMemory;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::head::Head;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Time limit for the head of a request, from its first byte.
    pub(crate) head: Duration,
    /// Time limit for the next request; twice as long for HTTP/2.
    pub(crate) idle: Duration,
    /// Time limit for the client to read.
    pub(crate) write: Duration,
}

/// The event that the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Nothing: a request is being processed.
    Nothing,
    /// The rest of an incomplete head, or the first head.
    Head { since: Instant },
    /// The next request.
    Request { since: Instant },
}

/// A connection's stream with its timeouts. It lies above TLS, so that it sees the plain bytes.
pub(crate) struct Guarded<S> {
    inner: S,
    connection: Connection,
    times: Times,
    waiting: Waiting,
    /// The number of requests when `waiting` was determined.
    requests: u64,
    /// Fires at or before the deadline of `waiting`.
    timer: Option<Pin<Box<Sleep>>>,
    /// The HTTP version; between requests, HTTP/2 sends frames that belong to no request.
    preface: Preface,
    head: Head,
    over: bool,
}

/// The HTTP version, determined from the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preface {
    Unknown { seen: usize },
    Http1,
    Http2,
}

/// The start of the HTTP/2 preface; no HTTP/1 request begins with it.
const PREFACE: &[u8] = b"PRI ";

impl Preface {
    fn read(self, bytes: &[u8]) -> Self {
        let Preface::Unknown { seen } = self else { return self };
        let rest = &PREFACE[seen..];
        let length = rest.len().min(bytes.len());
        match (bytes[..length] == rest[..length], length == rest.len()) {
            (false, _) => Preface::Http1,
            (true, true) => Preface::Http2,
            (true, false) => Preface::Unknown { seen: seen + length },
        }
    }
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, connection: Connection, times: Times) -> Self {
        Guarded {
            inner,
            connection,
            times,
            waiting: Waiting::Head { since: Instant::now() },
            requests: 0,
            timer: None,
            preface: Preface::Unknown { seen: 0 },
            head: Head::default(),
            over: false,
        }
    }

    /// Processes the bytes that the client sent.
    ///
    /// # Errors
    /// There is no memory for the head of a request.
    fn has_read(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        self.preface = self.preface.read(bytes);
        if !self.look() {
            return Ok(());
        }
        // Between requests, HTTP/2 sends frames that belong to no request.
        if self.preface == Preface::Http1 && matches!(self.waiting, Waiting::Request { .. }) {
            self.waiting = Waiting::Head { since: Instant::now() };
        }
        self.head.add(bytes.len(), self.connection.all().heads())
    }

    /// Determines the event that the connection waits for. Returns false while a request is processed.
    fn look(&mut self) -> bool {
        if self.connection.is_at_work() {
            self.waiting = Waiting::Nothing;
            self.head = Head::default();
            return false;
        }
        let requests = self.connection.requests();
        if self.waiting == Waiting::Nothing || requests != self.requests {
            self.requests = requests;
            self.head = Head::default();
            self.waiting = Waiting::Request { since: self.connection.idle_since() };
        }
        true
    }

    /// The time limit without a request. Kubernetes clients close idle HTTP/2 connections after 90 seconds. The
    /// client must close first, because a request that it sends while the server closes would be lost.
    fn idle(&self) -> Duration {
        match self.preface {
            Preface::Http2 => self.times.idle.saturating_mul(2),
            Preface::Http1 | Preface::Unknown { .. } => self.times.idle,
        }
    }

    /// Called when there is no data. Ready if the deadline has passed.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.look();
            let deadline = match self.waiting {
                // The timer fires during the request and checks again.
                Waiting::Nothing => None,
                Waiting::Head { since } => Some(since + self.times.head),
                Waiting::Request { since } => Some(since + self.idle()),
            };
            let idle = self.idle();
            match (&mut self.timer, deadline) {
                (None, deadline) => {
                    let rings = deadline.unwrap_or_else(|| Instant::now() + idle);
                    self.timer = Some(Box::pin(sleep_until(rings)));
                }
                (Some(timer), Some(deadline)) if timer.deadline() > deadline => {
                    timer.as_mut().reset(deadline)
                }
                (Some(timer), deadline) => {
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        return Poll::Ready(());
                    }
                    self.timer = None;
                }
            }
        }
    }
}

impl<S> Guarded<S> {
    /// An error if the connection has to be closed because a response is not read. HTTP/1 notices this when it writes, HTTP/2
    /// when it reads.
    fn not_stalled(&self, context: &Context<'_>) -> io::Result<()> {
        match self.connection.is_stalled(context.waker()) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.preface == Preface::Http2 {
            this.not_stalled(context)?;
        }
        if this.over {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(context, buffer);
        if polled.is_ready() {
            if let Err(error) = this.has_read(&buffer.filled()[before..]) {
                tracing::debug!(peer = %this.connection.peer(), %error, "the connection of a large head is closed");
                this.over = true;
            }
            return polled;
        }
        if this.poll_deadline(context).is_pending() {
            return Poll::Pending;
        }
        tracing::debug!(peer = %this.connection.peer(), "no request in time; the connection is closed");
        // Behaves as if the client had closed the connection: no response is in progress.
        this.over = true;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.not_stalled(context)?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.not_stalled(context)?;
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_apiserver::limits::connection::Connections;
    use orlop_store::MemoryBudget;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const TIMES: Times = Times {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(90),
        write: Duration::from_secs(60),
    };

    fn connection() -> Connection {
        Connections::new(0, MemoryBudget::new(0)).open("127.0.0.1:1".parse().unwrap()).unwrap()
    }

    fn pair() -> (DuplexStream, Guarded<DuplexStream>, Connection) {
        let (client, server) = duplex(16);
        let connection = connection();
        (client, Guarded::new(server, connection.clone(), TIMES), connection)
    }

    /// Reads until the stream ends. Returns the elapsed seconds.
    async fn end(guarded: &mut Guarded<DuplexStream>) -> u64 {
        let start = Instant::now();
        let mut buffer = [0; 16];
        while guarded.read(&mut buffer).await.unwrap() > 0 {}
        start.elapsed().as_secs()
    }

    #[test]
    fn http_version_is_read_from_the_preface() {
        for (pieces, want) in [
            (&["P", "R", "I * HTTP/2.0"][..], Preface::Http2),
            (&["PRI ", "x"], Preface::Http2),
            (&["PUT /"], Preface::Http1),
            (&["P", "R", "OPFIND"], Preface::Http1),
            (&["GET /", "PRI "], Preface::Http1),
            (&["PR"], Preface::Unknown { seen: 2 }),
            (&[""], Preface::Unknown { seen: 0 }),
        ] {
            let start = Preface::Unknown { seen: 0 };
            let got = pieces.iter().fold(start, |preface, piece| preface.read(piece.as_bytes()));
            assert_eq!(got, want, "{pieces:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connection_is_closed() {
        let (_client, mut guarded, _) = pair();
        assert_eq!(end(&mut guarded).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_head_is_closed_at_the_deadline() {
        let (mut client, mut guarded, _) = pair();
        let trickle = async {
            for _ in 0..20 {
                client.write_all(b"G").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = trickle => panic!("it is never cut off"),
            seconds = end(&mut guarded) => assert_eq!(seconds, 10),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_timeout_runs_during_a_request() {
        let (mut client, mut guarded, connection) = pair();
        let mut buffer = [0; 16];
        for _ in 0..3 {
            client.write_all(b"GET / HTTP/1.1").await.unwrap();
            assert_eq!(guarded.read(&mut buffer).await.unwrap(), 14);
            let request = connection.begin(axum::http::Version::HTTP_11);
            let long = tokio::time::timeout(Duration::from_secs(1000), guarded.read(&mut buffer)).await;
            assert!(long.is_err(), "a request has its own time");
            drop(request);
            let short = tokio::time::timeout(Duration::from_secs(80), guarded.read(&mut buffer)).await;
            assert!(short.is_err(), "it may be idle");
        }
        client.write_all(b"G").await.unwrap();
        assert_eq!(end(&mut guarded).await, 10, "a head that has begun");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_is_closed() {
        let (mut client, mut guarded, connection) = pair();
        let mut buffer = [0; 16];
        client.write_all(b"GET / HTTP/1.1").await.unwrap();
        assert_eq!(guarded.read(&mut buffer).await.unwrap(), 14);
        drop(connection.begin(axum::http::Version::HTTP_11));
        assert_eq!(end(&mut guarded).await, 90);
    }

    /// With HTTP/1, the socket is not polled after a response; only the timer wakes the task.
    #[tokio::test(start_paused = true)]
    async fn timer_wakes_an_unpolled_connection() {
        for (case, work) in [("1 short", 1), ("2 longer than a head may take", 12), ("3 very long", 1000)] {
            let (mut client, mut guarded, connection) = pair();
            let mut buffer = [0; 16];
            client.write_all(b"GET / HTTP/1.1").await.unwrap();
            assert_eq!(guarded.read(&mut buffer).await.unwrap(), 14, "{case}");
            let request = connection.begin(axum::http::Version::HTTP_11);
            let start = Instant::now();
            let answer = async {
                tokio::time::sleep(Duration::from_secs(work)).await;
                drop(request);
                std::future::pending::<()>().await;
            };
            // A single future, polled only when it is woken.
            tokio::select! {
                () = answer => {}
                seconds = tokio::spawn(async move { end(&mut guarded).await }) => {
                    assert!(seconds.is_ok(), "{case}");
                    assert_eq!(start.elapsed().as_secs() - work, 90, "{case}: after the answer");
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http2_frames_do_not_extend_the_idle_time() {
        let (mut client, mut guarded, connection) = pair();
        let mut buffer = [0; 16];
        client.write_all(b"PRI * HTTP/2.0").await.unwrap();
        assert_eq!(guarded.read(&mut buffer).await.unwrap(), 14);
        drop(connection.begin(axum::http::Version::HTTP_2));
        let first = tokio::time::timeout(Duration::from_secs(50), guarded.read(&mut buffer)).await;
        assert!(first.is_err());
        client.write_all(b"ping").await.unwrap();
        assert_eq!(end(&mut guarded).await, 130, "180 seconds after the last request, ping or not");
    }

    /// Clients without credentials can send incomplete heads on all connections.
    #[tokio::test(start_paused = true)]
    async fn incomplete_heads_share_a_limit() {
        const LARGE: usize = 60 << 10;
        let all = Connections::new(0, MemoryBudget::new(150 << 10));
        let open = || {
            let (client, server) = duplex(1 << 20);
            let connection = all.open("127.0.0.1:1".parse().unwrap()).unwrap();
            (client, Guarded::new(server, connection.clone(), TIMES), connection)
        };
        async fn send(client: &mut DuplexStream, guarded: &mut Guarded<DuplexStream>, length: usize) -> bool {
            client.write_all(&vec![b'x'; length]).await.unwrap();
            let mut buffer = vec![0; length];
            guarded.read_exact(&mut buffer).await.unwrap();
            !guarded.over
        }
        let mut small = open();
        assert!(send(&mut small.0, &mut small.1, 8 << 10).await);
        assert_eq!(all.heads().used(), 0, "a small head");
        let (mut first, mut second, mut third) = (open(), open(), open());
        assert!(send(&mut first.0, &mut first.1, LARGE).await);
        assert!(send(&mut second.0, &mut second.1, LARGE).await);
        assert!(!send(&mut third.0, &mut third.1, LARGE).await, "the third large head");
        assert_eq!(third.1.read(&mut [0; 16]).await.unwrap(), 0, "it is closed");
        assert_eq!(all.heads().used(), 128 << 10);
        // A complete head is a request.
        let request = first.2.begin(axum::http::Version::HTTP_11);
        assert!(send(&mut first.0, &mut first.1, LARGE).await, "a body");
        assert_eq!(all.heads().used(), 64 << 10);
        drop(request);
        drop(second);
        assert_eq!(all.heads().used(), 0);
        assert!(send(&mut first.0, &mut first.1, LARGE).await);
        assert!(send(&mut first.0, &mut first.1, 1).await, "the same buffer");
        assert_eq!(all.heads().used(), 64 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_response_closes_the_connection() {
        let (mut client, mut guarded, connection) = pair();
        let mut buffer = [0; 16];
        client.write_all(b"PRI * HTTP/2.0").await.unwrap();
        assert_eq!(guarded.read(&mut buffer).await.unwrap(), 14);
        let _request = connection.begin(axum::http::Version::HTTP_2);
        let stall = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            connection.stall();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = stall => {}
            result = guarded.read(&mut buffer) => {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
            }
        }
    }

    /// HTTP/1 does not read during a response: a write that waits for the client fails.
    #[tokio::test(start_paused = true)]
    async fn stalled_response_closes_an_http1_connection() {
        let (_client, mut guarded, connection) = pair();
        let write = tokio::spawn(async move { guarded.write_all(&[0; 100]).await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!write.is_finished());
        connection.stall();
        assert_eq!(write.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
