//! The writes of the snapshot controller: one per step, each conditional on the version that the decision was based on. After a
//! conflict, the sync starts over with the new version.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use orlop_client::api::{Api, is_possible_name};
use serde_json::{Value, json};

use super::binding::Step;
use super::common::{Common, SnapshotObjects};
use super::error::SnapshotError;
use super::{is_ready, protect, status};
use crate::snapshot::{VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotStatus};
use orlop_client::client::{is_already_exists, is_not_found};
use orlop_client::informer::{key_of, split_key};
use orlop_client::meta::{adding_finalizers, removing_finalizers};
use orlop_client::names::{
    ANN_SNAPSHOT_BEING_DELETED, FINALIZER_SNAPSHOT_CLAIM, FINALIZER_SNAPSHOT_CONTENT, YES, reason,
};
use orlop_client::recorder::EventType::{Normal, Warning};

/// Patches a content.
pub(super) async fn patch_content(
    client: &Client,
    name: &str,
    patch: &Value,
) -> kube::Result<VolumeSnapshotContent> {
    let api: Api<VolumeSnapshotContent> = Api::all(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Reads a content from the server. `name` may be any text from a snapshot: no content has an impossible name.
pub(super) async fn read_content(
    client: &Client,
    name: &str,
) -> Result<Option<VolumeSnapshotContent>, SnapshotError> {
    if !is_possible_name(name) {
        return Ok(None);
    }
    let api: Api<VolumeSnapshotContent> = Api::all(client.clone());
    match api.get(name).await {
        Ok(content) => Ok(Some(content)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(cause) => Err(SnapshotError::Content { what: "read", content: name.to_owned(), cause }),
    }
}

impl Common {
    /// Performs a step. False when no step follows.
    pub(super) async fn apply(
        &self,
        key: &str,
        held: &mut SnapshotObjects,
        step: Step,
    ) -> Result<bool, SnapshotError> {
        match step {
            Step::Nothing => return Ok(false),
            Step::Fail { reason, message, unready } => {
                let now = self.clock.now();
                if let Some(status) = status::with_error(&held.snapshot, &message, unready, now) {
                    held.snapshot = self.write_status(key, &held.snapshot, &status).await?;
                    self.recorder.event(&held.snapshot, Warning, reason, message);
                }
                return Ok(false);
            }
            Step::WaitForRestore => {
                let why = "Snapshot is being used to restore a PVC";
                self.recorder.event(&held.snapshot, Warning, reason::SNAPSHOT_DELETE_PENDING, why);
                return Ok(false);
            }
            Step::SetClass(class) => {
                let patch = json!({"metadata": {"resourceVersion": held.snapshot.metadata.resource_version},
                    "spec": {"volumeSnapshotClassName": class}});
                held.snapshot = self.patch_snapshot(key, "set the default class of", &patch).await?;
            }
            Step::Protect(finalizers) => {
                let patch = adding_finalizers(&held.snapshot, &finalizers);
                held.snapshot = self.patch_snapshot(key, "hold", &patch).await?;
            }
            Step::ProtectClaim => return self.protect_claim(held).await,
            Step::CreateContent(content) => {
                held.content = Some(self.create_content(key, held, &content).await?)
            }
            Step::BindContent { class } => {
                let mut spec = json!({"volumeSnapshotRef": {"uid": held.snapshot.metadata.uid}});
                if let Some(class) = class {
                    spec["volumeSnapshotClassName"] = json!(class);
                }
                self.write_content(held, "bind", json!({"spec": spec})).await?;
            }
            Step::SetStatus(status) => {
                let before = held.snapshot.clone();
                held.snapshot = self.write_status(key, &before, &status).await?;
                self.tell(key, &before, &held.snapshot);
            }
            Step::MarkContent => {
                let mark = json!({"metadata": {"annotations": {ANN_SNAPSHOT_BEING_DELETED: YES}}});
                self.write_content(held, "mark", mark).await?;
            }
            Step::DeleteContent => held.content = self.delete_content(held).await?,
            Step::Release(finalizers) => {
                let patch = removing_finalizers(&held.snapshot, &finalizers);
                match self.patch_snapshot(key, "let go", &patch).await {
                    Ok(snapshot) => held.snapshot = snapshot,
                    Err(SnapshotError::Snapshot { cause, .. }) if is_not_found(&cause) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// Records events for the progress of a snapshot.
    fn tell(&self, key: &str, before: &VolumeSnapshot, after: &VolumeSnapshot) {
        let is_taken =
            |s: &VolumeSnapshot| s.status.as_ref().is_some_and(|status| status.creation_time.is_some());
        if !is_taken(before) && is_taken(after) {
            let message = format!("Snapshot {key} was successfully created by the CSI driver.");
            self.recorder.event(after, Normal, reason::SNAPSHOT_CREATED, message);
        }
        if !is_ready(before) && is_ready(after) {
            let message = format!("Snapshot {key} is ready to use.");
            self.recorder.event(after, Normal, reason::SNAPSHOT_READY, message);
        }
    }

    async fn create_content(
        &self,
        key: &str,
        held: &SnapshotObjects,
        content: &VolumeSnapshotContent,
    ) -> Result<VolumeSnapshotContent, SnapshotError> {
        let name = content.metadata.name.as_deref().unwrap_or_default();
        let failed = |cause| SnapshotError::Content { what: "create", content: name.to_owned(), cause };
        let api: Api<VolumeSnapshotContent> = Api::all(self.client.clone());
        match api.create(&PostParams::default(), &content.clone()).await {
            Ok(made) => {
                let message = format!("Waiting for a snapshot {key} to be created by the CSI driver.");
                self.recorder.event(&held.snapshot, Normal, reason::CREATING_SNAPSHOT, message);
                Ok(made)
            }
            // The cache did not have it yet. Its owner is checked next.
            Err(error) if is_already_exists(&error) => api.get(name).await.map_err(failed),
            Err(cause) => Err(failed(cause)),
        }
    }

    /// Deletes exactly this content, and returns the object if finalizers remain.
    async fn delete_content(
        &self,
        held: &SnapshotObjects,
    ) -> Result<Option<VolumeSnapshotContent>, SnapshotError> {
        let Some(content) = &held.content else { return Ok(None) };
        let name = content.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions { uid: content.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let api: Api<VolumeSnapshotContent> = Api::all(self.client.clone());
        match api.delete(name, &params).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(cause) => {
                return Err(SnapshotError::Content { what: "delete", content: name.to_owned(), cause });
            }
        }
        self.live_content(name).await
    }

    /// Reads the content from the server.
    pub(super) async fn live_content(
        &self,
        name: &str,
    ) -> Result<Option<VolumeSnapshotContent>, SnapshotError> {
        read_content(&self.client, name).await
    }

    async fn write_content(
        &self,
        held: &mut SnapshotObjects,
        what: &'static str,
        mut patch: Value,
    ) -> Result<(), SnapshotError> {
        let Some(content) = &held.content else { return Ok(()) };
        patch["metadata"]["resourceVersion"] = json!(content.metadata.resource_version);
        let name = content.metadata.name.clone().unwrap_or_default();
        let written = patch_content(&self.client, &name, &patch).await;
        let written = written.map_err(|cause| SnapshotError::Content { what, content: name, cause })?;
        held.content = Some(written);
        Ok(())
    }

    /// Adds the finalizer to a bound content, which protects it until its snapshot is gone.
    pub(super) async fn protect_content(&self, content: &VolumeSnapshotContent) -> Result<(), SnapshotError> {
        let missing = protect::missing(content, &[FINALIZER_SNAPSHOT_CONTENT]);
        if missing.is_empty() {
            return Ok(());
        }
        let name = content.metadata.name.clone().unwrap_or_default();
        match patch_content(&self.client, &name, &adding_finalizers(content, &missing)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(SnapshotError::Content { what: "hold", content: name, cause }),
        }
    }

    async fn patch_snapshot(
        &self,
        key: &str,
        what: &'static str,
        patch: &Value,
    ) -> Result<VolumeSnapshot, SnapshotError> {
        let (namespace, name) = split_key(key);
        let api: Api<VolumeSnapshot> = Api::namespaced(self.client.clone(), namespace);
        let written = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        written.map_err(|cause| SnapshotError::Snapshot { what, snapshot: key.to_owned(), cause })
    }

    async fn write_status(
        &self,
        key: &str,
        snapshot: &VolumeSnapshot,
        status: &VolumeSnapshotStatus,
    ) -> Result<VolumeSnapshot, SnapshotError> {
        let (namespace, name) = split_key(key);
        let api: Api<VolumeSnapshot> = Api::namespaced(self.client.clone(), namespace);
        let mut patch =
            json!({"metadata": {"resourceVersion": snapshot.metadata.resource_version}, "status": status});
        // A merge patch has to name removed keys.
        if status.error.is_none() {
            patch["status"]["error"] = Value::Null;
        }
        let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(|cause| SnapshotError::Snapshot {
            what: "write the status of",
            snapshot: key.to_owned(),
            cause,
        })
    }

    async fn protect_claim(&self, held: &mut SnapshotObjects) -> Result<bool, SnapshotError> {
        let Some(claim) = &held.claim else { return Ok(false) };
        let patch = adding_finalizers(claim.as_ref(), &[FINALIZER_SNAPSHOT_CLAIM]);
        let claim = self.patch_claim(claim, "hold", &patch).await?;
        held.claim = Some(Arc::new(claim));
        Ok(true)
    }

    /// Removes the finalizer from a claim none of whose snapshots is in progress.
    pub(super) async fn release_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), SnapshotError> {
        let patch = removing_finalizers(claim, &[FINALIZER_SNAPSHOT_CLAIM]);
        match self.patch_claim(claim, "let go", &patch).await {
            Ok(_) => Ok(()),
            Err(SnapshotError::Claim { cause, .. }) if is_not_found(&cause) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn patch_claim(
        &self,
        claim: &PersistentVolumeClaim,
        what: &'static str,
        patch: &Value,
    ) -> Result<PersistentVolumeClaim, SnapshotError> {
        let key = key_of(claim);
        let (namespace, name) = split_key(&key);
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let written = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        written.map_err(|cause| SnapshotError::Claim { what, claim: key, cause })
    }
}
