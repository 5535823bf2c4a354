//! The server's own certificate authority in the data directory, and the administrator's kubeconfig.
//!
//! | file | content |
//! |---|---|
//! | `pki/ca.key` | the private key of the authority |
//! | `pki/ca.crt` | its certificate; clients verify the server with it |
//! | `admin.kubeconfig` | a client certificate of `system:admin` in the group `system:masters` |
//!
//! The key is written before the certificate. A key without a certificate has signed nothing, and is replaced. The server's certificate
//! exists only in memory: each start signs a new one.

mod names;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use orlop_pki::authority::{Authority, AuthorityError, SignedKey};
use orlop_pki::kubeconfig::{Kubeconfig, KubeconfigUser};

pub(crate) use names::server_names;

/// The user of the administrator's certificate, and its group.
const ADMIN: (&str, &str) = ("system:admin", "system:masters");
/// A server warns if its authority ends within this time.
const WARN_BEFORE: SignedDuration = SignedDuration::from_hours(365 * 24);

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
}

/// The authority of a data directory.
pub(crate) struct OwnAuthority {
    pub(crate) authority: Arc<Authority>,
    data_dir: PathBuf,
}

impl OwnAuthority {
    /// Reads the authority, or creates it.
    pub(crate) fn open(data_dir: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let dir = data_dir.join("pki");
        let failed = |error| PkiError::Authority { dir: dir.clone(), error };
        let pair = match read(&dir)? {
            Some(pair) => pair,
            None => create(&dir, now)?,
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
        Ok(OwnAuthority { authority: Arc::new(authority), data_dir: data_dir.to_owned() })
    }

    /// Writes the administrator's kubeconfig for the server at this URL, and returns its path.
    pub(crate) fn write_admin(&self, url: &str, now: Timestamp) -> Result<PathBuf, PkiError> {
        let path = self.data_dir.join("admin.kubeconfig");
        let text = self.kubeconfig(url, ADMIN.0, &[ADMIN.1.to_owned()], now)?;
        write(&path, &text).map_err(|error| PkiError::Write { path: path.clone(), error })?;
        Ok(path)
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

/// The files of the authority; `None` if they have to be created.
fn read(dir: &Path) -> Result<Option<SignedKey>, PkiError> {
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PkiError::Read { path: path.to_owned(), error }),
    };
    let (certificate, key) = paths(dir);
    match (read(&certificate)?, read(&key)?) {
        (Some(certificate), Some(key)) => Ok(Some(SignedKey { certificate, key })),
        (Some(_), None) => Err(PkiError::NoKey { certificate, key }),
        // Without a certificate, the key has signed nothing.
        (None, Some(_) | None) => Ok(None),
    }
}

fn create(dir: &Path, now: Timestamp) -> Result<SignedKey, PkiError> {
    let failed = |error| PkiError::Authority { dir: dir.to_owned(), error };
    let pair = Authority::create(now).map_err(failed)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| PkiError::Write { path: dir.to_owned(), error })?;
    let (certificate, key) = paths(dir);
    for (path, text) in [(key, &pair.key), (certificate, &pair.certificate)] {
        write(&path, text).map_err(|error| PkiError::Write { path, error })?;
    }
    Ok(pair)
}

/// Replaces a file atomically, and syncs it. Only its owner can read the file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
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
        let first = open(dir.path()).unwrap();
        let again = open(dir.path()).unwrap();
        assert_eq!(first.authority.certificate(), again.authority.certificate());
        let admin = first.write_admin("https://10.0.0.1:6443", NOW.parse().unwrap()).unwrap();
        for path in [dir.path().join("pki/ca.crt"), dir.path().join("pki/ca.key"), admin] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
        let mode = std::fs::metadata(dir.path().join("pki")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
    }

    #[test]
    fn interrupted_creation_is_repeated_and_a_lost_key_is_reported() {
        for (case, crt, key, want) in [
            ("1 nothing", None, None, Ok(())),
            ("2 the key alone", None, Some("-----BEGIN"), Ok(())),
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
}
