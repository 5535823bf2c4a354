//! Why an authority cannot be used.

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate of the authority cannot be read.
    #[error("the certificate of the authority cannot be read: {0}")]
    Certificate(#[source] x509_cert::der::Error),
    /// The key of the authority cannot be read.
    #[error("the private key of the authority is not an ECDSA key in PKCS #8 and PEM")]
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
    /// The system's random numbers are not available.
    #[error("no key can be generated")]
    Random,
}
