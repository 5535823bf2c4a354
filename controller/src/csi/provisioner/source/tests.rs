//! Which sources are suitable.
#![allow(clippy::unwrap_used)]

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::testing::merge_into;

fn made<T: DeserializeOwned>(mut base: Value, more: Value) -> T {
    merge_into(&mut base, &more);
    serde_json::from_value(base).unwrap()
}

fn claim(more: Value) -> PersistentVolumeClaim {
    let spec = json!({"storageClassName": "c", "resources": {"requests": {"storage": "2Gi"}}});
    made(json!({"metadata": {"namespace": "ns", "name": "copy", "uid": "2"}, "spec": spec}), more)
}

fn clone_of(claim: PersistentVolumeClaim, source: Value, volume: Value) -> Result<Content, String> {
    let source: PersistentVolumeClaim = made(
        json!({"metadata": {"namespace": "ns", "name": "s", "uid": "1"}, "status": {"phase": "Bound"},
            "spec": {"storageClassName": "c", "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}}}),
        source,
    );
    let volume: PersistentVolume = made(
        json!({"metadata": {"name": "v"}, "status": {"phase": "Bound"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"},
            "claimRef": {"namespace": "ns", "name": "s", "uid": "1"}}}),
        volume,
    );
    of_claim(&claim, "s", Some(&source), Some(&volume), "d").map_err(|error| error.to_string())
}

#[test]
fn clone_source_must_be_suitable() {
    let plain = || claim(json!({}));
    assert_eq!(clone_of(plain(), json!({}), json!({})), Ok(Content::Volume("h".to_owned())));
    for (name, claim, source, volume, why) in [
        (
            "pending",
            plain(),
            json!({"status": {"phase": "Pending"}}),
            json!({}),
            "must have a status of Bound",
        ),
        (
            "going",
            plain(),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            json!({}),
            "currently being deleted",
        ),
        (
            "classless source",
            plain(),
            json!({"spec": {"storageClassName": null}}),
            json!({}),
            "the source PVC (s)",
        ),
        (
            "classless",
            claim(json!({"spec": {"storageClassName": null}})),
            json!({}),
            json!({}),
            "the requested PVC (copy) storageclass cannot be empty",
        ),
        (
            "smaller",
            claim(json!({"spec": {"resources": {"requests": {"storage": "1"}}}})),
            json!({}),
            json!({}),
            "requested 1 but source is 1073741824",
        ),
        (
            "other driver",
            plain(),
            json!({}),
            json!({"spec": {"csi": {"driver": "e"}}}),
            "not bound or invalid",
        ),
        (
            "other claim",
            plain(),
            json!({}),
            json!({"spec": {"claimRef": {"uid": "9"}}}),
            "not bound or invalid",
        ),
        ("released", plain(), json!({}), json!({"status": {"phase": "Released"}}), "not bound or invalid"),
        ("no driver", plain(), json!({}), json!({"spec": {"csi": null}}), "not bound or invalid"),
        (
            "device",
            plain(),
            json!({}),
            json!({"spec": {"volumeMode": "Block"}}),
            "Source is Block, but new PVC",
        ),
    ] {
        let error = clone_of(claim, source, volume).unwrap_err();
        assert!(error.contains(why), "{name}: {error}");
        let prefix = "error getting handle for DataSource Type PersistentVolumeClaim by Name s: ";
        assert!(error.starts_with(prefix), "{name}: {error}");
    }
    let missing = of_claim(&plain(), "s", None, None, "d").unwrap_err().to_string();
    assert!(missing.contains("error getting PVC s (namespace \"ns\") from api server"), "{missing}");
}

fn restore_of(claim: PersistentVolumeClaim, snapshot: Value, content: Value) -> Result<Content, String> {
    let snapshot: VolumeSnapshot = made(
        json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "ns", "name": "s", "uid": "1"}, "spec": {"source": {}},
            "status": {"boundVolumeSnapshotContentName": "c", "readyToUse": true, "restoreSize": "1Gi"}}),
        snapshot,
    );
    let content: VolumeSnapshotContent = made(
        json!({"kind": "VolumeSnapshotContent", "metadata": {"name": "c"}, "status": {"snapshotHandle": "h"},
            "spec": {"driver": "d", "deletionPolicy": "Delete", "source": {}, "sourceVolumeMode": "Filesystem",
                "volumeSnapshotRef": {"namespace": "ns", "name": "s", "uid": "1"}}}),
        content,
    );
    of_snapshot(&claim, "s", Ok(&snapshot), Some(&content), "d").map_err(|error| error.to_string())
}

#[test]
fn snapshot_source_must_be_suitable() {
    let plain = || claim(json!({}));
    let good = Ok(Content::Snapshot("h".to_owned()));
    assert_eq!(restore_of(plain(), json!({}), json!({})), good);
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let mut held = going.clone();
    held["finalizers"] = json!([FINALIZER_SNAPSHOT_SOURCE]);
    assert_eq!(restore_of(plain(), json!({"metadata": held}), json!({})), good, "held by a restore");
    let block = || claim(json!({"spec": {"volumeMode": "Block"}}));
    let allowed = json!({"metadata": {"annotations": {ANN_ALLOW_MODE_CHANGE: "true"}}});
    assert_eq!(restore_of(block(), json!({}), allowed), good);
    for (name, claim, snapshot, content, why) in [
        ("going", plain(), json!({"metadata": going}), json!({}), "snapshot s is currently being deleted"),
        (
            "not ready",
            plain(),
            json!({"status": {"readyToUse": false}}),
            json!({}),
            "snapshot s is not Ready",
        ),
        (
            "other content",
            plain(),
            json!({}),
            json!({"spec": {"volumeSnapshotRef": {"uid": "9"}}}),
            "snapshot s not bound",
        ),
        ("other driver", plain(), json!({}), json!({"spec": {"driver": "e"}}), "snapshot s not bound"),
        (
            "no handle",
            plain(),
            json!({}),
            json!({"status": {"snapshotHandle": null}}),
            "snapshot handle s is not available",
        ),
        (
            "empty handle",
            plain(),
            json!({}),
            json!({"status": {"snapshotHandle": ""}}),
            "snapshot handle s is not available",
        ),
        (
            "smaller",
            claim(json!({"spec": {"resources": {"requests": {"storage": "1"}}}})),
            json!({}),
            json!({}),
            "requested volume size 1 is less than the size 1073741824 for the source snapshot s",
        ),
        (
            "mode",
            block(),
            json!({}),
            json!({}),
            "requested volume ns/copy modifies the mode of the source volume",
        ),
    ] {
        let error = restore_of(claim, snapshot, content).unwrap_err();
        assert!(error.contains(why), "{name}: {error}");
    }
    let unbound = of_snapshot(&plain(), "s", Err("gone".to_owned()), None, "d").unwrap_err().to_string();
    assert!(unbound.ends_with("error getting snapshot s from api server: gone"), "{unbound}");
}

#[test]
fn requested_source_is_read_from_both_fields() {
    let of = |source: Value, reference: Value| {
        let claim = claim(json!({"spec": {"dataSource": source, "dataSourceRef": reference}}));
        asked(&claim).map(|asked| format!("{asked:?}")).map_err(|error| error.to_string())
    };
    let named = |group: Value, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "n"});
    let (clone, other) = (named(Value::Null, "PersistentVolumeClaim"), named(json!("x"), "Backup"));
    assert_eq!(of(Value::Null, Value::Null), Ok("Empty".to_owned()));
    assert_eq!(of(clone.clone(), other.clone()), Ok("Claim(\"n\")".to_owned()), "dataSource wins");
    assert_eq!(of(Value::Null, other), Ok("Other(\"Backup\")".to_owned()));
    assert_eq!(
        of(named(json!(snapshot::GROUP), "VolumeSnapshot"), Value::Null),
        Ok("Snapshot(\"n\")".to_owned())
    );
    assert!(of(named(Value::Null, "VolumeSnapshot"), Value::Null).unwrap_err().contains("right APIGroup"));
    assert!(of(json!({"kind": "PersistentVolumeClaim", "name": ""}), Value::Null).is_err());
}
