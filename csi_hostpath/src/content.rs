//! What volumes and snapshots hold: a directory `data` or a file `image` beside their record, made, copied
//! and synced before the record is written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::records::Form;

/// Where the content is in the directory of a volume or snapshot.
pub(crate) fn path(dir: &Path, form: Form) -> PathBuf {
    match form {
        Form::Directory => dir.join("data"),
        Form::Image | Form::Block => dir.join("image"),
    }
}

/// Makes an empty content of a size.
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
    // What an attempt that failed left would be copied into otherwise.
    match form {
        Form::Directory => match fs::remove_dir_all(&content) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        },
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

/// Makes a file at least so long. It takes room when it is written to.
pub(crate) fn grow(image: &Path, bytes: i64) -> io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).open(image)?;
    let bytes = u64::try_from(bytes).map_err(io::Error::other)?;
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
    }
    file.sync_all()
}

/// Everything below has reached the disk.
fn sync(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Bytes and inodes of the file system at a path: total and free each.
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
