//! Certificate requests (PKCS #10, RFC 2986): the public key that a certificate is requested for, and the names that it shall contain.
//!
//! Requests come from clients. The cost of reading one is linear in its size, and that of verifying it is bounded by the sizes of the
//! keys that `ring` accepts: RSA from 2048 to 8192 bits, P-256, P-384 and Ed25519.

use std::net::IpAddr;

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_cert::der::asn1::{Ia5String, ObjectIdentifier, OctetString, SetOfVec};
use x509_cert::der::{self, Decode as _, Encode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::{Extension, ToExtension as _};
use x509_cert::name::Name;
use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq, Version};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::pem;
use crate::private_key::{ECDSA_WITH_SHA256, ECDSA_WITH_SHA384, ED25519, PrivateKey, RSA_WITH_SHA256};
use crate::subject::{names_of, subject};

const RSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_WITH_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// Why a request cannot be used. The texts are those of Go where Go has one for the case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The text is not a request in PEM.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Pem,
    /// The content is not a request in DER.
    #[error("x509: malformed certificate request: {0}")]
    Malformed(String),
    /// An extension occurs twice.
    #[error("x509: certificate request contains duplicate requested extensions")]
    Duplicate,
    /// The signature is of an algorithm that this program cannot verify.
    #[error("x509: cannot verify signature: algorithm unimplemented")]
    Algorithm,
    /// The signature is not that of the key in the request.
    #[error("{0}")]
    Signature(&'static str),
}

/// The subject alternative names of a request, by type. Names of other types are ignored, as in Go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// E-mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
}

/// A request whose parts have been read.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The common name of the subject: the user. May be empty.
    pub common_name: String,
    /// The organizations of the subject: the groups.
    pub organizations: Vec<String>,
    /// The alternative names.
    pub names: AlternativeNames,
    request: CertReq,
}

impl CertificateRequest {
    /// Reads the first block of a text in PEM. Does not verify the signature.
    ///
    /// # Errors
    /// The block is no certificate request, or damaged.
    pub fn from_pem(text: &[u8]) -> Result<Self, RequestError> {
        match pem::next(text) {
            Some((block, _)) if block.label == pem::REQUEST => Self::from_der(&block.bytes),
            Some(_) | None => Err(RequestError::Pem),
        }
    }

    fn from_der(bytes: &[u8]) -> Result<Self, RequestError> {
        let malformed = |error: der::Error| RequestError::Malformed(error.to_string());
        let request = CertReq::from_der(bytes).map_err(malformed)?;
        let (common_name, organizations) = names_of(&request.info.subject)
            .ok_or_else(|| RequestError::Malformed("the subject has an unknown alphabet".to_owned()))?;
        let mut extensions: Vec<Extension> = Vec::new();
        for attribute in request.info.attributes.iter().filter(|one| one.oid == EXTENSION_REQUEST) {
            for value in attribute.values.iter() {
                extensions.extend(value.decode_as::<Vec<Extension>>().map_err(malformed)?);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        if !extensions.iter().all(|extension| seen.insert(extension.extn_id)) {
            return Err(RequestError::Duplicate);
        }
        let names = match extensions.iter().find(|extension| extension.extn_id == SUBJECT_ALT_NAME) {
            Some(extension) => {
                let names = SubjectAltName::from_der(extension.extn_value.as_bytes()).map_err(malformed)?;
                alternative_names(&names.0)?
            }
            None => AlternativeNames::default(),
        };
        Ok(CertificateRequest { common_name, organizations, names, request })
    }

    /// Verifies that the key of the request has signed it.
    ///
    /// # Errors
    /// Another key has signed it, or the algorithm is unknown.
    pub fn verify(&self) -> Result<(), RequestError> {
        let key = &self.request.info.public_key;
        let (algorithm, failure) = verification(key, self.request.algorithm.oid)?;
        let signed =
            self.request.info.to_der().map_err(|error| RequestError::Malformed(error.to_string()))?;
        UnparsedPublicKey::new(algorithm, key.subject_public_key.raw_bytes())
            .verify(&signed, self.request.signature.raw_bytes())
            .map_err(|_| RequestError::Signature(failure))
    }

    pub(crate) fn subject(&self) -> &Name {
        &self.request.info.subject
    }

    pub(crate) fn public(&self) -> &SubjectPublicKeyInfoOwned {
        &self.request.info.public_key
    }
}

/// The algorithm of a signature, and the text for a wrong signature (upstream: Go's `checkSignature` in crypto/x509).
fn verification(
    key: &SubjectPublicKeyInfoOwned,
    algorithm: ObjectIdentifier,
) -> Result<(&'static dyn VerificationAlgorithm, &'static str), RequestError> {
    const RSA: &str = "crypto/rsa: verification error";
    const ECDSA: &str = "x509: ECDSA verification failure";
    let curve =
        || key.algorithm.parameters.as_ref().and_then(|value| value.decode_as::<ObjectIdentifier>().ok());
    let kind = key.algorithm.oid;
    if kind == RSA_ENCRYPTION {
        return match algorithm {
            RSA_WITH_SHA256 => Ok((&signature::RSA_PKCS1_2048_8192_SHA256, RSA)),
            RSA_WITH_SHA384 => Ok((&signature::RSA_PKCS1_2048_8192_SHA384, RSA)),
            RSA_WITH_SHA512 => Ok((&signature::RSA_PKCS1_2048_8192_SHA512, RSA)),
            _ => Err(RequestError::Algorithm),
        };
    }
    if kind == ED25519 && algorithm == ED25519 {
        return Ok((&signature::ED25519, "x509: Ed25519 verification failure"));
    }
    if kind != EC_PUBLIC_KEY {
        return Err(RequestError::Algorithm);
    }
    match (curve(), algorithm) {
        (Some(P256), ECDSA_WITH_SHA256) => Ok((&signature::ECDSA_P256_SHA256_ASN1, ECDSA)),
        (Some(P256), ECDSA_WITH_SHA384) => Ok((&signature::ECDSA_P256_SHA384_ASN1, ECDSA)),
        (Some(P384), ECDSA_WITH_SHA256) => Ok((&signature::ECDSA_P384_SHA256_ASN1, ECDSA)),
        (Some(P384), ECDSA_WITH_SHA384) => Ok((&signature::ECDSA_P384_SHA384_ASN1, ECDSA)),
        _ => Err(RequestError::Algorithm),
    }
}

fn alternative_names(all: &[GeneralName]) -> Result<AlternativeNames, RequestError> {
    let mut names = AlternativeNames::default();
    for name in all {
        match name {
            GeneralName::DnsName(name) => names.dns.push(name.to_string()),
            GeneralName::Rfc822Name(name) => names.emails.push(name.to_string()),
            GeneralName::UniformResourceIdentifier(name) => names.uris.push(name.to_string()),
            GeneralName::IpAddress(bytes) => {
                let bytes = bytes.as_bytes();
                let address = <[u8; 4]>::try_from(bytes)
                    .map(IpAddr::from)
                    .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
                names.addresses.push(address.map_err(|_| {
                    RequestError::Malformed(format!("an IP address of {} bytes", bytes.len()))
                })?);
            }
            GeneralName::OtherName(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::RegisteredId(_) => {}
        }
    }
    Ok(names)
}

impl AlternativeNames {
    fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.addresses.is_empty() && self.emails.is_empty() && self.uris.is_empty()
    }

    /// The extension with these names; `None` without names.
    pub(crate) fn extension(&self, subject: &Name) -> Result<Option<Extension>, der::Error> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for name in &self.dns {
            all.push(GeneralName::DnsName(Ia5String::new(name)?));
        }
        for name in &self.emails {
            all.push(GeneralName::Rfc822Name(Ia5String::new(name)?));
        }
        for address in &self.addresses {
            let bytes = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            all.push(GeneralName::IpAddress(OctetString::new(bytes)?));
        }
        for name in &self.uris {
            all.push(GeneralName::UniformResourceIdentifier(Ia5String::new(name)?));
        }
        SubjectAltName(all).to_extension(subject, &[]).map(Some)
    }
}

/// Creates a request of a user in groups, signed by its key. In PEM.
///
/// # Errors
/// The name or a group cannot be in a certificate, or the system has no random numbers.
pub fn create(
    key: &PrivateKey,
    user: &str,
    groups: &[String],
    names: &AlternativeNames,
) -> Result<String, RequestError> {
    let malformed = |error: der::Error| RequestError::Malformed(error.to_string());
    let subject = subject(user, groups)
        .ok_or_else(|| RequestError::Malformed(format!("{user:?} cannot be a user in a certificate")))?;
    let mut attributes = SetOfVec::new();
    if let Some(extension) = names.extension(&subject).map_err(malformed)? {
        let attribute = ExtensionReq(vec![extension]).try_into().map_err(malformed)?;
        attributes.insert(attribute).map_err(malformed)?;
    }
    let info = CertReqInfo { version: Version::V1, subject, public_key: key.public().clone(), attributes };
    let signed = info.to_der().map_err(malformed)?;
    let signature = key.sign_bytes(&signed).map_err(|error| RequestError::Malformed(error.to_string()))?;
    let signature = der::asn1::BitString::from_bytes(&signature).map_err(malformed)?;
    let request = CertReq { info, algorithm: key.algorithm(), signature };
    Ok(pem::encode(pem::REQUEST, &request.to_der().map_err(malformed)?))
}

#[cfg(test)]
mod tests;
