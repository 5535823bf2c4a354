//! The steps of one resize. The order of the writes: the size is recorded in the claim before the driver is called, and the
//! volume is written before the claim reports completion. Each write is conditional on the version that was read, so after a
//! failure or a conflict the sync starts over, and the driver is called with the same size again.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use orlop_apimachinery::quantity::Quantity;
use orlop_csi::error::{CallError, Code, Meaning};
use orlop_csi::v1::{CapacityRange, ControllerExpandVolumeRequest};
use serde_json::json;

use super::{Means, Resizer};
use crate::csi::live::{self, LiveError};
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_NODE_EXPANSION_NOT_REQUIRED, ANN_PRE_RESIZE_CAPACITY, reason};
use orlop_client::pods;
use orlop_client::recorder::EventType::{Normal, Warning};
use orlop_volume::csi::handle;
use orlop_volume::csi::modes::{self, ModeError};
use orlop_volume::csi::secrets::{self, SecretError};
use orlop_volume::resize::conditions::{
    self, CONTROLLER_ERROR, FILE_SYSTEM_PENDING, PENDING_MESSAGE, RESIZING,
};
use orlop_volume::resize::target::{self, Stage};
use orlop_volume::translate;

/// Why a claim does not have the size that it requests.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResizeError {
    /// Claim or volume cannot be read.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The annotation with the old capacity cannot be removed.
    #[error("cannot take the capacity before its resize from volume {volume}: {cause}")]
    Unmark { volume: String, cause: kube::Error },
    /// The resize cannot be recorded before the call.
    #[error("cannot put on record that claim {claim} is resized: {cause}")]
    Begin { claim: String, cause: kube::Error },
    /// The driver failed, or could not be called.
    #[error("resize volume \"{volume}\" by resizer \"{driver}\" failed: {cause}")]
    Driver { volume: String, driver: String, cause: AskError },
    /// The failure cannot be recorded.
    #[error("cannot say in claim {claim} that its resize failed: {cause}")]
    Failure { claim: String, cause: kube::Error },
    /// The volume is expanded, but the write of its capacity failed.
    #[error("cannot write the new capacity of volume {volume}: {cause}")]
    Capacity { volume: String, cause: kube::Error },
    /// The resize is done, but the write to the claim failed.
    #[error("cannot say in claim {claim} that its volume is resized: {cause}")]
    Finish { claim: String, cause: kube::Error },
}

/// Why the driver has not expanded the volume.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("failed to get capabilities of volume: {0}")]
    Modes(#[from] ModeError),
    #[error("the driver is gone")]
    Gone,
    #[error("the driver has no name for this volume")]
    Source,
}

/// The driver's response.
struct Expanded {
    size: Quantity,
    by_node: bool,
}

/// Whether the same request fails until a user changes it (upstream: IsInfeasibleError). A resize has two more such codes
/// than other calls: an unsupported size, and a volume that the driver does not have.
fn is_infeasible(error: &CallError) -> bool {
    match error.meaning() {
        Meaning::Infeasible => true,
        Meaning::Final => matches!(error.code, Code::OutOfRange | Code::NotFound),
        Meaning::Uncertain => false,
    }
}

impl Resizer {
    /// Expands a claim to a size.
    pub(super) async fn expand(
        &self,
        key: &str,
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        size: Quantity,
        again: bool,
    ) -> Result<(), ResizeError> {
        // From here on the size is recorded: after a crash it is requested again.
        let claim = self.begin(key, claim, &size, again).await?;
        if self.memory.is_in_use(key) && self.is_used(key) {
            // The pod that stops using it queues the claim.
            let message = format!(
                "Unable to expand {key} because CSI driver {} only supports offline expansion and volume is currently in-use",
                self.name
            );
            self.recorder.event(&claim, Warning, reason::VOLUME_RESIZE_FAILED, message);
            return Ok(());
        }
        let name = volume.metadata.name.clone().unwrap_or_default();
        let message = format!("External resizer is resizing volume {name}");
        self.recorder.event(&claim, Normal, reason::RESIZING, message);
        self.memory.set_in_use(key, false);
        let expanded = match self.ask(&volume, &size).await {
            Ok(expanded) => expanded,
            Err(cause) => {
                let error = self.failed(key, &claim, &name, cause).await?;
                self.recorder.event(&claim, Warning, reason::VOLUME_RESIZE_FAILED, error.to_string());
                return Err(error);
            }
        };
        self.memory.set_settled(key, false);
        self.memory.speed_up(key);
        // The volume first: nodes act on its capacity, and the claim still reports the resize as in progress.
        self.write_capacity(&claim, &volume, &expanded).await?;
        self.finish(key, &claim, &expanded).await
    }

    async fn begin(
        &self,
        key: &str,
        claim: PersistentVolumeClaim,
        size: &Quantity,
        again: bool,
    ) -> Result<PersistentVolumeClaim, ResizeError> {
        let old = live::conditions(&claim);
        let resizing = conditions::holds(RESIZING, None, self.clock.now());
        let new = conditions::merged(old, Some(resizing), again);
        let is_marked = annotation(&claim, ANN_NODE_EXPANSION_NOT_REQUIRED).is_some();
        if again && new == old && !is_marked {
            return Ok(claim);
        }
        let mut status = json!({"conditions": new, "allocatedResources": {"storage": size.to_string()}});
        if !again {
            status["allocatedResourceStatuses"] = json!({"storage": Stage::ControllerInProgress.text()});
        }
        let patch = json!({
            "metadata": {"resourceVersion": claim.metadata.resource_version,
                "annotations": {ANN_NODE_EXPANSION_NOT_REQUIRED: null}},
            "status": status,
        });
        live::patch_claim_status(&self.client, key, &patch)
            .await
            .map_err(|cause| ResizeError::Begin { claim: key.to_owned(), cause })
    }

    fn is_used(&self, key: &str) -> bool {
        self.pods.each_by_index(pods::INDEX_CLAIM, key).any(|pod| !pods::is_finished(&pod))
    }

    async fn ask(&self, volume: &PersistentVolume, size: &Quantity) -> Result<Expanded, AskError> {
        if self.means == Means::Node {
            return Ok(Expanded { size: size.clone(), by_node: true });
        }
        let driver = self.drivers.get(&self.name).ok_or(AskError::Gone)?;
        let translated = translate::to_csi(volume);
        let as_csi = if handle::source(volume).is_some() { Some(volume) } else { translated.as_ref() };
        let (spec, source) = as_csi
            .and_then(|volume| Some((volume.spec.as_ref()?, handle::source(volume)?)))
            .ok_or(AskError::Source)?;
        let secrets = secrets::read(&self.client, source.controller_expand_secret_ref.as_ref()).await?;
        let request = ControllerExpandVolumeRequest {
            volume_id: source.volume_handle.clone(),
            capacity_range: Some(CapacityRange { required_bytes: size.value(), limit_bytes: 0 }),
            secrets,
            volume_capability: Some(modes::of_volume(spec, driver.can())?),
        };
        let answer = driver.controller_expand_volume(request).await?;
        // If its response were accepted, such a driver would be called again immediately, forever.
        if answer.capacity_bytes < size.value() {
            let text = format!("the driver answered {} bytes to {}", answer.capacity_bytes, size.value());
            return Err(CallError::broken(text).into());
        }
        Ok(Expanded {
            size: Quantity::from_bytes(answer.capacity_bytes),
            by_node: answer.node_expansion_required,
        })
    }

    /// Records a failure, in memory and in the claim. The record of a resize that may be in progress stays unchanged.
    async fn failed(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        volume: &str,
        cause: AskError,
    ) -> Result<ResizeError, ResizeError> {
        let verdict = match &cause {
            AskError::Call(error) if error.is_uncertain() => None,
            AskError::Call(error) => Some((error.code, is_infeasible(error))),
            AskError::Secret(_) | AskError::Modes(_) | AskError::Gone | AskError::Source => None,
        };
        let infeasible = verdict.is_some_and(|(_, infeasible)| infeasible);
        self.memory.set_settled(key, verdict.is_some());
        self.memory.speed_up(key);
        if verdict.is_some() {
            self.memory.set_in_use(key, verdict.is_some_and(|(code, _)| code == Code::FailedPrecondition));
            self.write_failure(key, claim, &cause, infeasible).await?;
        }
        if infeasible {
            self.memory.slow_down(key);
        }
        Ok(ResizeError::Driver { volume: volume.to_owned(), driver: self.name.clone(), cause })
    }

    async fn write_failure(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        cause: &AskError,
        infeasible: bool,
    ) -> Result<(), ResizeError> {
        let old = live::conditions(claim);
        let message = format!("failed to expand pvc with {cause}");
        let error = conditions::holds(CONTROLLER_ERROR, Some(message), self.clock.now());
        let new = conditions::merged(old, Some(error), true);
        if new == old && (!infeasible || target::stage(claim) == Stage::ControllerInfeasible) {
            return Ok(());
        }
        let mut status = json!({"conditions": new});
        if infeasible {
            status["allocatedResourceStatuses"] = json!({"storage": Stage::ControllerInfeasible.text()});
        }
        let patch =
            json!({"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status});
        live::patch_claim_status(&self.client, key, &patch)
            .await
            .map_err(|cause| ResizeError::Failure { claim: key.to_owned(), cause })?;
        Ok(())
    }

    async fn write_capacity(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        expanded: &Expanded,
    ) -> Result<(), ResizeError> {
        let mark = expanded.by_node && annotation(volume, ANN_PRE_RESIZE_CAPACITY).is_none();
        if !mark && target::volume_capacity(volume) == expanded.size {
            return Ok(());
        }
        let mut patch = json!({
            "metadata": {"resourceVersion": volume.metadata.resource_version},
            "spec": {"capacity": {"storage": expanded.size.to_string()}},
        });
        if mark {
            let before = target::capacity(claim).to_string();
            patch["metadata"]["annotations"] = json!({ANN_PRE_RESIZE_CAPACITY: before});
        }
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        live::patch_volume(&self.client, name, &patch)
            .await
            .map_err(|cause| ResizeError::Capacity { volume: name.to_owned(), cause })
    }

    async fn finish(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        expanded: &Expanded,
    ) -> Result<(), ResizeError> {
        let old = live::conditions(claim);
        let version = &claim.metadata.resource_version;
        let patch = if expanded.by_node {
            let pending =
                conditions::holds(FILE_SYSTEM_PENDING, Some(PENDING_MESSAGE.to_owned()), self.clock.now());
            // The driver has done its part: its earlier error is obsolete.
            let old: Vec<_> =
                old.iter().filter(|condition| condition.type_ != CONTROLLER_ERROR).cloned().collect();
            json!({
                "metadata": {"resourceVersion": version, "annotations": {ANN_NODE_EXPANSION_NOT_REQUIRED: null}},
                "status": {"conditions": conditions::merged(&old, Some(pending), true),
                    "allocatedResourceStatuses": {"storage": Stage::NodePending.text()}},
            })
        } else {
            json!({
                "metadata": {"resourceVersion": version, "annotations": {ANN_NODE_EXPANSION_NOT_REQUIRED: "true"}},
                "status": {"conditions": conditions::merged(old, None, false),
                    "capacity": {"storage": expanded.size.to_string()},
                    "allocatedResourceStatuses": {"storage": null}},
            })
        };
        let claim = live::patch_claim_status(&self.client, key, &patch)
            .await
            .map_err(|cause| ResizeError::Finish { claim: key.to_owned(), cause })?;
        let (reason, message) = if expanded.by_node {
            (reason::FILE_SYSTEM_RESIZE_REQUIRED, "Require file system resize of volume on node")
        } else {
            (reason::VOLUME_RESIZE_SUCCESSFUL, "Resize volume succeeded")
        };
        self.recorder.event(&claim, Normal, reason, message);
        Ok(())
    }

    /// The claim has the volume's capacity: the annotation with the previous one is obsolete.
    pub(super) async fn unmark(&self, volume: &PersistentVolume) -> Result<(), ResizeError> {
        let patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version,
            "annotations": {ANN_PRE_RESIZE_CAPACITY: null}}});
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        live::patch_volume(&self.client, name, &patch)
            .await
            .map_err(|cause| ResizeError::Unmark { volume: name.to_owned(), cause })
    }
}
