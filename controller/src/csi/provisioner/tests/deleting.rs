//! Deletion of volumes: policies, finalizers, attachments, volumes of other provisioners.

use super::*;
use orlop_client::names::FINALIZER_EXTERNAL_PROVISIONER;

fn volume(name: &str, more: Value) -> Value {
    let mut volume = json!({"kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": DRIVER, "volumeHandle": name}},
        "status": {"phase": "Released"}});
    crate::testing::merge_into(&mut volume, &more);
    volume
}

/// Runs only this controller on the existing objects.
async fn alone(rig: &Rig) {
    let _running = rig.api.start(&[super::super::run], Options::default());
    rig.api.settle().await;
}

fn finalizers(rig: &Rig, name: &str) -> Vec<String> {
    rig.api.get_as::<PersistentVolume>(name).unwrap().metadata.finalizers.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn finalizer_follows_the_reclaim_policy() {
    let rig = Rig::simple().await;
    let held = json!({"metadata": {"finalizers": ["x", FINALIZER_EXTERNAL_PROVISIONER]}});
    let with = |more: Value| {
        let mut all = held.clone();
        crate::testing::merge_into(&mut all, &more);
        all
    };
    let bound = json!({"status": {"phase": "Bound"}});
    rig.api.seed(volume("hand-made", bound.clone()));
    let migrated = json!({"pv.kubernetes.io/provisioned-by": "other.example"});
    let mut foreign = bound.clone();
    foreign["metadata"] = json!({"annotations": migrated});
    rig.api.seed(volume("by-another", foreign));
    rig.api.seed(volume(
        "other-driver",
        json!({"spec": {"csi": {"driver": "other.example"}}, "status": {"phase": "Bound"}}),
    ));
    rig.api.seed(volume("retained", with(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}))));
    rig.api.seed(volume("recycled", with(json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle"}}))));
    rig.api.seed(volume("available", json!({"status": {"phase": "Available"}})));
    alone(&rig).await;
    assert_eq!(finalizers(&rig, "hand-made"), [FINALIZER_EXTERNAL_PROVISIONER]);
    for name in ["by-another", "other-driver", "available"] {
        assert_eq!(finalizers(&rig, name), Vec::<String>::new(), "{name}");
    }
    assert_eq!(
        (finalizers(&rig, "retained"), finalizers(&rig, "recycled")),
        (vec!["x".into()], vec!["x".into()])
    );
    assert_eq!(rig.double.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn attached_volume_is_deleted_only_after_detach() {
    let rig = Rig::simple().await;
    rig.api.seed(volume("v", json!({})));
    rig.api.seed(json!({"kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "v"}}}));
    let _running = rig.api.start(&[super::super::run], Options::default());
    rig.api.settle().await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    let why = rig.events("VolumeFailedDelete");
    assert!(why[0].ends_with("persistentvolume v is still attached to node n1"), "{why:?}");
    assert!(rig.api.delete("volumeattachments", "a"));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(rig.double.calls(), ["DeleteVolume"], "at once, not after the backoff");
    assert!(rig.api.get("persistentvolumes", "v").is_none());
}

#[tokio::test(start_paused = true)]
async fn i8_volume_with_two_objects_is_retained() {
    let rig = Rig::simple().await;
    rig.api.seed(volume("v", json!({})));
    rig.api.seed(volume("w", json!({"spec": {"csi": {"volumeHandle": "v"}}, "status": {"phase": "Bound"}})));
    alone(&rig).await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    let events = rig.events("VolumeFailedDelete");
    for why in ["PersistentVolume w has the same handle", "PersistentVolume v has the same handle"] {
        assert!(events.iter().any(|event| event.contains(why)), "{why}: {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_deletion_is_reported_and_retried() {
    let rig = Rig::simple().await;
    rig.double.fail_times("DeleteVolume", 0, 2, Failing::Refuses(Code::Internal, "busy"));
    rig.api.seed(volume("v", json!({"metadata": {"finalizers": [FINALIZER_EXTERNAL_PROVISIONER]}})));
    let _running = rig.api.start(&[super::super::run], Options::default());
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let why = rig.events("VolumeFailedDelete");
    assert!(why[0].ends_with("rpc error: code = Internal desc = busy"), "{why:?}");
    rig.api.settle().await;
    assert_eq!((rig.double.calls().len(), rig.volumes().len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn retained_used_and_foreign_volumes_are_not_deleted() {
    let rig = Rig::simple().await;
    for (name, more) in [
        ("retained", json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})),
        ("bound", json!({"status": {"phase": "Bound"}})),
        ("available", json!({"status": {"phase": "Available"}})),
        ("failed", json!({"status": {"phase": "Failed"}})),
        (
            "going-without-us",
            json!({"metadata": {"finalizers": ["x"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
        (
            "by-another",
            json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "other.example"}}}),
        ),
        (
            "of-another-kind",
            json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
                "spec": {"csi": null, "nfs": {"server": "s", "path": "/"}}}),
        ),
    ] {
        rig.api.seed(volume(name, more));
    }
    alone(&rig).await;
    assert_eq!((rig.double.calls().len(), rig.volumes().len()), (0, 7));
}
