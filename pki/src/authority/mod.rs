//! A certificate authority of the server's own: it signs the server's certificate and those of users.
//!
//! Keys are ECDSA on the curve P-256, which every TLS library accepts. Lifetimes are kubeadm's (upstream: `cmd/kubeadm/app/constants`).
//! An authority of other origin, for `--cluster-signing-cert-file`, may have any key that [`PrivateKey`] reads.

mod error;
mod signing;

use std::fmt;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::Ia5String;
use x509_cert::ext::pkix::SubjectKeyIdentifier;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;

pub use self::error::AuthorityError;
use self::signing::{Extent, Issuer, Purpose};
use crate::private_key::PrivateKey;
use crate::public_key::{digest_of, timestamp};
use crate::request::CertificateRequest;
use crate::{pem, subject, usage};

/// The name of an authority, followed by the time of its creation.
const NAME: &str = "orlop-ca";
/// How long an authority is valid.
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long certificates of an authority are valid.
pub const CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Certificates with a shorter requested lifetime end after this lifetime from now on; the lifetime of longer ones includes
/// [`signing::CLOCK_SKEW`] before now (upstream: `Short` of the signing policy).
const SHORT_LIFETIME: SignedDuration = SignedDuration::from_hours(8);

/// A certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct SignedKey {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl fmt::Debug for SignedKey {
    /// Without the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SignedKey").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// A certificate authority.
pub struct Authority {
    key: PrivateKey,
    certificate: Certificate,
    issuer: Issuer,
    pem: String,
}

impl fmt::Debug for Authority {
    /// Without the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").field("certificate", &self.pem).finish_non_exhaustive()
    }
}

impl Authority {
    /// Creates an authority, and returns its certificate and key.
    ///
    /// # Errors
    /// The library cannot sign.
    pub fn create(now: Timestamp) -> Result<SignedKey, AuthorityError> {
        Self::create_named(NAME, now)
    }

    /// Creates an authority with another name, for another purpose. The time is added to the name.
    ///
    /// # Errors
    /// As [`Authority::create`].
    pub fn create_named(name: &str, now: Timestamp) -> Result<SignedKey, AuthorityError> {
        let (key, pem) = PrivateKey::generate().map_err(|_| AuthorityError::Random)?;
        Ok(SignedKey { certificate: self_signed(name, &key, now)?, key: pem })
    }

    /// Creates a new certificate for the key of an authority whose certificate is lost.
    ///
    /// # Errors
    /// The key cannot be read, or the library cannot sign.
    pub fn recreate(key: String, now: Timestamp) -> Result<SignedKey, AuthorityError> {
        let certificate =
            self_signed(NAME, &PrivateKey::from_pem(&key).map_err(|_| AuthorityError::Key)?, now)?;
        Ok(SignedKey { certificate, key })
    }

    /// Reads an authority. Its certificate is the first one in the text.
    ///
    /// # Errors
    /// One of the two cannot be read, or they do not belong together.
    pub fn read(pair: &SignedKey) -> Result<Self, AuthorityError> {
        let key = PrivateKey::from_pem(&pair.key).map_err(|_| AuthorityError::Key)?;
        let block = pem::blocks(pair.certificate.as_bytes()).find(|block| block.label == pem::CERTIFICATE);
        let block = block.ok_or(AuthorityError::NoCertificate)?;
        let certificate = Certificate::from_der(&block.bytes).map_err(AuthorityError::Certificate)?;
        let tbs = certificate.tbs_certificate();
        if tbs.subject_public_key_info() != key.public() {
            return Err(AuthorityError::OtherKey);
        }
        let identifier = tbs.get_extension::<SubjectKeyIdentifier>().map_err(AuthorityError::Certificate)?;
        let issuer = Issuer {
            name: tbs.subject().clone(),
            key_identifier: identifier.map(|(_, identifier)| identifier.0),
        };
        Ok(Authority { key, certificate, issuer, pem: pair.certificate.clone() })
    }

    /// The certificate of the authority, in PEM.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// The end of the authority.
    pub fn not_after(&self) -> Timestamp {
        timestamp(self.certificate.tbs_certificate().validity().not_after)
    }

    /// When this authority signed a certificate; `None` if another one did, or if the certificate does not belong to its key.
    pub fn signed_at(&self, pair: &SignedKey) -> Option<Timestamp> {
        let block = pem::blocks(pair.certificate.as_bytes()).find(|block| block.label == pem::CERTIFICATE)?;
        let certificate = Certificate::from_der(&block.bytes).ok()?;
        let (own, other) = (self.certificate.tbs_certificate(), certificate.tbs_certificate());
        let key = PrivateKey::from_pem(&pair.key).ok()?;
        let is_ours = other.issuer() == own.subject() && other.subject_public_key_info() == key.public();
        let signed = timestamp(other.validity().not_before).checked_add(signing::CLOCK_SKEW).ok();
        signed.filter(|_| is_ours)
    }

    /// The digest of the authority's public key, as in `kubeadm join --discovery-token-ca-cert-hash`: `sha256:` and 64 hexadecimal
    /// digits.
    ///
    /// # Errors
    /// The key cannot be encoded.
    pub fn digest(&self) -> Result<String, AuthorityError> {
        digest_of(self.key.public()).map_err(AuthorityError::Certificate)
    }

    /// Signs a certificate of a server with these DNS names and IP addresses.
    ///
    /// # Errors
    /// A name cannot be in a certificate.
    pub fn server(&self, names: &[String], now: Timestamp) -> Result<SignedKey, AuthorityError> {
        let names = names.iter().map(|name| general_name(name)).collect::<Result<_, _>>()?;
        self.sign("orlop", &[], Purpose::Server(names), now, CERTIFICATE_LIFETIME)
    }

    /// Signs a certificate of a user in these groups.
    ///
    /// # Errors
    /// The library cannot sign, such as for an empty name.
    pub fn client(&self, user: &str, groups: &[String], now: Timestamp) -> Result<SignedKey, AuthorityError> {
        self.client_for(user, groups, CERTIFICATE_LIFETIME, now)
    }

    /// Like [`Authority::client`], for a certificate with another lifetime.
    ///
    /// # Errors
    /// As [`Authority::client`].
    pub fn client_for(
        &self,
        user: &str,
        groups: &[String],
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<SignedKey, AuthorityError> {
        self.sign(user, groups, Purpose::Client, now, lifetime)
    }

    fn sign(
        &self,
        name: &str,
        groups: &[String],
        purpose: Purpose,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Result<SignedKey, AuthorityError> {
        let (key, pem) = PrivateKey::generate().map_err(|_| AuthorityError::Random)?;
        let (issuer, extent) = (self.issuer.clone(), Extent::of(now, lifetime));
        let certificate =
            self.key.certify(issuer, subject_of(name, groups)?, purpose, extent, key.public())?;
        Ok(SignedKey { certificate, key: pem })
    }

    /// Signs the requested certificate, and returns it in PEM. The caller has checked that the requester may have it. The certificate
    /// has one common name, and no attributes of the request that Go does not know. It ends with the authority at the latest (upstream:
    /// `PermissiveSigningPolicy`).
    ///
    /// # Errors
    /// The subject cannot be read, a usage is unknown, the signature of the request is not valid, or the authority has expired.
    pub fn sign_request(
        &self,
        request: &CertificateRequest,
        usages: &[String],
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<String, AuthorityError> {
        request.verify().map_err(AuthorityError::Request)?;
        let (usage, purposes) = usage::parse(usages).map_err(AuthorityError::Usages)?;
        if now >= self.not_after() {
            return Err(AuthorityError::Ended(self.not_after()));
        }
        // The skew before now would take too much of a short lifetime.
        let is_short = lifetime < SHORT_LIFETIME;
        let lifetime = if is_short { lifetime } else { lifetime - signing::CLOCK_SKEW };
        let mut extent = Extent::of(now, lifetime);
        extent.end = extent.end.min(self.not_after());
        let purpose = Purpose::Requested { usage, purposes, names: request.names.clone() };
        let subject = subject::signed_subject(request.subject()).ok_or(AuthorityError::Subject)?;
        self.key.certify(self.issuer.clone(), subject, purpose, extent, request.public())
    }
}

fn subject_of(name: &str, groups: &[String]) -> Result<Name, AuthorityError> {
    subject::subject(name, groups).ok_or_else(|| AuthorityError::Name(name.to_owned()))
}

/// The certificate of an authority with this key.
fn self_signed(name: &str, key: &PrivateKey, now: Timestamp) -> Result<String, AuthorityError> {
    // Each authority has a different name, so that clients do not confuse them.
    let name = subject_of(&format!("{name}@{}", now.as_second()), &[])?;
    let issuer = Issuer { name: name.clone(), key_identifier: None };
    key.certify(issuer, name, Purpose::Authority, Extent::of(now, AUTHORITY_LIFETIME), key.public())
}

/// Whether a certificate that was signed at `signed` has to be replaced: two thirds of its time are over, or the clock was set back.
pub fn is_due(signed: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(signed);
    age >= CERTIFICATE_LIFETIME * 2 / 3 || age < -signing::CLOCK_SKEW
}

fn general_name(name: &str) -> Result<GeneralName, AuthorityError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(GeneralName::from(address));
    }
    let wrong = || AuthorityError::Name(name.to_owned());
    if !is_dns_name(name) {
        return Err(wrong());
    }
    Ia5String::new(name).map(GeneralName::DnsName).map_err(|_| wrong())
}

/// Whether a text is a DNS name: labels of letters, digits, `-` and `_`. The first label may be `*`.
fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(good)
    };
    let rest = name.strip_prefix("*.").unwrap_or(name);
    name.len() <= 253 && rest.split('.').all(label)
}

#[cfg(test)]
mod tests;
