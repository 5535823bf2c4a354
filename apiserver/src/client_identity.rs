//! A client certificate of this server: with `--proxy-client-cert-file`, it names users to other servers; with
//! `--kubelet-client-certificate`, it uses the API of kubelets.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_auth::file_version::FileVersion;
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// A certificate and its key in files, which may be replaced while the server runs.
#[derive(Debug)]
pub struct ClientIdentity {
    /// The flags that name the files.
    flags: [&'static str; 2],
    certificate: PathBuf,
    key: PathBuf,
    current: ArcSwap<CertifiedKey>,
    versions: Mutex<[Option<FileVersion>; 2]>,
}

impl ClientIdentity {
    /// Reads the files of two flags.
    ///
    /// # Errors
    /// The flag, the file, and why it cannot be used. The text quotes no content.
    pub fn read(flags: [&'static str; 2], certificate: PathBuf, key: PathBuf) -> Result<Self, String> {
        let versions = [FileVersion::of(&certificate), FileVersion::of(&key)];
        let current = ArcSwap::from(Arc::new(certified(flags, &certificate, &key)?));
        Ok(ClientIdentity { flags, certificate, key, current, versions: Mutex::new(versions) })
    }

    /// Reads the files again if they have changed. If they cannot be used, the previous certificate stays in use. Blocks.
    ///
    /// # Errors
    /// Why the changed files cannot be used, once for each change.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        let versions = [FileVersion::of(&self.certificate), FileVersion::of(&self.key)];
        if std::mem::replace(&mut *self.versions.lock(), versions) == versions {
            return Ok(());
        }
        self.current.store(Arc::new(certified(self.flags, &self.certificate, &self.key)?));
        Ok(())
    }
}

fn certified(flags: [&str; 2], certificate: &PathBuf, key: &PathBuf) -> Result<CertifiedKey, String> {
    let read = |flag: &str, path: &PathBuf| {
        input_file::read_text(path, MAX_CONFIG)
            .map_err(|error| format!("{flag} {}: it cannot be read: {error}", path.display()))
    };
    let [certificate_flag, key_flag] = flags;
    let text = read(certificate_flag, certificate)?;
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain
        .ok_or_else(|| format!("{certificate_flag} {}: it contains no certificate", certificate.display()))?;
    let text = read(key_flag, key)?;
    let private = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| format!("{key_flag} {}: it contains no private key", key.display()))?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider()).map_err(|error| {
        format!("{certificate_flag} {} and {key_flag} {}: {error}", certificate.display(), key.display())
    })
}

impl ResolvesClientCert for ClientIdentity {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jiff::Timestamp;
    use orlop_pki::authority::Authority;

    use super::*;

    const FLAGS: [&str; 2] = ["--proxy-client-cert-file", "--proxy-client-key-file"];

    #[test]
    fn changed_files_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("proxy.crt"), dir.path().join("proxy.key"));
        let now = Timestamp::now();
        let authority = Authority::read(&Authority::create(now).unwrap()).unwrap();
        let write = |pair: &orlop_pki::authority::SignedKey| {
            std::fs::write(&certificate, &pair.certificate).unwrap();
            std::fs::write(&key, &pair.key).unwrap();
        };
        let error = ClientIdentity::read(FLAGS, certificate.clone(), key.clone()).unwrap_err();
        assert!(error.starts_with("--proxy-client-cert-file") && error.contains("cannot be read"), "{error}");
        let (first, second) =
            (authority.client("proxy", &[], now).unwrap(), authority.client("next", &[], now).unwrap());
        write(&first);
        let identity = ClientIdentity::read(FLAGS, certificate.clone(), key.clone()).unwrap();
        let before = identity.current.load_full().cert.clone();
        identity.refresh().unwrap();
        assert_eq!(identity.current.load_full().cert, before);
        std::fs::write(&key, "no key").unwrap();
        let error = identity.refresh().unwrap_err();
        assert!(error.contains("contains no private key") && !error.contains("no key\""), "{error}");
        assert_eq!(identity.current.load_full().cert, before, "the previous one stays");
        identity.refresh().unwrap();
        // The certificate of one key with the key of the other.
        std::fs::write(&key, &second.key).unwrap();
        assert!(identity.refresh().is_err());
        write(&second);
        identity.refresh().unwrap();
        assert_ne!(identity.current.load_full().cert, before);
    }
}
