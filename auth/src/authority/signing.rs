//! Keys, and the certificates that they sign, with the extensions that RFC 5280 requires.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use signature::{Keypair, Signer};
use x509_cert::TbsCertificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{self, Builder as _, CertificateBuilder};
use x509_cert::der::asn1::{Any, BitString, ObjectIdentifier, SetOfVec, Utf8StringRef};
use x509_cert::der::pem::{self, LineEnding};
use x509_cert::der::{self, Document, Encode as _, EncodePem as _};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, ToExtension as _};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{
    self, AlgorithmIdentifierOwned, DynSignatureAlgorithmIdentifier, EncodePublicKey,
    SignatureBitStringEncoding, SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef,
};
use x509_cert::time::{Time, Validity};

use super::error::AuthorityError;

/// Certificates are valid from this long before they are signed: clocks differ.
pub(super) const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

const KEY_LABEL: &str = "PRIVATE KEY";

/// What a certificate is for.
pub(super) enum Purpose {
    /// Signing certificates.
    Authority,
    /// A server with these names.
    Server(Vec<GeneralName>),
    /// A user.
    Client,
}

/// When a certificate is valid.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) now: Timestamp,
    pub(super) lifetime: SignedDuration,
}

impl Extent {
    fn validity(self) -> Result<Validity, der::Error> {
        let time = |at: Timestamp| -> Result<Time, der::Error> {
            let seconds = u64::try_from(at.as_second()).unwrap_or(0);
            let general = der::asn1::GeneralizedTime::from_unix_duration(Duration::from_secs(seconds))?;
            Ok(Time::GeneralTime(general))
        };
        // Years beyond jiff's range are beyond the range of certificates too.
        let begin = self.now.checked_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN);
        let end = self.now.checked_add(self.lifetime).unwrap_or(Timestamp::MAX);
        Ok(Validity::new(time(begin)?, time(end)?))
    }
}

/// A private key that signs.
pub(super) struct SigningKey {
    pair: EcdsaKeyPair,
    public: SubjectPublicKeyInfoOwned,
}

impl SigningKey {
    /// A new key, and its PEM.
    pub(super) fn generate() -> Result<(Self, String), AuthorityError> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
            .map_err(|_| AuthorityError::Random)?;
        let text = pem::encode_string(KEY_LABEL, LineEnding::LF, pkcs8.as_ref())
            .map_err(|_| AuthorityError::Random)?;
        Ok((Self::from_pkcs8(pkcs8.as_ref())?, text))
    }

    pub(super) fn from_pem(text: &str) -> Result<Self, AuthorityError> {
        let (label, bytes) = pem::decode_vec(text.as_bytes()).map_err(|_| AuthorityError::Key)?;
        if label != KEY_LABEL {
            return Err(AuthorityError::Key);
        }
        Self::from_pkcs8(&bytes)
    }

    fn from_pkcs8(bytes: &[u8]) -> Result<Self, AuthorityError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, bytes, &SystemRandom::new())
            .map_err(|_| AuthorityError::Key)?;
        let public = public_key(pair.public_key().as_ref()).map_err(|_| AuthorityError::Key)?;
        Ok(SigningKey { pair, public })
    }

    pub(super) fn public(&self) -> &SubjectPublicKeyInfoOwned {
        &self.public
    }

    /// Signs a certificate, and returns it in PEM.
    pub(super) fn certify(
        &self,
        issuer: Name,
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
        let certificate = builder.build::<_, EcdsaSignature>(self).map_err(AuthorityError::Sign)?;
        certificate.to_pem(LineEnding::LF).map_err(sign)
    }
}

/// The subject of a user: the common name is the user, each organization is a group.
pub(super) fn subject(common_name: &str, groups: &[String]) -> Result<Name, AuthorityError> {
    let attribute = |oid, value: &str| -> Result<RelativeDistinguishedName, der::Error> {
        let value = Any::encode_from(&Utf8StringRef::new(value)?)?;
        let mut set = SetOfVec::new();
        set.insert(AttributeTypeAndValue { oid, value })?;
        Ok(RelativeDistinguishedName::from(set))
    };
    if common_name.is_empty() {
        return Err(AuthorityError::Name(String::new()));
    }
    let mut names = RdnSequence::default();
    let all = groups.iter().map(|group| (ORGANIZATION, group.as_str())).chain([(COMMON_NAME, common_name)]);
    for (oid, value) in all {
        names.push(attribute(oid, value).map_err(|error| AuthorityError::Sign(error.into()))?);
    }
    Ok(Name::hazmat_from_rdn_sequence(names))
}

fn public_key(point: &[u8]) -> Result<SubjectPublicKeyInfoOwned, der::Error> {
    let algorithm =
        AlgorithmIdentifierOwned { oid: EC_PUBLIC_KEY, parameters: Some(Any::encode_from(&P256)?) };
    Ok(SubjectPublicKeyInfoOwned { algorithm, subject_public_key: BitString::from_bytes(point)? })
}

/// Names and extensions of a certificate.
struct Profile {
    issuer: Name,
    subject: Name,
    purpose: Purpose,
}

impl BuilderProfile for Profile {
    fn get_issuer(&self, _: &Name) -> Name {
        self.issuer.clone()
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
                (true, usage, Vec::new())
            }
            Purpose::Server(_) => (false, KeyUsages::DigitalSignature.into(), vec![SERVER_AUTH]),
            Purpose::Client => (false, KeyUsages::DigitalSignature.into(), vec![CLIENT_AUTH]),
        };
        let constraints = BasicConstraints { ca: is_authority, path_len_constraint: None };
        all.push(constraints.to_extension(subject, &all)?);
        all.push(KeyUsage(usage).to_extension(subject, &all)?);
        if !purposes.is_empty() {
            all.push(ExtendedKeyUsage(purposes).to_extension(subject, &all)?);
        }
        all.push(SubjectKeyIdentifier::try_from(subject_key)?.to_extension(subject, &all)?);
        all.push(AuthorityKeyIdentifier::try_from(issuer_key)?.to_extension(subject, &all)?);
        if let Purpose::Server(names) = &self.purpose {
            all.push(SubjectAltName(names.clone()).to_extension(subject, &all)?);
        }
        Ok(all)
    }
}

/// An ECDSA signature in ASN.1.
struct EcdsaSignature(Vec<u8>);

impl SignatureBitStringEncoding for EcdsaSignature {
    fn to_bitstring(&self) -> der::Result<BitString> {
        BitString::from_bytes(&self.0)
    }
}

impl Signer<EcdsaSignature> for SigningKey {
    fn try_sign(&self, message: &[u8]) -> Result<EcdsaSignature, signature::Error> {
        let signed = self.pair.sign(&SystemRandom::new(), message);
        signed.map(|bytes| EcdsaSignature(bytes.as_ref().to_vec())).map_err(|_| signature::Error::new())
    }
}

impl DynSignatureAlgorithmIdentifier for SigningKey {
    fn signature_algorithm_identifier(&self) -> spki::Result<AlgorithmIdentifierOwned> {
        Ok(AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA256, parameters: None })
    }
}

/// The public half of a [`SigningKey`].
#[derive(Clone)]
pub(super) struct VerifyingKey(SubjectPublicKeyInfoOwned);

impl EncodePublicKey for VerifyingKey {
    fn to_public_key_der(&self) -> spki::Result<Document> {
        Ok(Document::try_from(self.0.to_der()?)?)
    }
}

impl Keypair for SigningKey {
    type VerifyingKey = VerifyingKey;

    fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.public.clone())
    }
}
