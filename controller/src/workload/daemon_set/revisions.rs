//! Maintains the ControllerRevisions of a DaemonSet.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use orlop_client::api::Api;
use serde_json::json;

use super::history::{self, History, hash_of, missing_hash, new_revision, newest, next_number};
use super::writes::Writer;
use crate::workload::adopt::named;
use crate::workload::error::WorkloadError;
use crate::workload::stateful_set::identity::{LABEL_REVISION, revision_of};
use crate::workload::stateful_set::revisions::Revision;
use crate::workload::writes::delete_revision;
use orlop_client::client::{is_already_exists, is_not_found};

impl Writer {
    /// Returns the hash of the current template and the revisions of the other ones.
    pub(super) async fn history(
        &self,
        set: &DaemonSet,
        found: Vec<Arc<ControllerRevision>>,
        pods: &[Arc<Pod>],
    ) -> Result<(String, Vec<ControllerRevision>), WorkloadError> {
        let mut revisions = Vec::new();
        for revision in found {
            revisions.push(match missing_hash(&revision) {
                Some(changed) => self.replace_revision(&changed, "label").await?,
                None => Arc::unwrap_or_clone(revision),
            });
        }
        let History { mut current, old } = history::split(set, revisions).await;
        let number = next_number(&old);
        let Some(at) = newest(&current) else {
            let made = self.create_revision(set, number).await?;
            return Ok((hash_of(&made).to_owned(), old));
        };
        let remaining = current.swap_remove(at);
        self.remove_duplicates(&remaining, &current, pods).await?;
        if remaining.revision < number {
            let changed = ControllerRevision { revision: number, ..remaining.clone() };
            self.replace_revision(&changed, "renumber").await?;
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

    async fn replace_revision(
        &self,
        changed: &ControllerRevision,
        what: &'static str,
    ) -> Result<ControllerRevision, WorkloadError> {
        let api: Api<ControllerRevision> = self.api(changed);
        let written = api.replace(&changed.name_any(), &PostParams::default(), changed).await;
        written.map_err(WorkloadError::api(what, named(changed)))
    }
}
