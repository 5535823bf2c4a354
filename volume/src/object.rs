//! Accessors for volumes and claims: phases as enums, keys, annotations, references. Pure; the situation modules
//! interpret the values.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// `status.phase` of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumePhase {
    /// No phase yet: no controller has processed the volume.
    Unset,
    /// Not available yet; the default of the API server.
    Pending,
    /// Free, or reserved by name.
    Available,
    /// Bound to a claim.
    Bound,
    /// Its claim was deleted; not reclaimed yet.
    Released,
    /// Reclaiming failed and is retried.
    Failed,
    /// A phase unknown to this version.
    Unknown,
}

impl VolumePhase {
    /// The phase of `volume`.
    pub fn of(volume: &PersistentVolume) -> Self {
        match volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("") {
            "" => Self::Unset,
            "Pending" => Self::Pending,
            "Available" => Self::Available,
            "Bound" => Self::Bound,
            "Released" => Self::Released,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// The phase's name in the API; empty for [`VolumePhase::Unset`] and [`VolumePhase::Unknown`], which are never
    /// written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unset | Self::Unknown => "",
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::Bound => "Bound",
            Self::Released => "Released",
            Self::Failed => "Failed",
        }
    }

    /// Whether the volume has lost its claim: `Released`, or `Failed` while reclaiming.
    pub fn is_reclaiming(self) -> bool {
        match self {
            Self::Released | Self::Failed => true,
            Self::Unset | Self::Pending | Self::Available | Self::Bound | Self::Unknown => false,
        }
    }
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPhase {
    /// No phase yet.
    Unset,
    /// Waits for a volume.
    Pending,
    /// Bound to a volume.
    Bound,
    /// Its volume is missing or bound to another claim. Not terminal.
    Lost,
    /// A phase unknown to this version.
    Unknown,
}

impl ClaimPhase {
    /// The phase of `claim`.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        match claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("") {
            "" => Self::Unset,
            "Pending" => Self::Pending,
            "Bound" => Self::Bound,
            "Lost" => Self::Lost,
            _ => Self::Unknown,
        }
    }

    /// The phase's name in the API; empty for the two that are never written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unset | Self::Unknown => "",
            Self::Pending => "Pending",
            Self::Bound => "Bound",
            Self::Lost => "Lost",
        }
    }
}

/// Filesystem or raw block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VolumeMode {
    /// A mounted filesystem; the default for an absent mode.
    Filesystem,
    /// A device file.
    Block,
}

impl VolumeMode {
    fn parse(mode: Option<&str>) -> Self {
        match mode {
            Some("Block") => Self::Block,
            // The API server accepts no other value.
            Some(_) | None => Self::Filesystem,
        }
    }

    /// The mode of `volume`.
    pub fn of_volume(volume: &PersistentVolume) -> Self {
        Self::parse(volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()))
    }

    /// The mode that `claim` requests.
    pub fn of_claim(claim: &PersistentVolumeClaim) -> Self {
        Self::parse(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()))
    }
}

/// The name of an object; empty only for objects that were never on a server.
pub fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or("")
}

/// The UID of an object, empty when it has none.
pub fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or("")
}

/// Whether an object is being deleted and waits for its finalizers.
pub fn is_terminating(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// `namespace/name` of a claim: its key in queues, stores and operation names.
pub fn claim_key(claim: &PersistentVolumeClaim) -> String {
    format!("{}/{}", claim.metadata.namespace.as_deref().unwrap_or(""), name(&claim.metadata))
}

/// The value of an annotation, if present; it may be empty.
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether an annotation is present, with any value.
pub fn has_annotation(meta: &ObjectMeta, key: &str) -> bool {
    annotation(meta, key).is_some()
}

/// Sets an annotation. True if something changed.
pub fn set_annotation(meta: &mut ObjectMeta, key: &str, value: &str) -> bool {
    let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
    if annotations.get(key).is_some_and(|old| old == value) {
        return false;
    }
    annotations.insert(key.to_owned(), value.to_owned());
    true
}

/// Removes an annotation. True if it was present.
pub fn remove_annotation(meta: &mut ObjectMeta, key: &str) -> bool {
    meta.annotations.as_mut().is_some_and(|annotations| annotations.remove(key).is_some())
}

/// The claim reference of a volume, if any.
pub fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// `namespace/name` of a reference.
pub fn reference_key(reference: &ObjectReference) -> String {
    format!("{}/{}", reference.namespace.as_deref().unwrap_or(""), reference.name.as_deref().unwrap_or(""))
}

/// The UID in a reference, empty when only the name is reserved.
pub fn reference_uid(reference: &ObjectReference) -> &str {
    reference.uid.as_deref().unwrap_or("")
}

/// Whether a volume refers to this claim: same namespace and name, and the reference has no UID or this claim's
/// UID.
pub fn points_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = claim_ref(volume) else { return false };
    if reference.name.as_deref().unwrap_or("") != name(&claim.metadata)
        || reference.namespace.as_deref().unwrap_or("") != claim.metadata.namespace.as_deref().unwrap_or("")
    {
        return false;
    }
    let wanted = reference_uid(reference);
    wanted.is_empty() || wanted == uid(&claim.metadata)
}

/// The volume that a claim names, empty when it names none.
pub fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or("")
}

/// The reclaim policy of a volume as written; the API server's default is `Retain`.
pub fn reclaim_policy(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}
