//! Content of volumes and snapshots: a directory `data` or a file `image` next to their record. Content is
//! created, copied and synced before the record is written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::records::Form;
use crate::tree;

/// Returns the path of the content in the directory of a volume or snapshot.
pub(crate) fn path(dir: &Path, form: Form) -> PathBuf {
    match form {
        Form::Directory => dir.join("data"),
        Form::Image | Form::Block => dir.join("image"),
    }
}

/// Creates empty content of the given size.
pub(crate) fn make(dir: &Path, form: Form, bytes: i64) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let content = path(dir, form);
    match form {
        Form::Directory => fs::create_dir_all(&content)?,
        Form::Image | Form::Block => grow(&content, bytes)?,
    }
    sync(dir)
}

/// Copies the content of another volume or snapshot.
pub(crate) fn copy(from: &Path, dir: &Path, form: Form, bytes: i64) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let content = path(dir, form);
    // Remove the leftovers of a failed attempt; otherwise the copy would end up inside them.
    match form {
        Form::Directory => tree::remove(&content)?,
        Form::Image | Form::Block => {}
    }
    let output = Command::new("cp")
        .args(["--archive", "--sparse=auto", "--reflink=auto", "--no-target-directory"])
        .arg(path(from, form))
        .arg(&content)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("cp: {}", String::from_utf8_lossy(&output.stderr).trim())));
    }
    match form {
        Form::Directory => {}
        Form::Image | Form::Block => grow(&content, bytes)?,
    }
    sync(dir)
}

/// Extends a file to at least this length. The file is sparse: blocks are allocated on write.
pub(crate) fn grow(image: &Path, bytes: i64) -> io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).open(image)?;
    let bytes = u64::try_from(bytes).map_err(io::Error::other)?;
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
    }
    file.sync_all()
}

/// Syncs the directory and everything below it to disk.
fn sync(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Returns the bytes and inodes of the file system at a path: total and free of each.
pub(crate) fn room(path: &Path) -> io::Result<[(i64, i64); 2]> {
    let room = rustix::fs::statvfs(path)?;
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    Ok([
        (
            count(room.f_blocks.saturating_mul(room.f_frsize)),
            count(room.f_bavail.saturating_mul(room.f_frsize)),
        ),
        (count(room.f_files), count(room.f_favail)),
    ])
}
