//! A driver that expands volumes on nodes only.

use http::Request as HttpRequest;
use orlop_csi::driver::Line;
use orlop_csi::v1;
use orlop_csi::v1::controller_server::ControllerServer;
use orlop_csi::v1::identity_server::IdentityServer;
use orlop_csi::v1::node_server::{Node, NodeServer};
use orlop_csi::v1::node_service_capability::{Rpc as NodeRpcCapability, Type};
use tonic::body::Body;
use tonic::{Request, Response, Status};
use tower::{BoxError, ServiceExt};

use super::*;

struct Nodes;

fn unasked<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not asked for by the resizer"))
}

#[tonic::async_trait]
impl Node for Nodes {
    async fn node_get_capabilities(
        &self,
        _: Request<v1::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<v1::NodeGetCapabilitiesResponse>, Status> {
        let expands = Type::Rpc(NodeRpcCapability { r#type: NodeRpc::ExpandVolume.into() });
        let capabilities = vec![v1::NodeServiceCapability { r#type: Some(expands) }];
        Ok(Response::new(v1::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_stage_volume(
        &self,
        _: Request<v1::NodeStageVolumeRequest>,
    ) -> Result<Response<v1::NodeStageVolumeResponse>, Status> {
        unasked()
    }

    async fn node_unstage_volume(
        &self,
        _: Request<v1::NodeUnstageVolumeRequest>,
    ) -> Result<Response<v1::NodeUnstageVolumeResponse>, Status> {
        unasked()
    }

    async fn node_publish_volume(
        &self,
        _: Request<v1::NodePublishVolumeRequest>,
    ) -> Result<Response<v1::NodePublishVolumeResponse>, Status> {
        unasked()
    }

    async fn node_unpublish_volume(
        &self,
        _: Request<v1::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<v1::NodeUnpublishVolumeResponse>, Status> {
        unasked()
    }

    async fn node_get_volume_stats(
        &self,
        _: Request<v1::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<v1::NodeGetVolumeStatsResponse>, Status> {
        unasked()
    }

    async fn node_expand_volume(
        &self,
        _: Request<v1::NodeExpandVolumeRequest>,
    ) -> Result<Response<v1::NodeExpandVolumeResponse>, Status> {
        unasked()
    }

    async fn node_get_info(
        &self,
        _: Request<v1::NodeGetInfoRequest>,
    ) -> Result<Response<v1::NodeGetInfoResponse>, Status> {
        unasked()
    }
}

#[tokio::test(start_paused = true)]
async fn driver_with_node_expansion_only_is_not_called() {
    let double = TestDriver::new(DRIVER, &[], &[]);
    let inner = double.clone();
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let inner = inner.clone();
        async move {
            let path = request.uri().path().to_owned();
            let answer = if path.starts_with("/csi.v1.Node/") {
                NodeServer::new(Nodes).oneshot(request).await?
            } else if path.starts_with("/csi.v1.Identity/") {
                IdentityServer::new(inner).oneshot(request).await?
            } else {
                ControllerServer::new(inner).oneshot(request).await?
            };
            Ok::<_, BoxError>(answer)
        }
    });
    let rig = Rig { api: crate::testing::FakeApi::new(), double };
    let driver = Line::over(service, Duration::from_secs(10)).identify().await.unwrap();
    rig.api.drivers().put(driver);
    rig.bound_claim("a", "1Gi");
    let _running = rig.api.start(&THIS, Options::default());
    rig.ask_for("a", "2Gi");
    rig.api.settle().await;
    assert_eq!(sizes(&rig), Vec::<i64>::new());
    assert_eq!(rig.field("persistentvolumes", "pv-a", "/spec/capacity/storage"), "2Gi");
    assert_eq!(status(&rig)["allocatedResourceStatuses"]["storage"], "NodeResizePending");
    assert_eq!(reasons(&rig), ["Resizing", "FileSystemResizeRequired"]);
}
