//! The history of a set's template, stored as ControllerRevisions. Pure functions. Upstream:
//! pkg/controller/history.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::ObjectMeta;
use orlop_client::api::Json as _;
use serde_json::{Value, json};

use super::spec::name;
use crate::workload::error::WorkloadError;
use crate::workload::hash;
use crate::workload::owned::{controller_reference, is_neighbour};
use crate::workload::template::Plain;

/// Label of a revision: the hash in its name.
pub const LABEL_HASH: &str = "controller.kubernetes.io/hash";
/// The name of a set is truncated to this number of characters in the names of its revisions.
const MAX_PREFIX: usize = 223;

/// A pod template with the name of its revision.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Name of the ControllerRevision.
    pub name: String,
    /// The pod template.
    pub template: PodTemplateSpec,
}

impl Revision {
    /// Decodes a ControllerRevision.
    pub fn of(revision: &ControllerRevision) -> Result<Self, WorkloadError> {
        let name = revision.metadata.name.clone().unwrap_or_default();
        let template = revision.data.as_ref().and_then(|data| data.0.pointer("/spec/template"));
        let mut template = template.cloned().unwrap_or_default();
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        match PodTemplateSpec::from_value(&template) {
            Ok(template) => Ok(Self { name, template }),
            Err(error) => Err(WorkloadError::Revision { revision: name, cause: error.to_string() }),
        }
    }
}

/// The template as the patch that `kubectl rollout undo` applies to its set.
pub fn data(template: Option<&PodTemplateSpec>) -> Value {
    let mut template = template.and_then(|template| template.to_value().ok()).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".to_owned(), json!("replace"));
    }
    json!({"spec": {"template": template}})
}

/// A new revision with the set's template.
pub fn new_revision(set: &StatefulSet, number: i64, collisions: i32) -> ControllerRevision {
    let data = data(set.spec.as_ref().map(|spec| &spec.template));
    let hash = hash::of_revision(&data.to_string(), collisions);
    let prefix: String = name(set).chars().take(MAX_PREFIX).collect();
    let template = set.spec.as_ref().and_then(|spec| spec.template.metadata.clone()).unwrap_or_default();
    let mut labels = template.labels.unwrap_or_default();
    labels.insert(LABEL_HASH.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// Sorts revisions by number, then creation time, then name.
pub fn sort(revisions: &mut [ControllerRevision]) {
    revisions.sort_by(|a, b| {
        let created =
            |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let order = a.revision.cmp(&b.revision).then(created(a).cmp(&created(b)));
        order.then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// The revision of the set's template.
#[derive(Debug)]
pub enum Today {
    /// The latest revision.
    Last(Revision),
    /// An earlier revision, at this index: it becomes the latest and is renumbered to this number.
    Again(usize, i64, Revision),
    /// No revision yet; the new one has this number.
    New(i64),
}

/// Finds the revision of the set's template in the sorted history, from which `decode` returns the templates. Ignores revisions of other
/// namespaces: their owners are not the set. Yields between the revisions, because the history and its templates may be large.
pub async fn today(
    set: &StatefulSet,
    sorted: &[ControllerRevision],
    decode: impl Fn(&ControllerRevision) -> Option<Revision>,
) -> Today {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let is_own = |at: &usize| is_neighbour(&sorted[*at].metadata, &set.metadata);
    let last = (0..sorted.len()).rev().find(is_own);
    let next = last.map_or(1, |last| sorted[last].revision.saturating_add(1));
    let plain = Plain::of(&template);
    for at in (0..sorted.len()).rev().filter(is_own) {
        if let Some(revision) = decode(&sorted[at]).filter(|revision| plain.is(&revision.template)) {
            return if Some(at) == last { Today::Last(revision) } else { Today::Again(at, next, revision) };
        }
        tokio::task::yield_now().await;
    }
    Today::New(next)
}

/// Indexes of the unused revisions beyond the set's history limit, oldest first.
pub fn surplus(set: &StatefulSet, sorted: &[ControllerRevision], used: &BTreeSet<&str>) -> Vec<usize> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let is_unused = |at: &usize| !used.contains(sorted[*at].metadata.name.as_deref().unwrap_or_default());
    let mut unused: Vec<usize> = (0..sorted.len()).filter(is_unused).collect();
    unused.truncate(unused.len().saturating_sub(limit));
    unused
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn set(image: &str) -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "web", "uid": "u", "annotations": {"a": "b"}},
            "spec": {"revisionHistoryLimit": 1, "serviceName": "", "selector": {},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}}))
        .unwrap()
    }

    #[test]
    fn revision_stores_a_patch_that_replaces_the_template() {
        let revision = new_revision(&set("x"), 4, 0);
        let hash = revision.metadata.labels.as_ref().unwrap()[LABEL_HASH].clone();
        assert_eq!(revision.metadata.name, Some(format!("web-{hash}")));
        assert_eq!(
            revision.data.as_ref().unwrap().0,
            json!({"spec": {"template": {"$patch": "replace", "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]}}}})
        );
        assert_eq!(Revision::of(&revision).unwrap().template, set("x").spec.unwrap().template);
        assert_ne!(new_revision(&set("x"), 4, 1).metadata.name, revision.metadata.name);
        let broken =
            ControllerRevision { data: Some(RawExtension(json!({"spec": {"template": 1}}))), ..revision };
        assert!(Revision::of(&broken).unwrap_err().to_string().contains("contains no pod template"));
    }

    async fn today(set: &StatefulSet, history: &[ControllerRevision]) -> String {
        match super::today(set, history, |revision| Revision::of(revision).ok()).await {
            Today::Last(revision) => format!("last {}", revision.name),
            Today::Again(at, number, revision) => format!("{at}, {}, as {number}", revision.name),
            Today::New(number) => format!("new {number}"),
        }
    }

    #[tokio::test]
    async fn revisions_are_reused_renumbered_and_pruned() {
        let mut history =
            vec![new_revision(&set("z"), 3, 0), new_revision(&set("x"), 1, 0), new_revision(&set("y"), 2, 0)];
        sort(&mut history);
        let name = |at: usize| history[at].metadata.name.clone().unwrap();
        assert_eq!(today(&set("z"), &history).await, format!("last {}", name(2)));
        assert_eq!(today(&set("x"), &history).await, format!("0, {}, as 4", name(0)));
        assert_eq!(today(&set("new"), &history).await, "new 4");
        assert_eq!(today(&set("new"), &[]).await, "new 1");
        let mut foreign = new_revision(&set("new"), 9, 0);
        foreign.metadata.namespace = Some("other".to_owned());
        assert_eq!(today(&set("new"), std::slice::from_ref(&foreign)).await, "new 1");
        let with_foreign = [history.clone(), vec![foreign]].concat();
        assert_eq!(today(&set("new"), &with_foreign).await, "new 4");
        assert_eq!(today(&set("z"), &with_foreign).await, format!("last {}", name(2)));
        let last = history[2].metadata.name.clone().unwrap();
        assert_eq!(surplus(&set("z"), &history, &BTreeSet::from([last.as_str()])), [0]);
        assert_eq!(surplus(&set("z"), &history[1..], &BTreeSet::from([last.as_str()])), Vec::<usize>::new());
    }
}
