//! The hostPath plugin: directories, files and devices of the machine, used in place (upstream:
//! pkg/volume/hostpath). Nothing is mounted or removed: a path that was created for a pod also stays.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::volume_queue::{VolumeQueue, advice, machine_path, place_of, shown};
use super::{Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::volume::{Source, VolumeSpec};

#[cfg(test)]
mod tests;

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/host-path";

/// The hostPath plugin. It stores the paths of set-up volumes in memory: nothing on disk records them, and after
/// a restart the volumes are set up again before any use.
#[derive(Default)]
pub struct HostPathPlugin {
    known: Mutex<HashMap<(String, String), PathBuf>>,
}

/// The expected type of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedType {
    Anything,
    Dir { make: bool },
    File { make: bool },
    Socket,
    CharDevice,
    BlockDevice,
}

impl ExpectedType {
    fn parse(text: &str) -> Result<Self, PluginError> {
        Ok(match text {
            "" => Self::Anything,
            "DirectoryOrCreate" => Self::Dir { make: true },
            "Directory" => Self::Dir { make: false },
            "FileOrCreate" => Self::File { make: true },
            "File" => Self::File { make: false },
            "Socket" => Self::Socket,
            "CharDevice" => Self::CharDevice,
            "BlockDevice" => Self::BlockDevice,
            other => return Err(PluginError::plain(format!("{other} is an invalid volume type"))),
        })
    }

    /// Upstream's text for a path of another type.
    fn words(self) -> &'static str {
        match self {
            Self::Anything => "there",
            Self::Dir { .. } => "a directory",
            Self::File { .. } => "a file",
            Self::Socket => "a socket file",
            Self::CharDevice => "a character device",
            Self::BlockDevice => "a block device",
        }
    }

    fn is(self, found: &fs::Metadata) -> bool {
        let file_type = found.file_type();
        match self {
            Self::Anything => true,
            Self::Dir { .. } => file_type.is_dir(),
            Self::File { .. } => file_type.is_file(),
            Self::Socket => file_type.is_socket(),
            Self::CharDevice => file_type.is_char_device(),
            Self::BlockDevice => file_type.is_block_device(),
        }
    }
}

fn source(source: &Source) -> Option<&HostPathVolumeSource> {
    match source {
        Source::Inline(volume) => volume.host_path.as_ref(),
        Source::Persistent(volume) => volume.spec.as_ref()?.host_path.as_ref(),
    }
}

fn source_of(spec: &VolumeSpec) -> Result<&HostPathVolumeSource, PluginError> {
    source(&spec.source)
        .ok_or_else(|| PluginError::plain(format!("{}: it has no hostPath source", shown(spec))))
}

#[async_trait]
impl Plugin for HostPathPlugin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_support(&self, from: &Source) -> bool {
        source(from).is_some()
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        Ok(source_of(spec)?.path.clone())
    }

    fn abilities(&self, _: &Host, _: &VolumeSpec) -> VolumeCapabilities {
        VolumeCapabilities::default()
    }

    /// The path on the machine, once the volume is set up.
    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        let known = self.known.lock();
        let path = known.get(&(place.uid.clone(), place.dir_name.clone())).cloned();
        path.unwrap_or_else(|| host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name))
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let source = source_of(&volume.spec)?;
        let place = place_of(NAME, volume)?;
        let path = machine_path(&source.path)
            .map_err(|why| PluginError::plain(format!("invalid HostPath `{}`: {why}", source.path)))?;
        let wanted = ExpectedType::parse(source.type_.as_deref().unwrap_or_default())?;
        // A virtual node has no files of its own, and does not check those of the machine.
        if wanted != ExpectedType::Anything && !host.config.is_virtual {
            let (looked_at, shown) = (path.clone(), source.path.clone());
            let what = format!("looking at {}", path.display());
            let queue = VolumeQueue::of_place(host, &place);
            queue
                .run(what, move || Ok(check(&looked_at, &shown, wanted)))
                .await?
                .map_err(PluginError::plain)?;
        }
        let mut known = self.known.lock();
        known.insert((place.uid, place.dir_name), path);
        Ok(())
    }

    async fn tear_down(&self, _: &Host, place: &Place) -> Result<(), PluginError> {
        let mut known = self.known.lock();
        known.remove(&(place.uid.clone(), place.dir_name.clone()));
        Ok(())
    }
}

/// Creates the path if requested, and checks its type. Symbolic links of the administrator are followed.
fn check(path: &Path, shown: &str, wanted: ExpectedType) -> Result<(), String> {
    let is_missing = matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
    if is_missing {
        let made = match wanted {
            ExpectedType::Dir { make: true } => make_dirs(path),
            ExpectedType::File { make: true } => make_file(path),
            ExpectedType::Anything
            | ExpectedType::Dir { make: false }
            | ExpectedType::File { make: false }
            | ExpectedType::Socket
            | ExpectedType::CharDevice
            | ExpectedType::BlockDevice => Ok(()),
        };
        made.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => "; make the directory that it is to be in",
                io::ErrorKind::AlreadyExists => "; a link is there that leads nowhere",
                _ => advice(&error),
            };
            format!("hostPath {shown} cannot be made: {error}{advice}")
        })?;
    }
    let wrong = |why: &str| format!("hostPath type check failed: {shown} is not {}{why}", wanted.words());
    match fs::metadata(path) {
        Ok(found) if wanted.is(&found) => Ok(()),
        Ok(_) => Err(wrong("")),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Err(wrong("")),
            _ => Err(wrong(&format!(": {error}"))),
        },
    }
}

/// Creates a directory and its parents, each with mode 0755 independent of the umask.
fn make_dirs(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|above| fs::metadata(above).is_err()).collect();
    for dir in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o755).create(dir) {
            Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn make_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) {
        Ok(file) => file.set_permissions(fs::Permissions::from_mode(0o644)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}
