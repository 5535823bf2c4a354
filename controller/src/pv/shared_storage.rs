//! Verifies that no other volume uses the storage that is to be erased (I8).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume};
use kube::api::ListParams;
use orlop_client::recorder::EventType;
use orlop_client::time_slice::TimeSlice;
use orlop_volume::file_location::{FileIds, MountTable};
use orlop_volume::object;
use tokio::time::Instant;

use super::binder::Binder;
use super::error::SyncError;
use super::storage_users::{StorageUser, is_claimed, resolved, storage_user, unresolved};
use super::volume_situation::is_released;

/// Volumes per request.
const PAGE: u32 = 500;
/// The number of volumes that an error names.
const MAX_NAMED: usize = 10;

/// Whether another volume that belongs to a claim uses the storage of a volume, or storage inside or around it.
pub(super) enum SharedStorage {
    /// Another volume does: the storage must not be erased.
    Yes {
        /// The volumes, for an event.
        message: String,
    },
    /// No other volume does.
    No {
        /// The directories and files of all other volumes, which must not be found in the storage while it is erased.
        others: Arc<FileIds>,
    },
}

impl Binder {
    /// Whether the storage of a volume must not be erased. The other volumes get an event too. Reads the volumes from the server, because the cache may lack a
    /// volume that was just created.
    // Tests: NEW-SHARED-1, NEW-SHARED-2
    pub(super) async fn shared_storage(
        &self,
        volume: &PersistentVolume,
        reason: &str,
    ) -> Result<SharedStorage, SyncError> {
        let own = volume.clone();
        let own = blocking(move || storage_user(&own, &MountTable::read())).await?;
        let Some(own) = own else { return Ok(SharedStorage::No { others: Arc::default() }) };
        let users = self.storage_users().await?;
        let others = || users.iter().filter(|user| user.reference.uid != volume.metadata.uid);
        let found: Vec<&ObjectReference> =
            others().filter(|user| user.shares(&own)).map(|user| &user.reference).take(MAX_NAMED).collect();
        if found.is_empty() {
            return Ok(SharedStorage::No {
                others: Arc::new(others().filter_map(StorageUser::id).collect()),
            });
        }
        let name = object::name(&volume.metadata);
        for other in &found {
            let message =
                format!("Volume {name} uses the same storage and is not erased because of this volume");
            self.event_about((*other).clone(), EventType::Warning, reason, &message);
        }
        let names: Vec<&str> = found.iter().filter_map(|other| other.name.as_deref()).collect();
        Ok(SharedStorage::Yes { message: format!("Volume uses the same storage as: {}", names.join(",")) })
    }

    /// Whether the store has the claim that the volume belongs to.
    fn has_claim(&self, volume: &PersistentVolume) -> bool {
        let key = object::claim_ref(volume).map(object::reference_key);
        key.and_then(|key| self.stored_claim(&key)).is_some_and(|claim| !is_released(volume, Some(&claim)))
    }

    async fn storage_users(&self) -> Result<Arc<Vec<StorageUser>>, SyncError> {
        let asked = Instant::now();
        let mut latest = self.storage_users.0.lock().await;
        // A list that began before this call may lack a volume that got a claim since. Calls that waited for the lock share one list.
        if let Some((taken, users)) = &*latest
            && *taken > asked
        {
            return Ok(Arc::clone(users));
        }
        let taken = Instant::now();
        let (mut users, mut slice) = (Vec::new(), TimeSlice::start());
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let failed = |source| SyncError::ListVolumes { source };
            let volumes_api = self.volumes_api();
            let (page, volumes) = slice.wait(volumes_api.list_lazily(&params)).await.map_err(failed)?;
            let mut found = Vec::new();
            for volume in volumes {
                let volume = volume.map_err(failed)?;
                if is_claimed(&volume, || self.has_claim(&volume)) {
                    found.extend(unresolved(&volume));
                }
                slice.yield_if_over().await;
            }
            let found = blocking(move || -> Vec<StorageUser> {
                let mounts = MountTable::read();
                found.into_iter().map(|user| resolved(user, &mounts)).collect()
            });
            users.extend(found.await?);
            match page.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        let users = Arc::new(users);
        *latest = Some((taken, Arc::clone(&users)));
        Ok(users)
    }
}

/// Runs work that reads the file system.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, SyncError> {
    tokio::task::spawn_blocking(work).await.map_err(|source| SyncError::CompareVolumes { source })
}
