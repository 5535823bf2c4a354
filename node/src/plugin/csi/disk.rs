//! Directories, records and links of CSI volumes below the agent's directory. Every function here does one thing on disk, in a
//! worker of the volume's queue, because file systems below may hang; none leaves the agent's directory or deletes more than it names.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::fsync;

use super::vol_data::{self, VolumeData};
use crate::host::Host;
use crate::mount::{Force, Mount, MountError, Mounter, Origin};
use crate::plugin::{Outcome, PluginError};
use crate::rooted_fs::{self, FileKind, RootedFsError};

/// Of directories.
const DIR_MODE: u32 = 0o750;
/// Of records and of files that something is mounted on.
const FILE_MODE: u32 = 0o640;

/// The disk, as one volume uses it.
pub(super) struct Disk<'a> {
    host: &'a Host,
    queue: String,
}

/// What is beside a target.
pub(super) enum StoredRecord {
    /// Nothing: a driver was not asked, or everything was undone.
    Nothing,
    /// This.
    Found(VolumeData),
}

impl<'a> Disk<'a> {
    /// For the volume of this name.
    pub(super) fn new(host: &'a Host, volume_name: &str) -> Self {
        Self { host, queue: format!("{}/{volume_name}", super::NAME) }
    }

    /// Makes a directory and those above it.
    pub(super) async fn make_dir(&self, dir: &Path) -> Result<(), PluginError> {
        self.run("making", dir, |root, dir| rooted_fs::make_dir_below(root, dir, DIR_MODE)).await
    }

    /// Removes an empty directory. One that is not there is removed.
    pub(super) async fn remove_dir(&self, dir: &Path) -> Result<(), PluginError> {
        self.run("removing", dir, rooted_fs::remove_dir_below).await
    }

    /// Removes an empty directory, and leaves one that something is in.
    pub(super) async fn remove_dir_if_empty(&self, dir: &Path) -> Result<(), PluginError> {
        let remove = |root: &Path, dir: &Path| match rooted_fs::remove_dir_below(root, dir) {
            Err(RootedFsError::Refused { source, .. })
                if source.kind() == io::ErrorKind::DirectoryNotEmpty =>
            {
                Ok(())
            }
            removed => removed,
        };
        self.run("removing", dir, remove).await
    }

    /// Names in a directory. One that is not there has none.
    pub(super) async fn names(&self, dir: &Path) -> Result<Vec<String>, PluginError> {
        self.run("reading", dir, names).await
    }

    /// Removes what a crash left of files and links that were being written in a directory.
    pub(super) async fn tidy(&self, dir: &Path) -> Result<(), PluginError> {
        self.run("tidying", dir, tidy).await
    }

    /// Writes a record before a driver is asked. True if it was there already: then an earlier attempt may have left something
    /// that this one must not forget, however it ends.
    pub(super) async fn note(&self, at: &Path, record: &VolumeData) -> Result<bool, PluginError> {
        match self.read_record(at).await? {
            StoredRecord::Nothing => self.write_record(at, record).await.map(|()| false),
            StoredRecord::Found(found) if found.is_same_volume(record) => Ok(true),
            StoredRecord::Found(found) => Err(PluginError::plain(format!(
                "{} is of volume {}, which has to be taken away before {} can be mounted",
                at.display(),
                found.volume_name(),
                record.volume_name()
            ))),
        }
    }

    /// Writes a record so that it is there whole after a power cut, with its directories, or not at all.
    async fn write_record(&self, at: &Path, record: &VolumeData) -> Result<(), PluginError> {
        let bytes = record.to_bytes();
        let write = move |root: &Path, at: &Path| {
            rooted_fs::write_file_below(root, at, &bytes, FILE_MODE)?;
            sync_above(root, at)
        };
        self.run("writing", at, write).await
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub(super) async fn read_record(&self, at: &Path) -> Result<StoredRecord, PluginError> {
        let read = |root: &Path, at: &Path| match rooted_fs::read_file_below(root, at, vol_data::LARGEST) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        };
        let Some(bytes) = self.run("reading", at, read).await? else { return Ok(StoredRecord::Nothing) };
        VolumeData::from_bytes(&bytes).map(StoredRecord::Found).map_err(|why| {
            PluginError::plain(format!(
                "{} is damaged: {why}; what it stood for has to be taken away by hand",
                at.display()
            ))
        })
    }

    /// Removes a record.
    pub(super) async fn remove_record(&self, at: &Path) -> Result<(), PluginError> {
        let remove = |root: &Path, at: &Path| {
            if let Some(dir) = at.parent() {
                tidy(root, dir)?;
            }
            rooted_fs::remove_file_below(root, at)
        };
        self.run("removing", at, remove).await
    }

    /// Whether there is anything of this name. What it is, or where it leads, is not looked at.
    pub(super) async fn is_there(&self, at: &Path) -> Result<bool, PluginError> {
        self.run("looking for", at, |root, at| Ok(rooted_fs::kind_below(root, at)?.is_some())).await
    }

    /// Makes a link, durably. False if it was there.
    pub(super) async fn make_link(&self, at: &Path, target: &Path) -> Result<bool, PluginError> {
        let target = target.to_owned();
        let link = move |root: &Path, at: &Path| match rooted_fs::read_link_below(root, at) {
            Ok(there) if there == target => Ok(false),
            Err(error) if error.is_missing() => {
                rooted_fs::link_below(root, at, &target)?;
                sync_above(root, at)?;
                Ok(true)
            }
            Ok(there) => {
                Err(refused(at, format!("it is a link to {}, not to {}", there.display(), target.display())))
            }
            Err(error) => Err(error),
        };
        self.run("linking", at, link).await
    }

    /// Removes a link. Anything else stays, and is an error.
    pub(super) async fn remove_link(&self, at: &Path) -> Result<(), PluginError> {
        let remove = |root: &Path, at: &Path| match rooted_fs::kind_below(root, at)? {
            None => Ok(()),
            Some(FileKind::Link) => rooted_fs::remove_file_below(root, at),
            Some(FileKind::Dir | FileKind::File | FileKind::Other) => {
                Err(refused(at, "it is no link".to_owned()))
            }
        };
        self.run("removing", at, remove).await
    }

    /// Makes an empty file that something can be mounted on.
    pub(super) async fn make_file(&self, at: &Path) -> Result<(), PluginError> {
        let make = |root: &Path, at: &Path| match rooted_fs::kind_below(root, at)? {
            Some(FileKind::File) => Ok(()),
            None => rooted_fs::write_file_below(root, at, &[], FILE_MODE),
            Some(FileKind::Dir | FileKind::Link | FileKind::Other) => {
                Err(refused(at, "it is no file".to_owned()))
            }
        };
        self.run("making", at, make).await
    }

    /// Removes an empty file. A device that a driver left counts as one.
    pub(super) async fn remove_file(&self, at: &Path) -> Result<(), PluginError> {
        let remove = |root: &Path, at: &Path| {
            if rooted_fs::kind_below(root, at)? == Some(FileKind::File) {
                // Fails when something is in it: then it is not ours.
                rooted_fs::read_file_below(root, at, 0)?;
            }
            rooted_fs::remove_file_below(root, at)
        };
        self.run("removing", at, remove).await
    }

    /// Shows a device at one more place.
    pub(super) async fn bind(&self, source: &Path, target: &Path) -> Result<(), PluginError> {
        let mount = Mount {
            origin: Origin::Bind(source.to_owned()),
            target: target.to_owned(),
            options: Vec::new(),
            read_only: false,
        };
        self.host.mounts.mount(&self.queue, mount).await.map_err(told)
    }

    /// Takes that away.
    pub(super) async fn unmount(&self, target: &Path) -> Result<(), PluginError> {
        self.host.mounts.unmount(&self.queue, target, Force::No).await.map_err(told)
    }

    /// Whether something is mounted exactly there.
    pub(super) fn is_mounted(&self, target: &Path) -> Result<bool, PluginError> {
        self.host.mounts.is_mounted(target).map_err(told)
    }

    async fn run<T, F>(&self, what: &str, path: &Path, call: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(&Path, &Path) -> Result<T, RootedFsError> + Send + 'static,
    {
        let what = format!("{what} {}", path.display());
        let (root, path) = (self.host.paths.root().to_owned(), path.to_owned());
        let call = move |_: &dyn Mounter| call(&root, &path).map_err(MountError::from);
        self.host.mounts.run(&self.queue, what, call).await.map_err(told)
    }
}

/// What a failure on this machine leaves behind. One that goes on in its worker may still happen.
fn told(error: MountError) -> PluginError {
    let message = format!("kubernetes.io/csi: {error}");
    let outcome = if error.is_uncertain() { Outcome::Uncertain } else { Outcome::Final };
    PluginError { message, outcome, source: Some(Box::new(error)) }
}

fn refused(at: &Path, why: String) -> RootedFsError {
    RootedFsError::Refused { path: at.to_owned(), source: io::Error::other(why.clone()), why }
}

fn names(root: &Path, dir: &Path) -> Result<Vec<String>, RootedFsError> {
    let entries = match rooted_fs::list_below(root, dir) {
        Ok(entries) => entries,
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // Nothing of ours has a name that is no text.
    Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
}

fn tidy(root: &Path, dir: &Path) -> Result<(), RootedFsError> {
    for name in names(root, dir)?.iter().filter(|name| is_unfinished(name)) {
        rooted_fs::remove_file_below(root, &dir.join(name))?;
    }
    Ok(())
}

/// The name of a file or link that is being written: `.NAME.` and a number of sixteen digits ([`crate::rooted_fs`]). Nothing else here
/// begins with a dot.
fn is_unfinished(name: &str) -> bool {
    let number = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.')).map(|(_, number)| number);
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The directories above a file are on disk under their names.
fn sync_above(root: &Path, at: &Path) -> Result<(), RootedFsError> {
    let above: Vec<PathBuf> =
        at.ancestors().skip(1).take_while(|dir| dir.starts_with(root)).map(Path::to_owned).collect();
    for dir in above {
        let file = rooted_fs::open_dir_below(root, &dir)?;
        fsync(&file).map_err(|errno| RootedFsError::Refused {
            path: dir,
            why: format!("it cannot be synced: {errno}"),
            source: errno.into(),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_being_written() {
        for (name, expected) in [
            (".vol_data.json.0123456789abcdef", true),
            (".pv.0123456789abcdef", true),
            ("..0123456789abcdef", true),
            ("vol_data.json", false),
            ("pv.0123456789abcdef", false),
            (".pv.0123", false),
        ] {
            assert_eq!(is_unfinished(name), expected, "{name}");
        }
    }
}
