//! A certificate authority of the server's own: it signs the server's certificate and those of users.
//!
//! Keys are ECDSA on the curve P-256, which every TLS library accepts. Lifetimes are kubeadm's (upstream: `cmd/kubeadm/app/constants`).

mod error;
mod signing;

use std::fmt;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use x509_cert::Certificate;
use x509_cert::der::asn1::Ia5String;
use x509_cert::der::{DecodePem as _, Encode as _};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Time;

pub use self::error::AuthorityError;
use self::signing::{Extent, Purpose, SigningKey};

/// How long an authority is valid.
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long the certificates are valid that an authority signs.
pub const CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

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
    key: SigningKey,
    certificate: Certificate,
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
        let (key, pem) = SigningKey::generate()?;
        Ok(SignedKey { certificate: self_signed(&key, now)?, key: pem })
    }

    /// Creates a new certificate for the key of an authority whose certificate is lost.
    ///
    /// # Errors
    /// The key cannot be read, or the library cannot sign.
    pub fn recreate(key: String, now: Timestamp) -> Result<SignedKey, AuthorityError> {
        let certificate = self_signed(&SigningKey::from_pem(&key)?, now)?;
        Ok(SignedKey { certificate, key })
    }

    /// Reads an authority that [`Authority::create`] has created.
    ///
    /// # Errors
    /// One of the two cannot be read, or they do not belong together.
    pub fn read(pair: &SignedKey) -> Result<Self, AuthorityError> {
        let key = SigningKey::from_pem(&pair.key)?;
        let certificate = Certificate::from_pem(&pair.certificate).map_err(AuthorityError::Certificate)?;
        if certificate.tbs_certificate().subject_public_key_info() != key.public() {
            return Err(AuthorityError::OtherKey);
        }
        Ok(Authority { key, certificate, pem: pair.certificate.clone() })
    }

    /// The certificate of the authority, in PEM.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// The end of the authority.
    pub fn not_after(&self) -> Timestamp {
        timestamp(self.certificate.tbs_certificate().validity().not_after).unwrap_or(Timestamp::MAX)
    }

    /// When this authority signed a certificate; `None` if another one did, or if the certificate does not belong to its key.
    pub fn signed_at(&self, pair: &SignedKey) -> Option<Timestamp> {
        let certificate = Certificate::from_pem(&pair.certificate).ok()?;
        let (own, other) = (self.certificate.tbs_certificate(), certificate.tbs_certificate());
        let key = SigningKey::from_pem(&pair.key).ok()?;
        let is_ours = other.issuer() == own.subject() && other.subject_public_key_info() == key.public();
        let begin = timestamp(other.validity().not_before)?;
        is_ours.then(|| begin.checked_add(signing::CLOCK_SKEW).ok()).flatten()
    }

    /// The digest of the authority's public key, as in `kubeadm join --discovery-token-ca-cert-hash`: `sha256:` and 64 hexadecimal
    /// digits.
    ///
    /// # Errors
    /// The key cannot be encoded.
    pub fn digest(&self) -> Result<String, AuthorityError> {
        let public = self.key.public().to_der().map_err(AuthorityError::Certificate)?;
        let digest = Sha256::digest(&public);
        Ok(digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}")))
    }

    /// Signs a certificate of a server with these DNS names and IP addresses.
    ///
    /// # Errors
    /// A name cannot be in a certificate.
    pub fn server(&self, names: &[String], now: Timestamp) -> Result<SignedKey, AuthorityError> {
        let names = names.iter().map(|name| general_name(name)).collect::<Result<_, _>>()?;
        self.sign("orlop", &[], Purpose::Server(names), now)
    }

    /// Signs a certificate of a user in these groups.
    ///
    /// # Errors
    /// The library cannot sign, such as for an empty name.
    pub fn client(&self, user: &str, groups: &[String], now: Timestamp) -> Result<SignedKey, AuthorityError> {
        self.sign(user, groups, Purpose::Client, now)
    }

    fn sign(
        &self,
        name: &str,
        groups: &[String],
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<SignedKey, AuthorityError> {
        let (key, pem) = SigningKey::generate()?;
        let issuer = self.certificate.tbs_certificate().subject().clone();
        let extent = Extent { now, lifetime: CERTIFICATE_LIFETIME };
        let certificate =
            self.key.certify(issuer, signing::subject(name, groups)?, purpose, extent, key.public())?;
        Ok(SignedKey { certificate, key: pem })
    }
}

/// The certificate of an authority with this key.
fn self_signed(key: &SigningKey, now: Timestamp) -> Result<String, AuthorityError> {
    // The name differs for each authority, so that no client takes one for another.
    let name = signing::subject(&format!("orlop-ca@{}", now.as_second()), &[])?;
    let extent = Extent { now, lifetime: AUTHORITY_LIFETIME };
    key.certify(name.clone(), name, Purpose::Authority, extent, key.public())
}

fn timestamp(time: Time) -> Option<Timestamp> {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).ok()?;
    Timestamp::from_second(seconds).ok()
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
