//! The status of a snapshot, derived from its content. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use orlop_apimachinery::quantity::Quantity;

use crate::snapshot::{VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotError, VolumeSnapshotStatus};

/// The status that a snapshot should have. Known values of time and size are preserved, as upstream does.
pub fn of_content(snapshot: &VolumeSnapshot, content: &VolumeSnapshotContent) -> VolumeSnapshotStatus {
    let old = snapshot.status.clone().unwrap_or_default();
    let said = content.status.clone().unwrap_or_default();
    let ready = said.ready_to_use.unwrap_or(false);
    let no_size = |size: &Text| Quantity::parse(&size.0).is_ok_and(|size| size.is_zero());
    let size = || said.restore_size.map(|bytes| Text(Quantity::from_bytes(bytes).to_string()));
    VolumeSnapshotStatus {
        bound_volume_snapshot_content_name: old
            .bound_volume_snapshot_content_name
            .or_else(|| content.metadata.name.clone()),
        creation_time: old.creation_time.or_else(|| said.creation_time.and_then(second_of)),
        ready_to_use: Some(ready),
        restore_size: old.restore_size.filter(|size| !no_size(size)).or_else(size),
        error: said.error.filter(|_| !ready),
        volume_group_snapshot_name: old.volume_group_snapshot_name,
    }
}

/// API timestamps have a resolution of one second.
fn second_of(nanoseconds: i64) -> Option<Time> {
    Timestamp::from_second(nanoseconds.div_euclid(1_000_000_000)).ok().map(Time)
}

/// The status of a snapshot with an error. None when it has that error already. `unready`: it cannot be used any more.
pub fn with_error(
    snapshot: &VolumeSnapshot,
    message: &str,
    unready: bool,
    now: Timestamp,
) -> Option<VolumeSnapshotStatus> {
    let mut status = snapshot.status.clone().unwrap_or_default();
    if status.error.as_ref().is_some_and(|error| error.message.as_deref() == Some(message)) {
        return None;
    }
    status.error = Some(error(message, now));
    if unready {
        status.ready_to_use = Some(false);
    }
    Some(status)
}

/// An error with the time `now`.
pub fn error(message: &str, now: Timestamp) -> VolumeSnapshotError {
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
    VolumeSnapshotError { time: Some(Time(time)), message: Some(message.to_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(snapshot: Value, content: Value) -> Value {
        let mut s = json!({"kind": "VolumeSnapshot", "metadata": {"name": "s"}, "spec": {"source": {}}});
        s["status"] = snapshot;
        let mut c = json!({"kind": "VolumeSnapshotContent", "metadata": {"name": "c"}, "spec": {"volumeSnapshotRef": {},
            "deletionPolicy": "Delete", "driver": "d", "source": {}}});
        c["status"] = content;
        let (s, c) =
            (serde_json::from_value(s).expect("a snapshot"), serde_json::from_value(c).expect("a content"));
        serde_json::to_value(of_content(&s, &c)).expect("a status")
    }

    #[test]
    fn status_is_derived_from_the_content() {
        let ns = 1_767_225_600_500_000_000_i64;
        let full = json!({"boundVolumeSnapshotContentName": "c", "creationTime": "2026-01-01T00:00:00Z",
            "readyToUse": true, "restoreSize": "1Gi"});
        let said =
            json!({"snapshotHandle": "h", "creationTime": ns, "readyToUse": true, "restoreSize": 1 << 30});
        let why = json!({"time": "2026-01-01T00:00:00Z", "message": "no"});
        let table = [
            (
                "nothing yet",
                Value::Null,
                Value::Null,
                json!({"boundVolumeSnapshotContentName": "c", "readyToUse": false}),
            ),
            ("all", Value::Null, said.clone(), full.clone()),
            ("all again", full.clone(), said.clone(), full.clone()),
            ("a size at last", json!({"restoreSize": "0"}), said.clone(), full.clone()),
            (
                "an error",
                Value::Null,
                json!({"readyToUse": false, "error": why}),
                json!({"boundVolumeSnapshotContentName": "c", "readyToUse": false, "error": why}),
            ),
            ("an error is over", json!({"error": why}), said.clone(), full.clone()),
            (
                "no more ready",
                full.clone(),
                json!({"readyToUse": false}),
                json!({"boundVolumeSnapshotContentName": "c", "creationTime": "2026-01-01T00:00:00Z",
                    "readyToUse": false, "restoreSize": "1Gi"}),
            ),
        ];
        for (name, snapshot, content, wanted) in table {
            assert_eq!(of(snapshot, content), wanted, "{name}");
        }
    }

    #[test]
    fn same_error_is_written_once() {
        let now = Timestamp::from_second(1).expect("a time");
        let mut snapshot = VolumeSnapshot::default();
        let status = with_error(&snapshot, "no", true, now).expect("new");
        assert_eq!(status.ready_to_use, Some(false));
        snapshot.status = Some(status);
        assert_eq!(with_error(&snapshot, "no", true, now), None);
        let other = with_error(&snapshot, "other", false, now).expect("another");
        assert_eq!(other.error.and_then(|error| error.message).as_deref(), Some("other"));
    }
}
