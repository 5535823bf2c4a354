//! Stages volumes for the node: NodeStageVolume and NodeUnstageVolume. Created in this order: the directories,
//! the record, the driver's files; removed in the reverse order, the directories last. For a driver that does not
//! stage there are only directory and record.

use orlop_csi::capabilities::NodeRpc;
use orlop_csi::v1::{NodeStageVolumeRequest, NodeUnstageVolumeRequest};

use super::cleanup::clear;
use super::context::{publish_context, secret};
use super::disk::{Disk, StoredRecord};
use super::driver::{asked, failed, takes};
use super::layout::DevicePaths;
use super::source::{CsiSource, SEPARATOR};
use super::vol_data::VolumeData;
use super::{CsiPlugin, reconstruct};
use crate::host::Host;
use crate::plugin::{Outcome, PluginError};
use crate::volume::VolumeSpec;

impl CsiPlugin {
    /// Stages a volume for the pods of this node. The driver is called even if the volume is staged: the call is
    /// idempotent, and only the driver knows the state.
    pub(super) async fn stage(
        &self,
        host: &Host,
        spec: &VolumeSpec,
        group: Option<i64>,
    ) -> Result<(), PluginError> {
        let source = CsiSource::of(spec)?;
        let handle = source.persistent_handle()?;
        self.known.synced()?;
        let object = self.known.object(&source.driver);
        takes(&source.driver, object.as_deref(), source.life)?;
        let whose = "attacher.MountDevice failed to create newCsiDriverClient";
        let (driver, can) = self.known.reach(host, &source.driver, whose).await?;
        let context = publish_context(host, &self.known, &source.driver, handle).await?;
        let stages = can.can(NodeRpc::StageUnstageVolume);
        let reference = source.stage_secret.as_ref().filter(|_| stages);
        let secrets = secret(host, "NodeStageSecretRef", reference).await?;
        let at = match spec.block {
            true => DevicePaths::of_block(&host.paths, spec.dir_name()),
            false => DevicePaths::of_files(&host.paths, &source.driver, handle),
        };
        let record = VolumeData::of_device(&source.driver, handle);
        let disk = Disk::new(host, &record.volume_name());
        disk.make_dir(&at.data).await?;
        let was_there = disk.note(&at.record(), &record).await?;
        disk.make_dir(&at.staging).await?;
        if !stages {
            return Ok(());
        }
        let request = NodeStageVolumeRequest {
            volume_id: handle.to_owned(),
            publish_context: context,
            staging_target_path: at.staging.display().to_string(),
            volume_capability: Some(source.capability(&can, group)),
            secrets,
            volume_context: source.attributes.clone().into_iter().collect(),
        };
        let Err(error) = asked("NodeStageVolume", &at.staging, driver.node_stage_volume(request)).await
        else {
            return Ok(());
        };
        let mut error = failed("", error);
        // If the record is older than this call, an earlier call may have staged the volume.
        if error.outcome == Outcome::Final
            && !was_there
            && let Err(left) = clear(&disk, &at).await
        {
            tracing::warn!(volume = record.volume_name(), %left, "cannot clean up after a volume that was not staged");
            error.outcome = Outcome::Uncertain;
        }
        Err(error)
    }

    /// Unstages a volume, using only the state on disk.
    pub(super) async fn unstage(&self, host: &Host, volume_name: &str) -> Result<(), PluginError> {
        let disk = Disk::new(host, volume_name);
        let (at, record) = match device(host, &disk, volume_name).await? {
            // The record is removed last, but directories may be left.
            (at, StoredRecord::Nothing) => return clear(&disk, &at).await,
            (at, StoredRecord::Found(record)) => (at, record),
        };
        for dir in &at.pods {
            disk.tidy(dir).await?;
            if let Some(pod) = disk.names(dir).await?.first() {
                let message = format!("volume {volume_name} is still published for the pod with UID {pod}");
                return Err(PluginError::plain(message));
            }
        }
        let whose = "attacher.UnmountDevice failed to create newCsiDriverClient";
        let (driver, can) = self.known.reach(host, &record.driver_name, whose).await?;
        if can.can(NodeRpc::StageUnstageVolume) {
            let request = NodeUnstageVolumeRequest {
                volume_id: record.volume_handle.clone(),
                staging_target_path: at.staging.display().to_string(),
            };
            let begin = "kubernetes.io/csi: attacher.UnmountDevice failed: ";
            let answer = asked("NodeUnstageVolume", &at.staging, driver.node_unstage_volume(request)).await;
            answer.map_err(|error| failed(begin, error))?;
        }
        clear(&disk, &at).await
    }
}

/// Finds the paths of a volume, and its record, by its name alone.
async fn device(
    host: &Host,
    disk: &Disk<'_>,
    volume_name: &str,
) -> Result<(DevicePaths, StoredRecord), PluginError> {
    let parts = volume_name.split_once(SEPARATOR).filter(|(driver, _)| {
        // The driver's name becomes a directory name.
        !driver.is_empty() && !driver.starts_with('.') && !driver.contains('/')
    });
    let none =
        || PluginError::plain(format!("kubernetes.io/csi: {volume_name:?} is no name of a CSI volume"));
    let (driver, handle) = parts.ok_or_else(none)?;
    let files = DevicePaths::of_files(&host.paths, driver, handle);
    if let StoredRecord::Found(record) = disk.read_record(&files.record()).await? {
        return Ok((files, StoredRecord::Found(record)));
    }
    let wanted = VolumeData::of_device(driver, handle);
    for (volume, record) in reconstruct::blocks(host, disk).await? {
        if record.is_same_volume(&wanted) {
            return Ok((DevicePaths::of_block(&host.paths, &volume), StoredRecord::Found(record)));
        }
    }
    Ok((files, StoredRecord::Nothing))
}
