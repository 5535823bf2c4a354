//! Removes the note from a claim: once its volume is saved, or when the driver has no volume and is not creating one.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use super::decide;
use super::intent::{self, Intent};
use super::{AGAIN, ProvisionError, Provisioner, carries, version};
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{key_of, split_key};
use orlop_client::names::reason;
use orlop_client::recorder::EventType;

/// How often a conflicting write is repeated on the current object before the key is requeued.
const TRIES: usize = 5;

impl Provisioner {
    /// Reports an unusable note to the user. It stays, because the driver's state is unknown.
    pub(super) fn tell_of_note(&self, claim: &PersistentVolumeClaim, why: &str) {
        let driver = decide::provisioner(claim).unwrap_or("csi.orlop.dev");
        let message = format!(
            "the note csi.orlop.dev/create-request {why}; if the driver has no volume of this claim, remove it and the \
             finalizer csi.orlop.dev/provisioning"
        );
        self.recorder(driver).event(claim, EventType::Warning, reason::PROVISIONING_FAILED, message);
    }

    /// Removes the note from a claim whose volume is saved. The cached version is sufficient: after a conflict, the newer one is
    /// queued.
    pub(super) async fn settle(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), ProvisionError> {
        let change = intent::take(claim, false);
        match self.patch_claim(key, change).await {
            Ok(()) => Ok(()),
            Err(error) if is_conflict(&error) => {
                self.claim_queue.add_after(key.to_owned(), AGAIN);
                Ok(())
            }
            Err(cause) => Err(ProvisionError::Settle { claim: key.to_owned(), cause }),
        }
    }

    /// Removes the note after an outcome that left no volume. Concurrent changes of the claim are preserved.
    pub(super) async fn take_note_off(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        intent: Option<&Intent>,
        reschedule: bool,
    ) -> Result<(), ProvisionError> {
        let failed = |cause| ProvisionError::Settle { claim: key.to_owned(), cause };
        let mut current = claim.clone();
        for _ in 0..TRIES {
            match self.patch_claim(key, intent::take(&current, reschedule)).await {
                Ok(()) => return Ok(()),
                Err(error) if is_conflict(&error) => {}
                Err(cause) => return Err(failed(cause)),
            }
            let live = self.claims_api(key).get_opt(split_key(key).1).await.map_err(failed)?;
            let Some(live) = live else { return Ok(()) };
            let gone = intent.is_some_and(|intent| !carries(&live, intent));
            if live.metadata.uid != claim.metadata.uid || gone {
                return Ok(());
            }
            current = live;
        }
        // The note stays, and the same request is sent once more.
        Ok(())
    }

    pub(super) async fn patch_claim(&self, key: &str, change: Value) -> Result<(), kube::Error> {
        let api = self.claims_api(key);
        match api.patch(split_key(key).1, &PatchParams::default(), &Patch::Merge(change)).await {
            Ok(written) => {
                self.wrote(key, &written);
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn wrote(&self, key: &str, claim: &PersistentVolumeClaim) {
        debug_assert_eq!(key, key_of(claim));
        // If this was the last finalizer, the claim is gone and no event brings a newer version.
        if orlop_client::meta::is_terminating(claim) {
            return;
        }
        self.memory().written.insert(key.to_owned(), version(&claim.metadata));
    }
}
