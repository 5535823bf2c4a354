//! The certificate with which the server names users to aggregated API servers, and its authority, with kubeadm's names.
//!
//! | file | content |
//! |---|---|
//! | `pki/front-proxy-ca.crt`, `.key` | the authority |
//! | `pki/front-proxy-client.crt`, `.key` | a client certificate for `front-proxy-client` |
//!
//! Aggregated API servers read the authority from the ConfigMap `kube-system/extension-apiserver-authentication`, so all files can be
//! replaced: they are created again if they are lost or damaged, and the certificate in time before it ends.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use orlop_auth::front_proxy::FrontProxyConfig;
use orlop_cli::config::TlsFiles;
use orlop_pki::authority::Authority;

use super::{PkiError, client_files};

/// The common name of the certificate.
const CLIENT: &str = "front-proxy-client";
/// The name of the files of the authority.
const AUTHORITY_FILE: &str = "front-proxy-ca";
/// The name of the authority, followed by its time.
const AUTHORITY: &str = "orlop-front-proxy-ca";

/// The files in the directory `pki/`.
pub(crate) struct FrontProxy {
    authority: Authority,
    dir: PathBuf,
}

impl FrontProxy {
    /// Reads or creates the authority and the certificate. The caller has locked the directory.
    pub(super) fn open(dir: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let authority =
            match client_files::read(dir, AUTHORITY_FILE)?.and_then(|pair| Authority::read(&pair).ok()) {
                Some(authority) if authority.not_after() > now => authority,
                Some(_) | None => {
                    let failed = |error| PkiError::Authority { dir: dir.to_owned(), error };
                    let pair = Authority::create_named(AUTHORITY, now).map_err(failed)?;
                    client_files::write(dir, AUTHORITY_FILE, &pair)?;
                    Authority::read(&pair).map_err(failed)?
                }
            };
        let front_proxy = FrontProxy { authority, dir: dir.to_owned() };
        front_proxy.renew(now)?;
        Ok(front_proxy)
    }

    /// Replaces the certificate if it is due, lost or damaged.
    pub(super) fn renew(&self, now: Timestamp) -> Result<(), PkiError> {
        client_files::renew(&self.dir, CLIENT, &self.authority, CLIENT, now)
    }

    /// The file with the authority.
    pub(crate) fn authority_file(&self) -> PathBuf {
        client_files::files(&self.dir, AUTHORITY_FILE).certificate
    }

    /// The files of the certificate and its key.
    pub(crate) fn client_files(&self) -> TlsFiles {
        client_files::files(&self.dir, CLIENT)
    }
}

/// The names of the certificate and the headers, as kubeadm configures them.
pub(crate) fn names() -> FrontProxyConfig {
    let one = |name: &str| vec![name.to_owned()];
    FrontProxyConfig {
        allowed_names: one(CLIENT),
        username_headers: one("X-Remote-User"),
        uid_headers: one("X-Remote-Uid"),
        group_headers: one("X-Remote-Group"),
        extra_prefixes: one("X-Remote-Extra-"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NAMES: [&str; 4] =
        ["front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy-client.crt", "front-proxy-client.key"];

    fn contents(dir: &Path) -> Vec<String> {
        NAMES.iter().map(|name| std::fs::read_to_string(dir.join(name)).unwrap()).collect()
    }

    #[test]
    fn files_are_created_once_and_only_their_owner_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let now = "2026-11-28T00:00:00Z".parse().unwrap();
        let front_proxy = FrontProxy::open(dir.path(), now).unwrap();
        let first = contents(dir.path());
        assert_eq!(std::fs::read_to_string(front_proxy.authority_file()).unwrap(), first[0]);
        FrontProxy::open(dir.path(), now).unwrap();
        assert_eq!(contents(dir.path()), first);
        for name in NAMES {
            let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{name}");
        }
    }

    #[test]
    fn certificate_is_replaced_when_it_is_due_lost_or_damaged() {
        let (now, later) = ("2026-11-28T00:00:00Z", "2027-01-01T00:00:00Z");
        // case, the file that changes, its content, the time, whether the authority and the certificate are replaced
        for (case, file, content, time, authority, certificate) in [
            ("1 valid for long enough", "", "", later, false, false),
            ("2 due", "", "", "2027-08-01T00:00:00Z", false, true),
            ("3 the authority has ended", "", "", "2036-12-01T00:00:00Z", true, true),
            ("4 no certificate", "front-proxy-client.crt", "", later, false, true),
            ("5 no key", "front-proxy-client.key", "", later, false, true),
            ("6 a damaged key", "front-proxy-client.key", "x", later, false, true),
            ("7 a key that is no text", "front-proxy-client.key", "\u{ff}", later, false, true),
            ("8 no key of the authority", "front-proxy-ca.key", "", later, true, true),
            ("9 a damaged authority", "front-proxy-ca.crt", "x", later, true, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            FrontProxy::open(dir.path(), now.parse().unwrap()).unwrap();
            let before = contents(dir.path());
            match (file, content) {
                ("", _) => {}
                (file, "") => std::fs::remove_file(dir.path().join(file)).unwrap(),
                // One byte for each character, so that some content is not UTF-8.
                (file, content) => {
                    let bytes: Vec<u8> = content.chars().map(|char| char as u8).collect();
                    std::fs::write(dir.path().join(file), bytes).unwrap();
                }
            }
            FrontProxy::open(dir.path(), time.parse().unwrap()).unwrap();
            let after = contents(dir.path());
            assert_eq!(before[0] != after[0], authority, "{case}: the authority");
            assert_eq!(before[2] != after[2], certificate, "{case}: the certificate");
        }
    }
}
