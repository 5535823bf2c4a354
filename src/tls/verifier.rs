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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::Timestamp;
    use orlop_pki::authority::Authority;
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    use super::*;
    use crate::tls::{ServerKey, server_config};

    /// Exchanges messages until the handshake ends.
    fn handshake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<(), Error> {
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).unwrap();
            let mut rest = sent.as_slice();
            while !rest.is_empty() {
                server.read_tls(&mut rest).unwrap();
                server.process_new_packets()?;
            }
            let mut answered = Vec::new();
            server.write_tls(&mut answered).unwrap();
            let mut rest = answered.as_slice();
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets()?;
            }
            assert!(!sent.is_empty() || !answered.is_empty(), "the handshake does not end");
        }
        Ok(())
    }

    #[test]
    fn client_must_own_the_key_of_its_certificate() {
        let now = Timestamp::now();
        let authority = Authority::read(&Authority::create(now).unwrap()).unwrap();
        let anchor = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(anchor).unwrap();
        let own = authority.server(&["localhost".to_owned()], now).unwrap();
        let key = ServerKey::signed(&own, authority.certificate()).unwrap();
        let server = server_config(key, roots.subjects()).unwrap();
        let (ann, eve) =
            (authority.client("ann", &[], now).unwrap(), authority.client("eve", &[], now).unwrap());
        for (case, key, is_owner) in [("1 its key", &ann.key, true), ("2 another key", &eve.key, false)] {
            let chain = vec![CertificateDer::from_pem_slice(ann.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            // Unlike other constructors, this one does not compare the key with the certificate.
            let identity = CertifiedKey::new(chain, ring::sign::any_supported_type(&key).unwrap());
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots.clone())
                .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
            let mut client =
                ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
            let mut server = ServerConnection::new(server.clone()).unwrap();
            let result = handshake(&mut client, &mut server);
            assert_eq!(result.is_ok(), is_owner, "{case}: {result:?}");
            assert_eq!(server.is_handshaking(), !is_owner, "{case}");
        }
    }
}
