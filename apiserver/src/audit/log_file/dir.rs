//! The directory of a log file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Files are readable by their owner only: events name users and objects, and may contain objects.
const MODE: u32 = 0o600;

/// A directory. Tests inject errors.
pub(in crate::audit) trait LogDir: Send + Sync {
    /// Opens or creates a file to append to it.
    fn open(&self, name: &str) -> io::Result<OpenedFile>;
    /// Whether a file exists.
    fn exists(&self, name: &str) -> bool;
    /// Renames a file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Replaces a file by a compressed one.
    fn compress(&self, from: &str, to: &str) -> io::Result<()>;
}

/// A file that was just opened.
pub(in crate::audit) struct OpenedFile {
    pub(super) file: Box<dyn LogFile>,
    pub(super) length: u64,
    /// The file ends with a part of a line.
    pub(super) is_torn: bool,
}

/// An open file.
pub(in crate::audit) trait LogFile: Send {
    /// Appends all bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Removes the bytes beyond a length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

/// A directory on disk.
pub(in crate::audit) struct RealDir(PathBuf);

impl RealDir {
    /// The directory of a file, and the name of the file.
    ///
    /// # Errors
    /// The path names no file.
    pub(in crate::audit) fn of(path: &Path) -> io::Result<(Self, String)> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| io::Error::other("the path does not end with the name of a file"))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((RealDir(dir.to_owned()), name.to_owned()))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().create(true).write(true).truncate(true).mode(MODE).open(self.0.join(name))
    }
}

impl LogDir for RealDir {
    fn open(&self, name: &str) -> io::Result<OpenedFile> {
        let mut options = OpenOptions::new();
        let file = options.create(true).read(true).append(true).mode(MODE).open(self.0.join(name))?;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        // A pipe has no length, and cannot be read here.
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        Ok(OpenedFile { file: Box::new(file), length, is_torn: last != *b"\n" })
    }

    fn exists(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn compress(&self, from: &str, to: &str) -> io::Result<()> {
        // Complete before it has its name.
        let unfinished = format!("{to}.tmp");
        let compressed = (|| {
            let mut source = File::open(self.0.join(from))?;
            let mut target = GzEncoder::new(self.create(&unfinished)?, Compression::default());
            let mut buffer = vec![0; 64 << 10];
            loop {
                let length = source.read(&mut buffer)?;
                if length == 0 {
                    break;
                }
                target.write_all(&buffer[..length])?;
            }
            target.finish()?.sync_all()?;
            self.rename(&unfinished, to)
        })();
        match compressed {
            Ok(()) => self.remove(from),
            Err(error) => {
                // It may not exist.
                let _ = self.remove(&unfinished);
                Err(error)
            }
        }
    }
}

impl LogFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}
