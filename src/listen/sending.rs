//! The write timeout of a connection, for clients that do not read (docs/overload.md).
//!
//! It lies directly above the socket and below TLS, where an accepted write means that the client reads. TLS
//! accepts bytes independently of the client, and its flush does not complete while the client is slow.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// A socket that fails if it accepts no bytes for too long.
pub(crate) struct Sending<S> {
    inner: S,
    peer: SocketAddr,
    patience: Duration,
    /// The deadline while the socket accepts no bytes.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<S> Sending<S> {
    pub(super) fn new(inner: S, peer: SocketAddr, patience: Duration) -> Self {
        Sending { inner, peer, patience, blocked: None }
    }

    /// Records whether bytes were written, and fails if none could be for too long.
    fn wrote(
        &mut self,
        polled: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.blocked = None;
            return polled;
        }
        let patience = self.patience;
        let timer = self.blocked.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        if timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        tracing::debug!(peer = %self.peer, "a client does not read; its connection is closed");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Sending<TcpStream> {
    /// The socket.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sending<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sending<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.wrote(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// A socket needs no flush.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    /// The shutdown of a socket does not block.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter, DuplexStream, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pair() -> (DuplexStream, Sending<DuplexStream>) {
        let (client, server) = duplex(16);
        (client, Sending::new(server, "127.0.0.1:1".parse().unwrap(), PATIENCE))
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_times_out() {
        let (mut client, mut sending) = pair();
        let start = Instant::now();
        sending.write_all(&[0; 16]).await.unwrap();
        let mut buffer = [0; 8];
        let slow = async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            client.read_exact(&mut buffer).await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = slow => {}
            result = sending.write_all(&[0; 16]) => {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
                assert_eq!(start.elapsed().as_secs(), 110, "60 seconds after it has last read");
            }
        }
    }

    /// With a buffer above, as in TLS: the flush completes only when all bytes are sent, which takes many times the
    /// write timeout.
    #[tokio::test(start_paused = true)]
    async fn slow_client_does_not_time_out() {
        let (mut client, sending) = pair();
        let start = Instant::now();
        let mut above = BufWriter::with_capacity(64, sending);
        let slow = async {
            for _ in 0..64 {
                tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
                client.read_u8().await.unwrap();
            }
        };
        let server = async {
            above.write_all(&[0; 64]).await.unwrap();
            above.flush().await.unwrap();
            // Everything except the content of the pipe was read.
            assert!(start.elapsed() > PATIENCE * 40);
        };
        tokio::join!(slow, server);
    }
}
