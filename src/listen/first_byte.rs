//! TLS and plain HTTP on one port: the first byte of a connection decides. A TLS handshake begins with a record of the type 22, and no
//! HTTP request does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use axum_server::accept::Accept;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use super::sending::Sending;
use crate::tls::{Acceptor, WithCertificate};

/// The type of the first record of a TLS connection.
const HANDSHAKE: u8 = 22;

/// Accepts TLS and plain HTTP.
#[derive(Clone)]
pub(super) struct TlsOrHttp {
    tls: Acceptor,
    /// Time limit for the first byte.
    time: Duration,
}

impl TlsOrHttp {
    pub(super) fn new(tls: Acceptor, time: Duration) -> Self {
        TlsOrHttp { tls, time }
    }
}

impl<S> Accept<Sending<TcpStream>, S> for TlsOrHttp
where
    S: Send + 'static,
{
    type Stream = Either<<Acceptor as Accept<Sending<TcpStream>, S>>::Stream, Sending<TcpStream>>;
    type Service = WithCertificate<S>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    /// Each connection has a task of its own, so a client that sends nothing delays no other.
    fn accept(&self, stream: Sending<TcpStream>, service: S) -> Self::Future {
        let TlsOrHttp { tls, time } = self.clone();
        Box::pin(async move {
            if first_byte(stream.socket(), time).await? != HANDSHAKE {
                return Ok((Either::Right(stream), WithCertificate::Right(service)));
            }
            let (stream, service) = tls.accept(stream, service).await?;
            Ok((Either::Left(stream), service))
        })
    }
}

/// The first byte that a client sends. The byte stays in the socket.
async fn first_byte(socket: &TcpStream, time: Duration) -> io::Result<u8> {
    let mut first = [0];
    let peeked = tokio::time::timeout(time, socket.peek(&mut first)).await;
    match peeked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
        // The client has closed the connection.
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Longer than any machine needs.
    const LONG: Duration = Duration::from_secs(60);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn first_byte_is_read_again() {
        let (mut client, mut server) = pair().await;
        client.write_all(b"GET /").await.unwrap();
        assert_eq!(first_byte(&server, LONG).await.unwrap(), b'G');
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "GET /");
    }

    #[tokio::test]
    async fn closed_and_silent_connections_are_errors() {
        let (client, server) = pair().await;
        drop(client);
        let error = first_byte(&server, LONG).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let (_client, server) = pair().await;
        tokio::time::pause();
        let error = first_byte(&server, LONG).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
