//! Finds the authority of a server that is not verified yet, by the digest of its public key.
//!
//! Nothing secret is sent before the authority is known: the handshake ends once the server has presented its certificates. Servers
//! other than orlop may not present their authority, but publish it in the ConfigMap `cluster-info`. A published authority is used only
//! if it has the digest.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use k8s_openapi::api::core::v1::ConfigMap;
use orlop_client::api::Api;
use orlop_client::bootstrap_token::{CLUSTER_INFO, PUBLIC_NAMESPACE};
use orlop_client::client::{self, Endpoint};
use orlop_client::cluster_info::ClusterInfo;
use orlop_pki::certificate::public_key_digest;
use orlop_pki::pem;
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::error::JoinError;

/// A server that has not answered within this time is unreachable.
const PATIENCE: Duration = Duration::from_secs(10);
const HTTPS_PORT: u16 = 443;

/// The certificates of the server's authorities that have one of the digests, in PEM.
pub(super) async fn discover(url: &str, hashes: &[String]) -> Result<String, JoinError> {
    if let Some(wrong) = hashes.iter().find(|hash| !is_digest(hash)) {
        return Err(JoinError::Hash(wrong.clone()));
    }
    let (host, port) = host_and_port(url).ok_or_else(|| JoinError::Url(url.to_owned()))?;
    let presented = presented(&host, port);
    let unreachable = |source| JoinError::Unreachable { url: url.to_owned(), source };
    let late = || unreachable(io::Error::from(io::ErrorKind::TimedOut));
    let chain = tokio::time::timeout(PATIENCE, presented).await.map_err(|_| late())?.map_err(unreachable)?;
    if let Some(found) = pinned(chain.iter().map(Vec::as_slice), hashes) {
        return Ok(found);
    }
    let published = published(url).await.unwrap_or_default();
    let blocks: Vec<Vec<u8>> = pem::blocks(published.as_bytes())
        .filter(|block| block.label == pem::CERTIFICATE)
        .map(|block| block.bytes)
        .collect();
    pinned(blocks.iter().map(Vec::as_slice), hashes)
        .ok_or_else(|| JoinError::OtherAuthority { url: url.to_owned() })
}

/// Whether a text is `sha256:` and 64 hexadecimal digits.
fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let url: Uri = url.parse().ok()?;
    let host = url.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    (url.scheme_str() == Some("https")).then(|| (host, url.port_u16().unwrap_or(HTTPS_PORT)))
}

/// The certificates that have one of the digests, in PEM; `None` if there is none. Pure.
fn pinned<'c>(certificates: impl Iterator<Item = &'c [u8]>, hashes: &[String]) -> Option<String> {
    let is_pinned = |der: &&[u8]| {
        public_key_digest(der)
            .is_some_and(|digest| hashes.iter().any(|hash| hash.eq_ignore_ascii_case(&digest)))
    };
    let found: String =
        certificates.filter(is_pinned).map(|der| pem::encode(pem::CERTIFICATE, der)).collect();
    (!found.is_empty()).then_some(found)
}

/// The ConfigMap, over a connection that is not verified, and without credentials.
async fn published(url: &str) -> Option<String> {
    let endpoint = Endpoint::Url { url: url.to_owned(), token: None, ca_file: None, insecure: true };
    let client = client::connect(endpoint).await.ok()?;
    let api: Api<ConfigMap> = Api::namespaced(client, PUBLIC_NAMESPACE);
    let map = tokio::time::timeout(PATIENCE, api.get(CLUSTER_INFO)).await.ok()?.ok()?;
    ClusterInfo::read(&map).map(|info| info.authority)
}

/// The certificates that the server presents, in DER.
async fn presented(host: &str, port: u16) -> io::Result<Vec<Vec<u8>>> {
    let chain = Arc::new(Mutex::new(Vec::new()));
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Presented(Arc::clone(&chain))))
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((host, port)).await?;
    let end = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let chain = std::mem::take(&mut *chain.lock());
    match end {
        // The verifier ended the handshake.
        Err(_) if !chain.is_empty() => Ok(chain),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("the handshake did not end")),
    }
}

/// Stores the certificates that a server presents, and accepts none.
#[derive(Debug)]
struct Presented(Arc<Mutex<Vec<Vec<u8>>>>);

impl ServerCertVerifier for Presented {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.0.lock() = std::iter::once(server).chain(others).map(|der| der.to_vec()).collect();
        Err(rustls::Error::General("the certificates are known".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("no handshake is completed".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("no handshake is completed".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::Timestamp;
    use orlop_pki::authority::Authority;

    use super::*;

    #[test]
    fn only_authorities_with_a_digest_count() {
        let one = Authority::create(Timestamp::UNIX_EPOCH).unwrap();
        let other = Authority::create(Timestamp::UNIX_EPOCH).unwrap();
        let der = |text: &str| pem::next(text.as_bytes()).unwrap().0.bytes;
        let (one_der, other_der) = (der(&one.certificate), der(&other.certificate));
        let chain = || [one_der.as_slice(), b"x", &other_der].into_iter();
        let digest = Authority::read(&other).unwrap().digest().unwrap();
        assert_eq!(pinned(chain(), std::slice::from_ref(&digest)), Some(other.certificate.clone()));
        assert_eq!(
            pinned(chain(), &[digest.to_uppercase().replace("SHA256", "sha256")]),
            Some(other.certificate)
        );
        assert_eq!(pinned(chain(), &[format!("sha256:{}", "0".repeat(64))]), None);
        assert_eq!(pinned(chain(), &[]), None);
    }

    #[test]
    fn urls_and_digests_are_checked() {
        for (url, want) in [
            ("https://h", Some(("h".to_owned(), 443))),
            ("https://10.0.0.1:6443", Some(("10.0.0.1".to_owned(), 6443))),
            ("https://[fd00::1]:6443", Some(("fd00::1".to_owned(), 6443))),
            ("http://h", None),
            ("h:6443", None),
            ("", None),
        ] {
            assert_eq!(host_and_port(url), want, "{url}");
        }
        for (text, want) in [
            (format!("sha256:{}", "a0".repeat(32)), true),
            ("a0".repeat(32), false),
            ("sha256:a0".to_owned(), false),
            (format!("sha256:{}", "x0".repeat(32)), false),
        ] {
            assert_eq!(is_digest(&text), want, "{text}");
        }
    }
}
