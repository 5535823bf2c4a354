//! TLS and plain HTTP on one port: the first byte of a connection decides. A TLS handshake begins with a record of the type 22, and no
//! HTTP request does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio_util::either::Either;

use super::acceptor::{Acceptor, WithCertificate};

/// The type of the first record of a TLS connection.
const HANDSHAKE: u8 = 22;

/// Accepts TLS and plain HTTP.
#[derive(Clone)]
pub(crate) struct TlsOrHttp {
    tls: Acceptor,
    /// Time limit for the first byte.
    time: Duration,
}

impl TlsOrHttp {
    pub(crate) fn new(tls: Acceptor, time: Duration) -> Self {
        TlsOrHttp { tls, time }
    }
}

type TlsStream<I, S> = <Acceptor as Accept<FirstByte<I>, S>>::Stream;

impl<I, S> Accept<I, S> for TlsOrHttp
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Send + 'static,
{
    type Stream = Either<TlsStream<I, S>, FirstByte<I>>;
    type Service = WithCertificate<S>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, mut stream: I, service: S) -> Self::Future {
        let TlsOrHttp { tls, time } = self.clone();
        Box::pin(async move {
            let first = tokio::time::timeout(time, stream.read_u8()).await;
            let first = first.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let stream = FirstByte { first: Some(first), inner: stream };
            if first != HANDSHAKE {
                return Ok((Either::Right(stream), WithCertificate::Right(service)));
            }
            let (stream, service) = tls.accept(stream, service).await?;
            Ok((Either::Left(stream), service))
        })
    }
}

/// A stream whose first byte was read already.
pub(crate) struct FirstByte<I> {
    first: Option<u8>,
    inner: I,
}

impl<I: AsyncRead + Unpin> AsyncRead for FirstByte<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() > 0
            && let Some(first) = self.first.take()
        {
            buffer.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for FirstByte<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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

    use super::*;

    #[tokio::test]
    async fn first_byte_is_read_again() {
        let (mut client, mut server) = tokio::io::duplex(16);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"GET /").await.unwrap();
        drop(client);
        let first = server.read_u8().await.unwrap();
        let mut stream = FirstByte { first: Some(first), inner: server };
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "GET /");
    }
}
