//! A client certificate in files, as kubeconfigs name them. Each new connection reads the files, so that a renewed certificate needs no
//! restart, as with upstream's clients.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::config::AuthInfo;
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The files, and the certificate that they contained last.
pub(super) struct IdentityFile {
    certificate: PathBuf,
    key: PathBuf,
    last: Mutex<Option<Arc<CertifiedKey>>>,
}

impl fmt::Debug for IdentityFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IdentityFile").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl IdentityFile {
    /// The files of a kubeconfig's user; `None` if it has no certificate in files.
    pub(super) fn of(user: &AuthInfo) -> Option<Self> {
        let (certificate, key) = (user.client_certificate.as_ref()?, user.client_key.as_ref()?);
        // Data takes precedence over files.
        let is_data = user.client_certificate_data.is_some() || user.client_key_data.is_some();
        (!is_data).then(|| IdentityFile {
            certificate: certificate.into(),
            key: key.into(),
            last: Mutex::default(),
        })
    }

    fn read(&self) -> Result<CertifiedKey, String> {
        let named = |path: &Path, error: String| format!("{}: {error}", path.display());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&self.certificate)
            .map_err(|error| named(&self.certificate, error.to_string()))?
            .collect();
        let chain = chain.map_err(|error| named(&self.certificate, error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| named(&self.key, error.to_string()))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| named(&self.certificate, error.to_string()))
    }
}

impl ResolvesClientCert for IdentityFile {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let mut last = self.last.lock();
        match self.read() {
            Ok(read) => *last = Some(Arc::new(read)),
            // While the files are replaced, the former certificate is still valid.
            Err(error) => tracing::warn!("the client certificate cannot be read: {error}"),
        }
        last.clone().filter(|key| key.key.choose_scheme(schemes).is_some())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_certificates_in_files_are_read_again() {
        let file = || Some("/x".to_owned());
        let user = AuthInfo { client_certificate: file(), client_key: file(), ..AuthInfo::default() };
        assert!(IdentityFile::of(&user).is_some());
        assert!(IdentityFile::of(&AuthInfo { client_key: None, ..user.clone() }).is_none());
        assert!(IdentityFile::of(&AuthInfo { client_certificate_data: file(), ..user.clone() }).is_none());
        // Without a file, no certificate is sent, and the server answers 401.
        assert!(IdentityFile::of(&user).unwrap().resolve(&[], &[SignatureScheme::ED25519]).is_none());
    }
}
