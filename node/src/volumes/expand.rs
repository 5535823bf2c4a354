//! Expands the file system of a volume on the node. Claim and volume are read first, and each write is
//! conditional on the version that was read: after a crash at any point the same steps run again (upstream:
//! operationexecutor, node expander).

use std::error::Error;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use orlop_client::client::message_of;
use orlop_client::names::reason;
use orlop_client::recorder::EventType::{Normal, Warning};
use orlop_csi::error::{CallError, Code, Meaning};
use serde_json::Value;

use super::events;
use super::manager::Manager;
use super::operations::{OperationError, OperationInput, OperationResult};
use super::populator::ResolvedVolume;
use super::resize;
use crate::plugin::{Outcome, Plugin, PluginError, PodVolume};
use crate::volume::Source;

/// The effect of a failure on the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpandFailure {
    /// The result is unknown: retry without writing a status.
    Uncertain,
    /// Failed for now.
    Final,
    /// Not possible while the volume is in use, or not in use: the pod is started without the expansion.
    NotNow,
    /// It can never succeed.
    Infeasible,
}

fn verdict(error: &PluginError) -> ExpandFailure {
    let mut cause = error.source.as_deref().map(|source| source as &(dyn Error + 'static));
    while let Some(error) = cause {
        if let Some(call) = error.downcast_ref::<CallError>() {
            return match (call.meaning(), call.code) {
                (Meaning::Uncertain, _) => ExpandFailure::Uncertain,
                (Meaning::Infeasible, _) | (Meaning::Final, Code::OutOfRange | Code::NotFound) => {
                    ExpandFailure::Infeasible
                }
                (Meaning::Final, Code::FailedPrecondition) => ExpandFailure::NotNow,
                (Meaning::Final, _) => ExpandFailure::Final,
            };
        }
        cause = error.source();
    }
    match error.outcome {
        Outcome::Final => ExpandFailure::Final,
        Outcome::Uncertain => ExpandFailure::Uncertain,
    }
}

fn trouble(message: String) -> OperationError {
    OperationError { outcome: Outcome::Final, message, goes_on: false }
}

impl Manager {
    pub(super) async fn expand(
        &self,
        job: &OperationInput,
        plugin: &Arc<dyn Plugin>,
    ) -> Result<OperationResult, OperationError> {
        let Some((pod, wanted)) = &job.pod else { return Ok(OperationResult::default()) };
        let (Some(claim), Source::Persistent(volume)) = (&wanted.spec.claim, &wanted.spec.source) else {
            return Ok(OperationResult::default());
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&claim.metadata.namespace), text(&claim.metadata.name));
        let read = |error: crate::objects::ObjectError| {
            trouble(format!("cannot read {} {}: {error}", error.kind, error.key))
        };
        let claim = self.objects.claim(&namespace, &name).await.map_err(read)?;
        let volume = self.objects.volume(&text(&volume.metadata.name)).await.map_err(read)?;
        let Some(size) = resize::needed(&claim, &volume, job.known_size.as_ref()) else {
            let size = resize::recorded(&claim);
            return Ok(OperationResult { claim: Some((claim, size)) });
        };
        // From here on the claim shows that a node expands the volume.
        let claim = self.write(claim.clone(), resize::begun(&claim)).await?;
        let asked = PodVolume { pod: Arc::clone(pod), spec: Arc::clone(&wanted.spec) };
        if let Err(error) = plugin.expand(&self.host, &asked, size.value()).await {
            return Err(self.not_expanded(job, pod, wanted, claim, &error).await);
        }
        let claim = self.write(claim.clone(), resize::finished(&claim, &size)).await?;
        let text = events::expanded(wanted.spec.dir_name(), &self.host.config.name);
        self.host.events.event(&**pod, Normal, reason::FILE_SYSTEM_RESIZE_SUCCESSFUL, text.clone());
        self.host.events.event(&claim, Normal, reason::FILE_SYSTEM_RESIZE_SUCCESSFUL, text);
        Ok(OperationResult { claim: Some((claim, size)) })
    }

    async fn not_expanded(
        &self,
        job: &OperationInput,
        pod: &Pod,
        wanted: &ResolvedVolume,
        claim: PersistentVolumeClaim,
        error: &PluginError,
    ) -> OperationError {
        let verdict = verdict(error);
        let (reason, what) = match job.online {
            true => (reason::VOLUME_RESIZE_FAILED, "NodeExpandVolume.NodeExpandVolume failed"),
            false => (reason::FILE_SYSTEM_RESIZE_FAILED, "MountVolume.NodeExpandVolume failed"),
        };
        let text = events::about(what, wanted.spec.dir_name(), &error.message);
        self.host.events.event(pod, Warning, reason, text.clone());
        let patch = match verdict {
            ExpandFailure::Uncertain | ExpandFailure::NotNow => None,
            ExpandFailure::Final | ExpandFailure::Infeasible => {
                let infeasible = verdict == ExpandFailure::Infeasible;
                resize::failed(&claim, &error.message, infeasible, self.host.clock.now())
            }
        };
        // The expansion is retried in any case, and so is a failed write.
        if let Err(unwritten) = self.write(claim, patch).await {
            tracing::debug!(error = unwritten.message, "a failed expansion could not be written");
        }
        let goes_on = matches!(verdict, ExpandFailure::NotNow | ExpandFailure::Infeasible);
        OperationError { outcome: error.outcome, message: text, goes_on }
    }

    /// Patches the status of a claim, if there is a patch.
    async fn write(
        &self,
        claim: PersistentVolumeClaim,
        patch: Option<Value>,
    ) -> Result<PersistentVolumeClaim, OperationError> {
        let Some(patch) = patch else { return Ok(claim) };
        let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.host.client.clone(), namespace);
        let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(|cause| {
            trouble(format!("cannot write the status of claim {namespace}/{name}: {}", message_of(&cause)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_code_selects_the_next_attempt() {
        let of = |code| {
            let call = CallError::answered(code, "no");
            verdict(&PluginError::plain("expand").caused(call))
        };
        assert_eq!(of(Code::Internal), ExpandFailure::Final);
        assert_eq!(of(Code::Unavailable), ExpandFailure::Uncertain);
        assert_eq!(of(Code::OutOfRange), ExpandFailure::Infeasible);
        assert_eq!(of(Code::InvalidArgument), ExpandFailure::Infeasible);
        assert_eq!(of(Code::FailedPrecondition), ExpandFailure::NotNow);
        assert_eq!(verdict(&PluginError::plain("no")), ExpandFailure::Final);
        assert_eq!(verdict(&PluginError::uncertain("late")), ExpandFailure::Uncertain);
    }
}
