//! The steps of one modification. The class is recorded in the claim before the driver is called, and the volume is written
//! before the claim reports completion. Each write is conditional on the version that was read, so after a failure or a
//! conflict the sync starts over, and the driver is called with the same class again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, SecretReference};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use orlop_csi::error::{CallError, Meaning};
use orlop_csi::v1::ControllerModifyVolumeRequest;
use serde_json::{Value, json};

use super::Modifier;
use super::conditions::{self, MODIFY_ERROR, MODIFYING};
use super::table::{self, Stage};
use crate::csi::live::{self, LiveError};
use orlop_client::informer::split_key;
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_MODIFY_SECRET_NAME, ANN_MODIFY_SECRET_NAMESPACE, reason};
use orlop_client::recorder::EventType::{Normal, Warning};
use orlop_volume::csi::handle;
use orlop_volume::csi::secrets::{self, SecretError};

/// Why a volume does not have the attributes that its claim requests.
#[derive(Debug, thiserror::Error)]
pub(super) enum ModifyError {
    /// Claim or volume cannot be read.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The modification cannot be recorded before the call.
    #[error("cannot put on record how the volume of claim {claim} is modified: {cause}")]
    Record { claim: String, cause: kube::Error },
    /// The driver failed, or could not be called.
    #[error("cannot modify volume {volume}: {cause}")]
    Driver { volume: String, cause: AskError },
    /// The volume is modified, but the write of its class failed.
    #[error("cannot write the attributes class of volume {volume}: {cause}")]
    Class { volume: String, cause: kube::Error },
    /// The modification is done, but the write to the claim failed.
    #[error("cannot say in claim {claim} that its volume is modified: {cause}")]
    Finish { claim: String, cause: kube::Error },
}

/// Why the driver has not modified the volume.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the driver is gone")]
    Gone,
}

impl Modifier {
    /// The class, or an event for the user.
    pub(super) fn class(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        name: &str,
    ) -> Option<Arc<VolumeAttributesClass>> {
        let class = self.classes.get(name);
        if class.is_none() {
            tracing::debug!(claim = key, class = name, "the attributes class is not there");
            let message = format!("VAC {name:?} does not exist.");
            self.recorder.event(claim, Warning, reason::VOLUME_MODIFY_FAILED, message);
        }
        class
    }

    /// The class does not exist: records that the claim waits for it.
    pub(super) async fn wait_for_class(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), ModifyError> {
        if table::record(claim).is_some_and(|record| record.stage == Stage::Pending) {
            return Ok(());
        }
        self.record(key, claim, json!({"modifyVolumeStatus": {"status": Stage::Pending.text()}})).await?;
        Ok(())
    }

    /// The modification is no longer requested. Its record stays.
    pub(super) async fn roll_back(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), ModifyError> {
        let left = conditions::without(live::conditions(claim), &[MODIFYING]);
        self.record(key, claim, json!({"conditions": left})).await?;
        self.recorder.event(claim, Normal, reason::VOLUME_MODIFY_CANCELED, "Cancelled modify.");
        Ok(())
    }

    /// Records a modification, which continues after a crash.
    pub(super) async fn begin(
        &self,
        key: &str,
        claim: PersistentVolumeClaim,
        target: &str,
    ) -> Result<PersistentVolumeClaim, ModifyError> {
        let message = format!("Modifying volume to {target:?} is in progress.");
        let modifying = conditions::seen(MODIFYING, None, message, self.clock.now());
        let status = json!({
            "modifyVolumeStatus": {"status": Stage::InProgress.text(), "targetVolumeAttributesClassName": target},
            "conditions": conditions::with(live::conditions(&claim), vec![modifying]),
        });
        // From here on its outcome is unknown.
        self.memory.set_settled(key, false);
        let claim = self.record(key, &claim, status).await?;
        let message = format!("external resizer is modifying volume {} with vac {target}", split_key(key).1);
        self.recorder.event(&claim, Normal, reason::VOLUME_MODIFY, message);
        Ok(claim)
    }

    /// Calls the driver for the recorded modification.
    pub(super) async fn modify(
        &self,
        key: &str,
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        class: &VolumeAttributesClass,
    ) -> Result<(), ModifyError> {
        let target = class.metadata.name.as_deref().unwrap_or_default();
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        if let Err(cause) = self.ask(&volume, class).await {
            let mut message = cause.to_string();
            if !matches!(&cause, AskError::Call(error) if !error.is_uncertain()) {
                message.push_str(&format!(". Still modifying to VAC {target}"));
            }
            self.recorder.event(&claim, Warning, reason::VOLUME_MODIFY_FAILED, message);
            self.failed(key, &claim, target, &cause).await?;
            return Err(ModifyError::Driver { volume: name.to_owned(), cause });
        }
        self.memory.set_settled(key, false);
        self.memory.speed_up(key);
        // The volume first: the claim still reports the modification as in progress.
        let patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version},
            "spec": {"volumeAttributesClassName": target}});
        let written = live::patch_volume(&self.client, name, &patch).await;
        written.map_err(|cause| ModifyError::Class { volume: name.to_owned(), cause })?;
        let status = json!({
            "currentVolumeAttributesClassName": target,
            "modifyVolumeStatus": null,
            "conditions": conditions::without(live::conditions(&claim), &[MODIFYING, MODIFY_ERROR]),
        });
        let claim = self
            .patch_status(key, &claim, status)
            .await
            .map_err(|cause| ModifyError::Finish { claim: key.to_owned(), cause })?;
        let message =
            format!("external resizer modified volume {} with vac {target} successfully", split_key(key).1);
        self.recorder.event(&claim, Normal, reason::VOLUME_MODIFY_SUCCESSFUL, message);
        Ok(())
    }

    async fn ask(&self, volume: &PersistentVolume, class: &VolumeAttributesClass) -> Result<(), AskError> {
        let driver = self.drivers.get(&self.name).ok_or(AskError::Gone)?;
        let source = handle::source(volume).ok_or(AskError::Gone)?;
        let text = |key| annotation(volume, key).filter(|text| !text.is_empty()).map(str::to_owned);
        let own = match (text(ANN_MODIFY_SECRET_NAME), text(ANN_MODIFY_SECRET_NAMESPACE)) {
            (Some(name), Some(namespace)) => {
                Some(SecretReference { name: Some(name), namespace: Some(namespace) })
            }
            (Some(_) | None, Some(_) | None) => source.controller_expand_secret_ref.clone(),
        };
        let request = ControllerModifyVolumeRequest {
            volume_id: source.volume_handle.clone(),
            secrets: secrets::read(&self.client, own.as_ref()).await?,
            mutable_parameters: class.parameters.clone().unwrap_or_default().into_iter().collect(),
        };
        driver.controller_modify_volume(request).await?;
        Ok(())
    }

    /// Records a failure, in memory and in the claim. The record of a modification that may be in progress stays unchanged.
    async fn failed(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        target: &str,
        cause: &AskError,
    ) -> Result<(), ModifyError> {
        // Without a response there is nothing new to record.
        let AskError::Call(error) = cause else { return Ok(()) };
        let meaning = error.meaning();
        let is_final = match meaning {
            Meaning::Final | Meaning::Infeasible => true,
            Meaning::Uncertain => false,
        };
        self.memory.set_settled(key, is_final);
        let (now, how) =
            (self.clock.now(), if is_final { "failed. Waiting for retry" } else { "is still in progress" });
        let modifying =
            conditions::seen(MODIFYING, None, format!("Modifying volume to {target:?} {how}."), now);
        let reason = format!("{:?}", error.code);
        let failure = conditions::seen(MODIFY_ERROR, Some(reason), error.message.clone(), now);
        let infeasible = meaning == Meaning::Infeasible;
        let stage = if infeasible { Stage::Infeasible } else { Stage::InProgress };
        let status = json!({
            "modifyVolumeStatus": {"status": stage.text()},
            "conditions": conditions::with(live::conditions(claim), vec![modifying, failure]),
        });
        self.record(key, claim, status).await?;
        if infeasible {
            self.memory.slow_down(key);
        }
        Ok(())
    }

    async fn record(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        status: Value,
    ) -> Result<PersistentVolumeClaim, ModifyError> {
        let written = self.patch_status(key, claim, status).await;
        written.map_err(|cause| ModifyError::Record { claim: key.to_owned(), cause })
    }

    async fn patch_status(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        status: Value,
    ) -> kube::Result<PersistentVolumeClaim> {
        let patch =
            json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status});
        live::patch_claim_status(&self.client, key, &patch).await
    }
}
