//! Client of one driver: its name, its capabilities, and its calls, each with a deadline. Requests are never
//! logged, because they carry secrets; the log has the driver, the call, its duration and its result.

use std::time::Duration;

use http::{Request, Response};
use tonic::body::Body;
use tonic::transport::Channel;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use crate::capabilities::{Capabilities, Service as PluginService};
use crate::driver_name;
use crate::error::CallError;
use crate::v1::controller_client::ControllerClient;
use crate::v1::identity_client::IdentityClient;
use crate::v1::node_client::NodeClient;
use crate::v1::*;

/// Transport of requests to a driver: a channel over its socket, or in tests the driver itself.
type Transport = BoxCloneSyncService<Request<Body>, Response<Body>, Unreached>;

/// The request did not reach the driver, or the response was lost.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreached(#[source] BoxError);

/// Maximum size of a response, in bytes (the default of grpc-go, and so of upstream's sidecars). A response is decoded as a whole, and may
/// take a hundred times as much memory.
const LARGEST: usize = 4 << 20;

/// The number of characters of a version that are kept (CSI: Size Limits).
const VERSION_MAX: usize = 128;

/// The endpoint of a driver that is not identified yet.
#[derive(Clone)]
pub struct Line {
    transport: Transport,
    timeout: Duration,
}

/// A driver with its name and capabilities. Clones share the connection.
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
    /// Compares what two drivers report about themselves, regardless of the connection.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.version, &self.can) == (&other.name, &other.version, &other.can)
    }
}

impl Line {
    /// Connects over a channel. `timeout` is the maximum duration of any single call.
    pub fn new(channel: Channel, timeout: Duration) -> Self {
        Self::over(channel, timeout)
    }

    /// Connects over any gRPC service.
    pub fn over<S>(service: S, timeout: Duration) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Line { transport: BoxCloneSyncService::new(service.map_err(unreached)), timeout }
    }

    /// Queries the driver's name, readiness and capabilities.
    ///
    /// # Errors
    /// The driver does not respond, is not ready, or has no valid name.
    pub async fn identify(&self) -> Result<Driver, CallError> {
        let client = || IdentityClient::new(self.transport.clone());
        let info = self.call("GetPluginInfo", client().get_plugin_info(GetPluginInfoRequest {})).await?;
        driver_name::check(&info.name).map_err(|why| CallError::broken(format!("GetPluginInfo: {why}")))?;
        let ready = self.call("Probe", client().probe(ProbeRequest {})).await?.ready;
        // An absent value means ready (CSI: Probe).
        if ready == Some(false) {
            return Err(CallError::answered(tonic::Code::Unavailable, "the driver is not ready"));
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
        let version = info.vendor_version.chars().take(VERSION_MAX).collect();
        Ok(Driver { line: self.clone(), name: info.name, version, can })
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
            /// Returns the driver\'s error, or an error if no response arrived in time.
            pub async fn $method(&self, request: $request) -> Result<$response, CallError> {
                let client = $client::new(self.line.transport.clone());
                let mut client = client.max_decoding_message_size(LARGEST);
                self.call($name, client.$method(request)).await
            }
        )*}
    };
}

calls! { ControllerClient:
    /// Creates a volume; a repeated name returns the same volume.
    create_volume "CreateVolume" CreateVolumeRequest -> CreateVolumeResponse;
    /// Deletes a volume; succeeds if the volume does not exist.
    delete_volume "DeleteVolume" DeleteVolumeRequest -> DeleteVolumeResponse;
    /// Publishes a volume to a node.
    controller_publish_volume "ControllerPublishVolume" ControllerPublishVolumeRequest -> ControllerPublishVolumeResponse;
    /// Unpublishes a volume from a node.
    controller_unpublish_volume "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest -> ControllerUnpublishVolumeResponse;
    /// Lists one page of all volumes.
    list_volumes "ListVolumes" ListVolumesRequest -> ListVolumesResponse;
    /// Returns the capacity for new volumes.
    get_capacity "GetCapacity" GetCapacityRequest -> GetCapacityResponse;
    /// Creates a snapshot; a repeated name returns the same snapshot.
    create_snapshot "CreateSnapshot" CreateSnapshotRequest -> CreateSnapshotResponse;
    /// Deletes a snapshot; succeeds if the snapshot does not exist.
    delete_snapshot "DeleteSnapshot" DeleteSnapshotRequest -> DeleteSnapshotResponse;
    /// Lists one page of all snapshots.
    list_snapshots "ListSnapshots" ListSnapshotsRequest -> ListSnapshotsResponse;
    /// Expands a volume.
    controller_expand_volume "ControllerExpandVolume" ControllerExpandVolumeRequest -> ControllerExpandVolumeResponse;
    /// Changes parameters of a volume.
    controller_modify_volume "ControllerModifyVolume" ControllerModifyVolumeRequest -> ControllerModifyVolumeResponse;
}

calls! { NodeClient:
    /// Returns the driver's ID of the node, its volume limit and its topology.
    node_get_info "NodeGetInfo" NodeGetInfoRequest -> NodeGetInfoResponse;
    /// Returns the capabilities of the node service.
    node_get_capabilities "NodeGetCapabilities" NodeGetCapabilitiesRequest -> NodeGetCapabilitiesResponse;
    /// Stages a volume on its node, once for all pods.
    node_stage_volume "NodeStageVolume" NodeStageVolumeRequest -> NodeStageVolumeResponse;
    /// Unstages a volume; succeeds if the volume does not exist.
    node_unstage_volume "NodeUnstageVolume" NodeUnstageVolumeRequest -> NodeUnstageVolumeResponse;
    /// Publishes a volume at a path.
    node_publish_volume "NodePublishVolume" NodePublishVolumeRequest -> NodePublishVolumeResponse;
    /// Unpublishes a volume; succeeds if the volume does not exist.
    node_unpublish_volume "NodeUnpublishVolume" NodeUnpublishVolumeRequest -> NodeUnpublishVolumeResponse;
    /// Expands the volume on the node to the size of the volume.
    node_expand_volume "NodeExpandVolume" NodeExpandVolumeRequest -> NodeExpandVolumeResponse;
}

impl Driver {
    /// Returns the driver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the vendor's version string.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the driver's capabilities.
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
