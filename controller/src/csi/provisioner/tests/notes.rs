//! The driver responsible for a claim, and what a client can reach by writing the note or other annotations of a claim.

use std::time::Duration;

use super::*;

const OTHER: &str = "other.example";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// A claim with a note written by orlop: the driver's first response is lost, and then the process ends.
async fn with_note() -> (Rig, Value) {
    let rig = Rig::simple().await;
    rig.api.seed(json!({"kind": "Secret", "metadata": {"namespace": "elsewhere", "name": "root"},
        "data": {"key": "aHVzaA=="}}));
    rig.double.fail("CreateVolume", 0, Failing::Broken);
    let running = rig.start();
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(running);
    let annotations = rig.claim("a").metadata.annotations.unwrap();
    let note = serde_json::from_str(&annotations[ANN_CREATE_REQUEST]).unwrap();
    assert_eq!((rig.double.calls().len(), rig.double.volume_ids().len()), (1, 0));
    (rig, note)
}

fn write(rig: &Rig, annotation: &str, text: &str) {
    let annotations = json!({"metadata": {"annotations": {annotation: text}}});
    rig.api.patch("persistentvolumeclaims", "ns/a", "", annotations);
}

#[tokio::test(start_paused = true)]
async fn forged_note_reaches_no_driver_and_no_secret() {
    let secret = json!({"name": "root", "namespace": "elsewhere"});
    for (name, forged) in [
        ("a secret of another namespace", json!({"volume": {"secrets": {"provisioner": secret}}})),
        ("a secret for nodes", json!({"volume": {"secrets": {"nodeStage": secret}}})),
        ("parameters", json!({"parameters": {"pool": "fast"}})),
        ("another's volume as content", json!({"content": {"volume": "vol-of-another"}})),
        ("another policy", json!({"volume": {"reclaimPolicy": "Retain"}})),
        ("mount options", json!({"mountOptions": ["suid"]})),
        ("another driver", json!({"driver": OTHER})),
        ("a size", json!({"bytes": 1})),
        ("no seal", json!({"seal": ""})),
    ] {
        let (rig, mut note) = with_note().await;
        let other = TestDriver::new(OTHER, &[], &[]);
        rig.api.drivers().put(other.driver().await);
        crate::testing::merge_into(&mut note, &forged);
        write(&rig, ANN_CREATE_REQUEST, &note.to_string());
        let _running = rig.start();
        rig.api.settle().await;
        assert_eq!((rig.double.calls().len(), other.calls().len()), (1, 0), "{name}");
        assert_eq!(rig.volumes().len(), 0, "{name}");
        let events = rig.events("ProvisioningFailed");
        assert!(events.iter().any(|event| event.contains("was not written by orlop")), "{name}: {events:?}");
        // The finalizer stays, because the driver's state is unknown.
        let finalizers = rig.claim("a").metadata.finalizers.unwrap();
        assert!(finalizers.contains(&FINALIZER_PROVISIONING.to_owned()), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn i9_own_note_survives_a_restart_without_its_class() {
    let (rig, _) = with_note().await;
    assert!(rig.api.delete("storageclasses", "c"));
    let _running = rig.start();
    rig.api.settle().await;
    assert_eq!(rig.double.volume_ids().len(), 1);
    rig.nothing_leaks("the class is gone");
}

#[tokio::test(start_paused = true)]
async fn claim_with_a_note_stays_with_its_driver_despite_annotations() {
    let (rig, _) = with_note().await;
    let slow = TestDriver::new(OTHER, &[], &[]);
    rig.api.drivers().put(slow.driver().await);
    slow.fail_times("CreateVolume", 0, 100, Failing::NoAnswer);
    rig.api.seed(class("slow", json!({"provisioner": OTHER})));
    // The binder would correct it.
    let one = || Options { csi_worker_threads: 1, ..Options::default() };
    let busy = claim(
        "busy",
        json!({"metadata": {"annotations": {PROVISIONER: OTHER}}, "spec": {"storageClassName": "slow"}}),
    );
    rig.api.create(busy);
    write(&rig, PROVISIONER, OTHER);
    let _running = rig.api.start(&[super::super::run], one());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(slow.calls(), ["CreateVolume"], "its one turn is taken");
    assert_eq!(rig.double.volume_ids().len(), 1, "nothing else waits for it");
    rig.nothing_leaks("under another annotation");
}

#[tokio::test(start_paused = true)]
async fn driver_that_starts_late_serves_the_claims_noted_for_it() {
    let (rig, _) = with_note().await;
    write(&rig, PROVISIONER, OTHER);
    rig.api.drivers().remove(DRIVER);
    let other = TestDriver::new(OTHER, &[], &[]);
    rig.api.drivers().put(other.driver().await);
    let _running = rig.api.start(&[super::super::run], Options::default());
    rig.api.settle().await;
    assert_eq!((rig.double.calls().len(), other.calls().len()), (1, 0));
    rig.api.drivers().put(rig.double.driver().await);
    rig.api.settle().await;
    assert_eq!((rig.double.volume_ids().len(), other.calls().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn parameters_of_another_drivers_class_are_not_sent() {
    let rig = Rig::simple().await;
    let other = TestDriver::new(OTHER, &[], &[]);
    rig.api.drivers().put(other.driver().await);
    let annotations = json!({"metadata": {"annotations": {PROVISIONER: OTHER}}});
    rig.api.create(claim("a", annotations));
    let _running = rig.api.start(&[super::super::run], Options::default());
    rig.api.settle().await;
    assert_eq!((rig.double.calls().len(), other.calls().len()), (0, 0));
    write(&rig, PROVISIONER, DRIVER);
    rig.api.settle().await;
    assert_eq!(rig.double.calls(), ["CreateVolume"]);
}
