//! TLS of the listener: HTTP/2 and HTTP/1.1, with client certificates if authorities are configured.

mod acceptor;
mod clients;
mod ending;
mod keeper;
mod verifier;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_pki::authority::{AuthorityError, SignedKey};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{DistinguishedName, ServerConfig};

pub(crate) use acceptor::{Acceptor, WithCertificate};
pub(crate) use clients::ClientAuthorityFiles;
pub(crate) use keeper::{TlsKeeper, TlsOrigin};
use verifier::KeyOwnership;

/// Why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{flag} {}: {problem}", path.display())]
    File { flag: &'static str, path: PathBuf, problem: String },
    #[error("certificate {} and key {} cannot be used: {problem}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, problem: String },
    #[error("the server's own certificate cannot be used: {0}")]
    Own(String),
    #[error("the server's own authority cannot sign: {0}")]
    Sign(#[from] AuthorityError),
    #[error("the authorities of client certificates cannot be used: {0}")]
    Clients(String),
}

/// The certificate of the server with its chain, and its key.
struct ServerKey {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ServerKey {
    fn of_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates("--tls-cert-file", certificate)?;
        let wrong =
            |problem| TlsError::File { flag: "--tls-private-key-file", path: key.to_owned(), problem };
        let text =
            input_file::read(key, MAX_CONFIG).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let private = PrivateKeyDer::from_pem_slice(without_mark(&text))
            .map_err(|error| wrong(pem_problem(&error, "private key", "PRIVATE KEY")))?;
        Ok(ServerKey { chain, key: private })
    }

    /// `authority` follows the server's certificate in the chain, as in kubeadm's and k3s' files.
    fn signed(pair: &SignedKey, authority: &str) -> Result<Self, TlsError> {
        let wrong = |error: pem::Error| TlsError::Own(error.to_string());
        let chain = [pair.certificate.as_str(), authority]
            .map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map_err(wrong)?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(wrong)?;
        Ok(ServerKey { chain, key })
    }
}

/// Reads the certificates of a PEM file; there must be at least one.
fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |problem: String| TlsError::File { flag, path: path.to_owned(), problem };
    let text =
        input_file::read(path, MAX_CONFIG).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(without_mark(&text)).collect();
    let found = read.map_err(|error| wrong(pem_problem(&error, "certificate", "CERTIFICATE")))?;
    if found.is_empty() {
        return Err(wrong(
            "contains no certificate (a block that begins with -----BEGIN CERTIFICATE-----)".to_owned(),
        ));
    }
    Ok(found)
}

/// A text without the byte order mark that editors of other systems write.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// The problem of a file in PEM that should contain a block. Never quotes the file, which may contain a key.
fn pem_problem(error: &pem::Error, what: &str, label: &str) -> String {
    match error {
        pem::Error::NoItemsFound => {
            format!("contains no {what} (a block that begins with -----BEGIN {label}-----)")
        }
        pem::Error::MissingSectionEnd { .. } => {
            format!("is damaged: a block has no END line such as -----END {label}-----")
        }
        pem::Error::IllegalSectionStart { .. } => "is damaged: a BEGIN line is not complete".to_owned(),
        pem::Error::Base64Decode(_) => "is damaged: a block is not valid Base64".to_owned(),
        pem::Error::SectionTooLarge => "is not usable: a block is too large".to_owned(),
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        // The library may add variants.
        _ => "is not a PEM file".to_owned(),
    }
}

/// The TLS configuration of the listener. Without client authorities, no client certificate is requested.
fn server_config(server: ServerKey, clients: Vec<DistinguishedName>) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if clients.is_empty() {
        builder.with_no_client_auth()
    } else {
        builder.with_client_cert_verifier(Arc::new(KeyOwnership::new(clients, provider)))
    };
    let mut config = builder.with_single_cert(server.chain, server.key).map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
