//! Helpers for the files of a volume: the collected files within the limits of a volume, paths, modes, and the
//! aggregated errors of several sources. Pure.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use bytes::Bytes;
use k8s_openapi::api::core::v1::KeyToPath;

use super::atomic_writer::{Content, Payload, cleaned};

/// The maximum number of files of a volume.
const MAX_FILES: usize = 10_000;
/// The maximum size of all files of a volume.
const MAX_BYTES: usize = 64 << 20;

/// A file of a volume. Files with the content of the same key share it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SharedContent {
    /// The bytes. They may be a secret, and are never printed.
    pub(super) bytes: Bytes,
    /// The permissions.
    pub(super) mode: u32,
    /// The owner; none for root.
    pub(super) uid: Option<u32>,
}

impl fmt::Debug for SharedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes {:o}", self.bytes.len(), self.mode)
    }
}

/// The collected files of a volume by their path, at most [`MAX_FILES`] with [`MAX_BYTES`].
#[derive(Debug, Default)]
pub(super) struct Files {
    by_path: BTreeMap<String, SharedContent>,
    bytes: usize,
}

impl Files {
    /// The files and their paths.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &SharedContent)> {
        self.by_path.iter()
    }

    /// The input of the writer, which owns each file. Content that several files share is copied here.
    pub(super) fn into_payload(self) -> Payload {
        let own = |file: SharedContent| Content { bytes: file.bytes.into(), mode: file.mode, uid: file.uid };
        self.by_path.into_iter().map(|(path, file)| (path, own(file))).collect()
    }
}

/// Adds a file at the requested path. A later file replaces an earlier one at the same path.
///
/// # Errors
/// The path leads out of the volume, or the volume has too many files or too large ones.
pub(super) fn put(into: &mut Files, path: &str, content: SharedContent) -> Result<(), String> {
    let path = cleaned(path).map_err(|error| error.to_string())?;
    let replaced = into.by_path.get(&path).map(|file| file.bytes.len());
    if replaced.is_none() && into.by_path.len() >= MAX_FILES {
        return Err(format!("the volume has more than {MAX_FILES} files"));
    }
    let bytes = into.bytes - replaced.unwrap_or_default() + content.bytes.len();
    if bytes > MAX_BYTES {
        return Err(format!("the files of the volume are larger than {} MiB", MAX_BYTES >> 20));
    }
    into.bytes = bytes;
    into.by_path.insert(path, content);
    Ok(())
}

/// Aggregates errors like upstream: a single one unchanged, several as a list without duplicates.
pub(super) fn aggregate(errors: Vec<String>) -> Result<(), String> {
    let mut seen = HashSet::new();
    let distinct: Vec<&str> = errors.iter().map(String::as_str).filter(|&error| seen.insert(error)).collect();
    match distinct.as_slice() {
        [] => Ok(()),
        [one] => Err((*one).to_owned()),
        more => Err(format!("[{}]", more.join(", "))),
    }
}

/// The mode of one file.
pub(super) fn mode_of(item: &KeyToPath, default: u32) -> u32 {
    item.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, Instant};

    use super::*;

    fn file(size: usize) -> SharedContent {
        SharedContent { bytes: vec![0; size].into(), mode: 0o644, uid: None }
    }

    #[test]
    fn number_of_files_is_bounded() {
        let mut files = Files::default();
        for at in 0..10_000 {
            put(&mut files, &format!("f{at}"), file(0)).unwrap();
        }
        let error = put(&mut files, "one-more", file(0)).unwrap_err();
        assert_eq!(error, "the volume has more than 10000 files");
        assert_eq!(put(&mut files, "./f0", file(1)), Ok(()), "a replaced file is not one more");
        assert_eq!(files.into_payload().len(), 10_000);
    }

    #[test]
    fn size_of_all_files_is_bounded() {
        let (mut files, half) = (Files::default(), file(32 << 20));
        put(&mut files, "a", half.clone()).unwrap();
        put(&mut files, "b", half.clone()).unwrap();
        put(&mut files, "b", half).unwrap();
        let error = put(&mut files, "c", file(1)).unwrap_err();
        assert_eq!(error, "the files of the volume are larger than 64 MiB");
        assert_eq!(put(&mut files, "c", file(0)), Ok(()));
        assert_eq!(put(&mut files, "b", file(1)), Ok(()));
        assert_eq!(put(&mut files, "c", file(1)), Ok(()), "the replaced file does not count");
    }

    #[test]
    fn cost_of_distinct_errors_is_linear() {
        let errors = (0..100_000).map(|at| format!("non-existent config key: {at}")).collect();
        let begun = Instant::now();
        assert!(aggregate(errors).is_err());
        // Quadratic work takes minutes.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[test]
    fn errors_are_aggregated_without_duplicates() {
        let aggregated = |errors: &[&str]| aggregate(errors.iter().map(|&error| error.to_owned()).collect());
        assert_eq!(aggregated(&[]), Ok(()));
        assert_eq!(aggregated(&["a", "a"]), Err("a".to_owned()));
        assert_eq!(aggregated(&["a", "b", "a"]), Err("[a, b]".to_owned()));
    }
}
