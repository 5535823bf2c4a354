//! The sources of volumes must exist until the volumes are created: a finalizer protects the claim to clone and the snapshot to
//! restore (upstream: external-provisioner's clone-controller and its sweep over snapshots). It is added before the driver is
//! called, and removed when no claim without a volume names the source any more.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, Patch, PatchParams};
use orlop_client::api::Api;

use super::{CLONES, ProvisionError, Provisioner, RESTORES, finalizers};
use crate::snapshot::VolumeSnapshot;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{key_of, split_key};
use orlop_client::meta::{has_finalizer, is_terminating};
use orlop_client::names::{FINALIZER_CLONING, FINALIZER_SNAPSHOT_SOURCE};

use super::AGAIN;

/// How often all snapshots are checked, for those whose last claim was deleted while no process ran.
const SWEEP: Duration = Duration::from_secs(300);
const CLAIM: &str = "claim ";
const SNAPSHOT: &str = "snapshot ";

/// The queue key of a claim as a source.
pub(super) fn claim_key(key: &str) -> String {
    format!("{CLAIM}{key}")
}

/// The queue key of a snapshot as a source.
pub(super) fn snapshot_key(key: &str) -> String {
    format!("{SNAPSHOT}{key}")
}

impl Provisioner {
    /// Adds the finalizer to a claim that is to be cloned.
    pub(super) async fn hold_claim(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), ProvisionError> {
        if has_finalizer(claim, FINALIZER_CLONING) {
            return Ok(());
        }
        let api = self.claims_api(key);
        let change = finalizers::with(claim, FINALIZER_CLONING);
        let patched = api.patch(split_key(key).1, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.map(drop).map_err(|cause| ProvisionError::Source { source_key: claim_key(key), cause })
    }

    /// Adds the finalizer to a snapshot that is to be restored.
    pub(super) async fn hold_snapshot(&self, snapshot: &VolumeSnapshot) -> Result<(), ProvisionError> {
        if has_finalizer(snapshot, FINALIZER_SNAPSHOT_SOURCE) {
            return Ok(());
        }
        let key = key_of(snapshot);
        let change = finalizers::with(snapshot, FINALIZER_SNAPSHOT_SOURCE);
        let api = self.snapshots_api(split_key(&key).0);
        let patched = api.patch(split_key(&key).1, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.map(drop).map_err(|cause| ProvisionError::Source { source_key: snapshot_key(&key), cause })
    }

    /// Removes the finalizer from a source that is no longer needed.
    pub(super) async fn sync_source(&self, source: String) -> Result<(), ProvisionError> {
        let (written, source_key) = if let Some(key) = source.strip_prefix(CLAIM) {
            let Some(claim) = self.claims.get(key) else { return Ok(()) };
            // As upstream: a claim that is not being deleted may keep it for the next clone.
            let held = has_finalizer(claim.as_ref(), FINALIZER_CLONING) && is_terminating(claim.as_ref());
            if !held || self.claims.has_indexed(CLONES, key) {
                return Ok(());
            }
            let change = finalizers::without(claim.as_ref(), FINALIZER_CLONING);
            let api = self.claims_api(key);
            (
                api.patch(split_key(key).1, &PatchParams::default(), &Patch::Merge(change)).await.map(drop),
                &source,
            )
        } else {
            let key = source.strip_prefix(SNAPSHOT).unwrap_or(&source);
            let (namespace, name) = split_key(key);
            let api = self.snapshots_api(namespace);
            let failed = |cause| ProvisionError::Source { source_key: source.clone(), cause };
            let Some(snapshot) = api.get_opt(name).await.map_err(failed)? else { return Ok(()) };
            if !has_finalizer(&snapshot, FINALIZER_SNAPSHOT_SOURCE) || self.claims.has_indexed(RESTORES, key)
            {
                return Ok(());
            }
            let change = finalizers::without(&snapshot, FINALIZER_SNAPSHOT_SOURCE);
            (api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.map(drop), &source)
        };
        match written {
            Ok(()) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => {
                self.source_queue.add_after(source, AGAIN);
                Ok(())
            }
            Err(cause) => Err(ProvisionError::Source { source_key: source_key.clone(), cause }),
        }
    }

    /// Checks all protected snapshots periodically. A server without the snapshot API has none.
    pub(super) async fn sweep_snapshots(&self) {
        loop {
            let all: Api<VolumeSnapshot> = Api::all(self.client.clone());
            match all.list(&ListParams::default()).await {
                Ok(snapshots) => {
                    let held = snapshots.iter().filter(|one| has_finalizer(*one, FINALIZER_SNAPSHOT_SOURCE));
                    held.for_each(|snapshot| self.source_queue.add(snapshot_key(&key_of(snapshot))));
                }
                Err(error) => tracing::debug!(%error, "snapshots cannot be listed"),
            }
            tokio::time::sleep(SWEEP).await;
        }
    }

    fn snapshots_api(&self, namespace: &str) -> Api<VolumeSnapshot> {
        Api::namespaced(self.client.clone(), namespace)
    }
}
