#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

const MADE: &str = "snapcontent-u";

fn snapshot(change: Value) -> Value {
    let mut all = json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "ns", "name": "s", "uid": "u",
        "finalizers": [FINALIZER_SNAPSHOT_AS_SOURCE]},
        "spec": {"source": {"persistentVolumeClaimName": "c"}, "volumeSnapshotClassName": "k"}});
    crate::testing::merge_into(&mut all, &change);
    all
}

fn content(change: Value) -> Value {
    let mut all = json!({"kind": "VolumeSnapshotContent", "metadata": {"name": MADE},
        "spec": {"volumeSnapshotRef": {"namespace": "ns", "name": "s", "uid": "u"}, "deletionPolicy": "Delete",
            "driver": "d", "volumeSnapshotClassName": "k", "source": {"volumeHandle": "h"}}});
    crate::testing::merge_into(&mut all, &change);
    all
}

fn class(name: &str, driver: &str) -> Arc<VolumeSnapshotClass> {
    let all = json!({"kind": "VolumeSnapshotClass", "metadata": {"name": name}, "driver": driver, "deletionPolicy": "Delete"});
    Arc::new(serde_json::from_value(all).unwrap())
}

fn claim(change: Value) -> Option<Arc<PersistentVolumeClaim>> {
    let mut all = json!({"metadata": {"namespace": "ns", "name": "c", "uid": "cu", "finalizers": [FINALIZER_SNAPSHOT_CLAIM]},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    crate::testing::merge_into(&mut all, &change);
    Some(Arc::new(serde_json::from_value(all).unwrap()))
}

fn volume(change: Value) -> Option<Arc<PersistentVolume>> {
    let mut all = json!({"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"},
        "volumeMode": "Filesystem", "claimRef": {"namespace": "ns", "name": "c", "uid": "cu"}}});
    crate::testing::merge_into(&mut all, &change);
    Some(Arc::new(serde_json::from_value(all).unwrap()))
}

/// The step with all objects present and nothing begun; `change` sets up the case.
fn step(snapshot: Value, content: Option<Value>, change: impl FnOnce(&mut Facts<'_>)) -> Step {
    let snapshot: VolumeSnapshot = serde_json::from_value(snapshot).unwrap();
    let content: Option<VolumeSnapshotContent> =
        content.map(|content| serde_json::from_value(content).unwrap());
    let mut facts = Facts {
        snapshot: &snapshot,
        content: content.as_ref(),
        class: snapshot.spec.volume_snapshot_class_name.as_ref().map(|name| class(name, "d")),
        defaults: vec![],
        claim: claim(json!({})),
        volume: volume(json!({})),
        is_being_restored: false,
    };
    change(&mut facts);
    next(&facts)
}

fn why(step: Step) -> String {
    let Step::Fail { reason, message, unready } = step else { panic!("{step:?}") };
    format!("{reason} {unready} {message}")
}

#[test]
fn steps_of_a_snapshot_of_a_claim() {
    let fresh = || snapshot(json!({}));
    assert_eq!(
        step(snapshot(json!({"metadata": {"finalizers": null}})), None, |_| {}),
        Step::Protect(vec![FINALIZER_SNAPSHOT_AS_SOURCE])
    );
    let unheld = |facts: &mut Facts<'_>| facts.claim = claim(json!({"metadata": {"finalizers": null}}));
    assert_eq!(step(fresh(), None, unheld), Step::ProtectClaim);
    let Step::CreateContent(made) = step(fresh(), None, |_| {}) else { panic!("a content") };
    let mut wanted = content(json!({"metadata": {"finalizers": [FINALIZER_SNAPSHOT_CONTENT]},
        "spec": {"sourceVolumeMode": "Filesystem", "volumeSnapshotRef":
            {"kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1"}}}));
    wanted["apiVersion"] = json!("snapshot.storage.k8s.io/v1");
    assert_eq!(serde_json::to_value(made).unwrap(), wanted);

    // The content exists.
    let said = step(fresh(), Some(content(json!({}))), |_| {});
    let Step::SetStatus(status) = said else { panic!("{said:?}") };
    assert_eq!(status.bound_volume_snapshot_content_name.as_deref(), Some(MADE));
    let bound = || snapshot(json!({"status": {"boundVolumeSnapshotContentName": MADE, "readyToUse": false}}));
    assert_eq!(step(fresh(), Some(content(json!({}))), unheld), Step::ProtectClaim, "it lost its finalizer");
    assert_eq!(
        step(bound(), Some(content(json!({}))), |_| {}),
        Step::Protect(vec![FINALIZER_SNAPSHOT_BOUND]),
        "it goes with its content"
    );
    assert_eq!(
        step(bound(), Some(content(json!({"spec": {"deletionPolicy": "Retain"}}))), |_| {}),
        Step::Nothing,
        "the content stays, and the driver is at it"
    );
    let ready =
        json!({"status": {"readyToUse": true, "snapshotHandle": "sh"}, "spec": {"deletionPolicy": "Retain"}});
    let Step::SetStatus(status) = step(bound(), Some(content(ready.clone())), |_| {}) else {
        panic!("ready")
    };
    assert_eq!(status.ready_to_use, Some(true));
    let done = || snapshot(json!({"status": {"boundVolumeSnapshotContentName": MADE, "readyToUse": true}}));
    assert_eq!(step(done(), Some(content(ready)), |_| {}), Step::Nothing);
    assert_eq!(
        why(step(done(), None, |_| {})),
        "SnapshotContentMissing true VolumeSnapshotContent is missing"
    );
    assert_eq!(
        why(step(bound(), None, |_| {})),
        "SnapshotContentMissing true VolumeSnapshotContent is missing",
        "no second one is taken at another time"
    );
    let foreign = content(json!({"spec": {"volumeSnapshotRef": {"uid": "other"}}}));
    assert_eq!(
        why(step(done(), Some(foreign.clone()), |_| {})),
        "SnapshotMisbound true VolumeSnapshotContent is not bound to the VolumeSnapshot correctly"
    );
    assert_eq!(
        why(step(fresh(), Some(foreign), |_| {})),
        "SnapshotContentMisbound true VolumeSnapshotContent [snapcontent-u] is bound to a different snapshot"
    );
}

#[test]
fn unsuitable_input_creates_no_content() {
    let of = |change: fn(&mut Facts<'_>)| why(step(snapshot(json!({})), None, change));
    let failed = "SnapshotContentCreationFailed true Failed to create snapshot content with error";
    assert_eq!(
        of(|facts| facts.class = None),
        "GetSnapshotClassFailed false Failed to get snapshot class with error \
         volumesnapshotclass.snapshot.storage.k8s.io \"k\" not found"
    );
    assert_eq!(
        of(|facts| facts.claim = None),
        format!(
            "{failed} snapshot controller failed to update s on API server: cannot get claim from snapshot"
        )
    );
    assert_eq!(
        of(|facts| facts.claim = claim(json!({"status": {"phase": "Pending"}}))),
        format!(
            "{failed} failed to get input parameters to create snapshot s: \"the PVC c is not yet bound to a PV, \
             will not attempt to take a snapshot\""
        )
    );
    let going = |facts: &mut Facts<'_>| {
        facts.claim =
            claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}}));
    };
    assert!(of(going).ends_with("cannot add finalizer on claim because it is being deleted"));
    let other = |facts: &mut Facts<'_>| facts.volume = volume(json!({"spec": {"claimRef": {"uid": "x"}}}));
    assert!(of(other).contains("claim in dataSource not bound or invalid"));
    let nfs = |facts: &mut Facts<'_>| facts.volume = volume(json!({"spec": {"csi": null}}));
    assert_eq!(of(nfs), format!("{failed} cannot find CSI PersistentVolumeSource for volume pv"));
    assert!(of(|facts| facts.class = Some(class("k", "other"))).contains("name another class"));
}

#[test]
fn default_class_is_set_only_when_unambiguous() {
    let none = || snapshot(json!({"spec": {"volumeSnapshotClassName": null}}));
    let with =
        |defaults: Vec<Arc<VolumeSnapshotClass>>| step(none(), None, |facts| facts.defaults = defaults);
    let failed = "SetDefaultSnapshotClassFailed false Failed to set default snapshot class with error";
    assert_eq!(with(vec![class("x", "other"), class("y", "d")]), Step::SetClass("y".to_owned()));
    assert_eq!(why(with(vec![class("x", "other")])), format!("{failed} cannot find default snapshot class"));
    assert_eq!(
        why(with(vec![class("x", "d"), class("y", "d")])),
        format!("{failed} 2 default snapshot classes were found")
    );
    let nfs = step(none(), None, |facts| facts.volume = volume(json!({"spec": {"csi": null}})));
    assert_eq!(why(nfs), format!("{failed} snapshotting non-CSI volumes is not supported, snapshot:ns/s"));
}

#[test]
fn steps_of_a_snapshot_of_an_existing_content() {
    let source = json!({"persistentVolumeClaimName": null, "volumeSnapshotContentName": "p"});
    let named = || snapshot(json!({"spec": {"source": source, "volumeSnapshotClassName": null}}));
    let there = |change: Value| {
        let mut all = content(
            json!({"metadata": {"name": "p"}, "spec": {"source": {"volumeHandle": null, "snapshotHandle": "sh"},
            "volumeSnapshotClassName": null, "volumeSnapshotRef": {"uid": null}}}),
        );
        crate::testing::merge_into(&mut all, &change);
        Some(all)
    };
    assert_eq!(
        why(step(named(), None, |_| {})),
        "SnapshotContentMissing true VolumeSnapshotContent is missing"
    );
    assert_eq!(step(named(), there(json!({})), |_| {}), Step::BindContent { class: None });
    let bound = || there(json!({"spec": {"volumeSnapshotRef": {"uid": "u"}}}));
    assert!(matches!(step(named(), bound(), |_| {}), Step::SetStatus(_)));
    let with_class = snapshot(json!({"spec": {"source": source}}));
    assert_eq!(step(with_class, bound(), |_| {}), Step::BindContent { class: Some("k".to_owned()) });
    let misbound = "SnapshotContentMisbound true VolumeSnapshotContent [p] is bound to a different snapshot";
    assert_eq!(
        why(step(named(), there(json!({"spec": {"volumeSnapshotRef": {"uid": "x"}}})), |_| {})),
        misbound
    );
    assert_eq!(
        why(step(named(), there(json!({"spec": {"volumeSnapshotRef": {"name": "x"}}})), |_| {})),
        misbound
    );
    let dynamic = there(json!({"spec": {"source": {"snapshotHandle": null, "volumeHandle": "h"}}}));
    assert_eq!(
        why(step(named(), dynamic, |_| {})),
        "SnapshotContentMismatch true VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one"
    );
    let both = snapshot(json!({"spec": {"source": {"volumeSnapshotContentName": "p"}}}));
    assert!(why(step(both, None, |_| {})).starts_with("SnapshotValidationError true Exactly one of"));
}

#[test]
fn steps_of_a_deleted_snapshot() {
    let going = |finalizers: Value| {
        snapshot(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
            "status": {"boundVolumeSnapshotContentName": MADE, "readyToUse": true}}))
    };
    let both = || going(json!([FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND]));
    let marked = json!({"metadata": {"annotations": {ANN_SNAPSHOT_BEING_DELETED: "yes"}}});
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {ANN_SNAPSHOT_BEING_DELETED: "yes"}}});
    let mut retained = marked.clone();
    retained["spec"] = json!({"deletionPolicy": "Retain"});
    let all = vec![FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND];
    let table = [
        ("others hold it", going(json!(["x"])), Some(json!({})), Step::Nothing),
        ("its content does not know", both(), Some(json!({})), Step::MarkContent),
        ("its content knows", both(), Some(marked), Step::DeleteContent),
        (
            "its content goes",
            both(),
            Some(leaving.clone()),
            Step::Release(vec![FINALIZER_SNAPSHOT_AS_SOURCE]),
        ),
        ("it waits", going(json!([FINALIZER_SNAPSHOT_BOUND])), Some(leaving), Step::Nothing),
        ("its content is gone", both(), None, Step::Release(all.clone())),
        ("its content stays", both(), Some(retained), Step::Release(all.clone())),
        (
            "another's content",
            both(),
            Some(json!({"spec": {"volumeSnapshotRef": {"uid": "x"}}})),
            Step::Release(all),
        ),
    ];
    for (name, snapshot, change, wanted) in table {
        assert_eq!(step(snapshot, change.map(content), |_| {}), wanted, "{name}");
    }
    let restored = step(both(), Some(content(json!({}))), |facts| facts.is_being_restored = true);
    assert_eq!(restored, Step::WaitForRestore);
}

#[test]
fn claim_keeps_its_finalizer_while_a_snapshot_is_in_progress() {
    let of = |status: Value| Arc::new(serde_json::from_value(snapshot(json!({"status": status}))).unwrap());
    let (ready, open) = (of(json!({"readyToUse": true})), of(json!({"readyToUse": false})));
    let held = claim(json!({})).unwrap();
    assert!(is_claim_free(&held, &[]) && is_claim_free(&held, &[Arc::clone(&ready)]));
    assert!(!is_claim_free(&held, &[ready, open]));
    assert!(!is_claim_free(&claim(json!({"metadata": {"finalizers": null}})).unwrap(), &[]));
}
