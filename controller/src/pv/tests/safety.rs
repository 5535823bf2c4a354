//! Safety properties: the data of an existing claim is not touched (I8), and a deleted object does not reappear.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

use super::play::{stage, state, step};
use super::table::{Case, NO_CASE};
use crate::testing::{Fault, FaultKind};

const PAIR: Case = Case {
    given: &[
        "pv pv-1 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @by-controller",
        "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller",
    ],
    ..NO_CASE
};

/// The delete operation reads the claim from the server again: both the store and the informer's cache may be
/// outdated.
#[tokio::test(start_paused = true)]
async fn i8_claim_known_only_to_the_server_keeps_its_volume() {
    let stage = stage(&PAIR, false);
    stage.prepare().await;
    stage.binder.forget_claim("default/c-1");
    let volume = stage.binder.stored_volume("pv-1").unwrap();
    assert!(stage.binder.still_released(&volume).await.unwrap().is_none());
    assert!(stage.binder.delete_operation(volume).await.is_ok());
    assert_eq!(state(&stage.api).len(), 2, "{:?}", state(&stage.api));
}

/// Without a response from the server no volume is released.
#[tokio::test(start_paused = true)]
async fn i8_no_volume_is_released_without_a_server_response() {
    let stage = stage(&PAIR, false);
    stage.prepare().await;
    stage.binder.forget_claim("default/c-1");
    step(&stage.api, "delete persistentvolumeclaims default/c-1");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let fault = Fault { verb: "get", resource: "persistentvolumeclaims", skip: 0, kind: FaultKind::Broken };
    stage.api.fail(fault);
    stage.look_at("volume pv-1").await;
    assert!(state(&stage.api)[0].starts_with("pv pv-1 1Gi RWO Bound"), "{:?}", state(&stage.api));
    stage.look_at("volume pv-1").await;
    assert!(state(&stage.api)[0].starts_with("pv pv-1 1Gi RWO Released"), "{:?}", state(&stage.api));
}

/// Policy Retain keeps the volume and its data in every situation (I8).
#[tokio::test(start_paused = true)]
async fn i8_retain_keeps_volume_and_data() {
    let case = Case {
        given: &[
            "pv pv-1 1Gi RWO Released ref=default/c-1:uid-c-1 @by-controller @provisioned-by=kubernetes.io/host-path",
        ],
        ..NO_CASE
    };
    let stage = stage(&case, false);
    stage.start();
    stage.api.settle().await;
    assert!(state(&stage.api)[0].starts_with("pv pv-1 1Gi RWO Released"), "{:?}", state(&stage.api));
}

/// The response to a write arrives after the volume was deleted: storing it could bind a claim to a volume that
/// does not exist.
#[tokio::test(start_paused = true)]
async fn late_response_does_not_restore_a_deleted_volume() {
    let stage = stage(&PAIR, false);
    stage.prepare().await;
    let written: PersistentVolume = stage.api.get_as("pv-1").unwrap();
    step(&stage.api, "force-delete pv-1");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    stage.look_at("volume pv-1").await;
    assert!(stage.binder.stored_volume("pv-1").is_none());
    assert!(stage.binder.store_written_volume(written).is_ok());
    assert!(stage.binder.stored_volume("pv-1").is_none());
}

/// Updates never modify a cached object: the copy that the store had before a bind is unchanged.
#[tokio::test(start_paused = true)]
async fn cached_objects_are_never_modified_in_place() {
    let case =
        Case { given: &["pv pv-1 1Gi RWO Available", "pvc default/c-1 uid-c-1 1Gi RWO Pending"], ..NO_CASE };
    let stage = stage(&case, false);
    stage.prepare().await;
    let (volume, claim) =
        (stage.binder.stored_volume("pv-1").unwrap(), stage.binder.stored_claim("default/c-1").unwrap());
    let before = (PersistentVolume::clone(&volume), (*claim).clone());
    stage.api.fail_nth_write(3, FaultKind::Status(500, "InternalError", "injected"));
    stage.look_at("claim default/c-1").await;
    assert_eq!((PersistentVolume::clone(&volume), (*claim).clone()), before);
    let newer = stage.binder.stored_volume("pv-1").unwrap();
    assert!(!Arc::ptr_eq(&volume, &newer), "the answer is a new object");
}

/// One invalid object never blocks the others (I12).
#[tokio::test(start_paused = true)]
async fn i12_invalid_claim_does_not_block_others() {
    let case = Case {
        given: &[
            "sc odd kubernetes.io/no-provisioner mode=-",
            "pvc default/a-bad uid-a 1Gi RWO Pending class=odd",
            "pvc default/b-good uid-b 1Gi RWO Pending",
            "pv pv-1 1Gi RWO Available",
        ],
        ..NO_CASE
    };
    let stage = stage(&case, false);
    stage.start();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let lines = state(&stage.api);
    assert!(lines.iter().any(|line| line.starts_with("pvc default/b-good uid-b 1Gi RWO Bound")), "{lines:?}");
}

/// The cache does not know a pod that was just created; the server is read before scrubbing (I8).
#[tokio::test(start_paused = true)]
async fn i8_pod_known_only_to_the_server_keeps_its_data() {
    let case = Case {
        given: &["pv pv-1 1Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller"],
        ..NO_CASE
    };
    let stage = stage(&case, false);
    stage.prepare().await;
    let volume = stage.binder.stored_volume("pv-1").unwrap();
    // Created without yielding: no event has been processed yet.
    step(&stage.api, "create pod default/p1 Running claims=c-1");
    assert_eq!(stage.binder.pods_of_claim("default/c-1").count(), 0);
    stage.api.fail_nth_write(0, FaultKind::Status(500, "InternalError", "nothing may be written"));
    assert!(stage.binder.recycle_operation(volume).await.is_ok());
    assert_eq!(stage.api.pending_faults(), 1, "no recycler pod was made");
    stage.api.settle().await;
    let expected = "PersistentVolume pv-1 Normal VolumeFailedRecycle Volume is used by pods: default/p1";
    assert!(stage.api.events().iter().any(|event| event == expected), "{:?}", stage.api.events());
}

/// The delete operation compares with the volumes as the server has them: a volume with the same directory that has just been
/// bound retains its data (I8), also right after another comparison, and whatever its phase is.
#[tokio::test(start_paused = true)]
async fn i8_directory_of_a_newly_bound_volume_is_not_deleted() {
    const PATH: &str = r#"src={"hostPath":{"path":"/tmp/pv-cases/moment/a"}}"#;
    let table = [
        ("bound", "pv pv-2 1Gi RWO Bound ref=default/c-2:uid-c-2"),
        ("with a wrong phase", "pv pv-2 1Gi RWO Released policy=Delete ref=default/c-2:uid-c-2"),
    ];
    for (name, other) in table {
        let case = Case {
            given: &[
                r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/moment"}}"#,
                r#"pv pv-3 1Gi RWO Released policy=Delete ref=default/c-3:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/moment-3"}}"#,
                "pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-2 has=RWO/1Gi @completed",
            ],
            ..NO_CASE
        };
        let stage = stage(&case, false);
        stage.prepare().await;
        let volume = |name: &str| stage.binder.stored_volume(name).unwrap();
        let (first, third) = (volume("pv-1"), volume("pv-3"));
        assert!(stage.binder.delete_operation(third).await.is_ok(), "{name}");
        assert!(stage.api.get("persistentvolumes", "pv-3").is_none(), "{name}");
        step(&stage.api, &format!("create {other} {PATH}"));
        assert!(stage.binder.delete_operation(first).await.is_err(), "{name}");
        assert!(stage.api.get("persistentvolumes", "pv-1").is_some(), "{name}");
    }
}

/// The policy was changed to Retain, and the store does not know it yet: nothing is deleted or scrubbed (I8).
#[tokio::test(start_paused = true)]
async fn i8_policy_known_only_to_the_server_keeps_the_data() {
    for policy in ["Delete", "Recycle"] {
        let line: &'static str = match policy {
            "Delete" => "pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller",
            _ => "pv pv-1 1Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller",
        };
        let given: &'static [&'static str] = Box::leak(Box::new([line]));
        let stage = stage(&Case { given, ..NO_CASE }, false);
        stage.prepare().await;
        let volume = stage.binder.stored_volume("pv-1").unwrap();
        // Written without yielding: no event has been processed yet.
        step(
            &stage.api,
            r#"patch persistentvolumes pv-1 {"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#,
        );
        stage.api.fail_nth_write(0, FaultKind::Status(500, "InternalError", "nothing may be written"));
        let done = match policy {
            "Delete" => stage.binder.delete_operation(volume).await,
            _ => stage.binder.recycle_operation(volume).await,
        };
        assert!(done.is_ok(), "{policy}");
        assert_eq!(stage.api.pending_faults(), 1, "{policy}: nothing was written");
    }
}

/// A pod that only the server knows keeps the directory of its deleted claim's volume (I8).
#[tokio::test(start_paused = true)]
async fn i8_pod_known_only_to_the_server_stops_the_deletion() {
    let case = Case {
        given: &["pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller"],
        ..NO_CASE
    };
    let stage = stage(&case, false);
    stage.prepare().await;
    let volume = stage.binder.stored_volume("pv-1").unwrap();
    step(&stage.api, "create pod default/p1 Running claims=c-1");
    assert_eq!(stage.binder.pods_of_claim("default/c-1").count(), 0);
    assert!(stage.binder.delete_operation(volume).await.is_err());
    assert!(stage.api.get("persistentvolumes", "pv-1").is_some());
}

const MISBOUND: &str = "ClaimMisbound";

/// Volumes and claims arrive over two watches. A claim that was written together with its volume may arrive
/// first, and does not become Lost before the volume's event.
#[tokio::test(start_paused = true)]
async fn claim_ahead_of_its_volume_is_not_lost() {
    const CLAIM: &str =
        "pvc other/c-1 uid-new 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller";
    let moved = r#"patch persistentvolumes pv-1 {"spec":{"claimRef":{"namespace":"other","uid":"uid-new"}}}"#;
    let table: [(&str, &'static [&'static str], &str, &str); 3] = [
        (
            "moved to this claim",
            &["pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller", CLAIM],
            moved,
            "Bound volume=pv-1",
        ),
        ("brought back", &[CLAIM], "create pv pv-1 1Gi RWO Bound ref=other/c-1:uid-new", "Bound volume=pv-1"),
        (
            "another one's on the server, too",
            &["pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller", CLAIM],
            r#"patch persistentvolumes pv-1 {"metadata":{"labels":{"a":"b"}}}"#,
            "Lost volume=pv-1",
        ),
    ];
    for (name, given, change, wanted) in table {
        let stage = stage(&Case { given, ..NO_CASE }, false);
        stage.prepare().await;
        // Changed without yielding: no event has been processed yet.
        step(&stage.api, change);
        stage.look_at("claim other/c-1").await;
        let line = format!("pvc other/c-1 uid-new 1Gi RWO {wanted}");
        assert!(
            state(&stage.api).iter().any(|have| have.starts_with(&line)),
            "{name}: {:?}",
            state(&stage.api)
        );
        stage.api.settle().await;
        let reported = stage.api.events().iter().any(|event| event.contains(MISBOUND));
        assert_eq!(reported, wanted.starts_with("Lost"), "{name}: {:?}", stage.api.events());
    }
}

/// Without a response from the server no claim becomes Lost.
#[tokio::test(start_paused = true)]
async fn no_claim_becomes_lost_without_a_server_response() {
    let case = Case {
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed"],
        ..NO_CASE
    };
    let stage = stage(&case, false);
    stage.prepare().await;
    stage.api.fail(Fault { verb: "get", resource: "persistentvolumes", skip: 0, kind: FaultKind::Broken });
    stage.look_at("claim default/c-1").await;
    assert!(
        state(&stage.api)[0].starts_with("pvc default/c-1 uid-c-1 1Gi RWO Bound"),
        "{:?}",
        state(&stage.api)
    );
    stage.look_at("claim default/c-1").await;
    assert!(
        state(&stage.api)[0].starts_with("pvc default/c-1 uid-c-1 1Gi RWO Lost"),
        "{:?}",
        state(&stage.api)
    );
}
