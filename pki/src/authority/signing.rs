//! Signs certificates, with the extensions that RFC 5280 requires.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom as _, SystemRandom};
use x509_cert::TbsCertificate;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{self, Builder as _, CertificateBuilder};
use x509_cert::der::asn1::{ObjectIdentifier, OctetString};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{self, EncodePem as _};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, ToExtension as _};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};

use super::error::AuthorityError;
use crate::private_key::{PrivateKey, Signature};
use crate::request::AlternativeNames;

/// The validity of a certificate starts this long before the signature, because clocks differ.
pub(super) const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// The purpose of a certificate.
pub(super) enum Purpose {
    /// Signing certificates.
    Authority,
    /// A server with these names.
    Server(Vec<GeneralName>),
    /// A user.
    Client,
    /// The usages and names of a request.
    Requested { usage: KeyUsage, purposes: Vec<ObjectIdentifier>, names: AlternativeNames },
}

/// When a certificate is valid.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}

impl Extent {
    /// From [`CLOCK_SKEW`] before `now` until `lifetime` after it. Years beyond jiff's range are beyond the range of certificates too.
    pub(super) fn of(now: Timestamp, lifetime: SignedDuration) -> Self {
        Extent {
            begin: now.checked_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN),
            end: now.checked_add(lifetime).unwrap_or(Timestamp::MAX),
        }
    }

    fn validity(self) -> Result<Validity, der::Error> {
        let time = |at: Timestamp| -> Result<Time, der::Error> {
            let seconds = u64::try_from(at.as_second()).unwrap_or(0);
            let general = der::asn1::GeneralizedTime::from_unix_duration(Duration::from_secs(seconds))?;
            Ok(Time::GeneralTime(general))
        };
        Ok(Validity::new(time(self.begin)?, time(self.end)?))
    }
}

impl PrivateKey {
    /// Signs a certificate, and returns it in PEM.
    pub(super) fn certify(
        &self,
        issuer: Issuer,
        subject: Name,
        purpose: Purpose,
        extent: Extent,
        public: &SubjectPublicKeyInfoOwned,
    ) -> Result<String, AuthorityError> {
        let sign = |error: der::Error| AuthorityError::Sign(error.into());
        let mut serial = [0; 16];
        SystemRandom::new().fill(&mut serial).map_err(|_| AuthorityError::Random)?;
        // Positive, and without leading zeros.
        serial[0] = serial[0] & 0x7f | 0x40;
        let serial = SerialNumber::new(&serial).map_err(sign)?;
        let profile = Profile { issuer, subject, purpose };
        let validity = extent.validity().map_err(sign)?;
        let builder = CertificateBuilder::new(profile, serial, validity, public.clone())
            .map_err(AuthorityError::Sign)?;
        let certificate = builder.build::<_, Signature>(self).map_err(AuthorityError::Sign)?;
        certificate.to_pem(LineEnding::LF).map_err(sign)
    }
}

/// The authority that signs, as certificates name it.
#[derive(Clone)]
pub(super) struct Issuer {
    pub(super) name: Name,
    /// The identifier in its own certificate; `None` derives it from the key.
    pub(super) key_identifier: Option<OctetString>,
}

/// Names and extensions of a certificate.
struct Profile {
    issuer: Issuer,
    subject: Name,
    purpose: Purpose,
}

impl BuilderProfile for Profile {
    fn get_issuer(&self, _: &Name) -> Name {
        self.issuer.name.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        subject_key: SubjectPublicKeyInfoRef<'_>,
        issuer_key: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> builder::Result<Vec<Extension>> {
        let mut all: Vec<Extension> = Vec::new();
        let subject = tbs.subject();
        let (is_authority, usage, purposes) = match &self.purpose {
            Purpose::Authority => {
                let usage = KeyUsages::DigitalSignature | KeyUsages::KeyCertSign | KeyUsages::CRLSign;
                (true, KeyUsage(usage), Vec::new())
            }
            Purpose::Server(_) => (false, KeyUsage(KeyUsages::DigitalSignature.into()), vec![SERVER_AUTH]),
            Purpose::Client => (false, KeyUsage(KeyUsages::DigitalSignature.into()), vec![CLIENT_AUTH]),
            Purpose::Requested { usage, purposes, .. } => (false, *usage, purposes.clone()),
        };
        let constraints = BasicConstraints { ca: is_authority, path_len_constraint: None };
        all.push(constraints.to_extension(subject, &all)?);
        if !usage.0.is_empty() {
            all.push(usage.to_extension(subject, &all)?);
        }
        if !purposes.is_empty() {
            all.push(ExtendedKeyUsage(purposes).to_extension(subject, &all)?);
        }
        all.push(SubjectKeyIdentifier::try_from(subject_key)?.to_extension(subject, &all)?);
        let issuer = match &self.issuer.key_identifier {
            Some(identifier) => AuthorityKeyIdentifier {
                key_identifier: Some(identifier.clone()),
                ..AuthorityKeyIdentifier::default()
            },
            None => AuthorityKeyIdentifier::try_from(issuer_key)?,
        };
        all.push(issuer.to_extension(subject, &all)?);
        match &self.purpose {
            Purpose::Server(names) => all.push(SubjectAltName(names.clone()).to_extension(subject, &all)?),
            Purpose::Requested { names, .. } => all.extend(names.extension(subject)?),
            Purpose::Authority | Purpose::Client => {}
        }
        Ok(all)
    }
}
