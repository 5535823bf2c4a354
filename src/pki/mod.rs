//! The server's own certificate authority in the data directory, and the administrator's kubeconfig.
//!
//! | file | content |
//! |---|---|
//! | `pki/ca.key` | the private key of the authority |
//! | `pki/ca.crt` | its certificate; clients verify the server with it |
//! | `pki/lock` | empty; the process that uses the authority locks it |
//! | `admin.kubeconfig` | a client certificate of `system:admin` in the group `system:masters` |
//!
//! The files `pki/front-proxy-*` are those of [`front_proxy`], and `pki/apiserver-kubelet-client.*` is the certificate for kubelets.
//!
//! The key of the authority is never replaced. If the certificate of the authority is lost, it is restored from the administrator's kubeconfig, or created
//! again for the same key. The administrator's certificate is replaced in time before it ends. The server's certificate exists only in
//! memory: each start signs a new one.

mod client_files;
pub(crate) mod front_proxy;
mod lock;
mod names;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_auth::rbac::bootstrap::joining;
use orlop_cli::config::TlsFiles;
use orlop_pki::authority::{Authority, AuthorityError, SignedKey, is_due};
use orlop_pki::kubeconfig::{Kubeconfig, KubeconfigParts, KubeconfigUser};
use orlop_pki::private_file;

use front_proxy::FrontProxy;
use lock::LockError;
pub(crate) use names::server_names;

/// The user of the administrator's certificate, and its group.
const ADMIN: (&str, &str) = ("system:admin", "system:masters");
/// The name of the files of the certificate for kubelets, as kubeadm has it.
const KUBELET_CLIENT: &str = "apiserver-kubelet-client";
/// A server warns if its authority ends within this time.
const WARN_BEFORE: SignedDuration = SignedDuration::from_hours(365 * 24);

/// How often the certificates are checked.
const CHECK_EVERY: Duration = Duration::from_secs(12 * 3600);

/// Why the server has no authority.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    #[error("{} cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} cannot be written: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error(
        "{} exists and its key {} does not: restore the key from a backup, or remove both and distribute the new \
         administrator's kubeconfig", certificate.display(), key.display()
    )]
    NoKey { certificate: PathBuf, key: PathBuf },
    #[error("the authority in {} cannot be used: {error}", dir.display())]
    Authority { dir: PathBuf, error: AuthorityError },
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The authority of a data directory. No other process can open it until it is dropped.
pub(crate) struct OwnAuthority {
    pub(crate) authority: Arc<Authority>,
    data_dir: PathBuf,
    _lock: File,
}

impl OwnAuthority {
    /// Reads the authority, or creates it. Blocks for up to 2 s if another process uses it.
    pub(crate) fn open(data_dir: &Path, now: Timestamp) -> Result<Self, PkiError> {
        Self::open_within(data_dir, now, lock::PATIENCE)
    }

    fn open_within(data_dir: &Path, now: Timestamp, patience: Duration) -> Result<Self, PkiError> {
        let dir = data_dir.join("pki");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(|error| PkiError::Write { path: dir.clone(), error })?;
        // Before any file is read: the other process may be writing it.
        let lock = lock::take(&dir, patience)?;
        let failed = |error| PkiError::Authority { dir: dir.clone(), error };
        let pair = match read(&dir)? {
            Files::Both(pair) => pair,
            Files::Key(key) => restore(data_dir, &dir, key, now)?,
            Files::None => create(&dir, now)?,
        };
        let authority = Authority::read(&pair).map_err(failed)?;
        if authority.not_after() < now.checked_add(WARN_BEFORE).unwrap_or(Timestamp::MAX) {
            tracing::warn!(
                "the certificate authority in {} ends at {}: remove the directory to create a new one, and distribute \
                 the new administrator's kubeconfig",
                dir.display(),
                authority.not_after()
            );
        }
        Ok(OwnAuthority { authority: Arc::new(authority), data_dir: data_dir.to_owned(), _lock: lock })
    }

    /// Writes the administrator's kubeconfig for the server at this URL, unless the existing one is valid for long enough. Returns its
    /// path.
    pub(crate) fn write_admin(&self, url: &str, now: Timestamp) -> Result<PathBuf, PkiError> {
        let path = admin_path(&self.data_dir);
        if self.is_current(&path, url, now) {
            return Ok(path);
        }
        let text = self.kubeconfig(url, ADMIN.0, &[ADMIN.1.to_owned()], now)?;
        private_file::replace(&path, &text).map_err(|error| PkiError::Write { path: path.clone(), error })?;
        Ok(path)
    }

    /// The certificate for kubelets. Creates its files, or replaces them if they are due, lost or damaged.
    pub(crate) fn kubelet_client(&self, now: Timestamp) -> Result<TlsFiles, PkiError> {
        let dir = self.data_dir.join("pki");
        client_files::renew(&dir, KUBELET_CLIENT, &self.authority, joining::KUBELET_CLIENT, now)?;
        Ok(client_files::files(&dir, KUBELET_CLIENT))
    }

    /// The certificate for aggregated API servers. Reads its files, or creates them.
    pub(crate) fn front_proxy(&self, now: Timestamp) -> Result<FrontProxy, PkiError> {
        FrontProxy::open(&self.data_dir.join("pki"), now)
    }

    /// Replaces the certificates of the administrator, for kubelets and of the front proxy in time, while the server runs.
    pub(crate) async fn keep_current(self, url: String, front_proxy: Option<FrontProxy>) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let now = Timestamp::now();
            if let Err(error) = self.write_admin(&url, now) {
                tracing::warn!("the administrator's certificate cannot be renewed: {error}");
            }
            if let Err(error) = self.kubelet_client(now) {
                tracing::warn!("the certificate for kubelets cannot be renewed: {error}");
            }
            if let Some(Err(error)) = front_proxy.as_ref().map(|front_proxy| front_proxy.renew(now)) {
                tracing::warn!("the certificate for aggregated API servers cannot be renewed: {error}");
            }
        }
    }

    /// Whether the administrator's kubeconfig needs no change.
    fn is_current(&self, path: &Path, url: &str, now: Timestamp) -> bool {
        let is_private = std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 == 0);
        let parts =
            input_file::read_text(path, MAX_CONFIG).ok().and_then(|text| KubeconfigParts::read(&text));
        parts.filter(|_| is_private).is_some_and(|parts| {
            let signed = self.authority.signed_at(&parts.credentials);
            parts.server == url
                && parts.authority == self.authority.certificate()
                && signed.is_some_and(|signed| !is_due(signed, now))
        })
    }

    /// A kubeconfig with a new client certificate.
    pub(crate) fn kubeconfig(
        &self,
        url: &str,
        user: &str,
        groups: &[String],
        now: Timestamp,
    ) -> Result<String, PkiError> {
        let signed = self.authority.client(user, groups, now);
        let signed = signed.map_err(|error| PkiError::Authority { dir: self.data_dir.join("pki"), error })?;
        let authority = self.authority.certificate();
        let user = KubeconfigUser::Inline { name: user, credentials: &signed };
        Ok(Kubeconfig { server: url, authority: Some(authority), user }.to_string())
    }
}

fn paths(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("ca.crt"), dir.join("ca.key"))
}

fn admin_path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// The existing files of the authority.
enum Files {
    None,
    /// The key alone: the certificate is lost, or was not written yet.
    Key(String),
    Both(SignedKey),
}

fn read(dir: &Path) -> Result<Files, PkiError> {
    let read = |path: &Path| match input_file::read_text(path, MAX_CONFIG) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PkiError::Read { path: path.to_owned(), error }),
    };
    let (certificate, key) = paths(dir);
    match (read(&certificate)?, read(&key)?) {
        (Some(certificate), Some(key)) => Ok(Files::Both(SignedKey { certificate, key })),
        (Some(_), None) => Err(PkiError::NoKey { certificate, key }),
        (None, Some(key)) => Ok(Files::Key(key)),
        (None, None) => Ok(Files::None),
    }
}

/// Writes the lost certificate of a key again. Clients that have the certificate need the same one, and the administrator's kubeconfig
/// contains it.
fn restore(data_dir: &Path, dir: &Path, key: String, now: Timestamp) -> Result<SignedKey, PkiError> {
    let (path, _) = paths(dir);
    let text = input_file::read_text(&admin_path(data_dir), MAX_CONFIG).ok();
    let known = text.and_then(|text| KubeconfigParts::read(&text)).map(|parts| parts.authority);
    let known = known.map(|certificate| SignedKey { certificate, key: key.clone() });
    let pair = match known.filter(|pair| Authority::read(pair).is_ok()) {
        Some(pair) => pair,
        None => {
            let failed = |error| PkiError::Authority { dir: dir.to_owned(), error };
            let pair = Authority::recreate(key, now).map_err(failed)?;
            tracing::warn!(
                "{} was missing, and is created again for the existing key: distribute it to clients that verify this \
                 server with the previous one",
                path.display()
            );
            pair
        }
    };
    private_file::replace(&path, &pair.certificate).map_err(|error| PkiError::Write { path, error })?;
    Ok(pair)
}

fn create(dir: &Path, now: Timestamp) -> Result<SignedKey, PkiError> {
    let failed = |error| PkiError::Authority { dir: dir.to_owned(), error };
    let pair = Authority::create(now).map_err(failed)?;
    let (certificate, key) = paths(dir);
    for (path, text) in [(key, &pair.key), (certificate, &pair.certificate)] {
        private_file::replace(&path, text).map_err(|error| PkiError::Write { path, error })?;
    }
    Ok(pair)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NOW: &str = "2026-11-26T00:00:00Z";

    fn open(dir: &Path) -> Result<OwnAuthority, PkiError> {
        OwnAuthority::open(dir, NOW.parse().unwrap())
    }

    #[test]
    fn authority_is_created_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path()).unwrap().authority;
        let again = open(dir.path()).unwrap();
        assert_eq!(first.certificate(), again.authority.certificate());
        let admin = again.write_admin("https://10.0.0.1:6443", NOW.parse().unwrap()).unwrap();
        for path in [dir.path().join("pki/ca.crt"), dir.path().join("pki/ca.key"), admin] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
        let mode = std::fs::metadata(dir.path().join("pki")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
    }

    #[test]
    fn second_server_cannot_use_the_authority() {
        let dir = tempfile::tempdir().unwrap();
        let now = NOW.parse().unwrap();
        let first = open(dir.path()).unwrap();
        let admin = first.write_admin("https://127.0.0.1:1", now).unwrap();
        let written = std::fs::read(&admin).unwrap();
        let second = OwnAuthority::open_within(dir.path(), now, Duration::ZERO);
        let error = second.err().unwrap().to_string();
        let pki = dir.path().join("pki").display().to_string();
        assert!(error.contains(&pki) && error.contains("set --data-dir DIR"), "{error}");
        assert_eq!(std::fs::read(&admin).unwrap(), written);
        drop(first);
        let second = open(dir.path()).unwrap();
        second.write_admin("https://127.0.0.1:2", now).unwrap();
        assert_ne!(std::fs::read(&admin).unwrap(), written);
    }

    #[test]
    fn lost_key_is_reported() {
        for (case, crt, key, want) in [
            ("1 nothing", None, None, Ok(())),
            ("2 a damaged key alone", None, Some("-----BEGIN"), Err("cannot be used")),
            ("3 the certificate alone", Some("c"), None, Err("restore the key")),
            ("4 damaged", Some("c"), Some("k"), Err("cannot be used")),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("pki")).unwrap();
            for (name, text) in [("pki/ca.crt", crt), ("pki/ca.key", key)] {
                if let Some(text) = text {
                    std::fs::write(dir.path().join(name), text).unwrap();
                }
            }
            let got = open(dir.path()).map(|_| ()).map_err(|error| error.to_string());
            match want {
                Ok(()) => assert_eq!(got, Ok(()), "{case}"),
                Err(part) => assert!(got.unwrap_err().contains(part), "{case}"),
            }
        }
    }

    #[test]
    fn lost_certificate_is_restored_for_the_same_key() {
        for has_kubeconfig in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let own = open(dir.path()).unwrap();
            let admin = own.write_admin("https://a:1", NOW.parse().unwrap()).unwrap();
            let first = own.authority.clone();
            drop(own);
            std::fs::remove_file(dir.path().join("pki/ca.crt")).unwrap();
            if !has_kubeconfig {
                std::fs::remove_file(admin).unwrap();
            }
            let later = OwnAuthority::open(dir.path(), "2026-12-01T00:00:00Z".parse().unwrap());
            let later = later.unwrap().authority;
            assert_eq!(later.digest().unwrap(), first.digest().unwrap());
            let is_same = later.certificate() == first.certificate();
            assert_eq!(is_same, has_kubeconfig);
            let again = open(dir.path()).unwrap().authority;
            assert_eq!(again.certificate(), later.certificate(), "it is written");
        }
    }

    #[test]
    fn certificate_of_the_administrator_is_replaced_only_when_it_is_due() {
        let dir = tempfile::tempdir().unwrap();
        let own = open(dir.path()).unwrap();
        let written = |url: &str, time: &str| {
            let path = own.write_admin(url, time.parse().unwrap()).unwrap();
            std::fs::read_to_string(path).unwrap()
        };
        let url = "https://10.0.0.1:6443";
        let first = written(url, NOW);
        assert_eq!(written(url, "2027-07-01T00:00:00Z"), first, "valid for long enough");
        assert_ne!(written("https://10.0.0.2:6443", NOW), first, "another address");
        let first = written(url, NOW);
        let second = written(url, "2027-08-01T00:00:00Z");
        assert_ne!(second, first, "due");
        std::fs::write(admin_path(dir.path()), "damaged").unwrap();
        assert_ne!(written(url, "2027-08-02T00:00:00Z"), second);
    }
}
