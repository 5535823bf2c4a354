//! TLS to a peer that is identified by one key: a raw public key (RFC 7250) with a known digest, and a handshake
//! signed with that key. Names, certificate authorities and validity periods play no role.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// SHA-256 of a public key (SubjectPublicKeyInfo, DER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// Parses hexadecimal digits.
    ///
    /// # Errors
    /// The text is not a digest.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no SHA-256 digest (64 hexadecimal digits)");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Digest(digest))
    }
}

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));

#[derive(Debug)]
struct Pinned(Digest);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown: [u8; 32] = Sha256::digest(key.as_ref()).into();
        if shown == self.0.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General("the peer's key does not match the one published by the Node".to_owned()))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &PROVIDER.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Performs the handshake with the owner of the key.
///
/// # Errors
/// The peer has another key or does not support the protocol.
pub(super) async fn shake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: IpAddr,
    key: Digest,
) -> io::Result<TlsStream<S>> {
    let config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(key)))
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config)).connect(ServerName::from(host), stream).await
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use ::ring::rand::SystemRandom;
    use ::ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::server::AlwaysResolvesServerRawPublicKeys;
    use rustls::sign::{CertifiedKey, SigningKey};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// The server side of a node agent, and the digest of its key.
    pub(crate) fn agent() -> (TlsAcceptor, String) {
        let key = key();
        let digest = Sha256::digest(public(&key)).iter().map(|byte| format!("{byte:02x}")).collect();
        (acceptor(&key, &key), digest)
    }

    /// A server that presents one key and signs with another.
    fn acceptor(shown: &Arc<dyn SigningKey>, signs: &Arc<dyn SigningKey>) -> TlsAcceptor {
        let certified = CertifiedKey::new(vec![CertificateDer::from(public(shown))], Arc::clone(signs));
        let config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_protocol_versions(&[&version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
        TlsAcceptor::from(Arc::new(config))
    }

    fn key() -> Arc<dyn SigningKey> {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.unwrap().as_ref().to_vec()));
        ring::sign::any_ecdsa_type(&private).unwrap()
    }

    fn public(key: &Arc<dyn SigningKey>) -> Vec<u8> {
        key.public_key().unwrap().as_ref().to_vec()
    }

    fn digest(key: &Arc<dyn SigningKey>) -> Digest {
        Digest(Sha256::digest(public(key)).into())
    }

    /// Performs a handshake with a server that presents one key and signs with another; reads a greeting on success.
    async fn tried(shown: &Arc<dyn SigningKey>, signs: &Arc<dyn SigningKey>, pin: Digest) -> io::Result<()> {
        let acceptor = acceptor(shown, signs);
        let (ours, theirs) = tokio::io::duplex(4096);
        let server = async move {
            let Ok(mut stream) = acceptor.accept(theirs).await else { return };
            let _ = stream.write_all(b"hello").await;
            let _ = stream.shutdown().await;
        };
        let client = async move {
            let mut said = String::new();
            let mut stream = shake(ours, [10, 0, 0, 1].into(), pin).await?;
            stream.read_to_string(&mut said).await?;
            assert_eq!(said, "hello");
            Ok(())
        };
        tokio::join!(server, client).1
    }

    #[tokio::test]
    async fn handshake_succeeds_only_with_the_pinned_key() {
        let (mine, other) = (key(), key());
        tried(&mine, &mine, digest(&mine)).await.unwrap();
        let error = tried(&other, &other, digest(&mine)).await.unwrap_err().to_string();
        assert!(error.contains("does not match the one published by the Node"), "{error}");
        tried(&mine, &other, digest(&mine))
            .await
            .expect_err("the server cannot sign with the key it presents");
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_digest() {
        assert_eq!(Digest::parse(&"0f".repeat(32)).unwrap(), Digest([15; 32]));
        for text in ["", "0f", &"g0".repeat(32), &"+1".repeat(32), &"é".repeat(32)] {
            Digest::parse(text).unwrap_err();
        }
    }
}
