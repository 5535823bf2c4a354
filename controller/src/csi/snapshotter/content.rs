//! Decides the next step for a content, on the driver's side. Pure.
//!
//! A snapshot request with an unknown outcome is repeated, with its name, even when its content is deleted in the meantime:
//! only a known snapshot can be deleted (upstream: external-snapshotter, pkg/sidecar-controller).

use crate::snapshot::{DeletionPolicy, VolumeSnapshotContent};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_SNAPSHOT_BEING_CREATED, ANN_SNAPSHOT_BEING_DELETED, ANN_SNAPSHOT_GROUP_HANDLE,
    FINALIZER_SNAPSHOT_CONTENT,
};

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is left to do here.
    Nothing,
    /// Create the snapshot.
    Create {
        /// The snapshot's name for the driver.
        name: String,
        /// The volume's handle.
        volume: String,
    },
    /// Read the state of a snapshot that existed before.
    Check {
        /// Handle of the snapshot.
        snapshot: String,
    },
    /// Record that no request is in progress.
    Unmark,
    /// Delete the snapshot.
    Delete {
        /// Handle of the snapshot.
        snapshot: String,
    },
    /// Remove the content's finalizer.
    Release,
}

/// Decides the next step.
pub fn next(content: &VolumeSnapshotContent) -> Step {
    if is_to_go(content) {
        return leaving(content);
    }
    let is_marked = annotation(content, ANN_SNAPSHOT_BEING_CREATED).is_some();
    if is_ready(content) {
        return if is_marked { Step::Unmark } else { Step::Nothing };
    }
    let status = content.status.as_ref();
    let is_taken = status.is_some_and(|status| status.snapshot_handle.is_some());
    if is_terminating(content) && !is_marked && !is_taken {
        // No new request is begun for it.
        return Step::Nothing;
    }
    let source = &content.spec.source;
    match (&source.volume_handle, &source.snapshot_handle) {
        (Some(volume), None) => create(content, volume),
        (None, Some(snapshot)) => Step::Check { snapshot: snapshot.clone() },
        (None, None) | (Some(_), Some(_)) => Step::Nothing,
    }
}

fn create(content: &VolumeSnapshotContent, volume: &str) -> Step {
    let is_held = has_finalizer(content, FINALIZER_SNAPSHOT_CONTENT);
    if !is_held || annotation(content, ANN_SNAPSHOT_GROUP_HANDLE).is_some() {
        return Step::Nothing;
    }
    match content.spec.volume_snapshot_ref.uid.as_deref() {
        // The name for the driver is derived from it.
        None | Some("") => Step::Nothing,
        Some(uid) => Step::Create { name: format!("snapshot-{uid}"), volume: volume.to_owned() },
    }
}

/// Whether a deleted content can be released. One that was never bound can be released immediately; otherwise the snapshot has
/// to be deleted too, and the request to the driver needs an outcome.
fn is_to_go(content: &VolumeSnapshotContent) -> bool {
    let is_bound = content.spec.volume_snapshot_ref.uid.as_deref().is_some_and(|uid| !uid.is_empty());
    if !is_terminating(content) {
        return false;
    }
    if content.spec.source.snapshot_handle.is_some() && !is_bound {
        return true;
    }
    annotation(content, ANN_SNAPSHOT_BEING_CREATED).is_none()
        && annotation(content, ANN_SNAPSHOT_BEING_DELETED).is_some()
}

fn leaving(content: &VolumeSnapshotContent) -> Step {
    if !has_finalizer(content, FINALIZER_SNAPSHOT_CONTENT) {
        // No further calls: only finalizers of other controllers remain.
        return Step::Nothing;
    }
    let status = content.status.as_ref();
    let of_group = status.is_some_and(|status| status.volume_group_snapshot_handle.is_some());
    match (content.spec.deletion_policy, handle(content)) {
        (DeletionPolicy::Delete, Some(snapshot)) if !of_group => Step::Delete { snapshot },
        (DeletionPolicy::Delete | DeletionPolicy::Retain, _) => Step::Release,
    }
}

/// The driver's handle of the snapshot. A content created for an existing snapshot has it before the first check.
pub fn handle(content: &VolumeSnapshotContent) -> Option<String> {
    let given = || content.spec.source.snapshot_handle.clone();
    let found = content.status.as_ref().and_then(|status| status.snapshot_handle.clone()).or_else(given);
    found.filter(|handle| !handle.is_empty())
}

/// Whether the content is being deleted together with its snapshot.
pub fn deletes_snapshot(content: &VolumeSnapshotContent) -> bool {
    let is_deleted = content.metadata.deletion_timestamp.is_some();
    match content.spec.deletion_policy {
        DeletionPolicy::Delete => is_deleted,
        DeletionPolicy::Retain => false,
    }
}

/// Whether a volume can be restored from it.
pub fn is_ready(content: &VolumeSnapshotContent) -> bool {
    content.status.as_ref().and_then(|status| status.ready_to_use) == Some(true)
}

/// Whether a change queues the content. The worker's own writes do not, except for the one that reports a ready snapshot: its
/// content may have been deleted in the meantime.
pub fn matters(old: &VolumeSnapshotContent, new: &VolumeSnapshotContent) -> bool {
    if !is_ready(old) && is_ready(new) {
        return true;
    }
    let held = |content| has_finalizer(content, FINALIZER_SNAPSHOT_CONTENT);
    if !held(old) && held(new) {
        return true;
    }
    let others = |content: &VolumeSnapshotContent| {
        let mut all = content.metadata.annotations.clone().unwrap_or_default();
        all.remove(ANN_SNAPSHOT_BEING_CREATED);
        all
    };
    old.spec != new.spec
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || others(old) != others(new)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn content(change: Value) -> VolumeSnapshotContent {
        let mut all = json!({"metadata": {"name": "c", "finalizers": [FINALIZER_SNAPSHOT_CONTENT]},
            "spec": {"volumeSnapshotRef": {"namespace": "ns", "name": "s", "uid": "u"}, "deletionPolicy": "Delete",
                "driver": "d", "source": {"volumeHandle": "h"}}});
        crate::testing::merge_into(&mut all, &change);
        serde_json::from_value(all).unwrap()
    }

    const THEN: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn next_step_for_every_state() {
        let create = Step::Create { name: "snapshot-u".to_owned(), volume: "h".to_owned() };
        let check = Step::Check { snapshot: "sh".to_owned() };
        let delete = Step::Delete { snapshot: "sh".to_owned() };
        let (creating, deleting) =
            (json!({ANN_SNAPSHOT_BEING_CREATED: "yes"}), json!({ANN_SNAPSHOT_BEING_DELETED: "yes"}));
        let there = json!({"source": {"volumeHandle": null, "snapshotHandle": "sh"}});
        let taken = json!({"snapshotHandle": "sh", "readyToUse": true});
        let going = |annotations: &Value| json!({"deletionTimestamp": THEN, "annotations": annotations});
        let both = json!({ANN_SNAPSHOT_BEING_CREATED: "yes", ANN_SNAPSHOT_BEING_DELETED: "yes"});
        let free = json!({"source": {"volumeHandle": null, "snapshotHandle": "sh"}, "volumeSnapshotRef": {"uid": null}});
        let table = [
            ("fresh", json!({}), create.clone()),
            ("asked for", json!({"metadata": {"annotations": creating}}), create.clone()),
            (
                "taken, not ready",
                json!({"status": {"snapshotHandle": "sh", "readyToUse": false}}),
                create.clone(),
            ),
            ("failed", json!({"status": {"readyToUse": false, "error": {"message": "no"}}}), create.clone()),
            ("not held", json!({"metadata": {"finalizers": null}}), Step::Nothing),
            ("without a UID", json!({"spec": {"volumeSnapshotRef": {"uid": null}}}), Step::Nothing),
            (
                "of a group",
                json!({"metadata": {"annotations": {ANN_SNAPSHOT_GROUP_HANDLE: "g"}}}),
                Step::Nothing,
            ),
            ("ready", json!({"status": taken}), Step::Nothing),
            ("ready, marked", json!({"status": taken, "metadata": {"annotations": creating}}), Step::Unmark),
            ("there already", json!({"spec": there}), check.clone()),
            ("there already, not bound", json!({"spec": free}), check),
            ("there already, ready", json!({"spec": there, "status": taken}), Step::Nothing),
            ("deleted before it began", json!({"metadata": going(&deleting)}), Step::Release),
            ("deleted, outcome unknown", json!({"metadata": going(&both)}), create.clone()),
            ("deleted, taken, marked", json!({"metadata": going(&both), "status": taken}), Step::Unmark),
            ("deleted", json!({"metadata": going(&deleting), "status": taken}), delete.clone()),
            (
                "deleted, snapshot stays",
                json!({"metadata": going(&json!({})), "status": taken}),
                Step::Nothing,
            ),
            (
                "deleted, taken, not ready, snapshot stays",
                json!({"metadata": going(&json!({})), "status": {"snapshotHandle": "sh", "readyToUse": false}}),
                create.clone(),
            ),
            ("deleted, nothing begun, snapshot stays", json!({"metadata": going(&json!({}))}), Step::Nothing),
            (
                "deleted, kept",
                json!({"metadata": going(&deleting), "status": taken, "spec": {"deletionPolicy": "Retain"}}),
                Step::Release,
            ),
            (
                "deleted, of a group",
                json!({"metadata": going(&deleting),
                    "status": {"snapshotHandle": "sh", "volumeGroupSnapshotHandle": "g"}}),
                Step::Release,
            ),
            (
                "deleted, never bound",
                json!({"metadata": going(&json!({})), "spec": free, "status": taken}),
                delete,
            ),
            (
                "deleted, others hold it",
                json!({"metadata": {"deletionTimestamp": THEN, "annotations": deleting, "finalizers": ["x"]}, "status": taken}),
                Step::Nothing,
            ),
        ];
        for (name, change, wanted) in table {
            assert_eq!(next(&content(change)), wanted, "{name}");
        }
    }

    #[test]
    fn only_relevant_changes_queue_a_content() {
        let of = |change: Value| matters(&content(json!({})), &content(change));
        assert!(!of(json!({})) && !of(json!({"status": {"snapshotHandle": "sh"}})));
        assert!(!of(json!({"metadata": {"annotations": {ANN_SNAPSHOT_BEING_CREATED: "yes"}}})));
        assert!(!of(json!({"metadata": {"finalizers": null}})));
        assert!(of(json!({"metadata": {"annotations": {ANN_SNAPSHOT_BEING_DELETED: "yes"}}})));
        assert!(of(json!({"metadata": {"deletionTimestamp": THEN}})));
        assert!(of(json!({"status": {"readyToUse": true}})));
        assert!(of(json!({"spec": {"volumeSnapshotClassName": "k"}})));
        assert!(matters(&content(json!({"metadata": {"finalizers": null}})), &content(json!({}))));
    }
}
