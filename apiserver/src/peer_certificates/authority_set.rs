//! Authorities that verify certificates, with the limits of their own certificates.

use std::time::Duration;

use jiff::Timestamp;
use orlop_pki::trust_anchor::{self, AnchorError, AnchorLimits};
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext, VerifiedPath,
};

use crate::certificate_path;

/// `anyExtendedKeyUsage` and `id-kp-clientAuth` of RFC 5280.
const CLIENT_PURPOSES: [KeyPurposeId<'static>; 2] = [
    KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0x00]),
    KeyPurposeId::new(&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]),
];

/// Authorities of one kind.
#[derive(Default)]
pub(super) struct AuthoritySet(Vec<Authority>);

struct Authority {
    certificate: CertificateDer<'static>,
    anchor: TrustAnchor<'static>,
    limits: AnchorLimits,
}

/// An authority that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("certificate {number} {problem}")]
pub struct AuthorityError {
    /// Its position among the authorities, from 1.
    pub number: usize,
    /// The problem.
    #[source]
    pub problem: AnchorError,
}

/// Checks that certificates can verify those of clients. Their dates do not matter, because they depend on the time of a request.
///
/// # Errors
/// The first one that cannot.
pub fn check_authority(certificates: &[CertificateDer<'static>]) -> Result<(), AuthorityError> {
    AuthoritySet::new(certificates.to_vec()).map(|_| ())
}

impl Authority {
    fn new(certificate: CertificateDer<'static>) -> Result<Self, AnchorError> {
        let limits = trust_anchor::client_anchor(&certificate)?;
        let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|_| AnchorError::Malformed)?;
        let anchor = anchor.to_owned();
        Ok(Authority { certificate, anchor, limits })
    }

    /// Whether this authority ends a path and permits its length. Another one with the same name and key may have other limits, such as
    /// name constraints.
    fn permits(&self, path: &VerifiedPath<'_>) -> bool {
        self.anchor == *path.anchor() && self.limits.permits_length(path.intermediate_certificates().count())
    }
}

impl AuthoritySet {
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, AuthorityError> {
        let read = certificates.into_iter().enumerate().map(|(index, certificate)| {
            Authority::new(certificate).map_err(|problem| AuthorityError { number: index + 1, problem })
        });
        Ok(AuthoritySet(read.collect::<Result<_, _>>()?))
    }

    /// The certificates.
    pub(super) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.0.iter().map(|authority| authority.certificate.clone()).collect()
    }

    /// The times at which the authorities become valid.
    pub(super) fn starts(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().map(|authority| authority.limits.not_before)
    }

    /// The ends of the authorities.
    pub(super) fn ends(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().map(|authority| authority.limits.not_after)
    }

    /// Verifies a chain; `None` without authorities.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Option<Result<(), String>> {
        if self.0.is_empty() {
            return None;
        }
        let (leaf, intermediates) = chain.split_first()?;
        let verified = self.verify_path(leaf, intermediates, now);
        Some(verified.map_err(|error| format!("invalid peer certificate: {error}")))
    }

    fn verify_path(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<(), webpki::Error> {
        let valid: Vec<&Authority> =
            self.0.iter().filter(|authority| authority.limits.permits_time(now)).collect();
        let anchors: Vec<TrustAnchor<'_>> = valid.iter().map(|authority| authority.anchor.clone()).collect();
        // The library ignores the key usage of intermediate certificates.
        let signing: Vec<CertificateDer<'_>> = certificate_path::intermediates(leaf, intermediates)
            .into_iter()
            .filter(|one| trust_anchor::may_sign(one))
            .cloned()
            .collect();
        let permits = |path: &VerifiedPath<'_>| match valid.iter().any(|one| one.permits(path)) {
            true => Ok(()),
            false => Err(webpki::Error::PathLenConstraintViolated),
        };
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
        let leaf = EndEntityCert::try_from(leaf)?;
        leaf.verify_for_usage(algorithms, &anchors, &signing, now, ClientPurpose, None, Some(&permits))
            .map(|_| ())
    }
}

/// Accepts the purposes of client certificates and of their intermediate authorities. As in Go, and unlike [`KeyUsage`], a certificate
/// for any purpose is accepted.
struct ClientPurpose;

impl ExtendedKeyUsageValidator for ClientPurpose {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut present = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if CLIENT_PURPOSES.contains(&purpose) {
                return Ok(());
            }
            present.push(purpose.to_decoded_oid());
        }
        if present.is_empty() {
            // Without the extension, a certificate has no limits.
            return Ok(());
        }
        let required = KeyUsage::client_auth();
        Err(webpki::Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
    }
}
