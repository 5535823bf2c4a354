//! The files with the authorities of client certificates.

use std::path::{Path, PathBuf};

use orlop_apiserver::peer_certificates::check_authority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{DistinguishedName, RootCertStore};

use super::{TlsError, certificates};

/// The files with the authorities of client certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientAuthorityFiles {
    /// Those of users.
    pub(crate) users: Option<PathBuf>,
    /// Those of front proxies.
    pub(crate) proxies: Option<PathBuf>,
}

/// The certificates of authorities that verify clients.
pub(super) struct ClientCertificates {
    pub(super) users: Vec<CertificateDer<'static>>,
    pub(super) proxies: Vec<CertificateDer<'static>>,
}

impl ClientCertificates {
    /// Reads the files. `own` is the server's own authority (PEM), which identifies users.
    pub(super) fn read(files: &ClientAuthorityFiles, own: Option<&str>) -> Result<Self, TlsError> {
        let read = |flag, path: &Option<PathBuf>| match path {
            Some(path) => authorities(flag, path),
            None => Ok(Vec::new()),
        };
        let mut users = read("--client-ca-file", &files.users)?;
        if let Some(pem) = own {
            let own = CertificateDer::from_pem_slice(pem.as_bytes());
            users.push(own.map_err(|error| TlsError::Own(error.to_string()))?);
        }
        let proxies = read("--requestheader-client-ca-file", &files.proxies)?;
        Ok(ClientCertificates { users, proxies })
    }

    /// The names of the authorities.
    pub(super) fn names(&self) -> Result<Vec<DistinguishedName>, String> {
        let mut roots = RootCertStore::empty();
        for certificate in self.users.iter().chain(&self.proxies) {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        Ok(roots.subjects())
    }
}

/// Reads a file with authorities, and checks that each can sign client certificates.
fn authorities(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = certificates(flag, path)?;
    check_authority(&found).map_err(|error| TlsError::File {
        flag,
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    Ok(found)
}
