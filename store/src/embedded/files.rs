//! The few things that are asked of the file system, so that tests can make any of them fail.
//!
//! Journal, snapshots and identity go through [`Files`]. sled goes its own way: what it leaves is
//! checked when it is opened.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A directory tree.
pub trait Files: Send + Sync + 'static {
    /// Makes a directory and its parents; fine when it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted. A directory that does not exist is empty.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// All bytes of a file; `None` when there is none.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// The same bit by bit, for a file that may be large.
    fn reader(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        let whole = self.read(path)?;
        Ok(whole.map(|bytes| Box::new(io::Cursor::new(bytes)) as Box<dyn io::Read>))
    }

    /// A new file; one that is there is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// A file that is there, to be written behind its end.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Moves a file or directory within its file system, over one that is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names a directory has.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file that is open for writing.
pub trait File: Send {
    /// Writes behind the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes over what is there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes it as long as this, with zeros that are written, so that writing over them later
    /// changes no more than bytes. When it fails it may have become longer.
    fn allocate(&mut self, length: u64) -> io::Result<()>;

    /// Cuts it.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes durable what was written, the length included.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
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
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn reader(&self, path: &Path) -> io::Result<Option<Box<dyn io::Read>>> {
        match fs::File::open(path) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Open { file: fs::File::create(path)?, end: 0 }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new().write(true).open(path)?;
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

/// How many bytes there are up to the last one that is not zero.
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
        // fdatasync: it writes the length too, and spares the time stamps.
        self.file.sync_data()
    }
}

/// Writes a file as a whole: under another name, synced, then renamed, then the directory synced.
/// Whoever looks, before or after a power cut, finds the old file or the new one.
pub(crate) fn write_whole(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let tmp = tmp_of(path);
    let mut file = files.create(&tmp)?;
    file.append(bytes)?;
    file.sync()?;
    files.rename(&tmp, path)?;
    files.sync_dir(parent(path))
}

/// The name under which a file is written before it gets its own.
pub(crate) fn tmp_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// The directory of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
