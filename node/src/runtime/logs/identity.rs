//! The TLS identity of the log server: a key that is created at startup and never leaves the process. The agent
//! publishes the digest of the public key in its Node, and the API server connects only to a peer that can sign
//! with the private key. No certificate has to be created, copied, trusted or renewed: write access to the Node
//! decides the identity of the node.

use std::fmt::Write as _;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::crypto::ring as provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

/// A key and its TLS acceptor.
pub(super) struct ServerIdentity {
    pub(super) acceptor: TlsAcceptor,
    /// SHA-256 of the public key (SubjectPublicKeyInfo, DER), 64 hexadecimal digits.
    pub(super) digest: String,
}

impl ServerIdentity {
    /// Creates a key, for TLS 1.3 with a raw public key (RFC 7250).
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn make() -> Result<Self, String> {
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let pair = pair.map_err(|_| "no key can be created: the system has no random numbers".to_owned())?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.as_ref().to_vec()));
        let words = |error: rustls::Error| error.to_string();
        let key = provider::sign::any_ecdsa_type(&private).map_err(words)?;
        let public = key.public_key().ok_or("the key has no public half")?.as_ref().to_vec();
        let mut digest = String::new();
        for byte in Sha256::digest(&public) {
            // Writing to a String never fails.
            let _ = write!(digest, "{byte:02x}");
        }
        let certified = CertifiedKey::new(vec![CertificateDer::from(public)], key);
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(words)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), digest })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_start_creates_a_new_key() {
        let (one, two) = (ServerIdentity::make().unwrap().digest, ServerIdentity::make().unwrap().digest);
        assert_eq!(one.len(), 64);
        assert_ne!(one, two);
    }
}
