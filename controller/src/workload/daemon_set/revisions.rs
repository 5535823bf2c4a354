//! Maintains the ControllerRevisions of a DaemonSet.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use orlop_client::api::Api;
use serde_json::json;

use super::history::{hash_of, lacks_hash, new_revision, newest, next_number};
use super::writes::Writer;
use crate::workload::adopt::named;
use crate::workload::error::WorkloadError;
use crate::workload::parts::revision_part;
use crate::workload::stateful_set::identity::{LABEL_REVISION, revision_of};
use crate::workload::stateful_set::revisions::Revision;
use crate::workload::writes::{delete_revision, patch_revision, renumber_revision};
use orlop_client::client::{is_already_exists, is_not_found};

impl Writer {
    /// Returns the hash of the current template and the revisions of the other ones. `found` are the parts of the revisions, and whether
    /// they have the current template.
    pub(super) async fn history(
        &self,
        set: &DaemonSet,
        found: Vec<(bool, ControllerRevision)>,
        pods: &[Arc<Pod>],
    ) -> Result<(String, Vec<ControllerRevision>), WorkloadError> {
        let (mut current, mut old) = (Vec::new(), Vec::new());
        for (is_current, mut revision) in found {
            if lacks_hash(&revision) {
                let patch = json!({"metadata": {"labels": {LABEL_REVISION: revision.metadata.name}}});
                revision = revision_part(&patch_revision(&self.0, &revision, patch, "label").await?);
            }
            if is_current { current.push(revision) } else { old.push(revision) }
        }
        let number = next_number(&old);
        let Some(at) = newest(&current) else {
            let made = self.create_revision(set, number).await?;
            return Ok((hash_of(&made).to_owned(), old));
        };
        let remaining = current.swap_remove(at);
        self.remove_duplicates(&remaining, &current, pods).await?;
        if remaining.revision < number {
            renumber_revision(&self.0, &remaining, number).await?;
        }
        Ok((hash_of(&remaining).to_owned(), old))
    }

    /// Deletes revisions with the same template as the one that remains. First, their pods get the hash of that one.
    /// Upstream labels the pods of older templates too, so that no update replaces them.
    async fn remove_duplicates(
        &self,
        remaining: &ControllerRevision,
        duplicates: &[ControllerRevision],
        pods: &[Arc<Pod>],
    ) -> Result<(), WorkloadError> {
        let hashes: BTreeSet<&str> = duplicates.iter().map(hash_of).collect();
        let hash = hash_of(remaining);
        for pod in pods.iter().filter(|pod| revision_of(pod) != hash && hashes.contains(revision_of(pod))) {
            let api: Api<Pod> = self.api(pod.as_ref());
            let patch = json!({"metadata": {"uid": pod.metadata.uid, "labels": {LABEL_REVISION: hash}}});
            match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => {}
                Err(cause) => {
                    let object = named(pod.as_ref());
                    return Err(WorkloadError::Api { what: "label", object, cause });
                }
            }
        }
        for duplicate in duplicates {
            delete_revision(&self.0, duplicate).await?;
        }
        Ok(())
    }

    /// Creates the revision of the current template. If another revision has its name, the next sync uses another name.
    async fn create_revision(
        &self,
        set: &DaemonSet,
        number: i64,
    ) -> Result<ControllerRevision, WorkloadError> {
        let revision = new_revision(set, number);
        let (api, object) = (self.api::<ControllerRevision>(set), named(&revision));
        let cause = match api.create(&PostParams::default(), &revision).await {
            Ok(made) => return Ok(made),
            Err(cause) => cause,
        };
        if !is_already_exists(&cause) {
            return Err(WorkloadError::Api { what: "create", object, cause });
        }
        let live = api.get(&revision.name_any()).await.map_err(WorkloadError::api("read", object.clone()))?;
        // The same revision, not yet in the cache.
        let template = Revision::of(&revision)?.template;
        if Revision::of(&live).is_ok_and(|known| known.template == template) {
            return Ok(live);
        }
        let mut status = set.status.clone().unwrap_or_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
        self.write_status(set, status).await?;
        Err(WorkloadError::Api { what: "create", object, cause })
    }
}
