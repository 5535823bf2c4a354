//! Reclaiming of a volume whose claim was deleted: retain, recycle or delete. The long part runs outside the
//! worker, one operation per volume at a time (I12), and each of its steps verifies again that the volume has no
//! claim (I8).

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

use super::binder::Binder;
use super::error::SyncError;
use super::pods::users;
use super::reclaim_policy::Policy;
use super::volume_situation::is_released;
use orlop_client::names::reason;
use orlop_volume::object::{self, claim_ref, reference_key};

impl Binder {
    /// Starts the operation that the reclaim policy of a released volume requires. Phase Failed does not prevent it:
    /// every sync retries.
    pub(super) async fn reclaim(&self, volume: &Arc<PersistentVolume>) -> Result<(), SyncError> {
        let key = |what: &str| {
            let meta = &volume.metadata;
            format!("{what}-{}[{}]", object::name(meta), object::uid(meta))
        };
        match Policy::of(volume) {
            Policy::SomebodyElses | Policy::Retain => {}
            // An operation of this volume that is running or backing off is left alone; the resync tries again.
            Policy::Recycle => {
                let (binder, volume) = (self.handle(), Arc::clone(volume));
                let operation = async move { binder.recycle_operation(volume).await };
                self.operations.start(&key("recycle"), operation);
            }
            Policy::Delete => {
                let (binder, volume) = (self.handle(), Arc::clone(volume));
                let operation = async move { binder.delete_operation(volume).await };
                self.operations.start(&key("delete"), operation);
            }
            Policy::Unknown => {
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                self.fail_volume(volume, reason::VOLUME_UNKNOWN_RECLAIM_POLICY, message).await?;
            }
        }
        Ok(())
    }

    /// The volume as the server has it, if it verifiably has no claim now and still the same reclaim policy; otherwise the
    /// caller does nothing. The stored claim is checked first; if the store has none, the server is read too.
    // Tests: PV-6-6, PV-6-7, PV-6-8, PV-8-6
    pub(super) async fn still_released(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolume>>, SyncError> {
        let name = object::name(&volume.metadata);
        let Some(live) = self.read_volume(name).await? else { return Ok(None) };
        // A recreated volume of the same name is a different volume.
        if live.metadata.uid != volume.metadata.uid || Policy::of(&live) != Policy::of(volume) {
            return Ok(None);
        }
        let Some(reference) = claim_ref(&live) else { return Ok(None) };
        let key = reference_key(reference);
        if !is_released(&live, self.stored_claim(&key).as_deref()) {
            return Ok(None);
        }
        let on_server = self.read_claim(&key).await?;
        Ok(is_released(&live, on_server.as_ref()).then(|| Arc::new(live)))
    }
    /// The pods that may still use the volume of a deleted claim. If there is a new claim of that name, the pods belong to it.
    // Tests: PV-6-9, NEW-DELETE-IN-USE
    pub(super) async fn last_users(&self, claim: &str) -> Result<Vec<String>, SyncError> {
        if self.stored_claim(claim).is_some() {
            return Ok(Vec::new());
        }
        // The cache first; if it knows no user, the server: a pod that was just created must not lose its data.
        match users(self.pods_of_claim(claim)) {
            known if known.is_empty() => self.read_users_of_claim(claim).await,
            known => Ok(known),
        }
    }
}
