//! Determines the kind of file at the path of a local volume.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::plugin::volume_queue::advice;

/// The kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    Dir,
    /// A block device.
    Device,
    /// A regular file that may be used as a disk.
    Image,
    /// The node is virtual, so the path is not checked.
    Virtual,
}

/// Determines the kind, following symbolic links: the stable names of disks are links (`/dev/disk/by-id`). The
/// texts are upstream's.
pub(super) fn look(path: &Path, shown: &str, takes_images: bool) -> Result<PathKind, String> {
    let found = match fs::metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("path {shown:?} does not exist; make it, or correct the PersistentVolume"));
        }
        Err(error) => return Err(format!("path {shown:?} cannot be looked at: {error}{}", advice(&error))),
    };
    if found.is_dir() {
        Ok(PathKind::Dir)
    } else if found.is_block_device() {
        Ok(PathKind::Device)
    } else if found.is_file() && takes_images {
        Ok(PathKind::Image)
    } else {
        Err("only directory and block device are supported".to_owned())
    }
}
