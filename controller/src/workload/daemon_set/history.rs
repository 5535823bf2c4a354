//! The history of a DaemonSet's template, stored as ControllerRevisions. Pure functions. Upstream:
//! constructHistory, snapshot, cleanupHistory.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::ObjectMeta;

use crate::workload::hash;
use crate::workload::owned::{controller_reference, is_neighbour};
use crate::workload::stateful_set::identity::LABEL_REVISION;
use crate::workload::stateful_set::revisions::{Revision, data};
use crate::workload::template::Plain;

/// The revisions of a DaemonSet.
#[derive(Debug, Default)]
pub struct History {
    /// Those with the current template, normally one.
    pub current: Vec<ControllerRevision>,
    /// The others.
    pub old: Vec<ControllerRevision>,
}

/// The hash of a revision, with which its pods are labelled.
pub fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_REVISION)).map_or("", String::as_str)
}

/// The labels of an adopted revision that has no hash yet: its name becomes its hash.
pub fn missing_hash(revision: &ControllerRevision) -> Option<ControllerRevision> {
    let has_hash =
        revision.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_REVISION));
    (!has_hash).then(|| {
        let mut changed = revision.clone();
        let name = changed.metadata.name.clone().unwrap_or_default();
        changed.metadata.labels.get_or_insert_default().insert(LABEL_REVISION.to_owned(), name);
        changed
    })
}

/// Separates the revisions with the current template. Drops revisions of other namespaces: their owners are not the
/// set. Yields between the revisions, because the history and its templates may be large.
pub async fn split(set: &DaemonSet, revisions: Vec<ControllerRevision>) -> History {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let (plain, mut history) = (Plain::of(&template), History::default());
    for revision in revisions.into_iter().filter(|one| is_neighbour(&one.metadata, &set.metadata)) {
        match Revision::of(&revision).is_ok_and(|known| plain.is(&known.template)) {
            true => history.current.push(revision),
            false => history.old.push(revision),
        }
        tokio::task::yield_now().await;
    }
    history
}

/// The number that the current revision must have: higher than those of all others.
pub fn next_number(old: &[ControllerRevision]) -> i64 {
    old.iter().map(|revision| revision.revision).max().unwrap_or(0).max(0).saturating_add(1)
}

/// Of several revisions with the current template, the one that remains: the last with the highest number.
pub fn newest(current: &[ControllerRevision]) -> Option<usize> {
    (0..current.len()).max_by_key(|at| current[*at].revision)
}

/// A new revision with the current template.
pub fn new_revision(set: &DaemonSet, number: i64) -> ControllerRevision {
    let template = set.spec.as_ref().map(|spec| &spec.template);
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let hash = template.map(|template| hash::of_template(template, collisions)).unwrap_or_default();
    let mut labels =
        template.and_then(|template| template.metadata.as_ref()?.labels.clone()).unwrap_or_default();
    labels.insert(LABEL_REVISION.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data(template))),
        revision: number,
    }
}

/// The old revisions beyond the history limit that no pod has, lowest number first.
pub fn surplus<'a>(
    set: &DaemonSet,
    old: &'a [ControllerRevision],
    live: &BTreeSet<&str>,
) -> Vec<&'a ControllerRevision> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let mut unused: Vec<_> = old.iter().filter(|revision| !live.contains(hash_of(revision))).collect();
    unused.sort_by_key(|revision| revision.revision);
    unused.truncate(old.len().saturating_sub(limit));
    unused
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn set(image: &str, limit: i32) -> DaemonSet {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "d", "uid": "u", "annotations": {"a": "b"}},
            "spec": {"revisionHistoryLimit": limit, "selector": {},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}}))
        .unwrap()
    }

    #[test]
    fn revision_is_named_and_labelled_by_its_hash() {
        let mut set = set("v1", 10);
        let revision = new_revision(&set, 1);
        let hash = hash_of(&revision);
        assert_eq!(revision.metadata.name, Some(format!("d-{hash}")));
        let labels = revision.metadata.labels.clone().unwrap();
        assert_eq!(
            labels,
            [("app".to_owned(), "x".to_owned()), (LABEL_REVISION.to_owned(), hash.to_owned())].into()
        );
        assert_eq!(revision.metadata.annotations, set.metadata.annotations);
        assert_eq!(
            revision.data.as_ref().unwrap().0,
            json!({"spec": {"template": {"$patch": "replace", "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "v1"}]}}}})
        );
        assert_eq!(missing_hash(&revision), None);
        set.status.get_or_insert_default().collision_count = Some(1);
        assert_ne!(new_revision(&set, 1).metadata.name, revision.metadata.name);
        let mut orphan = revision.clone();
        orphan.metadata.labels = None;
        assert_eq!(hash_of(&missing_hash(&orphan).unwrap()), revision.metadata.name.unwrap());
    }

    #[tokio::test]
    async fn current_template_is_found_in_the_history() {
        let revisions = vec![
            new_revision(&set("v1", 10), 1),
            new_revision(&set("v2", 10), 2),
            new_revision(&set("v1", 10), 3),
            new_revision(&set("v3", 10), 4),
        ];
        let mut foreign = new_revision(&set("v1", 10), 9);
        foreign.metadata.namespace = Some("other".to_owned());
        let history = split(&set("v1", 10), [revisions, vec![foreign]].concat()).await;
        let numbers = |list: &[ControllerRevision]| list.iter().map(|one| one.revision).collect::<Vec<_>>();
        assert_eq!((numbers(&history.current), numbers(&history.old)), (vec![1, 3], vec![2, 4]));
        assert_eq!((newest(&history.current), newest(&[])), (Some(1), None));
        assert_eq!((next_number(&history.old), next_number(&[])), (5, 1));
    }

    #[test]
    fn unused_revisions_beyond_the_limit_are_deleted() {
        let old: Vec<_> =
            [3, 1, 2].map(|number| new_revision(&set(&format!("v{number}"), 10), number)).into();
        let live = hash_of(&old[1]);
        // Name, limit, whether a pod has revision 1, deleted revisions.
        let table = [
            ("1 within the limit", 3, false, vec![]),
            ("2 beyond", 1, false, vec![1, 2]),
            ("3 none is retained", 0, false, vec![1, 2, 3]),
            ("4 a pod has the oldest", 2, true, vec![2]),
            ("5 a pod has one, none is retained", 0, true, vec![2, 3]),
        ];
        for (name, limit, is_live, wanted) in table {
            let live: BTreeSet<&str> = is_live.then_some(live).into_iter().collect();
            let set = set("v4", limit);
            let found: Vec<i64> = surplus(&set, &old, &live).iter().map(|one| one.revision).collect();
            assert_eq!(found, wanted, "{name}");
        }
    }
}
