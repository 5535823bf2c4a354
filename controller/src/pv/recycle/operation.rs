//! The operation behind policy Recycle: verifies that the volume is still unused, scrubs it and makes it
//! available again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

use crate::pv::binder::Binder;
use crate::pv::error::{SyncError, chain};
use crate::pv::shared_storage::SharedStorage;
use orlop_client::names::reason;
use orlop_client::recorder::EventType;
use orlop_volume::object::{self, claim_ref, reference_key};

impl Binder {
    /// The operation behind policy Recycle. Failures are reported on the volume and never delay the next attempt,
    /// which comes with the next resync.
    pub(in crate::pv) async fn recycle_operation(
        &self,
        volume: Arc<PersistentVolume>,
    ) -> Result<(), SyncError> {
        if let Err(error) = self.recycle(&volume).await {
            tracing::debug!(volume = object::name(&volume.metadata), error = %chain(&error), "recycling stopped");
        }
        Ok(())
    }

    async fn recycle(&self, volume: &PersistentVolume) -> Result<(), SyncError> {
        let Some(volume) = self.still_released(volume).await? else { return Ok(()) };
        let Some(reference) = claim_ref(&volume) else { return Ok(()) };
        let key = reference_key(reference);
        let users = self.last_users(&key).await?;
        if !users.is_empty() {
            let message = format!("Volume is used by pods: {}", users.join(","));
            self.volume_event(&volume, EventType::Normal, reason::VOLUME_FAILED_RECYCLE, &message);
            return Ok(());
        }
        match self.shared_storage(&volume, reason::VOLUME_FAILED_RECYCLE).await? {
            SharedStorage::No { others: _ } => {}
            SharedStorage::Yes { message } => {
                self.volume_event(&volume, EventType::Warning, reason::VOLUME_FAILED_RECYCLE, &message);
                return Ok(());
            }
        }
        let Ok(plugin) = self.plugins.recyclable(&volume) else {
            let message = "No recycler plugin found for the volume!";
            self.fail_volume(&volume, reason::VOLUME_FAILED_RECYCLE, message).await?;
            return Ok(());
        };
        let Some(recycler) = plugin.recycler() else { return Ok(()) };
        // Tests: PV-6-2, PV-6-5
        if let Err(error) = recycler.recycle(&volume, &self.pod_runner).await {
            let message = format!("Recycle failed: {error}");
            self.fail_volume(&volume, reason::VOLUME_FAILED_RECYCLE, &message).await?;
            return Ok(());
        }
        self.volume_event(&volume, EventType::Normal, reason::VOLUME_RECYCLED, "Volume recycled");
        // Done externally: the data is deleted. Not saved: anything. Completed by: the next sync of the volume, which
        // still finds it released and scrubs it again; that is harmless.
        self.unbind(&volume).await
    }
}
