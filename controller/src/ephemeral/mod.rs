//! Generic ephemeral volumes: creates the claim `<pod>-<volume>` for each ephemeral volume of a pod, from the
//! template in the pod. The pod owns the claim, so the claim is deleted with the pod.

use futures::future::{BoxFuture, join};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimTemplate, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::PostParams;
use orlop_client::api::Api;

use crate::context::{Context, ControllerError};
use orlop_client::client::message_of;
use orlop_client::informer::{Change, Informer, key_of, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_EPHEMERAL, controller, reason};
use orlop_client::pods;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;

/// Why an ephemeral volume has no claim yet. The text appears in the event.
#[derive(Debug, thiserror::Error)]
pub enum EphemeralError {
    /// A claim with that name exists, but the pod does not own it.
    #[error(
        "ephemeral volume {volume}: PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)"
    )]
    NotOwner {
        /// Name of the volume in the pod.
        volume: String,
        /// Namespace of the pod and the claim.
        namespace: String,
        /// The claim.
        claim: String,
        /// The pod.
        pod: String,
    },
    /// The claim could not be created.
    #[error("ephemeral volume {volume}: create PVC {claim}: {}", message_of(.cause))]
    Create {
        /// Name of the volume in the pod.
        volume: String,
        /// The claim.
        claim: String,
        /// The cause.
        cause: kube::Error,
    },
}

/// The action that a pod's volume requires.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// The volume is not ephemeral, or its claim exists.
    Nothing,
    /// Create the claim. Tests: PROT-EPH-2, PROT-EPH-4, PROT-PVC-12
    Create(Box<PersistentVolumeClaim>),
    /// A claim with that name exists, but the pod does not own it.
    NotOwner,
}

/// Decides the action for one volume; `claim` is the cached claim with the name of the volume's claim.
pub fn decide(pod: &Pod, volume: &Volume, claim: Option<&PersistentVolumeClaim>) -> Action {
    let template = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref());
    match (template, claim) {
        (None, _) => Action::Nothing,
        (Some(_), Some(claim)) if pods::owns_claim(pod, claim) => Action::Nothing,
        (Some(_), Some(_)) => Action::NotOwner,
        (Some(template), None) => Action::Create(Box::new(claim_for(pod, volume, template))),
    }
}

fn claim_for(pod: &Pod, volume: &Volume, template: &PersistentVolumeClaimTemplate) -> PersistentVolumeClaim {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let from = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(pods::ephemeral_claim_name(pod, &volume.name)),
        namespace: pod.metadata.namespace.clone(),
        labels: from.labels,
        annotations: from.annotations,
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    PersistentVolumeClaim { metadata, spec: Some(template.spec.clone()), status: None }
}

fn has_ephemeral(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()).any(|v| v.ephemeral.is_some())
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Ephemeral {
            client: context.client.clone(),
            pods: context.informers.pods(),
            claims: context.informers.claims(),
            recorder: context.recorder(COMPONENT_EPHEMERAL),
        };
        pods::index_by_claim(&this.pods);
        let _pods = this.pods.add_handler({
            let queue = queue.clone();
            move |change: &Change<Pod>| {
                // The volumes of a pod never change, so only new pods matter. Tests: PROT-EPH-5
                let fresh = change.is_new() || change.replaced();
                if let Some(pod) = change.new.as_deref()
                    && fresh
                    && !is_terminating(pod)
                    && has_ephemeral(pod)
                {
                    queue.add(key_of(pod));
                }
            }
        });
        let _claims = this.claims.add_handler({
            let (queue, pods) = (queue.clone(), this.pods.clone());
            move |change: &Change<PersistentVolumeClaim>| {
                // Tests: PROT-EPH-4
                if change.gone_uid().is_none() {
                    return;
                }
                for pod in pods.each_by_index(pods::INDEX_CLAIM, change.key()) {
                    if has_ephemeral(&pod) {
                        queue.add(key_of(pod.as_ref()));
                    }
                }
            }
        });
        if !context.ready(join(this.pods.synced(), this.claims.synced())).await {
            return Ok(());
        }
        let workers = context.options.concurrent_ephemeral_syncs;
        worker::run_until(
            &context.shutdown,
            &queue,
            workers,
            context.syncs::<Pod, _>(controller::EPHEMERAL),
            |key| this.sync(key),
        )
        .await;
        Ok(())
    })
}

struct Ephemeral {
    client: Client,
    pods: Informer<Pod>,
    claims: Informer<PersistentVolumeClaim>,
    recorder: Recorder,
}

impl Ephemeral {
    async fn sync(&self, key: String) -> Result<(), EphemeralError> {
        let Some(pod) = self.pods.get(&key) else { return Ok(()) };
        if is_terminating(pod.as_ref()) {
            return Ok(());
        }
        let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
        for volume in volumes {
            if let Err(error) = self.ensure(&pod, volume).await {
                self.recorder.event(
                    pod.as_ref(),
                    EventType::Warning,
                    reason::FAILED_BINDING,
                    error.to_string(),
                );
                return Err(error);
            }
        }
        Ok(())
    }

    /// Creates the claim of one volume if it is missing. Each claim is a separate write: if one fails, the claims
    /// created so far remain, and the retry continues with the next one.
    async fn ensure(&self, pod: &Pod, volume: &Volume) -> Result<(), EphemeralError> {
        let key = key_of(pod);
        let namespace = split_key(&key).0;
        let name = pods::ephemeral_claim_name(pod, &volume.name);
        let cached = self.claims.get(&format!("{namespace}/{name}"));
        match decide(pod, volume, cached.as_deref()) {
            Action::Nothing => Ok(()),
            Action::NotOwner => Err(EphemeralError::NotOwner {
                volume: volume.name.clone(),
                namespace: namespace.to_owned(),
                claim: name,
                pod: split_key(&key).1.to_owned(),
            }),
            Action::Create(claim) => {
                let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
                match api.create(&PostParams::default(), &claim).await {
                    Ok(_) => Ok(()),
                    Err(cause) => {
                        Err(EphemeralError::Create { volume: volume.name.clone(), claim: name, cause })
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
