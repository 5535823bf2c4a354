//! Publishes CSI block volumes to pods. NodePublishVolume creates a file that is the device or is bound to it;
//! the pod gets a link to the file, and a second bind mount stands beside the record (upstream: csi_block.go,
//! MapBlockVolume). The link is created before the driver is called and removed last: after a crash it shows that
//! this pod has a publication.

use orlop_csi::capabilities::NodeRpc;
use orlop_csi::v1::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest};

use super::context::{publish_context, secret};
use super::disk::{Disk, StoredRecord};
use super::driver::{asked, failed, registered, takes};
use super::layout::{BlockPaths, DevicePaths};
use super::source::CsiSource;
use super::vol_data::VolumeData;
use super::{CsiPlugin, place_of};
use crate::host::Host;
use crate::plugin::{Outcome, Place, PluginError, PodVolume};

impl CsiPlugin {
    /// Publishes a device to a pod.
    pub(super) async fn publish_block(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let (pod, spec) = (&*volume.pod, &*volume.spec);
        let source = CsiSource::of(spec)?;
        let handle = source.persistent_handle()?;
        self.known.synced()?;
        let object = self.known.object(&source.driver);
        takes(&source.driver, object.as_deref(), source.life)?;
        let whose = "blockMapper.MapPodDevice failed to get CSI client";
        let (driver, can) = self.known.reach(host, &source.driver, whose).await?;
        let context = publish_context(host, &self.known, &source.driver, handle).await?;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let reference = source.publish_secret(namespace);
        let secrets = secret(host, "NodePublishSecretRef", reference.as_ref()).await?;
        let place = place_of(volume);
        let (at, device) =
            (BlockPaths::of(&host.paths, &place), DevicePaths::of_block(&host.paths, &place.dir_name));
        let record = VolumeData::of_device(&source.driver, handle);
        let disk = Disk::new(host, &record.volume_name());
        disk.make_dir(&device.data).await?;
        disk.note(&device.record(), &record).await?;
        for dir in [&at.target, &at.map, &at.link].into_iter().filter_map(|path| path.parent()) {
            disk.make_dir(dir).await?;
        }
        let is_new = disk.make_link(&at.link, &at.target).await?;
        let staging = match can.can(NodeRpc::StageUnstageVolume) {
            true => device.staging.display().to_string(),
            false => String::new(),
        };
        let request = NodePublishVolumeRequest {
            volume_id: handle.to_owned(),
            publish_context: context,
            staging_target_path: staging,
            target_path: at.target.display().to_string(),
            volume_capability: Some(source.capability(&can, None)),
            readonly: spec.read_only,
            secrets,
            volume_context: source.attributes.clone().into_iter().collect(),
        };
        let answer = asked("NodePublishVolume", &at.target, driver.node_publish_volume(request)).await;
        if let Err(error) = answer {
            let mut error = failed("kubernetes.io/csi: blockMapper.publishVolumeForBlock failed: ", error);
            // If the link is older than this call, an earlier call may have published the device.
            if error.outcome == Outcome::Final
                && is_new
                && let Err(left) = clear(&disk, &at).await
            {
                tracing::warn!(volume = record.volume_name(), %left, "cannot clean up after a device that was not published");
                error.outcome = Outcome::Uncertain;
            }
            return Err(error);
        }
        // The device is published now: a failure from here on leaves state to clean up.
        let shown = async {
            if disk.is_mounted(&at.map)? {
                return Ok(());
            }
            disk.make_file(&at.map).await?;
            disk.bind(&at.target, &at.map).await
        };
        shown.await.map_err(|mut error: PluginError| {
            error.outcome = Outcome::Uncertain;
            error
        })
    }

    /// Unpublishes a device, using only the state on disk.
    pub(super) async fn unpublish_block(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let at = BlockPaths::of(&host.paths, place);
        let device = DevicePaths::of_block(&host.paths, &place.dir_name);
        let reading = Disk::new(host, &format!("{}/{}", place.uid, place.dir_name));
        let mut is_there = false;
        for path in [&at.link, &at.target, &at.map] {
            is_there |= reading.is_there(path).await?;
        }
        if !is_there {
            return Ok(());
        }
        let record = match reading.read_record(&device.record()).await? {
            // The record is removed after the last pod's files. The driver was not called in this case.
            StoredRecord::Nothing => return clear(&reading, &at).await,
            StoredRecord::Found(record) => record,
        };
        let disk = Disk::new(host, &record.volume_name());
        let driver =
            registered(host, &record.driver_name, "blockMapper.UnmapPodDevice failed to get CSI client")?;
        if disk.is_mounted(&at.map)? {
            disk.unmount(&at.map).await?;
        }
        disk.remove_file(&at.map).await?;
        let request = NodeUnpublishVolumeRequest {
            volume_id: record.volume_handle.clone(),
            target_path: at.target.display().to_string(),
        };
        let begin = "kubernetes.io/csi: blockMapper.unpublishVolumeForBlock failed: ";
        let answer = asked("NodeUnpublishVolume", &at.target, driver.node_unpublish_volume(request)).await;
        answer.map_err(|error| failed(begin, error))?;
        clear(&disk, &at).await
    }
}

/// Removes the files that were created before the driver was called, the link last.
async fn clear(disk: &Disk<'_>, at: &BlockPaths) -> Result<(), PluginError> {
    for path in [&at.map, &at.target] {
        if disk.is_mounted(path)? {
            let message = format!("kubernetes.io/csi: something is still mounted at {}", path.display());
            return Err(PluginError::uncertain(message));
        }
        disk.remove_file(path).await?;
    }
    if let Some(dir) = at.target.parent() {
        disk.remove_dir_if_empty(dir).await?;
    }
    disk.remove_link(&at.link).await
}
