//! The limits of a certificate that verifies other certificates: TLS libraries ignore those of the authorities that are configured.
//!
//! As in Go (crypto/x509, `isValid` and `checkChainForKeyUsage`), a trusted authority has a validity, a purpose and a path length.
//! Unlike Go, a certificate that is no authority is not accepted as the certificate of its own user.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Error};
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage};

use crate::private_key::ED25519;
use crate::public_key::timestamp;

const ANY_PURPOSE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ELLIPTIC_CURVE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
/// The sizes of encoded RSA keys with 2048 to 8192 bits, bytes: the modulus, the exponent and their lengths.
const RSA_BYTES: RangeInclusive<usize> = 257..=1100;

/// The limits of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorLimits {
    /// The start of its validity.
    pub not_before: Timestamp,
    /// The end of its validity, inclusive.
    pub not_after: Timestamp,
    /// Maximum number of intermediate certificates in a chain.
    pub path_length: Option<u8>,
}

/// Why a certificate is not the authority of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnchorError {
    /// The bytes are not a certificate.
    #[error("is damaged: its content is not an X.509 certificate")]
    Malformed,
    /// It is the certificate of a server or a user.
    #[error("is not a certificate authority: its basic constraints lack CA:TRUE")]
    NoAuthority,
    /// Its key does not sign certificates.
    #[error("cannot sign certificates: its key usage lacks keyCertSign")]
    NoSigning,
    /// It signs for other purposes.
    #[error("cannot sign client certificates: its extended key usage lacks clientAuth")]
    OtherPurpose,
    /// No signature of its key can be verified.
    #[error(
        "has a key that the server does not support: use a certificate authority with an RSA key of 2048 to 8192 bits, an ECDSA key on \
         P-256 or P-384, or an Ed25519 key"
    )]
    UnsupportedKey,
}

impl AnchorLimits {
    /// Whether a certificate that this authority has signed can be valid at a time.
    pub fn permits_time(&self, now: Timestamp) -> bool {
        // The last second belongs to the validity.
        self.not_before <= now && now.as_second() <= self.not_after.as_second()
    }

    /// Whether a chain with this number of intermediate certificates is permitted.
    pub fn permits_length(&self, intermediates: usize) -> bool {
        self.path_length.is_none_or(|max| intermediates <= usize::from(max))
    }
}

/// The limits of a certificate in DER that verifies client certificates.
///
/// # Errors
/// It is not an authority of clients.
pub fn client_anchor(der: &[u8]) -> Result<AnchorLimits, AnchorError> {
    let certificate = Certificate::from_der(der).map_err(|_| AnchorError::Malformed)?;
    let constraints: Option<BasicConstraints> = extension(&certificate)?;
    // Certificates of version 1 have no extensions.
    let is_authority = match &constraints {
        Some(constraints) => constraints.ca,
        None => certificate.tbs_certificate().version() != Version::V3,
    };
    if !is_authority {
        return Err(AnchorError::NoAuthority);
    }
    if !has_signing_key(&certificate)? {
        return Err(AnchorError::NoSigning);
    }
    let purposes: Option<ExtendedKeyUsage> = extension(&certificate)?;
    if purposes.is_some_and(|found| !found.0.iter().any(|one| [ANY_PURPOSE, CLIENT_AUTH].contains(one))) {
        return Err(AnchorError::OtherPurpose);
    }
    if !has_supported_key(&certificate) {
        return Err(AnchorError::UnsupportedKey);
    }
    let validity = certificate.tbs_certificate().validity();
    Ok(AnchorLimits {
        not_before: timestamp(validity.not_before),
        not_after: timestamp(validity.not_after),
        path_length: constraints.and_then(|constraints| constraints.path_len_constraint),
    })
}

/// Whether the key usage of a certificate in DER permits it to sign others; `false` if the bytes are not a certificate.
pub fn may_sign(der: &[u8]) -> bool {
    Certificate::from_der(der).is_ok_and(|certificate| has_signing_key(&certificate) == Ok(true))
}

fn has_signing_key(certificate: &Certificate) -> Result<bool, AnchorError> {
    let usage: Option<KeyUsage> = extension(certificate)?;
    Ok(usage.is_none_or(|usage| usage.key_cert_sign()))
}

/// Whether signatures of the key can be verified. Otherwise every certificate of the authority would be rejected without a reason.
fn has_supported_key(certificate: &Certificate) -> bool {
    let key = certificate.tbs_certificate().subject_public_key_info();
    let algorithm = &key.algorithm;
    if algorithm.oid == RSA {
        return RSA_BYTES.contains(&key.subject_public_key.raw_bytes().len());
    }
    if algorithm.oid == ELLIPTIC_CURVE {
        let curve =
            algorithm.parameters.as_ref().and_then(|curve| curve.decode_as::<ObjectIdentifier>().ok());
        return curve.is_some_and(|curve| [P256, P384].contains(&curve));
    }
    algorithm.oid == ED25519
}

fn extension<'c, T>(certificate: &'c Certificate) -> Result<Option<T>, AnchorError>
where
    T: Decode<'c, Error = Error> + AssociatedOid,
{
    let found = certificate.tbs_certificate().get_extension::<T>();
    Ok(found.map_err(|_| AnchorError::Malformed)?.map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::authority::Authority;
    use crate::pem;

    #[test]
    fn own_authorities_are_anchors_and_their_certificates_are_not() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let der = |text: &str| pem::next(text.as_bytes()).unwrap().0.bytes;
        let pair = Authority::create(now).unwrap();
        let authority = Authority::read(&pair).unwrap();
        let limits = client_anchor(&der(&pair.certificate)).unwrap();
        assert!(may_sign(&der(&pair.certificate)) && limits.permits_time(now));
        assert_eq!(limits.not_after, authority.not_after());
        assert!(limits.permits_time(limits.not_after));
        for (case, now) in [
            ("1 before", limits.not_before - jiff::SignedDuration::from_secs(1)),
            ("2 after", limits.not_after + jiff::SignedDuration::from_secs(1)),
        ] {
            assert!(!limits.permits_time(now), "{case}");
        }
        let client = der(&authority.client("ann", &[], now).unwrap().certificate);
        assert_eq!(client_anchor(&client), Err(AnchorError::NoAuthority));
        assert!(!may_sign(&client));
        assert_eq!(client_anchor(b"x"), Err(AnchorError::Malformed));
        assert!(!may_sign(b"x"));
    }

    #[test]
    fn path_length_limits_intermediates() {
        let limits =
            |path_length| AnchorLimits { not_before: Timestamp::MIN, not_after: Timestamp::MAX, path_length };
        for (length, count, want) in [
            (None, 9, true),
            (Some(0), 0, true),
            (Some(0), 1, false),
            (Some(2), 2, true),
            (Some(2), 3, false),
        ] {
            assert_eq!(limits(length).permits_length(count), want, "{length:?} {count}");
        }
    }
}
