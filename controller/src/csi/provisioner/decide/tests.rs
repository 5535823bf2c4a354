//! The situation of a claim or a volume.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::testing::merge_into;

const DRIVER: &str = "d.example";

fn claim_of(more: Value) -> PersistentVolumeClaim {
    let mut claim = json!({"metadata": {"namespace": "ns", "name": "a", "uid": "1",
        "annotations": {"volume.kubernetes.io/storage-provisioner": DRIVER}}, "spec": {}});
    merge_into(&mut claim, &more);
    serde_json::from_value(claim).unwrap()
}

fn class_of(mode: &str) -> StorageClass {
    serde_json::from_value(json!({"provisioner": DRIVER, "volumeBindingMode": mode})).unwrap()
}

fn volume_of(more: Value) -> PersistentVolume {
    let mut volume = json!({"metadata": {"name": "pvc-1"},
        "spec": {"persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": DRIVER, "volumeHandle": "h"}},
        "status": {"phase": "Released"}});
    merge_into(&mut volume, &more);
    serde_json::from_value(volume).unwrap()
}

fn note(name: &str, driver: &str) -> Value {
    let text = json!({"driver": driver, "name": name, "bytes": 1, "modes": [],
        "volume": {"class": "c", "provisioner": driver, "reclaimPolicy": "Delete", "secrets": {}}});
    json!({"metadata": {"finalizers": ["csi.orlop.dev/provisioning"],
        "annotations": {"csi.orlop.dev/create-request": text.to_string()}}})
}

#[test]
fn situation_of_claims_without_a_note() {
    use ClaimSituation::{Nothing, Wanted};
    let (immediate, delayed) = (class_of("Immediate"), class_of("WaitForFirstConsumer"));
    let others = StorageClass { provisioner: "other.example".to_owned(), ..class_of("Immediate") };
    let node = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    let no_ga = json!({"volume.kubernetes.io/storage-provisioner": null, "volume.beta.kubernetes.io/storage-provisioner": DRIVER});
    let migrated = json!({"volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs", "pv.kubernetes.io/migrated-to": DRIVER});
    let other = json!({"volume.kubernetes.io/storage-provisioner": "other.example"});
    let annotated = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let wanted = |node: Option<&str>| Wanted { driver: DRIVER.to_owned(), node: node.map(str::to_owned) };
    let table = [
        ("immediate", json!({}), Some(&immediate), wanted(None)),
        ("the beta annotation alone", annotated(no_ga), Some(&immediate), wanted(None)),
        ("migrated", annotated(migrated), Some(&immediate), wanted(None)),
        ("of another provisioner", annotated(other), Some(&immediate), Nothing(Idle::NotOurs)),
        (
            "not requested yet",
            json!({"metadata": {"annotations": null}}),
            Some(&immediate),
            Nothing(Idle::NotOurs),
        ),
        ("has a volume", json!({"spec": {"volumeName": "v"}}), Some(&immediate), Nothing(Idle::HasVolume)),
        (
            "is going",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            Some(&immediate),
            Nothing(Idle::Going),
        ),
        ("class is gone", json!({}), None, Nothing(Idle::NoClass)),
        ("class of another driver", json!({}), Some(&others), Nothing(Idle::NotOurs)),
        ("waits for a pod", json!({}), Some(&delayed), Nothing(Idle::WaitsForNode)),
        ("a node is chosen", node.clone(), Some(&delayed), wanted(Some("n"))),
        ("an unneeded node", node, Some(&immediate), wanted(Some("n"))),
    ];
    for (name, more, class, expected) in table {
        let around = ClaimContext { volume: None, saved: false, class };
        assert_eq!(claim(&claim_of(more), &around, |driver| driver == DRIVER), expected, "{name}");
    }
    let volume = volume_of(json!({}));
    let around = ClaimContext { volume: Some(&volume), saved: false, class: Some(&immediate) };
    assert_eq!(claim(&claim_of(json!({})), &around, |_| true), Nothing(Idle::HasVolume), "it is there");
    let around = ClaimContext { volume: None, saved: true, class: Some(&immediate) };
    assert_eq!(
        claim(&claim_of(json!({})), &around, |_| true),
        Nothing(Idle::HasVolume),
        "it was saved just now"
    );
}

#[test]
fn responsible_driver_of_a_claim() {
    let by =
        |name: &str| json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": name}}});
    let mut noted = note("pvc-1", DRIVER);
    merge_into(&mut noted, &by("other.example"));
    let mut unreadable = note("pvc-2", "third.example");
    merge_into(&mut unreadable, &by("other.example"));
    for (name, more, expected) in [
        ("asked to be", by("other.example"), "other.example"),
        ("noted, whatever it says by now", noted, DRIVER),
        ("a note of another claim", unreadable, "other.example"),
    ] {
        assert_eq!(driver_of(&claim_of(more)).as_deref(), Some(expected), "{name}");
    }
}

#[test]
fn situation_of_claims_with_a_note() {
    let none = ClaimContext { volume: None, saved: false, class: None };
    let decide = |more: &Value, around: &ClaimContext<'_>| {
        claim(&claim_of(more.clone()), around, |driver| driver == DRIVER)
    };
    let ours = note("pvc-1", DRIVER);
    assert!(matches!(decide(&ours, &none), ClaimSituation::Asked(_)), "whatever the class says");
    let mut going = ours.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(matches!(decide(&going, &none), ClaimSituation::Asked(_)), "it is not known what the driver has");
    let elsewhere = note("pvc-1", "other.example");
    assert_eq!(decide(&elsewhere, &none), ClaimSituation::Nothing(Idle::NotOurs));
    let copied = note("pvc-2", DRIVER);
    assert!(matches!(decide(&copied, &none), ClaimSituation::Unreadable(_)), "a note of another claim");
    let alone = json!({"metadata": {"finalizers": ["csi.orlop.dev/provisioning"]}});
    assert_eq!(decide(&alone, &none), ClaimSituation::FinalizerAlone);
    let volume = volume_of(json!({}));
    let there = ClaimContext { volume: Some(&volume), saved: false, class: None };
    assert_eq!(decide(&ours, &there), ClaimSituation::Saved { at_once: false });
    assert_eq!(decide(&going, &there), ClaimSituation::Saved { at_once: true });
    let stranger = volume_of(json!({"spec": {"csi": {"driver": "other.example"}}}));
    let there = ClaimContext { volume: Some(&stranger), saved: false, class: None };
    assert!(matches!(decide(&ours, &there), ClaimSituation::Asked(_)), "a stranger's volume of that name");
}

#[test]
fn situation_of_volumes() {
    use VolumeSituation::{Nothing, Protect, Release};
    let held = json!({"metadata": {"finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"]}});
    let with = |one: &Value, other: Value| {
        let mut both = one.clone();
        merge_into(&mut both, &other);
        both
    };
    let delete = || VolumeSituation::Delete { driver: DRIVER.to_owned(), handle: "h".to_owned() };
    let by = |name: &str| json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": name}}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let bound = json!({"status": {"phase": "Bound"}});
    let retain = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    for (name, more, expected) in [
        ("released", json!({}), delete()),
        ("released, made here", by(DRIVER), delete()),
        ("released, made by another", by("other.example"), Nothing),
        ("released, going, held", with(&going, held.clone()), delete()),
        ("released, going, not held", going.clone(), Nothing),
        ("released, to be kept", retain.clone(), Nothing),
        ("to be kept, held", with(&retain, held.clone()), Release),
        ("bound", bound.clone(), Protect),
        ("bound, held", with(&bound, held.clone()), Nothing),
        ("bound, going", with(&bound, going.clone()), Nothing),
        ("failed", json!({"status": {"phase": "Failed"}}), Nothing),
        ("of another driver", json!({"spec": {"csi": {"driver": "other.example"}}}), Nothing),
        (
            "an odd policy, held",
            with(&held, json!({"spec": {"persistentVolumeReclaimPolicy": "Odd"}})),
            Nothing,
        ),
    ] {
        assert_eq!(volume(&volume_of(more), |driver| driver == DRIVER), expected, "{name}");
    }
}
