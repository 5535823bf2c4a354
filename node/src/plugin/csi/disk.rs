//! Manages the directories, records and links of CSI volumes below the agent's directory. Every function here
//! does one operation on disk, in a worker of the volume's queue, because the file systems may hang; none leaves
//! the agent's directory or deletes more than it names.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::fsync;

use super::vol_data::{self, VolumeData};
use crate::host::Host;
use crate::mount::{Force, Mount, MountError, Mounter, Origin};
use crate::plugin::{Outcome, PluginError};
use orlop_volume::rooted_fs::{self, FileKind, RootedFsError};

/// Mode of directories.
const DIR_MODE: u32 = 0o750;
/// Mode of records and of files that are mount targets.
const FILE_MODE: u32 = 0o640;

/// Access to the disk for one volume.
pub(super) struct Disk<'a> {
    host: &'a Host,
    queue: String,
}

/// The record beside a target.
pub(super) enum StoredRecord {
    /// No record: the driver was not called, or everything was undone.
    Nothing,
    /// An existing record.
    Found(VolumeData),
}

impl<'a> Disk<'a> {
    /// For the volume with this name.
    pub(super) fn new(host: &'a Host, volume_name: &str) -> Self {
        Self { host, queue: format!("{}/{volume_name}", super::NAME) }
    }

    /// Creates a directory and its parents.
    pub(super) async fn make_dir(&self, dir: &Path) -> Result<(), PluginError> {
        self.run("making", dir, |root, dir| rooted_fs::make_dir_below(root, dir, DIR_MODE)).await
    }

    /// Removes an empty directory. A missing directory is no error.
    pub(super) async fn remove_dir(&self, dir: &Path) -> Result<(), PluginError> {
        self.run("removing", dir, rooted_fs::remove_dir_below).await
    }

    /// Removes a directory if it is empty.
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

    /// Names in a directory. A missing directory has none.
    pub(super) async fn names(&self, dir: &Path) -> Result<Vec<String>, PluginError> {
        self.run("reading", dir, names).await
    }

    /// Removes temporary files and links that a crash left in a directory.
    pub(super) async fn tidy(&self, dir: &Path) -> Result<(), PluginError> {
        self.run("tidying", dir, tidy).await
    }

    /// Writes a record before a driver is called. Returns true if the record existed: an earlier attempt may then
    /// have left state that this attempt must not forget, whatever its outcome.
    pub(super) async fn note(&self, at: &Path, record: &VolumeData) -> Result<bool, PluginError> {
        match self.read_record(at).await? {
            StoredRecord::Nothing => self.write_record(at, record).await.map(|()| false),
            StoredRecord::Found(found) if found.is_same_volume(record) => Ok(true),
            StoredRecord::Found(found) => Err(PluginError::plain(format!(
                "{} belongs to volume {}, which must be unmounted before {} can be mounted",
                at.display(),
                found.volume_name(),
                record.volume_name()
            ))),
        }
    }

    /// Writes a record durably and atomically: after a power loss it exists completely, with its directories, or not
    /// at all.
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
    /// It cannot be read, or is not a valid record.
    pub(super) async fn read_record(&self, at: &Path) -> Result<StoredRecord, PluginError> {
        let read = |root: &Path, at: &Path| match rooted_fs::read_file_below(root, at, vol_data::LARGEST) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        };
        let Some(bytes) = self.run("reading", at, read).await? else { return Ok(StoredRecord::Nothing) };
        VolumeData::from_bytes(&bytes).map(StoredRecord::Found).map_err(|why| {
            PluginError::plain(format!(
                "{} is damaged: {why}; unmount its volume and delete its files by hand",
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

    /// Whether a file of any type has this path. A link is not followed.
    pub(super) async fn is_there(&self, at: &Path) -> Result<bool, PluginError> {
        self.run("looking for", at, |root, at| Ok(rooted_fs::kind_below(root, at)?.is_some())).await
    }

    /// Creates a link durably. Returns false if it existed.
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

    /// Removes a link. Any other file stays, and is an error.
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

    /// Creates an empty file as a mount target.
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

    /// Removes an empty file. A device node that a driver left counts as empty.
    pub(super) async fn remove_file(&self, at: &Path) -> Result<(), PluginError> {
        let remove = |root: &Path, at: &Path| {
            if rooted_fs::kind_below(root, at)? == Some(FileKind::File) {
                // Fails when the file has contents: then it is not the agent's.
                rooted_fs::read_file_below(root, at, 0)?;
            }
            rooted_fs::remove_file_below(root, at)
        };
        self.run("removing", at, remove).await
    }

    /// Bind-mounts a device at another path.
    pub(super) async fn bind(&self, source: &Path, target: &Path) -> Result<(), PluginError> {
        let mount = Mount {
            origin: Origin::Bind(source.to_owned()),
            target: target.to_owned(),
            options: Vec::new(),
            read_only: false,
        };
        self.host.mounts.mount(&self.queue, mount).await.map_err(plugin_error)
    }

    /// Unmounts it.
    pub(super) async fn unmount(&self, target: &Path) -> Result<(), PluginError> {
        self.host.mounts.unmount(&self.queue, target, Force::No).await.map_err(plugin_error)
    }

    /// Whether exactly this path is a mount point.
    pub(super) fn is_mounted(&self, target: &Path) -> Result<bool, PluginError> {
        self.host.mounts.is_mounted(target).map_err(plugin_error)
    }

    async fn run<T, F>(&self, what: &str, path: &Path, call: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(&Path, &Path) -> Result<T, RootedFsError> + Send + 'static,
    {
        let what = format!("{what} {}", path.display());
        let (root, path) = (self.host.paths.root().to_owned(), path.to_owned());
        let call = move |_: &dyn Mounter| call(&root, &path).map_err(MountError::from);
        self.host.mounts.run(&self.queue, what, call).await.map_err(plugin_error)
    }
}

/// Converts an error of this machine. An operation that continues in its worker has an uncertain outcome.
fn plugin_error(error: MountError) -> PluginError {
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
    // All names that the agent creates are valid UTF-8.
    Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
}

fn tidy(root: &Path, dir: &Path) -> Result<(), RootedFsError> {
    for name in names(root, dir)?.iter().filter(|name| is_unfinished(name)) {
        rooted_fs::remove_file_below(root, &dir.join(name))?;
    }
    Ok(())
}

/// Whether a name is that of a temporary file or link: `.NAME.` and a number of sixteen digits
/// ([`orlop_volume::rooted_fs`]). No other name here begins with a dot.
fn is_unfinished(name: &str) -> bool {
    let number = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.')).map(|(_, number)| number);
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Syncs the directories above a file, so that their names are durable.
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
    fn temporary_names_are_recognized() {
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
