//! Disk usage of the store.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bytes allocated below a directory. Files that disappear during the scan are ignored.
pub(crate) fn allocated(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let mut sum = 0;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        // st_blocks counts units of 512 bytes, whatever the block size of the file system.
        sum += metadata.blocks() * 512;
        if metadata.is_dir() {
            sum += allocated(&entry.path());
        }
    }
    sum
}

/// The bytes allocated for a file; zero when it does not exist.
pub(crate) fn allocated_file(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512)
}
