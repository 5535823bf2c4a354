//! A CSI driver in memory. It follows the rules that callers depend on (idempotent by name, generated IDs),
//! records its requests, and fails or returns wrong values on demand. It is called without a socket, so that
//! paused time stays paused.

use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::{Request as HttpRequest, Response as HttpResponse};
use orlop_csi::capabilities::{Capabilities, NodeRpc, Rpc, Service as PluginService};
use orlop_csi::driver::{Driver, Line};
use orlop_csi::v1;
use orlop_csi::v1::controller_server::{Controller, ControllerServer};
use orlop_csi::v1::identity_server::{Identity, IdentityServer};
use orlop_csi::v1::node_server::NodeServer;
use orlop_csi::v1::{controller_service_capability as controller, plugin_capability as plugin};
use tonic::body::Body;
use tonic::{Code, Request, Response, Status};
use tower::{BoxError, ServiceExt};

/// The driver. Clones share its state.
#[derive(Clone)]
pub struct TestDriver {
    state: Arc<Mutex<DriverState>>,
}

/// The way in which a call fails.
#[derive(Debug, Clone)]
pub enum Failing {
    /// Returns this code without doing the work.
    Refuses(Code, &'static str),
    /// Does the work and returns this code.
    RefusesAfter(Code, &'static str),
    /// The connection breaks before the work.
    Broken,
    /// The connection breaks after the work.
    AnswerLost,
    /// Does the work and never responds.
    NoAnswer,
    /// Does the work and responds with bytes that are no valid message.
    Garbage,
}

struct Fault {
    rpc: &'static str,
    skip: usize,
    times: usize,
    kind: Failing,
}

/// A volume of the driver.
#[derive(Clone, Debug, Default)]
pub struct DriverVolume {
    /// The name from the request.
    pub name: String,
    /// Its size.
    pub bytes: i64,
    /// The source of its content.
    pub source: Option<v1::VolumeContentSource>,
    /// The topology from which it is accessible.
    pub topology: Vec<v1::Topology>,
    /// Its mutable parameters.
    pub mutable: BTreeMap<String, String>,
    /// Nodes that it is published to, and whether it is read-only there.
    pub published: BTreeMap<String, bool>,
}

type Lie<T> = Box<dyn Fn(&mut T) + Send>;

/// The state and configuration of the driver. Tests change it through [`TestDriver::state`].
pub struct DriverState {
    name: String,
    rpcs: Vec<Rpc>,
    services: Vec<PluginService>,
    /// Volumes by ID.
    pub volumes: BTreeMap<String, DriverVolume>,
    /// Snapshots by ID, each with its requested name.
    pub snapshots: BTreeMap<String, (String, v1::Snapshot)>,
    /// Free bytes; `None` for unlimited capacity.
    pub room: Option<i64>,
    /// Whether new snapshots are ready to use immediately.
    pub snapshots_ready: bool,
    /// The `node_expansion_required` of expansions.
    pub node_expansion: bool,
    /// The capabilities of its node service.
    pub node_rpcs: Vec<NodeRpc>,
    /// The response of `NodeGetInfo`.
    pub node_info: v1::NodeGetInfoResponse,
    /// Staged volumes with their staging paths. They need not be among [`volumes`](Self::volumes).
    pub staged: BTreeSet<(String, String)>,
    /// Volumes published on the node, with their target paths. As in real drivers, a target is a directory, which
    /// unpublishing leaves behind, or an empty file, which it removes.
    pub targets: BTreeSet<(String, String)>,
    /// Modifies volumes in responses.
    pub volume_lie: Option<Lie<v1::Volume>>,
    /// Modifies snapshots in responses.
    pub snapshot_lie: Option<Lie<v1::Snapshot>>,
    ids: u64,
    calls: Vec<String>,
    requests: Vec<Box<dyn Any + Send>>,
    faults: Vec<Fault>,
}

impl TestDriver {
    /// A driver that creates and deletes volumes. `rpcs` and `services` are its additional capabilities.
    pub fn new(name: &str, rpcs: &[Rpc], services: &[PluginService]) -> Self {
        let state = DriverState {
            name: name.to_owned(),
            rpcs: [&[Rpc::CreateDeleteVolume], rpcs].concat(),
            services: [&[PluginService::ControllerService], services].concat(),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            room: None,
            snapshots_ready: true,
            node_expansion: false,
            node_rpcs: vec![NodeRpc::StageUnstageVolume],
            node_info: v1::NodeGetInfoResponse { node_id: "n1".to_owned(), ..Default::default() },
            staged: BTreeSet::new(),
            targets: BTreeSet::new(),
            volume_lie: None,
            snapshot_lie: None,
            ids: 0,
            calls: Vec::new(),
            requests: Vec::new(),
            faults: Vec::new(),
        };
        TestDriver { state: Arc::new(Mutex::new(state)) }
    }

    /// The client that controllers use for this driver.
    pub async fn driver(&self) -> Driver {
        self.driver_within(Duration::from_secs(10)).await
    }

    /// Like [`driver`](Self::driver), with a deadline for calls, for tests whose time is not paused.
    pub async fn driver_within(&self, timeout: Duration) -> Driver {
        let this = self.clone();
        let service = tower::service_fn(move |request| this.clone().answer(request));
        let line = Line::over(service, timeout);
        line.identify().await.expect("identification succeeds without faults")
    }

    /// The capabilities of its controller.
    pub fn can(&self) -> Capabilities {
        let state = self.state();
        Capabilities::of(&state.rpcs, &state.services)
    }

    /// The state and configuration of the driver.
    pub fn state(&self) -> MutexGuard<'_, DriverState> {
        self.state.lock()
    }

    /// IDs of its volumes.
    pub fn volume_ids(&self) -> Vec<String> {
        self.state().volumes.keys().cloned().collect()
    }

    /// Names of the received calls in order, without those of identification.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// All received requests of a type, in order.
    pub fn requests<T: Clone + 'static>(&self) -> Vec<T> {
        self.state().requests.iter().filter_map(|request| request.downcast_ref::<T>()).cloned().collect()
    }

    /// Makes one call of `rpc` (`*` for any) fail, after `skip` calls that succeed.
    pub fn fail(&self, rpc: &'static str, skip: usize, kind: Failing) {
        self.fail_times(rpc, skip, 1, kind);
    }

    /// Makes `times` calls fail, after `skip` calls that succeed.
    pub fn fail_times(&self, rpc: &'static str, skip: usize, times: usize, kind: Failing) {
        self.state().faults.push(Fault { rpc, skip, times, kind });
    }

    /// The number of faults that have not happened as often as requested.
    pub fn pending_faults(&self) -> usize {
        self.state().faults.len()
    }

    fn fault(&self, rpc: &str) -> Option<Failing> {
        let mut state = self.state();
        let mut hit = None;
        for fault in state.faults.iter_mut().filter(|fault| fault.rpc == "*" || fault.rpc == rpc) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if hit.is_none() {
                fault.times -= 1;
                hit = Some(fault.kind.clone());
            }
        }
        state.faults.retain(|fault| fault.times > 0);
        hit
    }

    async fn answer(self, request: HttpRequest<Body>) -> Result<HttpResponse<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let rpc = path.rsplit('/').next().unwrap_or_default();
        if path.starts_with("/csi.v1.Identity/") {
            return Ok(IdentityServer::new(self).oneshot(request).await?);
        }
        if rpc == "ControllerGetCapabilities" {
            return Ok(ControllerServer::new(self).oneshot(request).await?);
        }
        let fault = self.fault(rpc);
        self.state().calls.push(rpc.to_owned());
        // Yields before and after the work, so that other tasks can run and a process can crash in between.
        let work = async {
            tokio::task::yield_now().await;
            let answer = match path.starts_with("/csi.v1.Node/") {
                true => NodeServer::new(self).oneshot(request).await,
                false => ControllerServer::new(self).oneshot(request).await,
            };
            tokio::task::yield_now().await;
            answer
        };
        match fault {
            None => Ok(work.await?),
            Some(Failing::Refuses(code, why)) => Ok(Status::new(code, why).into_http()),
            Some(Failing::RefusesAfter(code, why)) => {
                work.await?;
                Ok(Status::new(code, why).into_http())
            }
            Some(Failing::Broken) => Err("connection refused".into()),
            Some(Failing::AnswerLost) => {
                work.await?;
                Err("connection reset by peer".into())
            }
            Some(Failing::NoAnswer) => {
                work.await?;
                std::future::pending().await
            }
            Some(Failing::Garbage) => {
                let mut answer = work.await?;
                // A frame of three bytes that are no valid field.
                let junk: &[u8] = &[0, 0, 0, 0, 3, 7, 7, 7];
                *answer.body_mut() = Body::new(http_body_util::Full::new(bytes::Bytes::from_static(junk)));
                Ok(answer)
            }
        }
    }

    /// Records a request and returns the state.
    pub(super) fn take<T: Clone + Send + 'static>(
        &self,
        request: &Request<T>,
    ) -> MutexGuard<'_, DriverState> {
        let mut state = self.state();
        state.requests.push(Box::new(request.get_ref().clone()));
        state
    }
}

impl DriverState {
    fn id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}-{}", self.ids)
    }

    fn shown(&self, id: &str) -> v1::Volume {
        let held = self.volumes.get(id).cloned().unwrap_or_default();
        let mut volume = v1::Volume {
            capacity_bytes: held.bytes,
            volume_id: id.to_owned(),
            volume_context: [("made-by".to_owned(), "test".to_owned())].into(),
            content_source: held.source,
            accessible_topology: held.topology,
        };
        if let Some(lie) = &self.volume_lie {
            lie(&mut volume);
        }
        volume
    }

    fn shown_snapshot(&self, id: &str) -> Option<v1::Snapshot> {
        let mut snapshot = self.snapshots.get(id)?.1.clone();
        if let Some(lie) = &self.snapshot_lie {
            lie(&mut snapshot);
        }
        Some(snapshot)
    }

    fn volume(&mut self, id: &str) -> Result<&mut DriverVolume, Status> {
        self.volumes.get_mut(id).ok_or_else(|| Status::not_found(format!("no volume {id}")))
    }

    fn take_room(&mut self, bytes: i64) -> Result<(), Status> {
        match &mut self.room {
            Some(room) if *room < bytes => Err(Status::resource_exhausted("no room")),
            Some(room) => {
                *room -= bytes;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl Identity for TestDriver {
    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        let name = self.state().name.clone();
        let vendor_version = "1".to_owned();
        Ok(Response::new(v1::GetPluginInfoResponse { name, vendor_version, ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<v1::GetPluginCapabilitiesResponse>, Status> {
        let listed = |service: &PluginService| v1::PluginCapability {
            r#type: Some(plugin::Type::Service(plugin::Service { r#type: (*service).into() })),
        };
        let capabilities = self.state().services.iter().map(listed).collect();
        Ok(Response::new(v1::GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeResponse>, Status> {
        Ok(Response::new(v1::ProbeResponse { ready: None }))
    }
}

#[tonic::async_trait]
impl Controller for TestDriver {
    async fn controller_get_capabilities(
        &self,
        _: Request<v1::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<v1::ControllerGetCapabilitiesResponse>, Status> {
        let listed = |rpc: &Rpc| v1::ControllerServiceCapability {
            r#type: Some(controller::Type::Rpc(controller::Rpc { r#type: (*rpc).into() })),
        };
        let capabilities = self.state().rpcs.iter().map(listed).collect();
        Ok(Response::new(v1::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_volume(
        &self,
        request: Request<v1::CreateVolumeRequest>,
    ) -> Result<Response<v1::CreateVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        let bytes = wanted.capacity_range.map_or(0, |range| range.required_bytes);
        let known = state
            .volumes
            .iter()
            .find(|(_, held)| held.name == wanted.name)
            .map(|(id, held)| (id.clone(), held.bytes));
        let id = match known {
            Some((_, held)) if held < bytes => {
                return Err(Status::already_exists("a volume of this name has another size"));
            }
            Some((id, _)) => id,
            None => {
                state.take_room(bytes)?;
                let id = state.id("vol");
                let topology =
                    wanted.accessibility_requirements.into_iter().flat_map(|all| all.preferred).take(1);
                let volume = DriverVolume {
                    name: wanted.name,
                    bytes,
                    source: wanted.volume_content_source,
                    topology: topology.collect(),
                    mutable: wanted.mutable_parameters.into_iter().collect(),
                    published: BTreeMap::new(),
                };
                state.volumes.insert(id.clone(), volume);
                id
            }
        };
        Ok(Response::new(v1::CreateVolumeResponse { volume: Some(state.shown(&id)) }))
    }

    async fn delete_volume(
        &self,
        request: Request<v1::DeleteVolumeRequest>,
    ) -> Result<Response<v1::DeleteVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let gone = state.volumes.remove(&request.get_ref().volume_id);
        if let (Some(gone), Some(room)) = (gone, &mut state.room) {
            *room += gone.bytes;
        }
        Ok(Response::new(v1::DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<v1::ControllerPublishVolumeRequest>,
    ) -> Result<Response<v1::ControllerPublishVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        state.volume(&wanted.volume_id)?.published.insert(wanted.node_id.clone(), wanted.readonly);
        let publish_context = [("on".to_owned(), wanted.node_id)].into();
        Ok(Response::new(v1::ControllerPublishVolumeResponse { publish_context }))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<v1::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<v1::ControllerUnpublishVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.get_ref();
        if let Some(volume) = state.volumes.get_mut(&wanted.volume_id) {
            volume.published.remove(&wanted.node_id);
        }
        Ok(Response::new(v1::ControllerUnpublishVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        _: Request<v1::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<v1::ValidateVolumeCapabilitiesResponse>, Status> {
        Err(Status::unimplemented("not asked for by any controller"))
    }

    async fn list_volumes(
        &self,
        request: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        let state = self.take(&request);
        let entry = |(id, held): (&String, &DriverVolume)| v1::list_volumes_response::Entry {
            volume: Some(state.shown(id)),
            status: Some(v1::list_volumes_response::VolumeStatus {
                published_node_ids: held.published.keys().cloned().collect(),
                volume_condition: None,
            }),
        };
        let entries = state.volumes.iter().map(entry).collect();
        Ok(Response::new(v1::ListVolumesResponse { entries, next_token: String::new() }))
    }

    async fn get_capacity(
        &self,
        request: Request<v1::GetCapacityRequest>,
    ) -> Result<Response<v1::GetCapacityResponse>, Status> {
        let state = self.take(&request);
        let available_capacity = state.room.unwrap_or(1 << 40);
        Ok(Response::new(v1::GetCapacityResponse { available_capacity, ..Default::default() }))
    }

    async fn create_snapshot(
        &self,
        request: Request<v1::CreateSnapshotRequest>,
    ) -> Result<Response<v1::CreateSnapshotResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        let known = state.snapshots.iter().find(|(_, (name, _))| *name == wanted.name);
        let id = match known {
            Some((_, (_, held))) if held.source_volume_id != wanted.source_volume_id => {
                return Err(Status::already_exists("a snapshot of this name is of another volume"));
            }
            Some((id, _)) => id.clone(),
            None => {
                let size_bytes = state.volume(&wanted.source_volume_id)?.bytes;
                let (id, ready_to_use) = (state.id("snap"), state.snapshots_ready);
                let mut snapshot = v1::Snapshot {
                    size_bytes,
                    snapshot_id: id.clone(),
                    source_volume_id: wanted.source_volume_id,
                    creation_time: Some(Default::default()),
                    ready_to_use,
                    group_snapshot_id: String::new(),
                };
                if let Some(time) = &mut snapshot.creation_time {
                    time.seconds = 1_767_225_600;
                }
                state.snapshots.insert(id.clone(), (wanted.name, snapshot));
                id
            }
        };
        Ok(Response::new(v1::CreateSnapshotResponse { snapshot: state.shown_snapshot(&id) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<v1::DeleteSnapshotRequest>,
    ) -> Result<Response<v1::DeleteSnapshotResponse>, Status> {
        self.take(&request).snapshots.remove(&request.get_ref().snapshot_id);
        Ok(Response::new(v1::DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<v1::ListSnapshotsRequest>,
    ) -> Result<Response<v1::ListSnapshotsResponse>, Status> {
        let state = self.take(&request);
        let wanted = &request.get_ref().snapshot_id;
        let ids = state.snapshots.keys().filter(|id| wanted.is_empty() || *id == wanted);
        let entries =
            ids.map(|id| v1::list_snapshots_response::Entry { snapshot: state.shown_snapshot(id) }).collect();
        Ok(Response::new(v1::ListSnapshotsResponse { entries, next_token: String::new() }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<v1::ControllerExpandVolumeRequest>,
    ) -> Result<Response<v1::ControllerExpandVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        let bytes = wanted.capacity_range.map_or(0, |range| range.required_bytes);
        let more = bytes - state.volume(&wanted.volume_id)?.bytes;
        if more > 0 {
            state.take_room(more)?;
        }
        let volume = state.volume(&wanted.volume_id)?;
        volume.bytes = volume.bytes.max(bytes);
        let capacity_bytes = volume.bytes;
        let node_expansion_required = state.node_expansion;
        Ok(Response::new(v1::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required }))
    }

    async fn controller_get_volume(
        &self,
        _: Request<v1::ControllerGetVolumeRequest>,
    ) -> Result<Response<v1::ControllerGetVolumeResponse>, Status> {
        Err(Status::unimplemented("not asked for by any controller"))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<v1::ControllerModifyVolumeRequest>,
    ) -> Result<Response<v1::ControllerModifyVolumeResponse>, Status> {
        let mut state = self.take(&request);
        let wanted = request.into_inner();
        state.volume(&wanted.volume_id)?.mutable.extend(wanted.mutable_parameters);
        Ok(Response::new(v1::ControllerModifyVolumeResponse {}))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request(name: &str) -> v1::CreateVolumeRequest {
        v1::CreateVolumeRequest { name: name.to_owned(), ..Default::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn retries_after_lost_responses_create_one_volume() {
        let double = TestDriver::new("d.example", &[Rpc::GetCapacity], &[]);
        let driver = double.driver().await;
        assert_eq!((driver.name(), driver.can()), ("d.example", &double.can()));
        let kinds = [
            (Failing::AnswerLost, true),
            (Failing::Broken, true),
            (Failing::NoAnswer, true),
            (Failing::Garbage, true),
            (Failing::Refuses(Code::Internal, "no"), false),
            (Failing::RefusesAfter(Code::Aborted, "later"), true),
        ];
        for (kind, uncertain) in kinds {
            double.fail("CreateVolume", 0, kind.clone());
            let error = driver.create_volume(request("a")).await.unwrap_err();
            assert_eq!(error.is_uncertain(), uncertain, "{kind:?}: {error}");
        }
        let volume = driver.create_volume(request("a")).await.unwrap().volume.unwrap();
        assert_eq!((double.volume_ids(), double.pending_faults()), (vec![volume.volume_id], 0));
        assert_eq!(double.requests::<v1::CreateVolumeRequest>().len(), 5, "two never reached it");
    }
}
