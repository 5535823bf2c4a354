//! The directory of a log file. Other users may be able to create files in it, for example in `/tmp`: their files and links are not used.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use orlop_apimachinery::input_file;
use rustix::fs::OFlags;

/// Files are readable by their owner only: events name users and objects, and may contain objects.
const MODE: u32 = 0o600;
const ROOT: u32 = 0;

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

    /// Creates a file in place of an earlier one, or of a link.
    fn create(&self, name: &str) -> io::Result<File> {
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        OpenOptions::new().create_new(true).write(true).mode(MODE).open(self.0.join(name))
    }
}

impl LogDir for RealDir {
    fn open(&self, name: &str) -> io::Result<OpenedFile> {
        let file = open_own(&self.0.join(name))?;
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
            let mut source = input_file::open(&self.0.join(from), OpenOptions::new().read(true))?;
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

/// Opens or creates a file of this user, to append to it. Follows a link only if this user or root created it, such as `/dev/stdout`.
fn open_own(path: &Path) -> io::Result<File> {
    let user = rustix::process::geteuid().as_raw();
    let is_trusted = |owner: u32| owner == user || owner == ROOT;
    let other = |owner: u32| {
        let text = format!(
            "{} belongs to the user with the ID {owner}: remove it, or set --audit-log-path to a file in a directory that only this user \
             can write",
            path.display()
        );
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    };
    let found = std::fs::symlink_metadata(path);
    let is_link = found.as_ref().is_ok_and(|found| found.is_symlink());
    if let Ok(found) = &found
        && is_link
        && !is_trusted(found.uid())
    {
        return Err(other(found.uid()));
    }
    // A link that appears meanwhile is not followed.
    let flags = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(MODE).custom_flags(flags.bits() as i32);
    let file = options.open(path)?;
    let found = file.metadata()?;
    let has_owner = found.is_file() || found.file_type().is_fifo();
    if has_owner && !is_trusted(found.uid()) {
        return Err(other(found.uid()));
    }
    if found.is_file() && found.uid() == user && found.mode() & 0o777 & !MODE != 0 {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

impl LogFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn file_is_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        open_own(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn files_and_links_of_other_users_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [target, link, file] = ["target", "link", "file"].map(|name| dir.path().join(name));
        std::fs::write(&target, "").unwrap();
        symlink(&target, &link).unwrap();
        open_own(&link).unwrap();
        if !orlop_test_support::privileges::has_root("files of another user") {
            return;
        }
        std::fs::write(&file, "").unwrap();
        lchown(&link, Some(65_534), None).unwrap();
        chown(&file, Some(65_534), None).unwrap();
        for path in [&link, &file] {
            let error = open_own(path).unwrap_err();
            assert!(error.to_string().contains("belongs to the user with the ID 65534"), "{error}");
        }
    }

    #[test]
    fn compression_does_not_write_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "unchanged").unwrap();
        symlink(&victim, dir.path().join("log.gz.tmp")).unwrap();
        std::fs::write(dir.path().join("log"), "events").unwrap();
        RealDir(dir.path().to_owned()).compress("log", "log.gz").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "unchanged");
    }
}
