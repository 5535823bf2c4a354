//! The node service of the driver in memory. It mounts nothing, but follows the rules that agents depend on:
//! idempotent calls, staging before publishing, unpublishing before unstaging.

use std::path::Path;

use orlop_csi::capabilities::NodeRpc;
use orlop_csi::v1;
use orlop_csi::v1::node_server::Node;
use orlop_csi::v1::node_service_capability::{self as capability, Type};
use orlop_csi::v1::volume_capability::AccessType;
use tonic::{Request, Response, Status};

use super::driver::TestDriver;

fn failed(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

/// Creates a target as real drivers do: its parent directory must exist.
fn make_target(target: &Path, block: bool) -> std::io::Result<()> {
    if target.exists() {
        return Ok(());
    }
    match block {
        true => std::fs::write(target, ""),
        false => std::fs::create_dir(target),
    }
}

#[tonic::async_trait]
impl Node for TestDriver {
    async fn node_stage_volume(
        &self,
        request: Request<v1::NodeStageVolumeRequest>,
    ) -> Result<Response<v1::NodeStageVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        if !Path::new(&wanted.staging_target_path).is_dir() {
            return Err(Status::internal("the staging path is not there"));
        }
        state.staged.insert((wanted.volume_id, wanted.staging_target_path));
        Ok(Response::new(v1::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<v1::NodeUnstageVolumeRequest>,
    ) -> Result<Response<v1::NodeUnstageVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        if state.targets.iter().any(|(id, _)| *id == wanted.volume_id) {
            return Err(Status::failed_precondition("the volume is published"));
        }
        state.staged.remove(&(wanted.volume_id, wanted.staging_target_path));
        Ok(Response::new(v1::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<v1::NodePublishVolumeRequest>,
    ) -> Result<Response<v1::NodePublishVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        let staged = (wanted.volume_id.clone(), wanted.staging_target_path.clone());
        if !wanted.staging_target_path.is_empty() && !state.staged.contains(&staged) {
            return Err(Status::failed_precondition("the volume is not staged there"));
        }
        let access = wanted.volume_capability.and_then(|capability| capability.access_type);
        let block = matches!(access, Some(AccessType::Block(_)));
        make_target(Path::new(&wanted.target_path), block).map_err(failed)?;
        state.targets.insert((wanted.volume_id, wanted.target_path));
        Ok(Response::new(v1::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<v1::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<v1::NodeUnpublishVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        let target = Path::new(&wanted.target_path);
        if target.is_file() {
            std::fs::remove_file(target).map_err(failed)?;
        }
        state.targets.remove(&(wanted.volume_id, wanted.target_path));
        Ok(Response::new(v1::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        _: Request<v1::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<v1::NodeGetVolumeStatsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn node_expand_volume(
        &self,
        request: Request<v1::NodeExpandVolumeRequest>,
    ) -> Result<Response<v1::NodeExpandVolumeResponse>, Status> {
        let _state = self.take(&request);
        let capacity_bytes = request.into_inner().capacity_range.map_or(0, |range| range.required_bytes);
        Ok(Response::new(v1::NodeExpandVolumeResponse { capacity_bytes }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<v1::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<v1::NodeGetCapabilitiesResponse>, Status> {
        let listed = |rpc: &NodeRpc| v1::NodeServiceCapability {
            r#type: Some(Type::Rpc(capability::Rpc { r#type: (*rpc).into() })),
        };
        let capabilities = self.state().node_rpcs.iter().map(listed).collect();
        Ok(Response::new(v1::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<v1::NodeGetInfoRequest>,
    ) -> Result<Response<v1::NodeGetInfoResponse>, Status> {
        Ok(Response::new(self.state().node_info.clone()))
    }
}
