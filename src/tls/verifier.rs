//! Requests client certificates in the handshake and verifies only that the client owns the key. Authentication verifies the chain for
//! each request (`orlop_apiserver::peer_certificates`), so that an invalid certificate gets 401 as in upstream, and removed
//! authorities are removed from open connections and resumed sessions too.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Maximum number of intermediate certificates; each request may verify them.
const MAX_INTERMEDIATES: usize = 8;

/// Accepts every certificate whose key the client owns.
#[derive(Debug)]
pub(super) struct KeyOwnership {
    /// The names of the authorities: browsers offer only certificates of these.
    authorities: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl KeyOwnership {
    pub(super) fn new(authorities: Vec<DistinguishedName>, provider: Arc<CryptoProvider>) -> Self {
        KeyOwnership { authorities, provider }
    }
}

impl ClientCertVerifier for KeyOwnership {
    // Tokens and public paths need no certificate.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if intermediates.len() > MAX_INTERMEDIATES {
            return Err(Error::General("the client sends too many certificates".to_owned()));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
