//! Validates names of files in a volume, and recognizes the names that the writer reserves. Pure.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Payload, WriteError};

const MOST_NAME: usize = 255;
const MOST_PATH: usize = 4096;

/// Validates and normalizes a path from an object (`./a//b` becomes `a/b`).
///
/// # Errors
/// It leads out of the volume, uses a reserved name, or is too long.
pub(crate) fn cleaned(path: &str) -> Result<String, WriteError> {
    let wrong = |why: String| Err(WriteError::Path(format!("invalid path: {why}")));
    if path.is_empty() {
        return wrong("must not be empty: \"\"".to_owned());
    }
    if path.starts_with('/') {
        return wrong(format!("must be relative path: {path}"));
    }
    if path.len() > MOST_PATH {
        return wrong(format!("must be less than or equal to {MOST_PATH} characters"));
    }
    let mut clean: Vec<&str> = Vec::new();
    for name in path.split('/') {
        if name == ".." {
            return wrong(format!("must not contain '..': {path}"));
        }
        if name.len() > MOST_NAME {
            return wrong(format!("filenames must be less than or equal to {MOST_NAME} characters"));
        }
        if name.contains('\0') {
            return wrong("must not contain a zero byte".to_owned());
        }
        if !name.is_empty() && name != "." {
            clean.push(name);
        }
    }
    match clean.first() {
        // Also after `./`, where the name is still reserved.
        Some(first) if first.starts_with("..") => wrong(format!("must not start with '..': {path}")),
        Some(_) => Ok(clean.join("/")),
        None => wrong(format!("must name a file: {path}")),
    }
}

/// Whether a name is reserved for the writer.
pub(super) fn is_own(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"..")
}

/// The visible names at the top of the volume.
pub(super) fn tops(payload: &Payload) -> BTreeSet<&str> {
    payload.keys().map(|path| path.split('/').next().unwrap_or_default()).collect()
}
