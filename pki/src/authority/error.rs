//! Why an authority cannot be used.

use jiff::Timestamp;

use crate::request::RequestError;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate of the authority cannot be read.
    #[error("the certificate of the authority cannot be read: {0}")]
    Certificate(#[source] x509_cert::der::Error),
    /// The text contains no certificate.
    #[error("the certificate of the authority is not in PEM")]
    NoCertificate,
    /// The key of the authority cannot be read.
    #[error("the private key of the authority is not an RSA, ECDSA or Ed25519 key in PEM")]
    Key,
    /// The key is not the one of the certificate.
    #[error("the private key of the authority does not belong to its certificate")]
    OtherKey,
    /// A certificate for a name that cannot be in one.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
    /// The certificate cannot be signed.
    #[error("the certificate cannot be signed: {0}")]
    Sign(#[source] x509_cert::builder::Error),
    /// The signature of the request is not valid.
    #[error("unable to verify certificate request signature: {0}")]
    Request(#[source] RequestError),
    /// The subject of the request contains a value in an unknown alphabet.
    #[error("the subject of the certificate request cannot be read; use UTF-8 strings")]
    Subject,
    /// Usages that do not exist.
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    /// The authority has expired.
    #[error("refusing to sign a certificate that expired in the past: NotAfter={0}")]
    Ended(Timestamp),
    /// The system's random numbers are not available.
    #[error("no key can be generated")]
    Random,
}
