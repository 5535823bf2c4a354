//! The response to each request, derived only from the records and the options. Codes are those that the CSI
//! specification defines for each call; where it permits several, the comments give the reason.

use std::collections::{BTreeMap, BTreeSet};

use orlop_csi::v1;
use orlop_csi::v1::volume_capability::AccessType;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use orlop_csi::v1::volume_content_source::Type as ContentSource;
use tonic::Status;

use crate::Options;
use crate::records::{Form, Publication, RecordState, Snapshot, Source, Volume};

/// The size of a volume for a request without a size.
const DEFAULT_BYTES: i64 = 1 << 30;
/// The parameter with the form of a mounted volume: `directory` (the default) or `image`.
pub(crate) const FORM: &str = "form";

/// The plan for a request: an existing record, or a record to write.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome<T> {
    /// The request was fulfilled before.
    Already(T),
    /// The request requires this change.
    Todo(T),
}

/// Rejects an empty argument.
pub(crate) fn required(value: &str, name: &str) -> Result<(), Status> {
    if value.is_empty() {
        return Err(Status::invalid_argument(format!("{name} is required")));
    }
    Ok(())
}

/// Looks up a volume by ID.
pub(crate) fn volume<'a>(state: &'a RecordState, id: &str) -> Result<&'a Volume, Status> {
    required(id, "volume_id")?;
    state.volumes.get(id).ok_or_else(|| Status::not_found(format!("there is no volume {id}")))
}

/// The access type and mode of a capability.
pub(crate) fn access(capability: Option<&v1::VolumeCapability>) -> Result<(bool, Mode), Status> {
    let capability = capability.ok_or_else(|| Status::invalid_argument("volume_capability is required"))?;
    let block = match &capability.access_type {
        Some(AccessType::Block(_)) => true,
        Some(AccessType::Mount(_)) => false,
        None => return Err(Status::invalid_argument("a capability has neither block nor mount")),
    };
    let mode = capability.access_mode.as_ref().map_or(Mode::Unknown, v1::volume_capability::AccessMode::mode);
    if mode == Mode::Unknown {
        return Err(Status::invalid_argument("a capability has no access mode"));
    }
    Ok((block, mode))
}

fn form_of(block: bool, parameters: &BTreeMap<String, String>) -> Result<Form, Status> {
    let asked = parameters.get(FORM).map(String::as_str);
    match (block, asked) {
        (true, None | Some("block")) => Ok(Form::Block),
        (false, None | Some("directory")) => Ok(Form::Directory),
        (false, Some("image")) => Ok(Form::Image),
        (true, Some(other)) => {
            Err(Status::invalid_argument(format!("{FORM} {other:?} cannot be a block device")))
        }
        (false, Some(other)) => Err(Status::invalid_argument(format!(
            "parameter {FORM} is {other:?}; directory and image are known"
        ))),
    }
}

/// The requested size, or why the driver cannot provide it.
fn size(range: Option<&v1::CapacityRange>, options: &Options) -> Result<i64, Status> {
    let (required, limit) = range.map_or((0, 0), |range| (range.required_bytes, range.limit_bytes));
    if required < 0 || limit < 0 {
        return Err(Status::invalid_argument("a capacity is negative"));
    }
    if limit > 0 && required > limit {
        return Err(Status::invalid_argument(format!(
            "{required} bytes are required, but at most {limit} allowed"
        )));
    }
    let bytes = match (required, limit) {
        (0, 0) => DEFAULT_BYTES.min(options.max_volume_bytes),
        (0, limit) => DEFAULT_BYTES.min(options.max_volume_bytes).min(limit),
        (required, _) => required,
    };
    if bytes > options.max_volume_bytes {
        return Err(Status::out_of_range(format!(
            "{bytes} bytes are requested; a volume has at most {}",
            options.max_volume_bytes
        )));
    }
    Ok(bytes)
}

fn fits(bytes: i64, range: Option<&v1::CapacityRange>) -> bool {
    range.is_none_or(|range| {
        bytes >= range.required_bytes && (range.limit_bytes == 0 || bytes <= range.limit_bytes)
    })
}

/// The nodes that may store a volume, in order of preference. `None` stands for a driver without topology.
fn places(
    requirement: Option<&v1::TopologyRequirement>,
    options: &Options,
) -> Result<Vec<Option<String>>, Status> {
    if !options.topology {
        return Ok(vec![None]);
    }
    let key = options.topology_key();
    let Some(requirement) = requirement.filter(|r| !r.requisite.is_empty() || !r.preferred.is_empty()) else {
        return Ok(vec![Some(options.node_id.clone())]);
    };
    let allowed = |node: &str| {
        requirement.requisite.is_empty()
            || requirement
                .requisite
                .iter()
                .any(|topology| topology.segments.get(&key).is_some_and(|n| n == node))
    };
    let mut places = Vec::new();
    for topology in requirement.preferred.iter().chain(&requirement.requisite) {
        let Some(node) = topology.segments.get(&key) else { continue };
        if options.knows_node(node) && allowed(node) && !places.contains(&Some(node.clone())) {
            places.push(Some(node.clone()));
        }
    }
    if places.is_empty() {
        return Err(Status::resource_exhausted(format!("no requested topology has a {key} of this driver")));
    }
    Ok(places)
}

/// Free bytes on a node; `None` for unlimited capacity.
pub(crate) fn free(state: &RecordState, options: &Options, place: Option<&str>) -> Option<i64> {
    let capacity = options.capacity?;
    let here = |volume: &&Volume| !options.topology || volume.node.as_deref() == place;
    let used: i64 = state.volumes.values().filter(here).map(|volume| volume.bytes).sum();
    Some((capacity - used).max(0))
}

fn source_of(
    state: &RecordState,
    source: Option<&v1::VolumeContentSource>,
) -> Result<Option<(Source, Form, i64)>, Status> {
    let Some(source) = source else { return Ok(None) };
    match &source.r#type {
        Some(ContentSource::Snapshot(source)) => {
            let id = &source.snapshot_id;
            let snapshot = state
                .snapshots
                .get(id)
                .ok_or_else(|| Status::not_found(format!("there is no snapshot {id}")))?;
            Ok(Some((Source::Snapshot(id.clone()), snapshot.form, snapshot.bytes)))
        }
        Some(ContentSource::Volume(source)) => {
            let volume = volume(state, &source.volume_id)?;
            Ok(Some((Source::Volume(volume.id.clone()), volume.form, volume.bytes)))
        }
        None => Err(Status::invalid_argument("the content source is neither a snapshot nor a volume")),
    }
}

/// Plans CreateVolume. A volume in `Todo` has no ID yet.
pub(crate) fn create(
    state: &RecordState,
    options: &Options,
    request: &v1::CreateVolumeRequest,
) -> Result<Outcome<Volume>, Status> {
    required(&request.name, "name")?;
    if request.volume_capabilities.is_empty() {
        return Err(Status::invalid_argument("volume_capabilities is required"));
    }
    let mut block = None;
    for capability in &request.volume_capabilities {
        let (this, _) = access(Some(capability))?;
        if *block.get_or_insert(this) != this {
            return Err(Status::invalid_argument("a volume is a block device or mounted, not both"));
        }
    }
    let parameters: BTreeMap<String, String> =
        request.parameters.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(unknown) =
        parameters.keys().find(|key| *key != FORM && !key.starts_with("csi.storage.k8s.io/"))
    {
        return Err(Status::invalid_argument(format!("parameter {unknown:?} is not known; {FORM} is")));
    }
    let form = form_of(block.unwrap_or(false), &parameters)?;
    let mutable = changes(options, &request.mutable_parameters)?;
    let bytes = size(request.capacity_range.as_ref(), options)?;
    let source = request.volume_content_source.as_ref();
    if let Some(known) = state.volumes.values().find(|volume| volume.name == request.name) {
        let same_source = match (source.and_then(|source| source.r#type.as_ref()), &known.source) {
            (None, None) => true,
            (Some(ContentSource::Snapshot(asked)), Some(Source::Snapshot(id))) => asked.snapshot_id == *id,
            (Some(ContentSource::Volume(asked)), Some(Source::Volume(id))) => asked.volume_id == *id,
            (None, Some(_)) | (Some(_), None | Some(_)) => false,
        };
        if fits(known.bytes, request.capacity_range.as_ref()) && known.form == form && same_source {
            return Ok(Outcome::Already(known.clone()));
        }
        return Err(Status::already_exists(format!(
            "a volume named {} of {} bytes exists and does not match the request",
            known.name, known.bytes
        )));
    }
    let source = source_of(state, source)?;
    let bytes = match &source {
        Some((_, from, least)) => {
            if *from != form {
                return Err(Status::invalid_argument("the source is of another form"));
            }
            if !fits(bytes.max(*least), request.capacity_range.as_ref())
                || bytes < *least && has_size(request)
            {
                return Err(Status::out_of_range(format!("the source has {least} bytes")));
            }
            bytes.max(*least)
        }
        None => bytes,
    };
    for place in places(request.accessibility_requirements.as_ref(), options)? {
        if free(state, options, place.as_deref()).is_some_and(|free| free < bytes) {
            continue;
        }
        return Ok(Outcome::Todo(Volume {
            id: String::new(),
            name: request.name.clone(),
            bytes,
            form,
            node: place,
            context: BTreeMap::from([(FORM.to_owned(), form_name(form).to_owned())]),
            mutable,
            source: source.map(|(source, _, _)| source),
            published: BTreeMap::new(),
            staged: BTreeSet::new(),
            targets: BTreeMap::new(),
            ephemeral: false,
        }));
    }
    Err(Status::resource_exhausted(format!("not enough free capacity for {bytes} bytes")))
}

fn has_size(request: &v1::CreateVolumeRequest) -> bool {
    request.capacity_range.as_ref().is_some_and(|range| range.required_bytes > 0)
}

pub(crate) fn form_name(form: Form) -> &'static str {
    match form {
        Form::Directory => "directory",
        Form::Image => "image",
        Form::Block => "block",
    }
}

/// The volume to delete, or why it cannot be deleted; `None` if it does not exist.
pub(crate) fn delete<'a>(state: &'a RecordState, id: &str) -> Result<Option<&'a Volume>, Status> {
    required(id, "volume_id")?;
    let Some(volume) = state.volumes.get(id) else { return Ok(None) };
    if let Some(node) = volume.published.keys().next() {
        return Err(Status::failed_precondition(format!("volume {id} is published to node {node}")));
    }
    if let Some(path) = volume.targets.keys().next().or(volume.staged.first()) {
        return Err(Status::failed_precondition(format!("volume {id} is mounted at {}", path.display())));
    }
    Ok(Some(volume))
}

/// Plans ControllerPublishVolume.
pub(crate) fn publish(
    state: &RecordState,
    options: &Options,
    request: &v1::ControllerPublishVolumeRequest,
) -> Result<Outcome<Volume>, Status> {
    required(&request.volume_id, "volume_id")?;
    required(&request.node_id, "node_id")?;
    let (_, mode) = access(request.volume_capability.as_ref())?;
    let known = volume(state, &request.volume_id)?;
    let node = &request.node_id;
    if !options.knows_node(node) {
        return Err(Status::not_found(format!("there is no node {node}")));
    }
    if known.node.as_ref().is_some_and(|place| place != node) {
        return Err(Status::failed_precondition(format!(
            "volume {} cannot be reached from node {node}",
            known.id
        )));
    }
    if let Some(there) = known.published.get(node) {
        if there.readonly == request.readonly {
            return Ok(Outcome::Already(known.clone()));
        }
        return Err(Status::already_exists(format!(
            "volume {} is on node {node} with another readonly",
            known.id
        )));
    }
    let one_node = match mode {
        Mode::SingleNodeWriter
        | Mode::SingleNodeReaderOnly
        | Mode::SingleNodeSingleWriter
        | Mode::SingleNodeMultiWriter => true,
        Mode::MultiNodeReaderOnly
        | Mode::MultiNodeSingleWriter
        | Mode::MultiNodeMultiWriter
        | Mode::Unknown => false,
    };
    if one_node && let Some(other) = known.published.keys().next() {
        return Err(Status::failed_precondition(format!("volume {} is published to node {other}", known.id)));
    }
    let has_limit = options.max_volumes_per_node > 0;
    let on_node = |volume: &&Volume| volume.published.contains_key(node);
    let there = if has_limit { state.volumes.values().filter(on_node).count() } else { 0 };
    if has_limit && there as i64 >= options.max_volumes_per_node {
        return Err(Status::resource_exhausted(format!(
            "node {node} has {there} volumes, which is its limit"
        )));
    }
    let mut changed = known.clone();
    changed.published.insert(node.clone(), Publication { readonly: request.readonly });
    Ok(Outcome::Todo(changed))
}

/// Plans ControllerUnpublishVolume: the changed record, if anything changes. An empty node stands for all nodes.
pub(crate) fn unpublish(state: &RecordState, id: &str, node: &str) -> Result<Option<Volume>, Status> {
    required(id, "volume_id")?;
    // A deleted volume is published to no node.
    let Some(known) = state.volumes.get(id) else { return Ok(None) };
    let mut changed = known.clone();
    changed.published.retain(|there, _| !node.is_empty() && there != node);
    Ok((changed != *known).then_some(changed))
}

/// Plans ControllerExpandVolume. A volume never shrinks.
pub(crate) fn expand(
    state: &RecordState,
    options: &Options,
    request: &v1::ControllerExpandVolumeRequest,
) -> Result<Outcome<Volume>, Status> {
    required(&request.volume_id, "volume_id")?;
    let range = request.capacity_range.as_ref();
    let range = range.ok_or_else(|| Status::invalid_argument("capacity_range is required"))?;
    let bytes = size(Some(range), options)?;
    let known = volume(state, &request.volume_id)?;
    if known.bytes >= range.required_bytes {
        if range.limit_bytes > 0 && known.bytes > range.limit_bytes {
            return Err(Status::out_of_range(format!(
                "volume {} has {} bytes and cannot shrink",
                known.id, known.bytes
            )));
        }
        return Ok(Outcome::Already(known.clone()));
    }
    if free(state, options, known.node.as_deref()).is_some_and(|free| free < bytes - known.bytes) {
        return Err(Status::out_of_range(format!("not enough free capacity for {bytes} bytes")));
    }
    Ok(Outcome::Todo(Volume { bytes, ..known.clone() }))
}

/// Whether the node must expand the volume after the controller did.
pub(crate) fn grows_on_node(form: Form) -> bool {
    match form {
        Form::Image | Form::Block => true,
        Form::Directory => false,
    }
}

/// The parameters to change, or why they cannot be changed.
pub(crate) fn changes<'a>(
    options: &Options,
    asked: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<BTreeMap<String, String>, Status> {
    let asked: BTreeMap<String, String> =
        asked.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let known = &options.mutable_parameters;
    match asked.keys().find(|key| !known.is_empty() && !known.contains(*key)) {
        Some(unknown) => Err(Status::invalid_argument(format!("parameter {unknown:?} cannot be changed"))),
        None => Ok(asked),
    }
}

/// Plans CreateSnapshot: the existing snapshot, or the volume to take a snapshot of.
pub(crate) fn snapshot(
    state: &RecordState,
    request: &v1::CreateSnapshotRequest,
) -> Result<Result<Snapshot, Volume>, Status> {
    required(&request.name, "name")?;
    required(&request.source_volume_id, "source_volume_id")?;
    if let Some(known) = state.snapshots.values().find(|snapshot| snapshot.name == request.name) {
        if known.volume == request.source_volume_id {
            return Ok(Ok(known.clone()));
        }
        return Err(Status::already_exists(format!(
            "there is a snapshot named {} of volume {}",
            known.name, known.volume
        )));
    }
    Ok(Err(volume(state, &request.source_volume_id)?.clone()))
}

/// Why a volume does not support the capabilities; `None` if it does.
pub(crate) fn unsupported(
    volume: &Volume,
    capabilities: &[v1::VolumeCapability],
) -> Result<Option<String>, Status> {
    if capabilities.is_empty() {
        return Err(Status::invalid_argument("volume_capabilities is required"));
    }
    for capability in capabilities {
        let (block, _) = access(Some(capability))?;
        if block != (volume.form == Form::Block) {
            let is = form_name(volume.form);
            return Ok(Some(format!("volume {} is a {is}", volume.id)));
        }
    }
    Ok(None)
}
