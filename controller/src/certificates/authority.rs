//! The authority that signs certificate requests: the server's own one, or the one of files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_pki::authority::{Authority, AuthorityError, SignedKey};

/// Why there is no authority.
#[derive(Debug, thiserror::Error)]
pub enum SigningAuthorityError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The files contain no authority.
    #[error(
        "--cluster-signing-cert-file {} and --cluster-signing-key-file {} are not usable: {source}",
        certificate.display(), key.display()
    )]
    Files {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        source: AuthorityError,
    },
}

/// An authority that signs.
#[derive(Clone, Debug)]
pub enum SigningAuthority {
    /// The authority of the server in this process.
    Own(Arc<Authority>),
    /// The files of `--cluster-signing-cert-file` and `--cluster-signing-key-file`.
    Files {
        /// The certificate, in PEM.
        certificate: PathBuf,
        /// The key, in PEM.
        key: PathBuf,
    },
}

impl PartialEq for SigningAuthority {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (SigningAuthority::Own(one), SigningAuthority::Own(other)) => Arc::ptr_eq(one, other),
            (
                SigningAuthority::Files { certificate, key },
                SigningAuthority::Files { certificate: other_certificate, key: other_key },
            ) => certificate == other_certificate && key == other_key,
            (SigningAuthority::Own(_), SigningAuthority::Files { .. })
            | (SigningAuthority::Files { .. }, SigningAuthority::Own(_)) => false,
        }
    }
}

impl SigningAuthority {
    /// The authority. Files are read each time, so that replaced files need no restart; few requests are signed.
    ///
    /// # Errors
    /// The files cannot be read, or do not belong together.
    pub fn load(&self) -> Result<Arc<Authority>, SigningAuthorityError> {
        match self {
            SigningAuthority::Own(authority) => Ok(Arc::clone(authority)),
            SigningAuthority::Files { certificate, key } => {
                let pair = SignedKey { certificate: read(certificate)?, key: read(key)? };
                Authority::read(&pair).map(Arc::new).map_err(|source| SigningAuthorityError::Files {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    source,
                })
            }
        }
    }
}

fn read(path: &Path) -> Result<String, SigningAuthorityError> {
    input_file::read_text(path, MAX_CONFIG)
        .map_err(|source| SigningAuthorityError::Read { path: path.to_owned(), source })
}
