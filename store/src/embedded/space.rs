//! What the store takes on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that are allocated below a directory. Files that vanish meanwhile do not count.
pub(crate) fn allocated(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let mut sum = 0;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        // st_blocks counts 512 bytes whatever the file system's block size is.
        sum += metadata.blocks() * 512;
        if metadata.is_dir() {
            sum += allocated(&entry.path());
        }
    }
    sum
}

/// Bytes that are allocated for a file; none when it is not there.
pub(crate) fn allocated_file(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512)
}
