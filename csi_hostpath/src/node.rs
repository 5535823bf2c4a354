//! The Node service: mounts volumes on this machine. The mount table decides whether a volume is mounted, not the
//! records, because a reboot removes mounts.

use std::path::{Path, PathBuf};

use orlop_csi::v1;
use orlop_csi::v1::node_server::Node;
use orlop_csi::v1::node_service_capability::rpc::Type as Rpc;
use orlop_csi::v1::node_service_capability::{self, Type};
use orlop_csi::v1::volume_capability::AccessType;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use tonic::{Request, Response, Status};

use crate::controller::failed;
use crate::records::{Form, RecordsError, Volume};
use crate::{Driver, content, ephemeral, mounts, rules};

const MOUNTING: &str = "the volume could not be mounted";
const UNMOUNTING: &str = "the volume could not be unmounted";

/// Parses a path of a request, which must be absolute.
fn path(text: &str, name: &str) -> Result<PathBuf, Status> {
    rules::required(text, name)?;
    let path = PathBuf::from(text);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(Status::invalid_argument(format!("{name} must be absolute")))
    }
}

impl Driver {
    /// Removes records of mounts that no longer exist, as after a reboot.
    pub(crate) fn settle(&self) -> Result<(), RecordsError> {
        if !self.options.mounts {
            return Ok(());
        }
        let mut state = self.records.lock();
        let gone = |path: &Path| !mounts::is_mounted(path).unwrap_or(true);
        for mut volume in state.volumes.values().cloned().collect::<Vec<_>>() {
            let before = volume.clone();
            volume.targets.retain(|target, _| !gone(target));
            // A block volume is staged by its loop device, which is created again when needed.
            if volume.form != Form::Block {
                volume.staged.retain(|staging| !gone(staging));
            }
            if volume != before {
                self.records.put_volume(&mut state, volume)?;
            }
        }
        Ok(())
    }

    fn content_of(&self, volume: &Volume) -> PathBuf {
        content::path(&self.records.volume_dir(&volume.id), volume.form)
    }

    /// Mounts a volume at its staging path.
    fn stage(
        &self,
        volume: &Volume,
        staging: &Path,
        capability: &v1::VolumeCapability,
    ) -> Result<(), Status> {
        if !self.options.mounts {
            return std::fs::create_dir_all(staging).map_err(failed(MOUNTING));
        }
        if mounts::is_mounted(staging).map_err(failed(MOUNTING))? {
            return Ok(());
        }
        let content = self.content_of(volume);
        match (volume.form, &capability.access_type) {
            (Form::Directory, _) => mounts::bind(&content, staging, false),
            (Form::Image, Some(AccessType::Mount(mount))) => {
                mounts::mount_image(&content, staging, &mount.fs_type, &mount.mount_flags)
            }
            (Form::Image, _) => mounts::mount_image(&content, staging, "", &[]),
            (Form::Block, _) => mounts::loop_device(&content).map(drop),
        }
        .map_err(failed(MOUNTING))
    }

    /// Bind-mounts a staged volume at its target path.
    fn show(&self, volume: &Volume, staging: &Path, target: &Path, readonly: bool) -> Result<(), Status> {
        if !self.options.mounts {
            return std::fs::create_dir_all(target).map_err(failed(MOUNTING));
        }
        if mounts::is_mounted(target).map_err(failed(MOUNTING))? {
            return Ok(());
        }
        let source = match volume.form {
            Form::Directory | Form::Image => staging.to_owned(),
            Form::Block => mounts::loop_device(&self.content_of(volume)).map_err(failed(MOUNTING))?,
        };
        mounts::bind(&source, target, readonly).map_err(failed(MOUNTING))
    }
}

#[tonic::async_trait]
impl Node for Driver {
    async fn node_stage_volume(
        &self,
        request: Request<v1::NodeStageVolumeRequest>,
    ) -> Result<Response<v1::NodeStageVolumeResponse>, Status> {
        let request = request.get_ref();
        rules::required(&request.volume_id, "volume_id")?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        let (block, _) = rules::access(request.volume_capability.as_ref())?;
        let _turn = self.records.turn(&request.volume_id).await;
        let mut state = self.records.lock();
        let mut volume = rules::volume(&state, &request.volume_id)?.clone();
        if block != (volume.form == Form::Block) {
            return Err(Status::invalid_argument(format!(
                "the volume is a {}",
                rules::form_name(volume.form)
            )));
        }
        if !self.options.may_mount(&volume) {
            let node = &self.options.node_id;
            return Err(Status::failed_precondition(format!(
                "volume {} is not published to node {node}",
                volume.id
            )));
        }
        let capability = request.volume_capability.clone().unwrap_or_default();
        self.stage(&volume, &staging, &capability)?;
        // If writing the record fails, the volume is mounted but not recorded. The caller retries and finds the mount.
        volume.staged.insert(staging);
        self.records.put_volume(&mut state, volume)?;
        Ok(Response::new(v1::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<v1::NodeUnstageVolumeRequest>,
    ) -> Result<Response<v1::NodeUnstageVolumeResponse>, Status> {
        let request = request.get_ref();
        rules::required(&request.volume_id, "volume_id")?;
        let staging = path(&request.staging_target_path, "staging_target_path")?;
        let _turn = self.records.turn(&request.volume_id).await;
        let mut state = self.records.lock();
        mounts::clear(&staging).map_err(failed(UNMOUNTING))?;
        if let Some(mut volume) = state.volumes.get(&request.volume_id).cloned() {
            volume.staged.remove(&staging);
            if volume.form == Form::Block && volume.staged.is_empty() {
                mounts::detach(&self.content_of(&volume)).map_err(failed(UNMOUNTING))?;
            }
            self.records.put_volume(&mut state, volume)?;
        }
        Ok(Response::new(v1::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<v1::NodePublishVolumeRequest>,
    ) -> Result<Response<v1::NodePublishVolumeResponse>, Status> {
        let request = request.get_ref();
        rules::required(&request.volume_id, "volume_id")?;
        let target = path(&request.target_path, "target_path")?;
        let (block, mode) = rules::access(request.volume_capability.as_ref())?;
        let _turn = self.records.turn(&request.volume_id).await;
        let mut state = self.records.lock();
        if ephemeral::is_asked_for(request) {
            self.publish_ephemeral(&mut state, request, &target, block)?;
            return Ok(Response::new(v1::NodePublishVolumeResponse {}));
        }
        let mut volume = rules::volume(&state, &request.volume_id)?.clone();
        let staging = match volume.staged.get(Path::new(&request.staging_target_path)) {
            Some(staging) => staging.clone(),
            None => {
                return Err(Status::failed_precondition(format!("volume {} is not staged there", volume.id)));
            }
        };
        match volume.targets.get(&target) {
            Some(readonly) if *readonly != request.readonly => {
                return Err(Status::already_exists("it is published there with another readonly"));
            }
            Some(_) => {}
            None if mode == Mode::SingleNodeSingleWriter && !volume.targets.is_empty() => {
                return Err(Status::failed_precondition("a single writer has it at another target already"));
            }
            None => {}
        }
        self.show(&volume, &staging, &target, request.readonly)?;
        volume.targets.insert(target, request.readonly);
        self.records.put_volume(&mut state, volume)?;
        Ok(Response::new(v1::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<v1::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<v1::NodeUnpublishVolumeResponse>, Status> {
        let request = request.get_ref();
        rules::required(&request.volume_id, "volume_id")?;
        let target = path(&request.target_path, "target_path")?;
        let _turn = self.records.turn(&request.volume_id).await;
        let mut state = self.records.lock();
        mounts::clear(&target).map_err(failed(UNMOUNTING))?;
        match state.volumes.get(&request.volume_id).cloned() {
            Some(volume) if volume.ephemeral => self.forget_ephemeral(&mut state, volume, &target)?,
            Some(mut volume) if volume.targets.contains_key(&target) => {
                volume.targets.remove(&target);
                self.records.put_volume(&mut state, volume)?;
            }
            Some(_) | None => {}
        }
        Ok(Response::new(v1::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<v1::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<v1::NodeGetVolumeStatsResponse>, Status> {
        let request = request.get_ref();
        rules::required(&request.volume_id, "volume_id")?;
        let at = path(&request.volume_path, "volume_path")?;
        let state = self.records.lock();
        let volume = rules::volume(&state, &request.volume_id)?;
        if !volume.staged.contains(&at) && !volume.targets.contains_key(&at) {
            return Err(Status::not_found(format!("volume {} is not at {}", volume.id, at.display())));
        }
        let use_of = |unit: v1::volume_usage::Unit, (total, available): (i64, i64)| v1::VolumeUsage {
            available,
            total,
            used: total - available,
            unit: unit.into(),
        };
        let usage = match volume.form {
            Form::Block => vec![v1::VolumeUsage {
                total: volume.bytes,
                unit: v1::volume_usage::Unit::Bytes.into(),
                ..v1::VolumeUsage::default()
            }],
            Form::Directory | Form::Image => {
                let [bytes, inodes] =
                    content::room(&at).map_err(failed("the free space cannot be determined"))?;
                vec![
                    use_of(v1::volume_usage::Unit::Bytes, bytes),
                    use_of(v1::volume_usage::Unit::Inodes, inodes),
                ]
            }
        };
        let condition = v1::VolumeCondition { abnormal: false, message: "the volume is there".to_owned() };
        Ok(Response::new(v1::NodeGetVolumeStatsResponse { usage, volume_condition: Some(condition) }))
    }

    async fn node_expand_volume(
        &self,
        request: Request<v1::NodeExpandVolumeRequest>,
    ) -> Result<Response<v1::NodeExpandVolumeResponse>, Status> {
        let request = request.get_ref();
        rules::required(&request.volume_id, "volume_id")?;
        path(&request.volume_path, "volume_path")?;
        let state = self.records.lock();
        let volume = rules::volume(&state, &request.volume_id)?;
        if rules::grows_on_node(volume.form) {
            mounts::grow(&self.content_of(volume), volume.form == Form::Image)
                .map_err(failed("the file system could not grow"))?;
        }
        Ok(Response::new(v1::NodeExpandVolumeResponse { capacity_bytes: volume.bytes }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<v1::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<v1::NodeGetCapabilitiesResponse>, Status> {
        let capability = |rpc: Rpc| v1::NodeServiceCapability {
            r#type: Some(Type::Rpc(node_service_capability::Rpc { r#type: rpc.into() })),
        };
        let can = [
            Rpc::StageUnstageVolume,
            Rpc::GetVolumeStats,
            Rpc::ExpandVolume,
            Rpc::VolumeCondition,
            Rpc::SingleNodeMultiWriter,
        ];
        let capabilities = can.into_iter().map(capability).collect();
        Ok(Response::new(v1::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<v1::NodeGetInfoRequest>,
    ) -> Result<Response<v1::NodeGetInfoResponse>, Status> {
        Ok(Response::new(v1::NodeGetInfoResponse {
            node_id: self.options.node_id.clone(),
            max_volumes_per_node: self.options.max_volumes_per_node,
            accessible_topology: self.options.topology.then(|| self.segment(&self.options.node_id)),
        }))
    }
}
