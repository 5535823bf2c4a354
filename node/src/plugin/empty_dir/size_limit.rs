//! Measures an emptyDir and compares its usage with its limit (upstream: pkg/kubelet/eviction,
//! emptyDirLimitEviction). A measurement takes bounded time: its result is a lower bound, so a limit that it
//! exceeds is exceeded in any case.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use orlop_apimachinery::quantity::Quantity;
use rustix::fs::{AtFlags, FileType, OFlags, fstat, fstatvfs, statat};
use rustix::io::Errno;

use crate::host::Host;
use crate::plugin::volume_queue::VolumeQueue;
use crate::plugin::{Place, PluginError};
use orlop_volume::rooted_fs::{Resolver, RootedFsError, Stay, Tree};

/// The bounds of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureBounds {
    /// The maximum number of files and directories.
    pub entries: u64,
    /// The maximum time.
    pub time: Duration,
}

impl Default for MeasureBounds {
    fn default() -> Self {
        Self { entries: 1_000_000, time: Duration::from_secs(10) }
    }
}

/// The usage of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirUsage {
    /// Bytes on disk, as counted by du(1): a file with several links counts once.
    pub bytes: u64,
    /// Whether everything was measured; otherwise the usage is a lower bound.
    pub is_whole: bool,
}

/// A volume that exceeds its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Its name in the pod.
    pub volume: String,
    /// The message of the pod's eviction.
    pub message: String,
}

/// The first volume of a pod that exceeds its limit. `used` has the bytes by volume name. Pure.
pub fn over_limit(pod: &Pod, used: &BTreeMap<String, u64>) -> Option<OverLimit> {
    let volumes = pod.spec.as_ref()?.volumes.iter().flatten();
    volumes.into_iter().find_map(|volume| {
        let text = &volume.empty_dir.as_ref()?.size_limit.as_ref()?.0;
        let limit = Quantity::parse(text).ok()?;
        let bytes = i64::try_from(*used.get(&volume.name)?).unwrap_or(i64::MAX);
        let is_over = !limit.is_zero() && !limit.is_negative() && Quantity::from_bytes(bytes) > limit;
        is_over.then(|| OverLimit {
            volume: volume.name.clone(),
            message: format!("Usage of EmptyDir volume {:?} exceeds the limit {text:?}. ", volume.name),
        })
    })
}

/// Measures an emptyDir. A missing directory counts as empty.
///
/// # Errors
/// It cannot be read, or the volume's queue is busy.
pub async fn measure(host: &Host, place: &Place, bounds: MeasureBounds) -> Result<DirUsage, PluginError> {
    let path = host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name);
    let queue = VolumeQueue::of_place(host, place);
    let is_mounted = queue.mounted(&path)?.is_some();
    let what = format!("measuring {}", path.display());
    queue
        .below(what, move |root| {
            let top = match Resolver::best().open_path(root, &path, OFlags::RDONLY | OFlags::DIRECTORY) {
                Err(error) if error.is_missing() => return Ok(DirUsage { bytes: 0, is_whole: true }),
                other => other?,
            };
            if is_mounted {
                // The file system belongs to the volume alone and has its own count.
                let found = fstatvfs(&top).map_err(|errno| refused(&path, errno))?;
                let bytes = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
                return Ok(DirUsage { bytes, is_whole: true });
            }
            walk(top, &path, bounds)
        })
        .await
}

fn refused(path: &Path, errno: Errno) -> RootedFsError {
    let why = format!("it cannot be measured: {errno}");
    RootedFsError::Refused { path: path.to_owned(), why, source: errno.into() }
}

/// Walks a directory that the pod may change meanwhile: entries that are missing or unreadable are skipped.
fn walk(top: OwnedFd, path: &Path, bounds: MeasureBounds) -> Result<DirUsage, RootedFsError> {
    let until = Instant::now() + bounds.time;
    let mut measured = DirUsage {
        bytes: blocks(fstat(&top).map_err(|errno| refused(path, errno))?.st_blocks),
        is_whole: true,
    };
    let mut seen = HashSet::new();
    let mut entries = 0_u64;
    let mut tree = Tree::new(top).map_err(|errno| refused(path, errno))?;
    while let Some(entry) = tree.next_entry() {
        if entries == bounds.entries || Instant::now() > until {
            return Ok(DirUsage { is_whole: false, ..measured });
        }
        entries += 1;
        let Ok((name, _)) = entry else {
            return Ok(DirUsage { is_whole: false, ..measured });
        };
        let Some(here) = tree.dir() else { break };
        let Ok(found) = statat(here, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if !is_dir && found.st_nlink > 1 && !seen.insert((found.st_dev, found.st_ino)) {
            continue;
        }
        measured.bytes = measured.bytes.saturating_add(blocks(found.st_blocks));
        if !is_dir {
            continue;
        }
        let opened =
            Resolver::best().open(here, Path::new(&name), OFlags::RDONLY | OFlags::DIRECTORY, Stay::InMount);
        match opened.and_then(|dir| tree.descend(name, dir)) {
            // It was removed or replaced, or is a mount point.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
            Err(_) => measured.is_whole = false,
        }
    }
    Ok(measured)
}

/// The blocks of stat(2) have 512 bytes each.
fn blocks(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0).saturating_mul(512)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rustix::fs::{Mode, mkdirat, open, openat};

    use super::*;

    /// A pod cannot hide files from the limit below a path that is too long to be opened.
    #[test]
    fn files_below_the_longest_path_are_measured() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let (top, name) = (dir.path().join("v"), "d".repeat(250));
        std::fs::create_dir(&top).unwrap();
        let mut deepest = open(&top, flags, Mode::empty()).unwrap();
        for _ in 0..60 {
            mkdirat(&deepest, &name, Mode::RWXU).unwrap();
            deepest = openat(&deepest, &name, flags, Mode::empty()).unwrap();
        }
        let file = openat(&deepest, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        assert_eq!(rustix::io::write(&file, &vec![1; 1 << 20]).unwrap(), 1 << 20);
        let used = walk(open(&top, flags, Mode::empty()).unwrap(), &top, MeasureBounds::default()).unwrap();
        assert!(used.is_whole && used.bytes >= 1 << 20, "{used:?}");
        orlop_volume::rooted_fs::remove_content_below(dir.path(), &top).unwrap();
    }
}
