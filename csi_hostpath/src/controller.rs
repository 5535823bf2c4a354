//! The Controller service: checks the rules, changes volumes on this machine, records the change and responds. A
//! volume or snapshot interrupted by a crash has no record and is removed at the next start.

use std::io;

use orlop_csi::v1;
use orlop_csi::v1::controller_server::Controller;
use orlop_csi::v1::controller_service_capability::rpc::Type as Rpc;
use orlop_csi::v1::controller_service_capability::{self, Type};
use tonic::{Request, Response, Status};

use crate::records::{RecordState, RecordsError, Snapshot, Source, Volume};
use crate::rules::{self, Outcome};
use crate::{Driver, content, pages, tree};

/// Publish context key for the node that the volume was published to.
const NODE: &str = "hostpath.csi.orlop.dev/node";

impl From<RecordsError> for Status {
    fn from(error: RecordsError) -> Self {
        Status::internal(error.to_string())
    }
}

/// Converts a failed operation to a status. Lack of space has its own code, so that the caller can detect it.
pub(crate) fn failed(what: &str) -> impl FnOnce(io::Error) -> Status + '_ {
    move |error| {
        let text = format!("{what}: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::resource_exhausted(text),
            io::ErrorKind::PermissionDenied => {
                Status::permission_denied(format!("{text} (mounting needs root)"))
            }
            _ => Status::internal(text),
        }
    }
}

impl Driver {
    fn shown(&self, volume: &Volume) -> v1::Volume {
        use v1::volume_content_source::{SnapshotSource, Type as Content, VolumeSource};
        let content = volume.source.clone().map(|source| match source {
            Source::Snapshot(id) => Content::Snapshot(SnapshotSource { snapshot_id: id }),
            Source::Volume(id) => Content::Volume(VolumeSource { volume_id: id }),
        });
        let topology = volume.node.iter().map(|node| self.segment(node)).collect();
        v1::Volume {
            capacity_bytes: volume.bytes,
            volume_id: volume.id.clone(),
            volume_context: volume.context.clone().into_iter().collect(),
            content_source: content.map(|content| v1::VolumeContentSource { r#type: Some(content) }),
            accessible_topology: topology,
        }
    }

    /// Returns the topology of a node.
    pub(crate) fn segment(&self, node: &str) -> v1::Topology {
        v1::Topology { segments: [(self.options.topology_key(), node.to_owned())].into() }
    }

    /// Creates a volume according to the plan of `rules`.
    fn make(&self, request: &v1::CreateVolumeRequest) -> Result<Volume, Status> {
        let mut state = self.records.lock();
        let mut volume = match rules::create(&state, &self.options, request)? {
            Outcome::Already(volume) => return Ok(volume),
            Outcome::Todo(volume) => volume,
        };
        volume.id = uuid::Uuid::new_v4().to_string();
        let dir = self.records.volume_dir(&volume.id);
        let made = match &volume.source {
            None => content::make(&dir, volume.form, volume.bytes),
            Some(Source::Snapshot(id)) => {
                content::copy(&self.records.snapshot_dir(id), &dir, volume.form, volume.bytes)
            }
            Some(Source::Volume(id)) => {
                content::copy(&self.records.volume_dir(id), &dir, volume.form, volume.bytes)
            }
        };
        if let Err(error) = made {
            let _ = tree::remove(&dir);
            return Err(failed("the volume could not be created")(error));
        }
        self.records.put_volume(&mut state, volume.clone())?;
        Ok(volume)
    }

    fn status(volume: &Volume) -> (Vec<String>, v1::VolumeCondition) {
        let nodes = volume.published.keys().cloned().collect();
        (nodes, v1::VolumeCondition { abnormal: false, message: "the volume is there".to_owned() })
    }
}

fn shown_snapshot(snapshot: &Snapshot) -> v1::Snapshot {
    v1::Snapshot {
        size_bytes: snapshot.bytes,
        snapshot_id: snapshot.id.clone(),
        source_volume_id: snapshot.volume.clone(),
        creation_time: Some(prost_types::Timestamp {
            seconds: snapshot.created.as_second(),
            nanos: snapshot.created.subsec_nanosecond(),
        }),
        ready_to_use: true,
        group_snapshot_id: String::new(),
    }
}

#[tonic::async_trait]
impl Controller for Driver {
    async fn create_volume(
        &self,
        request: Request<v1::CreateVolumeRequest>,
    ) -> Result<Response<v1::CreateVolumeResponse>, Status> {
        let volume = self.make(request.get_ref())?;
        Ok(Response::new(v1::CreateVolumeResponse { volume: Some(self.shown(&volume)) }))
    }

    async fn delete_volume(
        &self,
        request: Request<v1::DeleteVolumeRequest>,
    ) -> Result<Response<v1::DeleteVolumeResponse>, Status> {
        let id = &request.get_ref().volume_id;
        let _turn = self.records.turn(id).await;
        let mut state = self.records.lock();
        if rules::delete(&state, id)?.is_some() {
            self.records.drop_volume(&mut state, id)?;
        }
        Ok(Response::new(v1::DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<v1::ControllerPublishVolumeRequest>,
    ) -> Result<Response<v1::ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let turn = self.records.turn(&request.volume_id).await;
        let plan = |state: &RecordState| {
            Ok(match rules::publish(state, &self.options, &request)? {
                Outcome::Already(_) => None,
                Outcome::Todo(volume) => Some(volume),
            })
        };
        self.records.change(turn, plan).await?;
        // The driver does not use this context; it reveals whether the caller passes it from controller to node.
        let publish_context = [(NODE.to_owned(), request.node_id)].into();
        Ok(Response::new(v1::ControllerPublishVolumeResponse { publish_context }))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<v1::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<v1::ControllerUnpublishVolumeResponse>, Status> {
        let request = request.get_ref();
        let turn = self.records.turn(&request.volume_id).await;
        let plan = |state: &RecordState| rules::unpublish(state, &request.volume_id, &request.node_id);
        self.records.change(turn, plan).await?;
        Ok(Response::new(v1::ControllerUnpublishVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<v1::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<v1::ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let state = self.records.lock();
        let volume = rules::volume(&state, &request.volume_id)?;
        let message = rules::unsupported(volume, &request.volume_capabilities)?;
        let confirmed = message.is_none().then_some(v1::validate_volume_capabilities_response::Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        });
        let message = message.unwrap_or_default();
        Ok(Response::new(v1::ValidateVolumeCapabilitiesResponse { confirmed, message }))
    }

    async fn list_volumes(
        &self,
        request: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        use v1::list_volumes_response::{Entry, VolumeStatus};
        let request = request.get_ref();
        let state = self.records.lock();
        let (volumes, next_token) =
            pages::page(&state.volumes, |_| true, request.max_entries, &request.starting_token)?;
        let entries = volumes.into_iter().map(|volume| {
            let (published_node_ids, condition) = Driver::status(volume);
            let status = VolumeStatus { published_node_ids, volume_condition: Some(condition) };
            Entry { volume: Some(self.shown(volume)), status: Some(status) }
        });
        Ok(Response::new(v1::ListVolumesResponse { entries: entries.collect(), next_token }))
    }

    async fn controller_get_volume(
        &self,
        request: Request<v1::ControllerGetVolumeRequest>,
    ) -> Result<Response<v1::ControllerGetVolumeResponse>, Status> {
        use v1::controller_get_volume_response::VolumeStatus;
        let state = self.records.lock();
        let volume = rules::volume(&state, &request.get_ref().volume_id)?;
        let (published_node_ids, condition) = Driver::status(volume);
        let status = VolumeStatus { published_node_ids, volume_condition: Some(condition) };
        Ok(Response::new(v1::ControllerGetVolumeResponse {
            volume: Some(self.shown(volume)),
            status: Some(status),
        }))
    }

    async fn get_capacity(
        &self,
        request: Request<v1::GetCapacityRequest>,
    ) -> Result<Response<v1::GetCapacityResponse>, Status> {
        let topology = request.get_ref().accessible_topology.as_ref();
        let key = self.options.topology_key();
        let place = topology.and_then(|topology| topology.segments.get(&key)).map(String::as_str);
        let nowhere = self.options.topology
            && topology.is_some()
            && !place.is_some_and(|node| self.options.knows_node(node));
        let free = rules::free(&self.records.lock(), &self.options, place.or(Some(&self.options.node_id)));
        let available = if nowhere { 0 } else { free.unwrap_or(i64::MAX) };
        Ok(Response::new(v1::GetCapacityResponse {
            available_capacity: available,
            maximum_volume_size: Some(self.options.max_volume_bytes.min(available)),
            minimum_volume_size: None,
        }))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<v1::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<v1::ControllerGetCapabilitiesResponse>, Status> {
        let mut can = vec![
            Rpc::CreateDeleteVolume,
            Rpc::ListVolumes,
            Rpc::GetCapacity,
            Rpc::CreateDeleteSnapshot,
            Rpc::ListSnapshots,
            Rpc::CloneVolume,
            Rpc::ExpandVolume,
            Rpc::VolumeCondition,
            Rpc::GetVolume,
            Rpc::SingleNodeMultiWriter,
            Rpc::ModifyVolume,
        ];
        if self.options.attach {
            can.extend([Rpc::PublishUnpublishVolume, Rpc::PublishReadonly, Rpc::ListVolumesPublishedNodes]);
        }
        let capability = |rpc: Rpc| v1::ControllerServiceCapability {
            r#type: Some(Type::Rpc(controller_service_capability::Rpc { r#type: rpc.into() })),
        };
        let capabilities = can.into_iter().map(capability).collect();
        Ok(Response::new(v1::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_snapshot(
        &self,
        request: Request<v1::CreateSnapshotRequest>,
    ) -> Result<Response<v1::CreateSnapshotResponse>, Status> {
        let mut state = self.records.lock();
        let snapshot = match rules::snapshot(&state, request.get_ref())? {
            Ok(known) => known,
            Err(volume) => {
                let id = uuid::Uuid::new_v4().to_string();
                let dir = self.records.snapshot_dir(&id);
                let from = self.records.volume_dir(&volume.id);
                if let Err(error) = content::copy(&from, &dir, volume.form, volume.bytes) {
                    let _ = tree::remove(&dir);
                    return Err(failed("the snapshot could not be taken")(error));
                }
                let name = request.get_ref().name.clone();
                let created = jiff::Timestamp::now();
                let new =
                    Snapshot { id, name, volume: volume.id, bytes: volume.bytes, form: volume.form, created };
                self.records.put_snapshot(&mut state, new.clone())?;
                new
            }
        };
        Ok(Response::new(v1::CreateSnapshotResponse { snapshot: Some(shown_snapshot(&snapshot)) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<v1::DeleteSnapshotRequest>,
    ) -> Result<Response<v1::DeleteSnapshotResponse>, Status> {
        let id = &request.get_ref().snapshot_id;
        rules::required(id, "snapshot_id")?;
        let mut state = self.records.lock();
        if state.snapshots.contains_key(id) {
            self.records.drop_snapshot(&mut state, id)?;
        }
        Ok(Response::new(v1::DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<v1::ListSnapshotsRequest>,
    ) -> Result<Response<v1::ListSnapshotsResponse>, Status> {
        let request = request.get_ref();
        let matches = |snapshot: &Snapshot| {
            (request.snapshot_id.is_empty() || request.snapshot_id == snapshot.id)
                && (request.source_volume_id.is_empty() || request.source_volume_id == snapshot.volume)
        };
        let state = self.records.lock();
        let (snapshots, next_token) =
            pages::page(&state.snapshots, matches, request.max_entries, &request.starting_token)?;
        let entry =
            |snapshot| v1::list_snapshots_response::Entry { snapshot: Some(shown_snapshot(snapshot)) };
        let entries = snapshots.into_iter().map(entry).collect();
        Ok(Response::new(v1::ListSnapshotsResponse { entries, next_token }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<v1::ControllerExpandVolumeRequest>,
    ) -> Result<Response<v1::ControllerExpandVolumeResponse>, Status> {
        let _turn = self.records.turn(&request.get_ref().volume_id).await;
        let mut state = self.records.lock();
        let volume = match rules::expand(&state, &self.options, request.get_ref())? {
            Outcome::Already(volume) => volume,
            Outcome::Todo(volume) => {
                if rules::grows_on_node(volume.form) {
                    let image = content::path(&self.records.volume_dir(&volume.id), volume.form);
                    content::grow(&image, volume.bytes).map_err(failed("the image could not grow"))?;
                }
                // A crash before this line leaves a file that is longer than its record; the next expansion grows it again.
                self.records.put_volume(&mut state, volume.clone())?;
                volume
            }
        };
        Ok(Response::new(v1::ControllerExpandVolumeResponse {
            capacity_bytes: volume.bytes,
            node_expansion_required: rules::grows_on_node(volume.form),
        }))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<v1::ControllerModifyVolumeRequest>,
    ) -> Result<Response<v1::ControllerModifyVolumeResponse>, Status> {
        let request = request.get_ref();
        let _turn = self.records.turn(&request.volume_id).await;
        let mut state = self.records.lock();
        let mut volume = rules::volume(&state, &request.volume_id)?.clone();
        volume.mutable.extend(rules::changes(&self.options, &request.mutable_parameters)?);
        self.records.put_volume(&mut state, volume)?;
        Ok(Response::new(v1::ControllerModifyVolumeResponse {}))
    }
}
