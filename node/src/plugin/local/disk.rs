//! Mounts a disk, or an image file on a loop device, once per node. The agent records each image file before it
//! attaches a loop device, and removes the record after the device is detached.

use std::path::{Path, PathBuf};

use super::path_kind::PathKind;
use super::{Local, LocalPlugin, global, image_link};
use crate::host::Host;
use crate::mount::{Mount, Origin};
use crate::plugin::volume_queue::{VolumeQueue, plugin_error};
use crate::plugin::{Outcome, PluginError};

impl LocalPlugin {
    /// Mounts the disk, and formats it first when it is empty.
    pub(super) async fn mount_disk(
        &self,
        host: &Host,
        queue: &VolumeQueue<'_>,
        local: &Local<'_>,
        kind: PathKind,
        options: &[String],
    ) -> Result<(), PluginError> {
        let target = global(&host.paths, local.name);
        if queue.mounted(&target)?.is_some() {
            return Ok(());
        }
        let is_image = kind == PathKind::Image;
        if is_image {
            self.note_image(host, queue, local).await?;
        }
        let made = async {
            let device = if is_image { self.attach(queue, local).await? } else { local.path.clone() };
            let wanted = local.source.fs_type.as_deref();
            let fs_type = queue.prepare(&self.devices, &device, wanted, local.is_read_only).await?;
            let origin = Origin::FileSystem { fs_type, source: device.display().to_string() };
            let mount = Mount { origin, target, options: options.to_vec(), read_only: local.is_read_only };
            queue.mount_at(mount).await
        };
        let Err(error) = made.await else { return Ok(()) };
        if is_image
            && error.outcome == Outcome::Final
            && let Err(left) = self.forget_image(host, queue, local.name).await
        {
            tracing::warn!(volume = local.name, %left, "the loop device of an image that could not be mounted stays");
        }
        Err(error)
    }

    async fn note_image(
        &self,
        host: &Host,
        queue: &VolumeQueue<'_>,
        local: &Local<'_>,
    ) -> Result<(), PluginError> {
        let link = image_link(&host.paths, local.name);
        match queue.read_link(&link).await? {
            Some(noted) if noted == local.path => return Ok(()),
            // Another volume had this name: its image is detached first.
            Some(_) => self.forget_image(host, queue, local.name).await?,
            None => {}
        }
        if let Some(dir) = link.parent() {
            queue.make_dir(dir, 0o750).await?;
        }
        queue.link(&link, &local.path).await
    }

    async fn attach(&self, queue: &VolumeQueue<'_>, local: &Local<'_>) -> Result<PathBuf, PluginError> {
        let (devices, image, is_read_only) = (self.devices.clone(), local.path.clone(), local.is_read_only);
        let what = format!("attaching {} to a loop device", image.display());
        queue.run(what, move || devices.attach(&image, is_read_only)).await
    }

    /// Detaches an image that is no longer mounted.
    pub(super) async fn forget_image(
        &self,
        host: &Host,
        queue: &VolumeQueue<'_>,
        name: &str,
    ) -> Result<(), PluginError> {
        let link = image_link(&host.paths, name);
        let Some(image) = queue.read_link(&link).await? else { return Ok(()) };
        let points = host.mounts.points().map_err(plugin_error)?;
        let devices = self.devices.clone();
        let what = format!("detaching {} from its loop device", image.display());
        queue
            .run(what, move || {
                // Another volume may use the same file: its last user detaches it.
                let attached = devices.attached(&image)?;
                if points.iter().any(|point| attached.iter().any(|device| Path::new(&point.source) == device))
                {
                    return Ok(());
                }
                devices.detach(&image)
            })
            .await?;
        queue.remove_link(&link).await
    }

    /// Grows the file system to the size of the disk.
    pub(super) async fn grow_disk(
        &self,
        host: &Host,
        queue: &VolumeQueue<'_>,
        local: &Local<'_>,
        kind: PathKind,
    ) -> Result<(), PluginError> {
        let target = global(&host.paths, local.name);
        let Some(point) = queue.mounted(&target)? else {
            let message = format!("{} is not mounted, so it cannot be grown yet", target.display());
            return Err(PluginError::plain(message));
        };
        let (devices, image) = (self.devices.clone(), local.path.clone());
        let what = format!("growing the file system on {}", point.source);
        queue
            .run(what, move || {
                if kind == PathKind::Image {
                    devices.refresh(&image)?;
                }
                devices.grow(Path::new(&point.source), &target, &point.fs_type)
            })
            .await
    }
}
