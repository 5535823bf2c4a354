//! What becomes of a volume whose claim is gone: kept, scrubbed or deleted. The long part runs outside the worker, one
//! operation per volume at a time (I12), and every step of it asks once more whether the volume is still without a claim
//! (I8).

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

use super::binder::Binder;
use super::error::SyncError;
use super::reclaim_policy::Policy;
use super::volume_situation::is_released;
use orlop_client::names::reason;
use orlop_volume::object::{self, claim_ref, reference_key};

impl Binder {
    /// Starts what the policy of a released volume asks for. A phase Failed stops nothing: every look tries again.
    pub(super) async fn reclaim(&self, volume: &Arc<PersistentVolume>) -> Result<(), SyncError> {
        let key = |what: &str| {
            let meta = &volume.metadata;
            format!("{what}-{}[{}]", object::name(meta), object::uid(meta))
        };
        match Policy::of(volume) {
            Policy::SomebodyElses | Policy::Retain => {}
            // An operation of this volume that runs, or failed a moment ago, is left alone; the resync asks again.
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

    /// The volume as the server has it, if it is certain at this moment that it is without its claim; nothing is done to it
    /// otherwise. The stored claim is asked first; where that knows of none, the server is asked too.
    // Tests: PV-6-6, PV-6-7, PV-6-8, PV-8-6
    pub(super) async fn still_released(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolume>>, SyncError> {
        let name = object::name(&volume.metadata);
        let Some(live) = self.read_volume(name).await? else { return Ok(None) };
        // A volume of the same name that was made anew is not the one that was looked at.
        if live.metadata.uid != volume.metadata.uid {
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
}
