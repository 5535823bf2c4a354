//! A driver that is called: who it is, what it can do, and its calls, each with a deadline. What was asked is never
//! logged, because requests carry secrets; who was asked what, how long it took and how it ended is.

use std::time::Duration;

use http::{Request, Response};
use tonic::body::Body;
use tonic::transport::Channel;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use crate::capabilities::{Capabilities, Service as PluginService};
use crate::error::CallError;
use crate::v1::controller_client::ControllerClient;
use crate::v1::identity_client::IdentityClient;
use crate::v1::node_client::NodeClient;
use crate::v1::*;

/// How requests reach a driver: a channel over its socket, or in tests the driver itself.
type Transport = BoxCloneSyncService<Request<Body>, Response<Body>, Unreached>;

/// A request did not reach the driver, or its answer did not come back.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreached(#[source] BoxError);

/// The largest answer that is read, in bytes. Lists of all volumes come in one piece when the driver makes no pages.
const LARGEST: usize = 64 << 20;

/// Where a driver that was not identified yet can be reached.
#[derive(Clone)]
pub struct Line {
    transport: Transport,
    timeout: Duration,
}

/// A driver with its name and abilities. Clones share the connection.
#[derive(Clone)]
pub struct Driver {
    line: Line,
    name: String,
    version: String,
    can: Capabilities,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("name", &self.name).field("can", &self.can).finish_non_exhaustive()
    }
}

impl PartialEq for Driver {
    /// Says the same of itself, wherever it is reached.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.version, &self.can) == (&other.name, &other.version, &other.can)
    }
}

impl Line {
    /// Over a channel. `timeout` is the longest that any one call may take.
    pub fn new(channel: Channel, timeout: Duration) -> Self {
        Self::over(channel, timeout)
    }

    /// Over any service that answers gRPC.
    pub fn over<S>(service: S, timeout: Duration) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Line { transport: BoxCloneSyncService::new(service.map_err(unreached)), timeout }
    }

    /// Asks the driver who it is, whether it is ready, and what it can do.
    ///
    /// # Errors
    /// It does not answer, is not ready, or has no name.
    pub async fn identify(&self) -> Result<Driver, CallError> {
        let client = || IdentityClient::new(self.transport.clone());
        let info = self.call("GetPluginInfo", client().get_plugin_info(GetPluginInfoRequest {})).await?;
        if info.name.is_empty() {
            return Err(CallError::broken("GetPluginInfo: the driver has no name"));
        }
        let ready = self.call("Probe", client().probe(ProbeRequest {})).await?.ready;
        // Absent counts as ready (CSI: Probe).
        if ready == Some(false) {
            return Err(CallError::answered(
                tonic::Code::Unavailable,
                "the driver says that it is not ready",
            ));
        }
        let request = GetPluginCapabilitiesRequest {};
        let plugin = self.call("GetPluginCapabilities", client().get_plugin_capabilities(request)).await?;
        let mut can = Capabilities::new(&plugin, None);
        if can.serves(PluginService::ControllerService) {
            let mut client = ControllerClient::new(self.transport.clone());
            let asked = client.controller_get_capabilities(ControllerGetCapabilitiesRequest {});
            let controller = self.call("ControllerGetCapabilities", asked).await?;
            can = Capabilities::new(&plugin, Some(&controller));
        }
        Ok(Driver { line: self.clone(), name: info.name, version: info.vendor_version, can })
    }

    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(CallError::from(status)),
            Err(_) => Err(CallError::late(name, self.timeout.as_secs_f64())),
        }
    }
}

fn unreached(error: impl Into<BoxError>) -> Unreached {
    Unreached(error.into())
}

/// The calls of one service.
macro_rules! calls {
    ($client:ident: $($(#[$doc:meta])* $method:ident $name:literal $request:ident -> $response:ident;)*) => {
        impl Driver {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The driver's answer, or that there was none in time.
            pub async fn $method(&self, request: $request) -> Result<$response, CallError> {
                let client = $client::new(self.line.transport.clone());
                let mut client = client.max_decoding_message_size(LARGEST);
                self.call($name, client.$method(request)).await
            }
        )*}
    };
}

calls! { ControllerClient:
    /// Makes a volume; the same name again gives the same volume.
    create_volume "CreateVolume" CreateVolumeRequest -> CreateVolumeResponse;
    /// Removes a volume; one that is not there counts as removed.
    delete_volume "DeleteVolume" DeleteVolumeRequest -> DeleteVolumeResponse;
    /// Makes a volume usable on a node.
    controller_publish_volume "ControllerPublishVolume" ControllerPublishVolumeRequest -> ControllerPublishVolumeResponse;
    /// The reverse.
    controller_unpublish_volume "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest -> ControllerUnpublishVolumeResponse;
    /// One page of all volumes.
    list_volumes "ListVolumes" ListVolumesRequest -> ListVolumesResponse;
    /// Room for new volumes.
    get_capacity "GetCapacity" GetCapacityRequest -> GetCapacityResponse;
    /// Makes a snapshot; the same name again gives the same snapshot.
    create_snapshot "CreateSnapshot" CreateSnapshotRequest -> CreateSnapshotResponse;
    /// Removes a snapshot; one that is not there counts as removed.
    delete_snapshot "DeleteSnapshot" DeleteSnapshotRequest -> DeleteSnapshotResponse;
    /// One page of all snapshots.
    list_snapshots "ListSnapshots" ListSnapshotsRequest -> ListSnapshotsResponse;
    /// Makes a volume larger.
    controller_expand_volume "ControllerExpandVolume" ControllerExpandVolumeRequest -> ControllerExpandVolumeResponse;
    /// Changes parameters of a volume.
    controller_modify_volume "ControllerModifyVolume" ControllerModifyVolumeRequest -> ControllerModifyVolumeResponse;
}

calls! { NodeClient:
    /// What the node is called by the driver, how many volumes it takes, and where it stands.
    node_get_info "NodeGetInfo" NodeGetInfoRequest -> NodeGetInfoResponse;
    /// What the node service can do.
    node_get_capabilities "NodeGetCapabilities" NodeGetCapabilitiesRequest -> NodeGetCapabilitiesResponse;
    /// Makes a volume ready on its node, once for all pods.
    node_stage_volume "NodeStageVolume" NodeStageVolumeRequest -> NodeStageVolumeResponse;
    /// The reverse; a volume that is not there counts as unstaged.
    node_unstage_volume "NodeUnstageVolume" NodeUnstageVolumeRequest -> NodeUnstageVolumeResponse;
    /// Shows a volume at a path.
    node_publish_volume "NodePublishVolume" NodePublishVolumeRequest -> NodePublishVolumeResponse;
    /// The reverse; a volume that is not there counts as unpublished.
    node_unpublish_volume "NodeUnpublishVolume" NodeUnpublishVolumeRequest -> NodeUnpublishVolumeResponse;
    /// Grows what is on the node to the size of the volume.
    node_expand_volume "NodeExpandVolume" NodeExpandVolumeRequest -> NodeExpandVolumeResponse;
}

impl Driver {
    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its vendor calls this version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it can do.
    pub fn can(&self) -> &Capabilities {
        &self.can
    }

    async fn call<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CallError> {
        let began = tokio::time::Instant::now();
        let outcome = self.line.call(name, call).await;
        let took_ms = began.elapsed().as_millis();
        match &outcome {
            Ok(_) => tracing::debug!(driver = self.name, call = name, took_ms, "driver answered"),
            Err(error) => {
                tracing::debug!(driver = self.name, call = name, took_ms, %error, "driver call failed");
            }
        }
        outcome
    }
}
