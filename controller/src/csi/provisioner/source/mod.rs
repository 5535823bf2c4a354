//! The content source of a new volume: none, another claim's volume, or a snapshot (upstream: external-provisioner's
//! getVolumeContentSource). Pure; the texts are upstream's.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;
use orlop_csi::v1;
use serde::{Deserialize, Serialize};

use super::size;
use crate::snapshot::{self, VolumeSnapshot, VolumeSnapshotContent};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{ANN_ALLOW_MODE_CHANGE, FINALIZER_SNAPSHOT_SOURCE};
use orlop_volume::csi::handle;

/// The initial content of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// A volume's content, by its id.
    Volume(String),
    /// A snapshot's content, by its id.
    Snapshot(String),
}

impl Content {
    /// The CSI message.
    pub fn message(&self) -> v1::VolumeContentSource {
        use v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
        let source = match self.clone() {
            Content::Volume(volume_id) => Type::Volume(VolumeSource { volume_id }),
            Content::Snapshot(snapshot_id) => Type::Snapshot(SnapshotSource { snapshot_id }),
        };
        v1::VolumeContentSource { r#type: Some(source) }
    }
}

/// The content source that a claim requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedSource<'a> {
    /// None.
    Empty,
    /// The volume of the claim with this name in the same namespace.
    Claim(&'a str),
    /// The snapshot with this name in the same namespace.
    Snapshot(&'a str),
    /// A kind that other controllers populate.
    Other(&'a str),
}

/// Why the claim's source cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SourceError {
    #[error("the PVC source not found for PVC {0}")]
    Nameless(String),
    #[error(
        "the PVC source does not belong to the right APIGroup. Expected snapshot.storage.k8s.io, Got {0}"
    )]
    Group(String),
    #[error("error getting handle for DataSource Type {kind} by Name {name}: {cause}")]
    Unfit { kind: &'static str, name: String, cause: Unfit },
}

/// Why a single source is unsuitable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("error getting PVC {name} (namespace {namespace:?}) from api server: not found")]
    NoClaim { name: String, namespace: String },
    #[error("the PVC DataSource {name} must have a status of Bound.  Got {phase}")]
    NotBound { name: String, phase: String },
    #[error("the PVC DataSource {0} is currently being deleted")]
    ClaimGoing(String),
    #[error("the source PVC ({0}) storageclass cannot be empty")]
    NoSourceClass(String),
    #[error("the requested PVC ({0}) storageclass cannot be empty")]
    NoClass(String),
    #[error(
        "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested \
         {asked} but source is {has}"
    )]
    Larger { asked: i64, has: i64 },
    #[error("volume name is empty in source PVC {0}")]
    NoVolume(String),
    #[error("claim in dataSource not bound or invalid")]
    Invalid,
    #[error(
        "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is {has}, but new PVC \
         requested {asked}"
    )]
    Mode { asked: &'static str, has: &'static str },
    #[error("error getting snapshot {name} from api server: {why}")]
    NoSnapshot { name: String, why: String },
    #[error("snapshot {0} is currently being deleted")]
    SnapshotGoing(String),
    #[error("snapshot {0} not bound")]
    SnapshotNotBound(String),
    #[error("snapshot {0} is not Ready")]
    NotReady(String),
    #[error("snapshot handle {0} is not available")]
    NoHandle(String),
    #[error("requested volume size {asked} is less than the size {has} for the source snapshot {name}")]
    SnapshotLarger { asked: i64, has: i64, name: String },
    #[error(
        "requested volume {claim} modifies the mode of the source volume but does not have permission to do so. \
         snapshot.storage.kubernetes.io/allow-volume-mode-change annotation is not present on snapshotcontent {content}"
    )]
    ModeChange { claim: String, content: String },
}

/// Reads the requested source. `dataSource` takes precedence over `dataSourceRef`; the server keeps the two equal where both can
/// express it.
pub(super) fn asked(claim: &PersistentVolumeClaim) -> Result<RequestedSource<'_>, SourceError> {
    let Some(spec) = &claim.spec else { return Ok(RequestedSource::Empty) };
    let (group, kind, name) = match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), _) => (source.api_group.as_deref(), source.kind.as_str(), source.name.as_str()),
        (None, Some(source)) => (source.api_group.as_deref(), source.kind.as_str(), source.name.as_str()),
        (None, None) => return Ok(RequestedSource::Empty),
    };
    if name.is_empty() {
        return Err(SourceError::Nameless(claim.metadata.name.clone().unwrap_or_default()));
    }
    match (kind, group.unwrap_or_default()) {
        ("VolumeSnapshot", snapshot::GROUP) => Ok(RequestedSource::Snapshot(name)),
        ("VolumeSnapshot", other) => Err(SourceError::Group(other.to_owned())),
        ("PersistentVolumeClaim", _) => Ok(RequestedSource::Claim(name)),
        (other, _) => Ok(RequestedSource::Other(other)),
    }
}

/// Another claim's volume as content.
pub(super) fn of_claim(
    claim: &PersistentVolumeClaim,
    name: &str,
    source: Option<&PersistentVolumeClaim>,
    volume: Option<&PersistentVolume>,
    driver: &str,
) -> Result<Content, SourceError> {
    let unfit = |cause| SourceError::Unfit { kind: "PersistentVolumeClaim", name: name.to_owned(), cause };
    clone_handle(claim, name, source, volume, driver).map(Content::Volume).map_err(unfit)
}

fn clone_handle(
    claim: &PersistentVolumeClaim,
    name: &str,
    source: Option<&PersistentVolumeClaim>,
    volume: Option<&PersistentVolume>,
    driver: &str,
) -> Result<String, Unfit> {
    let Some(source) = source else {
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        return Err(Unfit::NoClaim { name: name.to_owned(), namespace });
    };
    let phase = source.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if phase != "Bound" {
        return Err(Unfit::NotBound { name: name.to_owned(), phase: phase.to_owned() });
    }
    if is_terminating(source) {
        return Err(Unfit::ClaimGoing(name.to_owned()));
    }
    let has_class = |claim: &PersistentVolumeClaim| {
        claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
    };
    if !has_class(source) {
        return Err(Unfit::NoSourceClass(name.to_owned()));
    }
    if !has_class(claim) {
        return Err(Unfit::NoClass(claim.metadata.name.clone().unwrap_or_default()));
    }
    let (wanted, has) = (size::requested(claim), size::requested(source));
    if wanted < has {
        return Err(Unfit::Larger { asked: wanted, has });
    }
    if source.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default().is_empty() {
        return Err(Unfit::NoVolume(name.to_owned()));
    }
    let volume = volume.ok_or(Unfit::Invalid)?;
    let csi = handle::source(volume).filter(|csi| csi.driver == driver).ok_or(Unfit::Invalid)?;
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).ok_or(Unfit::Invalid)?;
    let ours = reference.uid == source.metadata.uid
        && reference.namespace == source.metadata.namespace
        && reference.name == source.metadata.name;
    let bound = volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"));
    if !ours || !bound {
        return Err(Unfit::Invalid);
    }
    let asked = mode(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()));
    let has = mode(volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()));
    if asked != has {
        return Err(Unfit::Mode { asked, has });
    }
    Ok(csi.volume_handle.clone())
}

/// A snapshot as content. `snapshot` may be an error message.
pub(super) fn of_snapshot(
    claim: &PersistentVolumeClaim,
    name: &str,
    snapshot: Result<&VolumeSnapshot, String>,
    content: Option<&VolumeSnapshotContent>,
    driver: &str,
) -> Result<Content, SourceError> {
    let unfit = |cause| SourceError::Unfit { kind: "VolumeSnapshot", name: name.to_owned(), cause };
    snapshot_handle(claim, name, snapshot, content, driver).map(Content::Snapshot).map_err(unfit)
}

fn snapshot_handle(
    claim: &PersistentVolumeClaim,
    name: &str,
    snapshot: Result<&VolumeSnapshot, String>,
    content: Option<&VolumeSnapshotContent>,
    driver: &str,
) -> Result<String, Unfit> {
    let named = || name.to_owned();
    let snapshot = snapshot.map_err(|why| Unfit::NoSnapshot { name: named(), why })?;
    // A snapshot with this volume's finalizer exists until the volume is created.
    if is_terminating(snapshot) && !has_finalizer(snapshot, FINALIZER_SNAPSHOT_SOURCE) {
        return Err(Unfit::SnapshotGoing(named()));
    }
    let content = content.ok_or_else(|| Unfit::SnapshotNotBound(named()))?;
    let reference = &content.spec.volume_snapshot_ref;
    let ours = reference.uid == snapshot.metadata.uid
        && reference.namespace == snapshot.metadata.namespace
        && reference.name == snapshot.metadata.name;
    if !ours || content.spec.driver != driver {
        return Err(Unfit::SnapshotNotBound(named()));
    }
    let status = snapshot.status.as_ref();
    if status.and_then(|status| status.ready_to_use) != Some(true) {
        return Err(Unfit::NotReady(named()));
    }
    let id = content.status.as_ref().and_then(|status| status.snapshot_handle.clone());
    let id = id.filter(|id| !id.is_empty()).ok_or_else(|| Unfit::NoHandle(named()))?;
    if let Some(restore) = status.and_then(|status| status.restore_size.as_ref()) {
        let has = Quantity::parse(&restore.0).map_or(0, |size| size.value());
        let asked = size::requested(claim);
        if asked < has {
            return Err(Unfit::SnapshotLarger { asked, has, name: named() });
        }
    }
    let wanted = mode(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()));
    let differs = content.spec.source_volume_mode.as_deref().is_some_and(|has| mode(Some(has)) != wanted);
    if differs && annotation(content, ANN_ALLOW_MODE_CHANGE) != Some("true") {
        let meta = &claim.metadata;
        let claim = format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        );
        return Err(Unfit::ModeChange { claim, content: content.metadata.name.clone().unwrap_or_default() });
    }
    Ok(id)
}

/// Absent means Filesystem.
fn mode(mode: Option<&str>) -> &'static str {
    if mode == Some("Block") { "Block" } else { "Filesystem" }
}

#[cfg(test)]
mod tests;
