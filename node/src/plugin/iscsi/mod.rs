//! The iSCSI plugin: disks of iSCSI targets (upstream: pkg/volume/iscsi), through `iscsiadm` of open-iscsi. The
//! agent logs in to a disk and mounts it once per node, and binds it into pods from there. Before each login a
//! record is written to disk, and it is removed after everything else; [`Plugin::unmount_device`] can therefore
//! clean up after a crash between any two steps.
//!
//! * [`source`], [`record`]: the fields of a volume, and its record. Pure.
//! * [`admin`]: `iscsiadm`, replaceable in tests. [`session`]: its commands. [`disk`]: the resulting disk.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::volume_queue::{VolumeQueue, place_of};
use super::{Outcome, Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::mount::device::Devices;
use crate::mount::{Mount, Origin};
use crate::volume::{Source, VolumeSpec};

mod admin;
mod disk;
mod record;
mod session;
mod source;
#[cfg(test)]
mod tests;

pub use admin::{Admin, AdminError, Iscsiadm};
pub use disk::Looks;
use record::DiskRecord;
use source::Disk;

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/iscsi";

/// The iSCSI plugin.
pub struct IscsiPlugin {
    admin: Arc<dyn Admin>,
    looks: Looks,
    devices: Devices,
    /// Locks per target: disks of one target share its sessions, so logins and logouts are serialized.
    targets: Mutex<HashMap<String, Target>>,
}

type Target = Arc<tokio::sync::Mutex<()>>;

impl Default for IscsiPlugin {
    fn default() -> Self {
        Self::new(Arc::new(Iscsiadm::default()), Looks::default(), Devices::default())
    }
}

impl IscsiPlugin {
    /// Uses this `iscsiadm`, and searches disks in these places.
    pub fn new(admin: Arc<dyn Admin>, looks: Looks, devices: Devices) -> Self {
        Self { admin, looks, devices, targets: Mutex::default() }
    }

    fn target(&self, iqn: &str) -> Target {
        let mut targets = self.targets.lock();
        targets.retain(|_, target| Arc::strong_count(target) > 1);
        Arc::clone(targets.entry(iqn.to_owned()).or_default())
    }

    /// Logs in and mounts. `namespace` is that of the secret, for a volume that does not name one.
    async fn mount(
        &self,
        host: &Host,
        spec: &VolumeSpec,
        namespace: Option<&str>,
    ) -> Result<(), PluginError> {
        let disk = Disk::of(spec)?;
        let queue = lane_of(host, &disk.name);
        let mut record = DiskRecord::of(&disk);
        let global = record.global(&host.paths);
        if !spec.block && queue.mounted(&global)?.is_some() {
            return Ok(());
        }
        let secret = disk.secret(host, namespace).await?;
        // A logout also writes records of other disks.
        let target = self.target(&disk.iqn);
        let alone = target.lock().await;
        if let Some(before) = DiskRecord::read(host, &queue, &disk.name).await? {
            record.inherited = before.inherited;
        }
        record.write(host, &queue).await?;
        let made = async {
            let device = match host.config.is_virtual {
                true => PathBuf::from("/dev/disk/by-path").join(disk.by_path(&disk.portals[0])),
                false => self.log_in(&queue, &disk, &record, &secret).await?,
            };
            drop(alone);
            if spec.block {
                return Ok(());
            }
            let wanted = disk.fs_type.as_deref();
            let fs_type = match host.config.is_virtual {
                true => wanted.unwrap_or("ext4").to_owned(),
                false => queue.prepare(&self.devices, &device, wanted, disk.read_only).await?,
            };
            let origin = Origin::FileSystem { fs_type, source: device.display().to_string() };
            let options = spec.mount_options().to_vec();
            queue.mount_at(Mount { origin, target: global, options, read_only: disk.read_only }).await
        };
        // There is a record, and perhaps a session.
        made.await.map_err(|error: PluginError| PluginError { outcome: Outcome::Uncertain, ..error })
    }
}

fn lane_of<'a>(host: &'a Host, volume_name: &str) -> VolumeQueue<'a> {
    VolumeQueue::of_volume(host, NAME, volume_name)
}

/// The directory of the file that names the volume of a place.
fn mark_dir(host: &Host, place: &Place) -> PathBuf {
    let name = if place.block { format!("{}.device", place.dir_name) } else { place.dir_name.clone() };
    host.paths.pod_plugin(&place.uid, NAME).join(name)
}

#[async_trait]
impl Plugin for IscsiPlugin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_support(&self, source: &Source) -> bool {
        Disk::is_in(source)
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        Ok(Disk::of(spec)?.name)
    }

    /// The attach/detach controller reports it as attached on every node.
    fn abilities(&self, _: &Host, spec: &VolumeSpec) -> VolumeCapabilities {
        VolumeCapabilities {
            attach: true,
            device: true,
            mount_options: true,
            block: true,
            owned: !spec.block,
            ..VolumeCapabilities::default()
        }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        match place.block {
            true => host.paths.pod_device(&place.uid, &place.plugin, &place.dir_name),
            false => host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name),
        }
    }

    async fn mount_device(&self, host: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        let claim = spec.claim.as_ref().and_then(|claim| claim.metadata.namespace.as_deref());
        self.mount(host, spec, claim).await
    }

    async fn mount_device_for(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        self.mount(host, &volume.spec, volume.pod.metadata.namespace.as_deref()).await
    }

    async fn unmount_device(&self, host: &Host, volume_name: &str) -> Result<(), PluginError> {
        let queue = lane_of(host, volume_name);
        let Some(record) = DiskRecord::read(host, &queue, volume_name).await? else { return Ok(()) };
        queue.clear(&record.global(&host.paths)).await?;
        if !host.config.is_virtual {
            let target = self.target(&record.iqn);
            let _alone = target.lock().await;
            self.log_out(host, &queue, &record).await?;
        }
        record.remove(host, &queue).await
    }

    async fn devices(&self, host: &Host) -> Result<Vec<String>, PluginError> {
        let records = DiskRecord::all(host, &lane_of(host, "all")).await?;
        Ok(records.into_iter().map(|record| record.volume_name).collect())
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let spec = &*volume.spec;
        let disk = Disk::of(spec)?;
        let place = place_of(NAME, volume)?;
        let (queue, target) = (lane_of(host, &disk.name), self.path(host, &place));
        if !spec.block && queue.mounted(&target)?.is_some() {
            return Ok(());
        }
        let record = DiskRecord::of(&disk);
        let global = record.global(&host.paths);
        let device = match (spec.block, host.config.is_virtual) {
            (true, false) => self.find(&queue, &disk).await?,
            (true, true) => Some(PathBuf::from("/dev/disk/by-path").join(disk.by_path(&disk.portals[0]))),
            (false, _) => queue.mounted(&global)?.map(|_| global),
        };
        let Some(device) = device else {
            return Err(PluginError::plain(format!("the disk {} is not there for this node yet", disk.name)));
        };
        let mark = mark_dir(host, &place);
        queue.make_dir(&mark, 0o750).await?;
        queue.write_file(&mark.join("volume"), disk.name.clone().into_bytes()).await?;
        if spec.block {
            if let Some(dir) = target.parent() {
                queue.make_dir(dir, 0o750).await?;
            }
            return queue.link(&target, &device).await;
        }
        let read_only = spec.read_only || disk.read_only;
        let options = spec.mount_options().to_vec();
        let bound = queue.mount_at(Mount { origin: Origin::Bind(device), target, options, read_only }).await;
        if matches!(&bound, Err(error) if error.outcome == Outcome::Final)
            && let Err(left) = forget_mark(&queue, &mark).await
        {
            tracing::warn!(%left, "cannot remove the record of a volume that could not be bound");
        }
        bound
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let target = self.path(host, place);
        let queue = VolumeQueue::of_place(host, place);
        match place.block {
            true => queue.remove_link(&target).await?,
            false => queue.clear(&target).await?,
        }
        forget_mark(&queue, &mark_dir(host, place)).await
    }

    async fn found(&self, host: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        let queue = VolumeQueue::of_place(host, place);
        let at = mark_dir(host, place).join("volume");
        match queue.read_file(&at).await? {
            Some(name) => Ok(Some(String::from_utf8_lossy(&name).into_owned())),
            None => Err(PluginError::plain(format!(
                "{} is missing, so the disk of the volume is unknown",
                at.display()
            ))),
        }
    }
}

async fn forget_mark(queue: &VolumeQueue<'_>, mark: &std::path::Path) -> Result<(), PluginError> {
    queue.remove_file(&mark.join("volume")).await?;
    queue.remove_dir(mark).await
}
