//! TLS of the listener: HTTP/2 and HTTP/1.1, with client certificates if authorities are configured.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::{Accept, DefaultAcceptor};
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use orlop_auth::certificate::ClientCertificate;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Layer as _;

/// Why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{flag} {}: {problem}", path.display())]
    File { flag: &'static str, path: PathBuf, problem: String },
    #[error("certificate {} and key {} cannot be used: {problem}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, problem: String },
}

/// Reads the certificates of a PEM file; there must be at least one.
fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |problem: String| TlsError::File { flag, path: path.to_owned(), problem };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = read.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() {
        return Err(wrong(
            "holds no certificate (a block that begins with -----BEGIN CERTIFICATE-----)".to_owned(),
        ));
    }
    Ok(found)
}

/// The TLS configuration of the listener.
pub(crate) fn server_config(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates("--tls-cert-file", certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::File {
        flag: "--tls-private-key-file",
        path: key.to_owned(),
        problem: error.to_string(),
    })?;
    let pair = |problem: rustls::Error| TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        problem: problem.to_string(),
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(pair)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong =
                |problem: String| TlsError::File { flag: "--client-ca-file", path: path.to_owned(), problem };
            let mut roots = RootCertStore::empty();
            for root in certificates("--client-ca-file", path)? {
                roots.add(root).map_err(|error| wrong(error.to_string()))?;
            }
            // The client certificate is optional: tokens and public paths do not need one.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| wrong(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(pair)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Performs the handshake and adds the client's certificate to each request of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    inner: RustlsAcceptor<DefaultAcceptor>,
}

impl Acceptor {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        let inner = RustlsAcceptor::new(RustlsConfig::from_config(config)).acceptor(DefaultAcceptor::new());
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
