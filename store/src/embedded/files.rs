//! File system operations, as a trait, so that tests can make any of them fail.
//!
//! Journal, snapshots and identity use [`Files`]. sled accesses the disk itself; its files are checked when
//! it is opened.

use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use orlop_apimachinery::input_file;
use rustix::io::Errno;

/// A directory tree.
pub trait Files: Send + Sync + 'static {
    /// Creates a directory and its parents; succeeds if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted. A directory that does not exist is empty.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// The contents of a file; `None` when it does not exist.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// A reader for a file that may be large; `None` when it does not exist.
    fn reader(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        let whole = self.read(path)?;
        Ok(whole.map(|bytes| Box::new(io::Cursor::new(bytes)) as Box<dyn io::Read>))
    }

    /// A reader like [`reader`](Self::reader) for a file that is synced: it reads what the disk has, not what is still in memory,
    /// as far as the file system can.
    fn reader_from_disk(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        self.reader(path)
    }

    /// Creates a file, or truncates an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens an existing file for appending.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Renames a file or directory within its file system, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file that is open for writing.
pub trait File: Send {
    /// Writes at the end of the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Overwrites existing bytes.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Extends the file to this length with zeros that are really written, so that overwriting them later
    /// changes only data and no metadata. The file may have grown even on failure.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Truncates the file.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes all writes durable, including the length.
    fn sync(&mut self) -> io::Result<()>;
}

/// Creates a directory, and missing ones above it, that only its owner can enter.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        create_private_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let read = input_file::open(path, fs::OpenOptions::new().read(true)).and_then(|mut file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        });
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn reader(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        match input_file::open(path, fs::OpenOptions::new().read(true)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn reader_from_disk(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        let file = match input_file::open(path, fs::OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Drops the cached pages, which are clean after a sync. A file system without a cache may refuse.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(Some(Box::new(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        // Values may be Secrets, and the directory may be one that others can read.
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = input_file::open(path, &mut options)?;
        Ok(Box::new(Open { file, end: 0 }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = input_file::open(path, fs::OpenOptions::new().write(true))?;
        let end = file.metadata()?.len();
        Ok(Box::new(Open { file, end }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The number of bytes up to the last one that is not zero.
pub(crate) fn without_zeros(bytes: &[u8]) -> usize {
    let mut end = bytes.len();
    while end > 0 {
        let step = end.min(4096);
        if bytes[end - step..end] != ZEROS[..step] {
            break;
        }
        end -= step;
    }
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

struct Open {
    file: fs::File,
    end: u64,
}

impl File for Open {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.end = self.end.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        while self.end < length {
            let step = (length - self.end).min(ZEROS.len() as u64);
            self.append(&ZEROS[..step as usize])?;
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.end = length;
        self.file.flush()
    }

    fn sync(&mut self) -> io::Result<()> {
        // fdatasync also writes the length, and skips the time stamps.
        self.file.sync_data()
    }
}

/// Whether the error means that the process, or the system, cannot open one more file.
pub(crate) fn is_no_files(error: &io::Error) -> bool {
    let found = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| found == Some(errno.raw_os_error()))
}

/// Writes a file atomically: under a temporary name, synced, renamed, and the directory synced. A reader
/// finds the old file or the new one, before and after a power failure.
pub(crate) fn write_whole(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let tmp = tmp_of(path);
    let mut file = files.create(&tmp)?;
    file.append(bytes)?;
    file.sync()?;
    files.rename(&tmp, path)?;
    files.sync_dir(parent(path))
}

/// The temporary name of a file that is being written.
pub(crate) fn tmp_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// The directory of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
