//! Expansion: hands claims that request more than their capacity to the external resizer of their driver, and
//! records an event. No volume is resized in this process.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_apimachinery::quantity::Quantity;
use orlop_client::api::Api;
use serde_json::json;

use crate::context::{Context, ControllerError};
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::annotation;
use orlop_client::names::{
    ANN_PRE_RESIZE_CAPACITY, ANN_STORAGE_RESIZER, COMPONENT_EXPAND, controller, migrated_driver, reason,
};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;

/// Workers of the controller. Upstream: 10, without a flag.
const WORKERS: usize = 10;

/// Why a claim was not handed to a resizer.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// The volume could not be read.
    #[error("cannot read volume {volume} of claim {claim}: {cause}")]
    Volume {
        /// The volume.
        volume: String,
        /// The claim.
        claim: String,
        /// The cause.
        cause: kube::Error,
    },
    /// The volume is not bound to the claim.
    #[error("persistent Volume is not bound to PVC being updated : {0}")]
    NotBound(String),
    /// The resizer annotation could not be written.
    #[error("cannot name the resizer of claim {claim}: {cause}")]
    Resizer {
        /// The claim.
        claim: String,
        /// The cause.
        cause: kube::Error,
    },
}

/// The action that a bound claim requires.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// The claim has the capacity that it requests. Tests: PROT-EXP-3
    Nothing,
    /// The volume is not bound to the claim.
    NotBound,
    /// A migrated in-tree plugin: annotate the claim with the resizer of the driver.
    Migrated {
        /// The in-tree plugin.
        plugin: &'static str,
        /// The CSI driver.
        driver: &'static str,
    },
    /// An external controller expands the volume. Tests: PROT-EXP-1
    External,
}

/// Decides the action for a claim and its volume.
pub fn decide(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Action {
    let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    let bound = reference.is_some_and(|r| {
        r.namespace == claim.metadata.namespace && r.uid.is_some() && r.uid == claim.metadata.uid
    });
    if !bound {
        return Action::NotBound;
    }
    let grown = amount(requested(claim)) > amount(capacity(claim));
    if !grown && annotation(volume, ANN_PRE_RESIZE_CAPACITY).is_none() {
        return Action::Nothing;
    }
    match migrated_plugin(volume) {
        Some((plugin, driver)) => Action::Migrated { plugin, driver },
        None => Action::External,
    }
}

fn requested(claim: &PersistentVolumeClaim) -> Option<&Text> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")
}

fn capacity(claim: &PersistentVolumeClaim) -> Option<&Text> {
    claim.status.as_ref()?.capacity.as_ref()?.get("storage")
}

/// Parses a size. A missing size counts as zero; the server rejects sizes that cannot be parsed.
fn amount(text: Option<&Text>) -> Quantity {
    text.and_then(|t| Quantity::parse(&t.0).ok()).unwrap_or(Quantity::ZERO)
}

/// The in-tree plugin of a volume with a migrated source, and the CSI driver of that plugin.
fn migrated_plugin(volume: &PersistentVolume) -> Option<(&'static str, &'static str)> {
    let spec = volume.spec.as_ref()?;
    let sources = [
        ("kubernetes.io/aws-ebs", spec.aws_elastic_block_store.is_some()),
        ("kubernetes.io/gce-pd", spec.gce_persistent_disk.is_some()),
        ("kubernetes.io/azure-disk", spec.azure_disk.is_some()),
        ("kubernetes.io/azure-file", spec.azure_file.is_some()),
        ("kubernetes.io/cinder", spec.cinder.is_some()),
        ("kubernetes.io/vsphere-volume", spec.vsphere_volume.is_some()),
        ("kubernetes.io/portworx-volume", spec.portworx_volume.is_some()),
    ];
    let (plugin, _) = sources.into_iter().find(|(_, used)| *used)?;
    Some((plugin, migrated_driver(plugin)?))
}

/// Whether a change requires a sync: the claim is new, was deleted, or its request or capacity increased.
fn matters(change: &Change<PersistentVolumeClaim>) -> bool {
    let Some(last) = change.new.as_ref().or_else(|| change.old()) else { return false };
    if last.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Bound") {
        return false;
    }
    if change.is_new() || change.is_gone() || change.replaced() {
        return true;
    }
    change.old().is_some_and(|old| {
        amount(requested(last)) > amount(requested(old)) || amount(capacity(last)) > amount(capacity(old))
    })
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Expand {
            client: context.client.clone(),
            claims: context.informers.claims(),
            volumes: context.informers.volumes(),
            recorder: context.recorder(COMPONENT_EXPAND),
        };
        let _claims = this.claims.add_handler({
            let queue = queue.clone();
            move |change: &Change<PersistentVolumeClaim>| {
                if matters(change) {
                    queue.add(change.key().to_string());
                }
            }
        });
        if !context.ready(this.claims.synced()).await {
            return Ok(());
        }
        worker::run_until(
            &context.shutdown,
            &queue,
            WORKERS,
            context.syncs::<PersistentVolumeClaim, _>(controller::EXPANDER),
            |key| this.sync(key),
        )
        .await;
        Ok(())
    })
}

struct Expand {
    client: Client,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    recorder: Recorder,
}

impl Expand {
    async fn sync(&self, key: String) -> Result<(), ExpandError> {
        let Some(claim) = self.claims.get(&key) else { return Ok(()) };
        let Some(name) = claim.spec.as_ref().and_then(|s| s.volume_name.clone()).filter(|n| !n.is_empty())
        else {
            return Ok(());
        };
        // The common case, right after binding. Every other case is decided from the volume as stored by the server.
        if self.volumes.get(&name).is_some_and(|volume| decide(&claim, &volume) == Action::Nothing) {
            return Ok(());
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume = volumes.get(&name).await;
        let volume =
            volume.map_err(|cause| ExpandError::Volume { volume: name, claim: key.clone(), cause })?;
        let message = match decide(&claim, &volume) {
            Action::Nothing => return Ok(()),
            Action::NotBound => return Err(ExpandError::NotBound(key)),
            Action::External => "waiting for an external controller to expand this PVC".to_owned(),
            Action::Migrated { plugin, driver } => {
                self.name_resizer(&key, &claim, driver).await?;
                format!("CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc")
            }
        };
        self.recorder.event(claim.as_ref(), EventType::Normal, reason::EXTERNAL_EXPANDING, message);
        Ok(())
    }

    /// Annotates the claim with the resizer, through `/status`, as upstream does and the role permits. One write, conditional on the
    /// cached version; a retry finds the annotation set.
    async fn name_resizer(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        driver: &str,
    ) -> Result<(), ExpandError> {
        if annotation(claim, ANN_STORAGE_RESIZER) == Some(driver) {
            return Ok(());
        }
        let (namespace, name) = split_key(key);
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let patch = json!({"metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {ANN_STORAGE_RESIZER: driver},
        }});
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(ExpandError::Resizer { claim: key.to_owned(), cause }),
        }
    }
}

#[cfg(test)]
mod tests;
