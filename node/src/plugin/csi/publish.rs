//! Publishes volumes with a file system to pods: NodePublishVolume and NodeUnpublishVolume. The record beside the
//! target exists from before the call until everything else is removed; it alone determines what must be
//! unpublished.

use std::collections::HashMap;

use orlop_csi::capabilities::NodeRpc;
use orlop_csi::v1::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest};
use orlop_volume::attachment;

use super::context::{TOKENS, pod_attributes, publish_context, secret};
use super::disk::{Disk, StoredRecord};
use super::driver::{asked, failed, registered, takes};
use super::layout::{DevicePaths, PublishPaths};
use super::source::{CsiSource, VolumeLifecycle};
use super::vol_data::VolumeData;
use super::{CsiPlugin, group_of, place_of};
use crate::host::Host;
use crate::plugin::{Outcome, Place, PluginError, PodVolume};

impl CsiPlugin {
    /// Publishes a volume to a pod, even if it is published already: drivers that require republishing update the
    /// content this way.
    pub(super) async fn publish(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let (pod, spec) = (&*volume.pod, &*volume.spec);
        let source = CsiSource::of(spec)?;
        self.known.synced()?;
        let object = self.known.object(&source.driver);
        let object = object.as_deref();
        takes(&source.driver, object, source.life)?;
        let whose = "mounter.SetUpAt failed to get CSI client";
        let (driver, can) = self.known.reach(host, &source.driver, whose).await?;
        let place = place_of(volume);
        let handle = source.handle(&place.uid, &spec.name);
        let mut staging = String::new();
        let mut context = HashMap::new();
        if source.life == VolumeLifecycle::Persistent {
            context = publish_context(host, &self.known, &source.driver, &handle).await?;
            if can.can(NodeRpc::StageUnstageVolume) {
                let device = DevicePaths::of_files(&host.paths, &source.driver, &handle);
                staging = device.staging.display().to_string();
            }
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let reference = source.publish_secret(namespace);
        let mut secrets = secret(host, "NodePublishSecretRef", reference.as_ref()).await?;
        let mut attributes: HashMap<String, String> = source.attributes.clone().into_iter().collect();
        attributes.extend(pod_attributes(object, pod, source.life));
        if let Some(tokens) = self.tokens.of_pod(host, object, pod).await? {
            let hidden = object.and_then(|object| object.spec.service_account_token_in_secrets);
            let to = if hidden == Some(true) { &mut secrets } else { &mut attributes };
            to.insert(TOKENS.to_owned(), tokens);
        }
        let at = PublishPaths::of(&host.paths, &place);
        let record = VolumeData {
            spec_volume: spec.dir_name().to_owned(),
            node_name: host.config.name.clone(),
            attachment: attachment::name(&source.driver, &handle, &host.config.name),
            volume_lifecycle_mode: source.life.as_str().to_owned(),
            ..VolumeData::of_device(&source.driver, &handle)
        };
        let disk = Disk::new(host, &record.volume_name());
        disk.make_dir(&at.dir).await?;
        let was_there = disk.note(&at.record(), &record).await?;
        let request = NodePublishVolumeRequest {
            volume_id: handle,
            publish_context: context,
            staging_target_path: staging,
            target_path: at.target.display().to_string(),
            volume_capability: Some(source.capability(&can, group_of(pod))),
            readonly: spec.read_only,
            secrets,
            volume_context: attributes,
        };
        let Err(error) = asked("NodePublishVolume", &at.target, driver.node_publish_volume(request)).await
        else {
            if matches!(disk.is_mounted(&at.target), Ok(false)) {
                let (volume, target) = (record.volume_name(), at.target.display());
                tracing::warn!(volume, %target, "the driver reports that the volume is published, but nothing is mounted there");
            }
            return Ok(());
        };
        let mut error = failed("", error);
        // If the record is older than this call, an earlier call may have published the volume.
        if error.outcome == Outcome::Final
            && !was_there
            && let Err(left) = clear(&disk, &at).await
        {
            tracing::warn!(volume = record.volume_name(), %left, "cannot clean up after a volume that was not published");
            error.outcome = Outcome::Uncertain;
        }
        Err(error)
    }

    /// Unpublishes a volume, using only the state on disk.
    pub(super) async fn unpublish(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let at = PublishPaths::of(&host.paths, place);
        let reading = Disk::new(host, &format!("{}/{}", place.uid, place.dir_name));
        let record = match reading.read_record(&at.record()).await? {
            // The record is removed last, but directories may be left.
            StoredRecord::Nothing => return clear(&reading, &at).await,
            StoredRecord::Found(record) => record,
        };
        let disk = Disk::new(host, &record.volume_name());
        let driver = registered(host, &record.driver_name, "mounter.TearDownAt failed to get CSI client")?;
        let request = NodeUnpublishVolumeRequest {
            volume_id: record.volume_handle.clone(),
            target_path: at.target.display().to_string(),
        };
        let begin = "kubernetes.io/csi: Unmounter.TearDownAt failed: ";
        let answer = asked("NodeUnpublishVolume", &at.target, driver.node_unpublish_volume(request)).await;
        answer.map_err(|error| failed(begin, error))?;
        clear(&disk, &at).await
    }
}

/// Removes the files that were created before the driver was called, and the record after everything that it
/// describes.
async fn clear(disk: &Disk<'_>, at: &PublishPaths) -> Result<(), PluginError> {
    if disk.is_mounted(&at.target)? {
        let message = format!("kubernetes.io/csi: something is still mounted at {}", at.target.display());
        return Err(PluginError::uncertain(message));
    }
    disk.remove_dir(&at.target).await?;
    disk.remove_record(&at.record()).await?;
    disk.remove_dir(&at.dir).await
}
