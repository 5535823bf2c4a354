//! The local plugin: directories and disks of this machine as PersistentVolumes (upstream: pkg/volume/local). A
//! directory is bound into the pod; an empty disk is formatted, then mounted once per node and bound from there.
//! Their data is never changed.
//!
//! For test environments without spare disks, a PersistentVolume with the annotation [`ANN_IMAGE_FILE`] may name
//! an image file, which becomes a disk on a loop device.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{LocalVolumeSource, PersistentVolume};
use orlop_client::names::ANN_IMAGE_FILE;

use super::volume_queue::{VolumeQueue, is_file_name, machine_path, place_of, shown};
use super::{ExpandOutcome, Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::mount::device::Devices;
use crate::mount::{Mount, Origin};
use crate::paths::Paths;
use crate::volume::{Source, VolumeSpec};

mod disk;
mod path_kind;
#[cfg(test)]
mod tests;

use path_kind::PathKind;

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/local-volume";

/// The local plugin.
#[derive(Debug, Default)]
pub struct LocalPlugin {
    devices: Devices,
}

impl LocalPlugin {
    /// Uses these tools for devices.
    pub fn new(devices: Devices) -> Self {
        Self { devices }
    }
}

/// The fields of a local volume.
struct Local<'a> {
    /// The name of the PersistentVolume.
    name: &'a str,
    source: &'a LocalVolumeSource,
    path: PathBuf,
    /// Whether a regular file may be used as a disk.
    takes_images: bool,
    /// Whether the volume is read-only in all pods.
    is_read_only: bool,
}

fn source(volume: &PersistentVolume) -> Option<&LocalVolumeSource> {
    volume.spec.as_ref()?.local.as_ref()
}

impl<'a> Local<'a> {
    fn of(spec: &'a VolumeSpec) -> Result<Self, PluginError> {
        let missing = || PluginError::plain(format!("{}: it has no local source", shown(spec)));
        let Source::Persistent(volume) = &spec.source else { return Err(missing()) };
        let source = source(volume).ok_or_else(missing)?;
        is_file_name("name of the PersistentVolume", spec.dir_name())?;
        let path = match source.path.as_str() {
            "" => Err(PluginError::plain(format!("LocalVolume volume {:?} path is empty", spec.dir_name()))),
            text => {
                machine_path(text).map_err(|why| PluginError::plain(format!("invalid path: {text} {why}")))
            }
        }?;
        let annotations = volume.metadata.annotations.as_ref();
        let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
        Ok(Self {
            name: spec.dir_name(),
            source,
            path,
            takes_images: annotations
                .and_then(|all| all.get(ANN_IMAGE_FILE))
                .is_some_and(|value| value == "true"),
            is_read_only: spec.mount_options().iter().any(|option| option == "ro")
                || !modes.is_empty() && modes.iter().all(|mode| mode == "ReadOnlyMany"),
        })
    }

    /// The kind of file at its path.
    async fn kind(&self, host: &Host, queue: &VolumeQueue<'_>) -> Result<PathKind, PluginError> {
        if host.config.is_virtual {
            return Ok(PathKind::Virtual);
        }
        let (path, shown, takes_images) = (self.path.clone(), self.source.path.clone(), self.takes_images);
        let what = format!("looking at {}", path.display());
        queue
            .run(what, move || Ok(path_kind::look(&path, &shown, takes_images)))
            .await?
            .map_err(PluginError::plain)
    }
}

/// The path of a disk's global mount.
fn global(paths: &Paths, name: &str) -> PathBuf {
    paths.plugin(NAME).join("mounts").join(name)
}

/// The path of the record of the image file that has a loop device.
fn image_link(paths: &Paths, name: &str) -> PathBuf {
    paths.plugin(NAME).join("images").join(name)
}

fn lane_of<'a>(host: &'a Host, name: &str) -> VolumeQueue<'a> {
    VolumeQueue::of_volume(host, NAME, name)
}

#[async_trait]
impl Plugin for LocalPlugin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_support(&self, from: &Source) -> bool {
        match from {
            Source::Inline(_) => false,
            Source::Persistent(volume) => source(volume).is_some(),
        }
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        Ok(Local::of(spec)?.name.to_owned())
    }

    /// A directory needs no mount for the node, but whether the path is a directory is known only after it was
    /// checked.
    fn abilities(&self, _: &Host, spec: &VolumeSpec) -> VolumeCapabilities {
        let has_files = !spec.block;
        VolumeCapabilities {
            device: has_files,
            mount_options: true,
            block: true,
            owned: has_files,
            owned_once: has_files,
            ..VolumeCapabilities::default()
        }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        match place.block {
            true => host.paths.pod_device(&place.uid, &place.plugin, &place.dir_name),
            false => host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name),
        }
    }

    async fn machine_dir(&self, host: &Host, spec: &VolumeSpec) -> Result<Option<PathBuf>, PluginError> {
        let local = Local::of(spec)?;
        let queue = lane_of(host, local.name);
        match local.kind(host, &queue).await? {
            // A link may lead anywhere.
            PathKind::Dir => Ok(Some(std::fs::canonicalize(&local.path).unwrap_or(local.path))),
            PathKind::Device | PathKind::Image | PathKind::Virtual => Ok(None),
        }
    }

    async fn mount_device(&self, host: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        let local = Local::of(spec)?;
        let queue = lane_of(host, local.name);
        match local.kind(host, &queue).await? {
            PathKind::Dir | PathKind::Virtual => Ok(()),
            kind @ (PathKind::Device | PathKind::Image) => {
                self.mount_disk(host, &queue, &local, kind, spec.mount_options()).await
            }
        }
    }

    async fn unmount_device(&self, host: &Host, volume_name: &str) -> Result<(), PluginError> {
        is_file_name("name of the PersistentVolume", volume_name)?;
        let queue = lane_of(host, volume_name);
        queue.clear(&global(&host.paths, volume_name)).await?;
        self.forget_image(host, &queue, volume_name).await
    }

    async fn devices(&self, host: &Host) -> Result<Vec<String>, PluginError> {
        let queue = lane_of(host, "all");
        let mut names = queue.names(&host.paths.plugin(NAME).join("mounts")).await?;
        names.extend(queue.names(&host.paths.plugin(NAME).join("images")).await?);
        names.sort();
        names.dedup();
        Ok(names)
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let spec = &*volume.spec;
        let local = Local::of(spec)?;
        let place = place_of(NAME, volume)?;
        let (queue, target) = (lane_of(host, local.name), self.path(host, &place));
        let kind = local.kind(host, &queue).await?;
        if spec.block {
            return link_device(&queue, &target, &local, kind).await;
        }
        if queue.mounted(&target)?.is_some() {
            return Ok(());
        }
        let origin = match kind {
            PathKind::Dir => Origin::Bind(local.path),
            PathKind::Virtual => {
                let source = local.path.display().to_string();
                Origin::FileSystem { fs_type: "none".to_owned(), source }
            }
            PathKind::Device | PathKind::Image => {
                let global = global(&host.paths, local.name);
                if queue.mounted(&global)?.is_none() {
                    return Err(PluginError::plain(format!(
                        "{} is not mounted at {} for this node yet",
                        local.path.display(),
                        global.display()
                    )));
                }
                Origin::Bind(global)
            }
        };
        let options = spec.mount_options().to_vec();
        queue
            .mount_at(Mount { origin, target, options, read_only: spec.read_only || local.is_read_only })
            .await
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let (queue, target) = (lane_of(host, &place.dir_name), self.path(host, place));
        match place.block {
            true => queue.remove_link(&target).await,
            false => queue.clear(&target).await,
        }
    }

    async fn found(&self, _: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        Ok((!place.block).then(|| place.dir_name.clone()))
    }

    async fn expand(
        &self,
        host: &Host,
        volume: &PodVolume,
        bytes: i64,
    ) -> Result<ExpandOutcome, PluginError> {
        let spec = &*volume.spec;
        let local = Local::of(spec)?;
        let queue = lane_of(host, local.name);
        match local.kind(host, &queue).await? {
            PathKind::Dir | PathKind::Virtual => Ok(ExpandOutcome::NotNeeded),
            PathKind::Device | PathKind::Image if spec.block => Ok(ExpandOutcome::NotNeeded),
            kind @ (PathKind::Device | PathKind::Image) => {
                self.grow_disk(host, &queue, &local, kind).await?;
                Ok(ExpandOutcome::To(bytes))
            }
        }
    }
}

/// Links the device itself into a pod.
async fn link_device(
    queue: &VolumeQueue<'_>,
    target: &Path,
    local: &Local<'_>,
    kind: PathKind,
) -> Result<(), PluginError> {
    match kind {
        PathKind::Device | PathKind::Virtual => {}
        PathKind::Dir | PathKind::Image => {
            return Err(PluginError::plain(format!(
                "volumeMode Block needs a block device, and {} is {}",
                local.path.display(),
                if kind == PathKind::Dir { "a directory" } else { "a regular file" }
            )));
        }
    }
    if let Some(dir) = target.parent() {
        queue.make_dir(dir, 0o750).await?;
    }
    queue.link(target, &local.path).await
}
