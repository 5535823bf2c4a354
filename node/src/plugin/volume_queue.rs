//! The queue of a volume for plugins: operations on directories, mounts and others that may hang, one after the
//! other, each with a deadline. Error texts include the remedy.

use std::io;
use std::path::{Path, PathBuf};

use super::{Outcome, Place, PluginError, PodVolume};
use crate::host::Host;
use crate::mount::device::Devices;
use crate::mount::{Force, Mount, MountError, MountPoint, Mounter};
use crate::volume::VolumeSpec;
use orlop_volume::rooted_fs;

/// The maximum number of stacked mounts; all but one are those of another program.
const MOST_LAYERS: usize = 16;

/// The queue of a volume.
pub(super) struct VolumeQueue<'a> {
    host: &'a Host,
    name: String,
}

impl<'a> VolumeQueue<'a> {
    /// The queue of a volume that belongs to one pod, or of its place in a pod.
    pub(super) fn of_place(host: &'a Host, place: &Place) -> Self {
        Self { host, name: format!("{}/{}-{}", place.plugin, place.uid, place.dir_name) }
    }

    /// The queue of a volume that pods share.
    pub(super) fn of_volume(host: &'a Host, plugin: &str, volume_name: &str) -> Self {
        Self { host, name: format!("{plugin}/{volume_name}") }
    }

    /// A second queue, for a call that ends a hung one in this queue.
    pub(super) fn beside(&self) -> Self {
        Self { host: self.host, name: format!("{}#beside", self.name) }
    }

    /// Runs an operation that may hang. Errors name it by `what`.
    pub(super) async fn run<T, F>(&self, what: impl Into<String>, call: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, MountError> + Send + 'static,
    {
        let (call, what) = (move |_: &dyn Mounter| call(), what.into());
        let run = self.host.mounts.run(&self.name, what.clone(), call);
        step(&what, run).await.map_err(plugin_error)
    }

    /// The same, for a call that receives the agent's directory and works below it.
    pub(super) async fn below<T, F>(&self, what: impl Into<String>, call: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(&Path) -> Result<T, rooted_fs::RootedFsError> + Send + 'static,
    {
        let root = self.host.paths.root().to_owned();
        self.run(what, move || call(&root).map_err(MountError::from)).await
    }

    /// Creates a directory. An existing one is unchanged.
    pub(super) async fn make_dir(&self, path: &Path, mode: u32) -> Result<(), PluginError> {
        let (what, path) = (format!("making {}", path.display()), path.to_owned());
        self.below(what, move |root| rooted_fs::make_dir_below(root, &path, mode)).await
    }

    /// Removes an empty directory. A missing one is no error.
    pub(super) async fn remove_dir(&self, path: &Path) -> Result<(), PluginError> {
        let (what, path) = (format!("removing {}", path.display()), path.to_owned());
        self.below(what, move |root| rooted_fs::remove_dir_below(root, &path)).await
    }

    /// Removes a file or link. A missing one is no error.
    pub(super) async fn remove_file(&self, path: &Path) -> Result<(), PluginError> {
        let (what, path) = (format!("removing {}", path.display()), path.to_owned());
        self.below(what, move |root| rooted_fs::remove_file_below(root, &path)).await
    }

    /// Writes a file atomically.
    pub(super) async fn write_file(&self, path: &Path, bytes: Vec<u8>) -> Result<(), PluginError> {
        let (what, path) = (format!("writing {}", path.display()), path.to_owned());
        self.below(what, move |root| rooted_fs::write_file_below(root, &path, &bytes, 0o640)).await
    }

    /// Reads a file of at most 64 KiB; none when it does not exist.
    pub(super) async fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, PluginError> {
        let (what, path) = (format!("reading {}", path.display()), path.to_owned());
        let read = move |root: &Path| match rooted_fs::read_file_below(root, &path, 64 << 10) {
            Err(error) if error.is_missing() => Ok(None),
            other => other.map(Some),
        };
        self.below(what, read).await
    }

    /// Names in a directory; a missing one has none. Names that are not valid UTF-8 are skipped: the agent creates
    /// none.
    pub(super) async fn names(&self, path: &Path) -> Result<Vec<String>, PluginError> {
        let (what, path) = (format!("reading {}", path.display()), path.to_owned());
        let list = move |root: &Path| match rooted_fs::list_below(root, &path) {
            Err(error) if error.is_missing() => Ok(Vec::new()),
            other => other,
        };
        let entries = self.below(what, list).await?;
        Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// Creates a link, or replaces a link of that name. Any other file of that name stays, and is an error.
    pub(super) async fn link(&self, path: &Path, to: &Path) -> Result<(), PluginError> {
        let (what, path, to) = (format!("linking {}", path.display()), path.to_owned(), to.to_owned());
        self.below(what, move |root| {
            only_a_link(root, &path)?;
            rooted_fs::link_below(root, &path, &to)
        })
        .await
    }

    /// Removes a link. A missing one is no error; any other file stays, and is an error.
    pub(super) async fn remove_link(&self, path: &Path) -> Result<(), PluginError> {
        let (what, path) = (format!("removing {}", path.display()), path.to_owned());
        self.below(what, move |root| {
            only_a_link(root, &path)?;
            rooted_fs::remove_file_below(root, &path)
        })
        .await
    }

    /// The target of a link; none when it does not exist.
    pub(super) async fn read_link(&self, path: &Path) -> Result<Option<PathBuf>, PluginError> {
        let (what, path) = (format!("reading {}", path.display()), path.to_owned());
        let read = move |root: &Path| match rooted_fs::read_link_below(root, &path) {
            Err(error) if error.is_missing() => Ok(None),
            other => other.map(Some),
        };
        self.below(what, read).await
    }

    /// The topmost mount at exactly this path.
    pub(super) fn mounted(&self, path: &Path) -> Result<Option<MountPoint>, PluginError> {
        let points = self.host.mounts.points().map_err(plugin_error)?;
        Ok(points.into_iter().rev().find(|point| point.target == path))
    }

    /// Creates a directory of the agent and mounts on it, unless it is a mount point already. If that fails the
    /// directory is removed; an error of the removal is logged and leaves the directory for the next attempt
    /// (upstream: every plugin's SetUpAt).
    pub(super) async fn mount_at(&self, mount: Mount) -> Result<(), PluginError> {
        let target = mount.target.clone();
        self.make_dir(&target, 0o750).await?;
        // An earlier call that hung may have mounted it before it released the queue.
        if self.mounted(&target)?.is_some() {
            return Ok(());
        }
        let mounting = self.host.mounts.mount(&self.name, mount);
        let Err(error) = step("mounting", mounting).await else {
            return Ok(());
        };
        let mut error = plugin_error(error);
        match error.outcome {
            // The mount may still happen: removing the directory now would have to wait for it.
            Outcome::Uncertain => return Err(error),
            Outcome::Final => {}
        }
        if let Err(left) = self.clear(&target).await {
            tracing::warn!(target = %target.display(), %left, "what a mount that failed has left stays");
            error.outcome = Outcome::Uncertain;
        }
        Err(error)
    }

    /// Formats an empty disk, and returns the type of its file system. By default that is the existing type, or ext4
    /// (upstream: defaultFSType).
    pub(super) async fn prepare(
        &self,
        devices: &Devices,
        device: &Path,
        wanted: Option<&str>,
        is_read_only: bool,
    ) -> Result<String, PluginError> {
        let wanted = wanted.filter(|fs_type| !fs_type.is_empty()).map(str::to_owned);
        let (devices, device) = (devices.clone(), device.to_owned());
        let what = format!("probing the content of {}", device.display());
        self.run(what.clone(), move || {
            if wanted.is_none() || is_read_only {
                match (devices.file_system(&device)?, is_read_only) {
                    (Some(there), _) => return Ok(wanted.unwrap_or(there)),
                    (None, true) => {
                        let why = format!(
                            "cannot mount unformatted disk {} as we are manipulating it in read-only mode",
                            device.display()
                        );
                        return Err(MountError::Refused { what, why, source: None });
                    }
                    (None, false) => {}
                }
            }
            let fs_type = wanted.unwrap_or_else(|| "ext4".to_owned());
            devices.format_if_empty(&device, &fs_type)?;
            Ok(fs_type)
        })
        .await
    }

    /// Unmounts the topmost mount.
    pub(super) async fn unmount_once(&self, target: &Path, force: Force) -> Result<(), MountError> {
        step("unmounting", self.host.mounts.unmount(&self.name, target, force)).await
    }

    /// Unmounts all mounts at exactly this path.
    pub(super) async fn unmount(&self, target: &Path) -> Result<(), PluginError> {
        for _ in 0..MOST_LAYERS {
            if self.mounted(target)?.is_none() {
                return Ok(());
            }
            self.unmount_once(target, Force::No).await.map_err(plugin_error)?;
        }
        match self.mounted(target)? {
            None => Ok(()),
            Some(_) => Err(still_mounted(target)),
        }
    }

    /// Unmounts a directory and removes it. It must then be empty.
    pub(super) async fn clear(&self, target: &Path) -> Result<(), PluginError> {
        self.unmount(target).await?;
        self.remove_dir(target).await
    }
}

/// One step of a plugin. Tests make each of them fail once.
async fn step<T>(what: &str, call: impl Future<Output = Result<T, MountError>>) -> Result<T, MountError> {
    #[cfg(test)]
    super::testing::fault(what, super::testing::Side::Before)?;
    let answer =
        call.await.inspect_err(|error| tracing::debug!(what, %error, "a step of a volume failed"))?;
    #[cfg(test)]
    super::testing::fault(what, super::testing::Side::After)?;
    Ok(answer)
}

fn only_a_link(root: &Path, path: &Path) -> Result<(), rooted_fs::RootedFsError> {
    match rooted_fs::kind_below(root, path) {
        Ok(None | Some(rooted_fs::FileKind::Link)) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
        Ok(Some(rooted_fs::FileKind::Dir | rooted_fs::FileKind::File | rooted_fs::FileKind::Other)) => {
            Err(rooted_fs::RootedFsError::Unsafe {
                path: path.to_owned(),
                why: "it should be a link, and is none; look what it is, and remove it".to_owned(),
            })
        }
    }
}

/// The error for a mount that remains.
pub(super) fn still_mounted(target: &Path) -> PluginError {
    let target = target.display();
    PluginError::uncertain(format!(
        "{target} is still mounted; look with findmnt {target} what mounts it again"
    ))
}

/// Converts an error of this machine, and adds the remedy. An operation that continues in its worker has an
/// uncertain outcome.
pub(super) fn plugin_error(error: MountError) -> PluginError {
    let advice = match &error {
        MountError::Busy { .. } => "; stop the processes that use it, then the agent continues automatically",
        MountError::Refused { source: Some(source), .. } => advice(source),
        MountError::Refused { source: None, .. } | MountError::Hangs { .. } | MountError::Unsafe { .. } => "",
    };
    let message = format!("{error}{advice}");
    let outcome = if error.is_uncertain() { Outcome::Uncertain } else { Outcome::Final };
    PluginError { message, outcome, source: Some(Box::new(error)) }
}

/// The remedy for a system error, to append to its text.
pub(super) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "; free some space (or inodes) there, then the agent continues automatically"
        }
        io::ErrorKind::QuotaExceeded => "; the quota there is used up",
        io::ErrorKind::ReadOnlyFilesystem => "; mount that file system read-write, or use another directory",
        io::ErrorKind::PermissionDenied => "; the agent needs root",
        _ => "",
    }
}

/// The place of a pod's volume of a plugin.
pub(super) fn place_of(plugin: &str, volume: &PodVolume) -> Result<Place, PluginError> {
    let place = Place {
        uid: volume.pod.metadata.uid.clone().unwrap_or_default(),
        plugin: plugin.to_owned(),
        dir_name: volume.spec.dir_name().to_owned(),
        block: volume.spec.block,
    };
    for (what, name) in [("UID of the pod", &place.uid), ("name of the volume", &place.dir_name)] {
        is_file_name(what, name)?;
    }
    Ok(place)
}

/// Checks that a text is a valid file name. The API server validates it too, but the agent does not rely on that.
pub(super) fn is_file_name(what: &str, name: &str) -> Result<(), PluginError> {
    let is_none = matches!(name, "" | "." | "..") || name.len() > 255 || name.contains(['/', '\0']);
    match is_none {
        true => Err(PluginError::plain(format!("the {what}, {name:?}, cannot be the name of a directory"))),
        false => Ok(()),
    }
}

/// A path of the machine from a spec: `..` is refused (upstream: ValidatePathNoBacksteps), and a relative path
/// begins at the root (upstream: MakeAbsolutePath).
pub(super) fn machine_path(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.contains('\0') {
        return Err("has a NUL in it");
    }
    if text.split('/').any(|step| step == "..") {
        return Err("must not contain '..'");
    }
    Ok(Path::new("/").join(text))
}

/// Formats a volume as `volume "x"`.
pub(super) fn shown(spec: &VolumeSpec) -> String {
    format!("volume {:?}", spec.dir_name())
}
