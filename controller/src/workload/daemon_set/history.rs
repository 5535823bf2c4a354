//! The history of a DaemonSet's template, stored as ControllerRevisions. Pure functions. Upstream:
//! constructHistory, snapshot, cleanupHistory.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::ObjectMeta;

use crate::workload::hash;
use crate::workload::owned::{controller_reference, is_neighbour};
use crate::workload::parts::revision_part;
use crate::workload::stateful_set::identity::LABEL_REVISION;
use crate::workload::stateful_set::revisions::{Revision, data};
use crate::workload::template::Plain;

/// The hash of a revision, with which its pods are labelled.
pub fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_REVISION)).map_or("", String::as_str)
}

/// Whether an adopted revision has no hash yet. Its name then becomes its hash.
pub fn lacks_hash(revision: &ControllerRevision) -> bool {
    !revision.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_REVISION))
}

/// Reads the revisions of a DaemonSet one at a time.
pub struct RevisionReader<'a> {
    set: &'a DaemonSet,
    plain: Plain<'a>,
}

impl<'a> RevisionReader<'a> {
    /// The reader for this DaemonSet; `None` if the set has no specification.
    pub fn of(set: &'a DaemonSet) -> Option<Self> {
        let template = &set.spec.as_ref()?.template;
        Some(Self { set, plain: Plain::of(template) })
    }

    /// The part of a revision, and whether it has the current template. `None` for a revision of another namespace: its owner is not
    /// the set.
    pub fn part(&self, revision: &ControllerRevision) -> Option<(bool, ControllerRevision)> {
        if !is_neighbour(&revision.metadata, &self.set.metadata) {
            return None;
        }
        let is_current = Revision::of(revision).is_ok_and(|known| self.plain.is(&known.template));
        Some((is_current, revision_part(revision)))
    }
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
        assert!(!lacks_hash(&revision));
        set.status.get_or_insert_default().collision_count = Some(1);
        assert_ne!(new_revision(&set, 1).metadata.name, revision.metadata.name);
        let mut orphan = revision.clone();
        orphan.metadata.labels = None;
        assert!(lacks_hash(&orphan));
    }

    #[test]
    fn current_template_is_found_in_the_history() {
        let mut foreign = new_revision(&set("v1", 10), 9);
        foreign.metadata.namespace = Some("other".to_owned());
        let set_now = set("v1", 10);
        let reader = RevisionReader::of(&set_now).unwrap();
        let found = ["v1", "v2", "v1", "v3"].iter().zip(1..).map(|(image, number)| {
            let (is_current, part) = reader.part(&new_revision(&set(image, 10), number)).unwrap();
            assert_eq!(part.data, None);
            (is_current, part.revision)
        });
        assert_eq!(found.collect::<Vec<_>>(), [(true, 1), (false, 2), (true, 3), (false, 4)]);
        assert_eq!(reader.part(&foreign), None);
        let numbered = |number: i64| new_revision(&set("v2", 10), number);
        assert_eq!((newest(&[numbered(1), numbered(3)]), newest(&[])), (Some(1), None));
        assert_eq!((next_number(&[numbered(2), numbered(4)]), next_number(&[])), (5, 1));
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
