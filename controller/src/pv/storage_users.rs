//! The volumes whose storage must not be erased, as they were listed last.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume};
use kube::Resource as _;
use orlop_volume::storage_identity::StorageIdentity;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The fields of a volume that the check needs.
pub(super) struct StorageUser {
    pub(super) reference: ObjectReference,
    identity: StorageIdentity,
    /// With the symbolic links of this machine resolved.
    resolved: StorageIdentity,
}

/// The volumes as they were listed last, and when the list began.
#[derive(Default)]
pub(super) struct StorageUsers(pub(super) Mutex<Option<(Instant, Arc<Vec<StorageUser>>)>>);

/// Whether a volume protects its storage: it belongs to a claim, and is not itself about to be erased. Otherwise two
/// released volumes with the same storage would protect each other for ever. Its phase may be wrong: a claim that is
/// `known` counts.
// Tests: NEW-SHARED-3, NEW-SHARED-4
pub(super) fn is_claimed(volume: &PersistentVolume, known: impl FnOnce() -> bool) -> bool {
    let spec = volume.spec.as_ref();
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let is_reclaimed =
        matches!(phase, Some("Released" | "Failed")) && matches!(policy, Some("Delete" | "Recycle"));
    spec.is_some_and(|spec| spec.claim_ref.is_some()) && (!is_reclaimed || known())
}

/// The fields of a volume that the check needs; `None` if its source is unknown. Reads the file system to resolve links.
pub(super) fn storage_user(volume: &PersistentVolume) -> Option<StorageUser> {
    unresolved(volume).map(resolved)
}

/// A volume and its storage, before links are resolved.
pub(super) type UnresolvedUser = (ObjectReference, StorageIdentity);

/// The storage of a volume, if the volume has storage that can be shared. Does not read the file system.
pub(super) fn unresolved(volume: &PersistentVolume) -> Option<UnresolvedUser> {
    let identity = StorageIdentity::of(volume.spec.as_ref()?)?;
    Some((volume.object_ref(&()), identity))
}

/// Reads the file system to resolve links.
pub(super) fn resolved((reference, identity): UnresolvedUser) -> StorageUser {
    let resolved = identity.resolved();
    StorageUser { reference, identity, resolved }
}

impl StorageUser {
    /// Whether erasing one of them may erase the other.
    pub(super) fn shares(&self, other: &StorageUser) -> bool {
        self.identity.overlaps(&other.identity) || self.resolved.overlaps(&other.resolved)
    }
}
