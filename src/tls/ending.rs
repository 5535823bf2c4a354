//! A connection that ends when its client certificate is no longer valid, for example because it has expired or because its
//! authority was removed. Requests in progress, such as watches, end with it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The stream of a connection.
pub(crate) struct Ending<S> {
    inner: S,
    /// Completes when the connection must end; `None` without a certificate.
    end: Option<End>,
    has_ended: bool,
}

impl<S> Ending<S> {
    /// A stream that ends with `end`.
    pub(super) fn new(inner: S, end: Option<End>) -> Self {
        Ending { inner, end, has_ended: false }
    }

    /// An error if the connection must end. Otherwise the task is woken when it must.
    fn not_ended(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.has_ended
            && let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            tracing::info!("closing a connection: its client certificate is no longer valid");
            self.has_ended = true;
            self.end = None;
        }
        match self.has_ended {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ending<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.not_ended(context)?;
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ending<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.not_ended(context)?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.not_ended(context)?;
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

    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn reader_that_waits_is_woken_at_the_end() {
        let (stream, mut peer) = duplex(16);
        let (end, ended) = oneshot::channel::<()>();
        let mut stream = Ending::new(stream, Some(ended.map(|_| ()).boxed()));
        peer.write_all(b"a").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'a');
        let reading = tokio::spawn(async move {
            let error = stream.read_u8().await.unwrap_err();
            (error, stream)
        });
        end.send(()).unwrap();
        let (error, mut stream) = reading.await.unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert!(stream.write_all(b"b").await.is_err());
    }

    #[tokio::test]
    async fn stream_without_an_end_is_unchanged() {
        let (stream, mut peer) = duplex(16);
        let mut stream = Ending::new(stream, None);
        stream.write_all(b"a").await.unwrap();
        assert_eq!(peer.read_u8().await.unwrap(), b'a');
    }
}
