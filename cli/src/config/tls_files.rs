//! A certificate and its key.

use std::path::PathBuf;

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate with its chain (PEM).
    pub certificate: PathBuf,
    /// The private key (PEM).
    pub key: PathBuf,
}
