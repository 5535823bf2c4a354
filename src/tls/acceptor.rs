//! The TLS handshake of a connection, and the client certificate of its requests.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::{Accept, DefaultAcceptor};
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use jiff::Timestamp;
use orlop_apiserver::clock::Clock;
use orlop_apiserver::peer_certificates::{ClientAuthorities, PeerCertificates};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Layer as _;

use super::ending::Ending;

/// Performs the handshake and adds the client's certificate to each request of the connection.
#[derive(Clone)]
pub(crate) struct Acceptor {
    inner: RustlsAcceptor<DefaultAcceptor>,
    authorities: Arc<ClientAuthorities>,
    clock: Clock,
}

impl Acceptor {
    /// `config` may be replaced later, for new connections. `authorities` verify the certificates.
    pub(crate) fn new(config: RustlsConfig, authorities: Arc<ClientAuthorities>) -> Self {
        let inner = RustlsAcceptor::new(config).acceptor(DefaultAcceptor::new());
        Acceptor { inner, authorities, clock: Arc::new(Timestamp::now) }
    }
}

/// A connection's service, whose requests carry the client certificate if there is one.
pub(crate) type WithCertificate<S> = tower::util::Either<AddExtension<S, PeerCertificates>, S>;

impl<I, S> Accept<I, S> for Acceptor
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Send + 'static,
{
    type Stream = Ending<<RustlsAcceptor<DefaultAcceptor> as Accept<I, S>>::Stream>;
    type Service = WithCertificate<S>;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let handshake = self.inner.accept(stream, service);
        let (authorities, clock) = (self.authorities.clone(), self.clock.clone());
        Box::pin(async move {
            let (stream, service) = handshake.await?;
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
            if chain.is_empty() {
                return Ok((Ending::new(stream, None), WithCertificate::Right(service)));
            }
            let chain = chain.iter().map(|one| CertificateDer::into_owned(one.clone())).collect();
            let peer = PeerCertificates::new(chain, authorities);
            let end = Box::pin(peer.clone().ended(clock));
            let service = Extension(peer).layer(service);
            Ok((Ending::new(stream, Some(end)), WithCertificate::Left(service)))
        })
    }
}
