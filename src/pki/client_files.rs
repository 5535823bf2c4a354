//! Client certificates of the server in the directory `pki/`: `NAME.crt` and `NAME.key`. The server reads changed files.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_cli::config::TlsFiles;
use orlop_pki::authority::{Authority, SignedKey, is_due};
use orlop_pki::private_file;

use super::PkiError;

pub(super) fn files(dir: &Path, name: &str) -> TlsFiles {
    TlsFiles { certificate: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) }
}

/// Replaces the certificate of a user if it is due, lost or damaged, or if another authority has signed it.
pub(super) fn renew(
    dir: &Path,
    name: &str,
    authority: &Authority,
    user: &str,
    now: Timestamp,
) -> Result<(), PkiError> {
    let signed = read(dir, name)?.and_then(|pair| authority.signed_at(&pair));
    if signed.is_some_and(|signed| !is_due(signed, now)) {
        return Ok(());
    }
    let signed = authority.client(user, &[], now);
    let signed = signed.map_err(|error| PkiError::Authority { dir: dir.to_owned(), error })?;
    write(dir, name, &signed)
}

/// The content of the files; `None` if one of them is missing or is no text.
pub(super) fn read(dir: &Path, name: &str) -> Result<Option<SignedKey>, PkiError> {
    let TlsFiles { certificate, key } = files(dir, name);
    let read = |path: &Path| match input_file::read_text(path, MAX_CONFIG) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
            Ok(None)
        }
        Err(error) => Err(PkiError::Read { path: path.to_owned(), error }),
    };
    Ok(read(&certificate)?.zip(read(&key)?).map(|(certificate, key)| SignedKey { certificate, key }))
}

pub(super) fn write(dir: &Path, name: &str, pair: &SignedKey) -> Result<(), PkiError> {
    let TlsFiles { certificate, key } = files(dir, name);
    for (path, text) in [(key, &pair.key), (certificate, &pair.certificate)] {
        private_file::replace(&path, text).map_err(|error| PkiError::Write { path, error })?;
    }
    Ok(())
}
