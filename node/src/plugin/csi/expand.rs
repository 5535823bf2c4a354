//! Grows the file system or device of a volume to the size of the volume with NodeExpandVolume (upstream:
//! expander.go).

use orlop_csi::capabilities::NodeRpc;
use orlop_csi::v1::{CapacityRange, NodeExpandVolumeRequest};

use super::context::secret;
use super::disk::Disk;
use super::driver::failed;
use super::layout::{BlockPaths, DevicePaths, PublishPaths};
use super::source::CsiSource;
use super::vol_data::VolumeData;
use super::{CsiPlugin, place_of};
use crate::host::Host;
use crate::plugin::{ExpandOutcome, PluginError, PodVolume};

impl CsiPlugin {
    /// Grows a volume at the pod's target or, before it is published there, at its staging path. A refusal of the
    /// driver is the cause of the error: [`PluginError::call`].
    pub(super) async fn grow(
        &self,
        host: &Host,
        volume: &PodVolume,
        bytes: i64,
    ) -> Result<ExpandOutcome, PluginError> {
        let source = CsiSource::of(&volume.spec)?;
        let handle = source.persistent_handle()?;
        let whose = "Expander.NodeExpand failed to get CSI client";
        let (driver, can) = self.known.reach(host, &source.driver, whose).await?;
        if !can.can(NodeRpc::ExpandVolume) {
            return Ok(ExpandOutcome::NotNeeded);
        }
        let secrets = secret(host, "NodeExpandSecretRef", source.expand_secret.as_ref()).await?;
        let place = place_of(volume);
        let disk = Disk::new(host, &VolumeData::of_device(&source.driver, handle).volume_name());
        let (staging, path) = if place.block {
            let (at, device) =
                (BlockPaths::of(&host.paths, &place), DevicePaths::of_block(&host.paths, &place.dir_name));
            let published = disk.is_there(&at.target).await?;
            (device.staging.clone(), if published { at.target } else { device.staging })
        } else {
            let device = DevicePaths::of_files(&host.paths, &source.driver, handle);
            let at = PublishPaths::of(&host.paths, &place);
            let published = disk.is_mounted(&at.target)?;
            (device.staging.clone(), if published { at.target } else { device.staging })
        };
        let stages = can.can(NodeRpc::StageUnstageVolume);
        let request = NodeExpandVolumeRequest {
            volume_id: handle.to_owned(),
            volume_path: path.display().to_string(),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            staging_target_path: if stages { staging.display().to_string() } else { String::new() },
            volume_capability: Some(source.capability(&can, None)),
            secrets,
        };
        let begin = "Expander.NodeExpand failed to expand the volume : ";
        let answer = driver.node_expand_volume(request).await.map_err(|error| failed(begin, error))?;
        // Drivers need not report the size.
        Ok(ExpandOutcome::To(if answer.capacity_bytes > 0 { answer.capacity_bytes } else { bytes }))
    }
}
