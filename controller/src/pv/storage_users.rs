//! The volumes whose storage must not be erased, as they were listed last.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume};
use kube::Resource as _;
use orlop_volume::file_location::{FileId, FileLocation, MountTable};
use orlop_volume::storage_identity::StorageIdentity;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The fields of a volume that the check needs.
pub(super) struct StorageUser {
    pub(super) reference: ObjectReference,
    identity: StorageIdentity,
    /// With the symbolic links of this machine resolved.
    resolved: StorageIdentity,
    /// Of a directory or file of a machine, as this machine finds it.
    location: Option<FileLocation>,
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

/// The fields of a volume that the check needs; `None` if its source is unknown. Reads the file system to resolve links and bind mounts.
pub(super) fn storage_user(volume: &PersistentVolume, mounts: &MountTable) -> Option<StorageUser> {
    unresolved(volume).map(|user| resolved(user, mounts))
}

/// A volume and its storage, before links are resolved.
pub(super) type UnresolvedUser = (ObjectReference, StorageIdentity);

/// The storage of a volume, if the volume has storage that can be shared. Does not read the file system.
pub(super) fn unresolved(volume: &PersistentVolume) -> Option<UnresolvedUser> {
    let identity = StorageIdentity::of(volume.spec.as_ref()?)?;
    Some((volume.object_ref(&()), identity))
}

/// Reads the file system to resolve links and bind mounts.
pub(super) fn resolved((reference, identity): UnresolvedUser, mounts: &MountTable) -> StorageUser {
    let resolved = identity.resolved();
    let location = resolved.location(mounts);
    StorageUser { reference, identity, resolved, location }
}

impl StorageUser {
    /// Whether erasing one of them may erase the other.
    pub(super) fn shares(&self, other: &StorageUser) -> bool {
        let is_same_place = match (&self.location, &other.location) {
            (Some(own), Some(other)) => own.overlaps(other),
            (Some(_) | None, _) => false,
        };
        is_same_place || self.identity.overlaps(&other.identity) || self.resolved.overlaps(&other.resolved)
    }

    /// The identity of its directory or file, if it exists on this machine.
    pub(super) fn id(&self) -> Option<FileId> {
        self.location.as_ref()?.id()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use orlop_test_support::bind_mount::BindMount;
    use serde_json::json;

    use super::*;

    fn user(source: &str, path: &Path) -> StorageUser {
        let volume = json!({"metadata": {"name": "v"}, "spec": {source: {"path": path}}});
        storage_user(&serde_json::from_value(volume).unwrap(), &MountTable::read()).unwrap()
    }

    #[test]
    fn volumes_share_a_directory_that_is_mounted_twice() {
        if !orlop_test_support::privileges::has_root("volumes with a bind mount") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["real/sub", "other", "alias", "part"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        let _mounts =
            [BindMount::new(&at("real"), &at("alias")), BindMount::new(&at("real/sub"), &at("part"))];
        std::os::unix::fs::symlink(at("alias"), at("link")).unwrap();
        for (erased, other, is_shared) in [
            ("real", "alias", true),
            ("alias", "real", true),
            ("real", "part", true),
            ("part", "alias", true),
            ("real/sub", "link", true),
            ("part/new", "real", true),
            ("real", "other", false),
            ("other", "part", false),
        ] {
            for source in ["hostPath", "local"] {
                let shares = user("hostPath", &at(erased)).shares(&user(source, &at(other)));
                assert_eq!(shares, is_shared, "{erased}, {source} {other}");
            }
        }
        assert_eq!(user("hostPath", &at("real")).id(), user("local", &at("link")).id());
        assert_eq!(user("hostPath", &at("new")).id(), None);
    }
}
