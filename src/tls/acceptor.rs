//! The TLS handshake of a connection, and the user of its client certificate.

use std::future::Future;
use std::io;
use std::pin::Pin;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::{Accept, DefaultAcceptor};
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use orlop_auth::certificate::ClientCertificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Layer as _;

/// Performs the handshake and adds the client's certificate to each request of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    inner: RustlsAcceptor<DefaultAcceptor>,
}

impl Acceptor {
    /// `config` may be replaced later, for new connections.
    pub(crate) fn new(config: RustlsConfig) -> Self {
        let inner = RustlsAcceptor::new(config).acceptor(DefaultAcceptor::new());
        Acceptor { inner }
    }
}

/// A connection's service, whose requests carry the client certificate if there is one.
type WithCertificate<S> = tower::util::Either<AddExtension<S, ClientCertificate>, S>;

impl<I, S> Accept<I, S> for Acceptor
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Send + 'static,
{
    type Stream = <RustlsAcceptor<DefaultAcceptor> as Accept<I, S>>::Stream;
    type Service = WithCertificate<S>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let handshake = self.inner.accept(stream, service);
        Box::pin(async move {
            let (stream, service) = handshake.await?;
            let leaf = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let Some(leaf) = leaf else {
                return Ok((stream, WithCertificate::Right(service)));
            };
            match ClientCertificate::from_der(leaf) {
                Ok(certificate) => Ok((stream, WithCertificate::Left(Extension(certificate).layer(service)))),
                Err(error) => {
                    tracing::warn!("a connection is refused: {error}");
                    Err(io::Error::new(io::ErrorKind::InvalidData, error))
                }
            }
        })
    }
}
