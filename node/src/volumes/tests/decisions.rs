//! Table tests of the pure decisions.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{claim, volume};
use crate::volumes::decide::{
    Attach, Decision, Demand, Device, MountCheck, MountState, PodFacts, VolumeFacts, VolumeRefusal, decide,
};
use crate::volumes::populator::{
    ClaimError, VolumeUses, as_mounted, check_mode, check_owner, claim_keys, is_component, volume_of_claim,
};

fn pod_facts(uid: &str, wish: Demand, state: MountState) -> PodFacts {
    PodFacts {
        uid: uid.into(),
        wish,
        state,
        check: MountCheck::Passed,
        stale: false,
        repeat_at: None,
        grows: false,
        tear_down_rests: None,
        set_up_rests: None,
        refresh_rests: None,
        expand_rests: None,
        refuse_rests: None,
    }
}

fn facts(device: Option<MountState>, pods: Vec<PodFacts>, now: Instant) -> VolumeFacts {
    let device =
        device.map(|state| Device { state, in_doubt: false, mount_rests: None, unmount_rests: None });
    VolumeFacts {
        running: false,
        attach: Attach::Attached,
        device,
        pods,
        exclusive: false,
        may_unmount: true,
        now,
    }
}

/// Every combination of device state, pod state and demand.
#[tokio::test(start_paused = true)]
async fn i10_decision_for_every_pair_of_states() {
    use MountState::{Mounted, NotMounted, Uncertain};
    let now = Instant::now();
    let table: [(Demand, Option<MountState>, MountState, &str); 36] = [
        (Demand::Wanted, None, NotMounted, "set up"),
        (Demand::Wanted, None, Uncertain, "set up"),
        (Demand::Wanted, None, Mounted, "rest"),
        (Demand::Wanted, Some(NotMounted), NotMounted, "mount device"),
        (Demand::Wanted, Some(NotMounted), Uncertain, "mount device"),
        (Demand::Wanted, Some(NotMounted), Mounted, "rest"),
        (Demand::Wanted, Some(Uncertain), NotMounted, "mount device"),
        (Demand::Wanted, Some(Uncertain), Uncertain, "mount device"),
        (Demand::Wanted, Some(Uncertain), Mounted, "rest"),
        (Demand::Wanted, Some(Mounted), NotMounted, "set up"),
        (Demand::Wanted, Some(Mounted), Uncertain, "set up"),
        (Demand::Wanted, Some(Mounted), Mounted, "rest"),
        (Demand::Held, None, NotMounted, "rest"),
        (Demand::Held, None, Uncertain, "rest"),
        (Demand::Held, None, Mounted, "rest"),
        (Demand::Held, Some(NotMounted), NotMounted, "rest"),
        (Demand::Held, Some(NotMounted), Uncertain, "rest"),
        (Demand::Held, Some(NotMounted), Mounted, "rest"),
        (Demand::Held, Some(Uncertain), NotMounted, "rest"),
        (Demand::Held, Some(Uncertain), Uncertain, "rest"),
        (Demand::Held, Some(Uncertain), Mounted, "rest"),
        (Demand::Held, Some(Mounted), NotMounted, "rest"),
        (Demand::Held, Some(Mounted), Uncertain, "rest"),
        (Demand::Held, Some(Mounted), Mounted, "rest"),
        (Demand::Unwanted, None, NotMounted, "forget"),
        (Demand::Unwanted, None, Uncertain, "tear down"),
        (Demand::Unwanted, None, Mounted, "tear down"),
        (Demand::Unwanted, Some(NotMounted), NotMounted, "forget"),
        (Demand::Unwanted, Some(NotMounted), Uncertain, "tear down"),
        (Demand::Unwanted, Some(NotMounted), Mounted, "tear down"),
        (Demand::Unwanted, Some(Uncertain), NotMounted, "unmount device"),
        (Demand::Unwanted, Some(Uncertain), Uncertain, "tear down"),
        (Demand::Unwanted, Some(Uncertain), Mounted, "tear down"),
        (Demand::Unwanted, Some(Mounted), NotMounted, "unmount device"),
        (Demand::Unwanted, Some(Mounted), Uncertain, "tear down"),
        (Demand::Unwanted, Some(Mounted), Mounted, "tear down"),
    ];
    for (wish, device, state, wanted) in table {
        let facts = facts(device, vec![pod_facts("u", wish, state)], now);
        let uid = || "u".into();
        let decision = match wanted {
            "set up" => Decision::SetUp(uid()),
            "mount device" => Decision::MountDevice(uid()),
            "tear down" => Decision::TearDown(uid()),
            "unmount device" => Decision::UnmountDevice,
            "forget" => Decision::Forget,
            _ => Decision::Rest,
        };
        assert_eq!(decide(&facts), decision, "{wish:?} device {device:?} pod {state:?}");
        assert_eq!(
            decide(&VolumeFacts { running: true, ..facts.clone() }),
            Decision::Rest,
            "one thing at a time"
        );
        let early = decide(&VolumeFacts { may_unmount: false, ..facts.clone() });
        let unmounts = matches!(decision, Decision::TearDown(_) | Decision::UnmountDevice);
        assert_eq!(
            early,
            if unmounts { Decision::Rest } else { decision.clone() },
            "not before all is known"
        );
        let unattached = decide(&VolumeFacts { attach: Attach::Waiting, ..facts });
        let mounts = matches!(decision, Decision::SetUp(_) | Decision::MountDevice(_));
        assert_eq!(
            unattached,
            if mounts { Decision::WaitForAttach } else { decision },
            "not before it is attached"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unmounts_precede_mounts_and_earlier_pods_come_first() {
    use MountState::{Mounted, NotMounted, Uncertain};
    let now = Instant::now();
    let later = now + Duration::from_secs(7);
    let (a, b) = (|wish, state| pod_facts("a", wish, state), |wish, state| pod_facts("b", wish, state));
    let both = |a, b| facts(Some(Mounted), vec![a, b], now);
    let check = |check| PodFacts { check, ..a(Demand::Wanted, NotMounted) };
    let rests = |device: MountState| VolumeFacts {
        device: Some(Device {
            state: device,
            in_doubt: false,
            mount_rests: Some(later),
            unmount_rests: Some(later),
        }),
        ..facts(None, vec![], now)
    };
    let exclusive = |facts| VolumeFacts { exclusive: true, ..facts };
    let stale = PodFacts { stale: true, grows: true, ..a(Demand::Wanted, Mounted) };
    let grows = PodFacts { grows: true, ..a(Demand::Wanted, NotMounted) };
    let resting = PodFacts { set_up_rests: Some(later), ..a(Demand::Wanted, NotMounted) };
    let table = [
        (
            "unmount first",
            both(a(Demand::Wanted, NotMounted), b(Demand::Unwanted, Mounted)),
            Decision::TearDown("b".into()),
        ),
        (
            "a failed unmount blocks nothing",
            both(
                a(Demand::Wanted, NotMounted),
                PodFacts { tear_down_rests: Some(later), ..b(Demand::Unwanted, Mounted) },
            ),
            Decision::SetUp("a".into()),
        ),
        (
            "a set-up that failed neither",
            both(resting.clone(), b(Demand::Wanted, NotMounted)),
            Decision::SetUp("b".into()),
        ),
        ("all rest", facts(None, vec![resting], now), Decision::WaitUntil(later)),
        ("the device rests", rests(Mounted), Decision::WaitUntil(later)),
        (
            "the device of a wanted one rests",
            VolumeFacts { pods: vec![a(Demand::Wanted, NotMounted)], ..rests(Uncertain) },
            Decision::WaitUntil(later),
        ),
        (
            "the device goes last",
            both(a(Demand::Held, Mounted), b(Demand::Unwanted, NotMounted)),
            Decision::Rest,
        ),
        (
            "one alone: another has it",
            exclusive(both(a(Demand::Wanted, Mounted), b(Demand::Wanted, NotMounted))),
            Decision::Refuse("b".into(), VolumeRefusal::InUse),
        ),
        (
            "one alone: another may have it",
            exclusive(both(a(Demand::Wanted, NotMounted), b(Demand::Held, Uncertain))),
            Decision::Refuse("a".into(), VolumeRefusal::InUse),
        ),
        (
            "alone: not attached",
            exclusive(both(a(Demand::Wanted, NotMounted), b(Demand::Wanted, NotMounted))),
            Decision::SetUp("a".into()),
        ),
        (
            "a check that fails",
            facts(None, vec![check(MountCheck::Failed("no".into()))], now),
            Decision::Refuse("a".into(), VolumeRefusal::Check("no".into())),
        ),
        ("a check that has to wait", facts(None, vec![check(MountCheck::NotYet)], now), Decision::Rest),
        (
            "what changed is shown before it grows",
            facts(None, vec![stale], now),
            Decision::Refresh("a".into()),
        ),
        (
            "it grows before the pod sees it",
            both(grows.clone(), b(Demand::Wanted, Mounted)),
            Decision::Expand("a".into()),
        ),
        (
            "without a device it grows after that",
            facts(None, vec![grows.clone()], now),
            Decision::SetUp("a".into()),
        ),
        (
            "it grows while it is mounted",
            facts(None, vec![PodFacts { state: Mounted, ..grows }], now),
            Decision::Expand("a".into()),
        ),
        ("nothing is left", facts(Some(NotMounted), vec![], now), Decision::Forget),
    ];
    for (name, facts, wanted) in table {
        assert_eq!(decide(&facts), wanted, "{name}");
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn claim_must_be_bound_and_owned() {
    let pod =
        typed(json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {"containers": []}}));
    let changed = |change: fn(&mut Value)| {
        let mut value = claim("a");
        change(&mut value);
        value
    };
    let leaving = "2026-01-01T00:00:00Z";
    let mut protected = claim("a");
    protected["metadata"]["deletionTimestamp"] = json!(leaving);
    protected["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    let mut unprotected = protected.clone();
    unprotected["metadata"]["finalizers"] = json!(["other"]);
    let owner = |uid: &str| {
        let mut value = claim("a");
        value["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]);
        value
    };
    let table = [
        ("bound", claim("a"), false, "pv-a"),
        ("pending", changed(|claim| claim["status"]["phase"] = json!("Pending")), false, "PVC is not bound"),
        ("lost", changed(|claim| claim["status"]["phase"] = json!("Lost")), false, "PVC is not bound"),
        ("no status", changed(|claim| claim["status"] = json!({})), false, "PVC is not bound"),
        (
            "no volume",
            changed(|claim| claim["spec"]["volumeName"] = json!("")),
            false,
            "PVC has empty pvc.Spec.VolumeName",
        ),
        ("being deleted, in use", protected, false, "pv-a"),
        ("being deleted", unprotected, false, "PVC is being deleted"),
        ("ephemeral, ours", owner("u"), true, "pv-a"),
        (
            "ephemeral, of another",
            owner("v"),
            true,
            "PVC ns/a was not created for pod ns/p (pod is not owner)",
        ),
        (
            "ephemeral, without a pod",
            claim("a"),
            true,
            "PVC ns/a was not created for pod ns/p (pod is not owner)",
        ),
    ];
    for (name, claim, ephemeral, wanted) in table {
        let claim = typed(claim);
        let said = match volume_of_claim(&pod, &claim, ephemeral) {
            Ok(volume) => volume.to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, wanted, "{name}");
    }
}

#[test]
fn volume_must_refer_to_the_claim() {
    let ours = typed(claim("a"));
    let say = |value: Value| {
        check_owner(&typed(value), &ours).map_or_else(|error| error.to_string(), |()| "ours".to_owned())
    };
    assert_eq!(say(volume("a", "ReadWriteOnce", "d")), "ours");
    assert_eq!(
        say(volume("b", "ReadWriteOnce", "d")),
        "found PV object pv-b but its pv.Spec.ClaimRef.UID claim-b does not point to claim.UID claim-a"
    );
    let mut free = volume("a", "ReadWriteOnce", "d");
    free["spec"].as_object_mut().unwrap().remove("claimRef");
    assert_eq!(
        say(free),
        "found PV object pv-a but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    );
    let in_tree = json!({"metadata": {"name": "pv"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "awsElasticBlockStore": {"volumeID": "vol-1", "fsType": "ext4"}}});
    let translated = as_mounted(typed(in_tree)).unwrap();
    assert_eq!(translated.spec.unwrap().csi.unwrap().driver, "ebs.csi.aws.com");
    let nameless =
        json!({"metadata": {"name": "pv"}, "spec": {"azureFile": {"secretName": "s", "shareName": "x"}}});
    let said = as_mounted(typed(nameless));
    assert!(matches!(said, Err(ClaimError::Untranslatable { .. }) | Ok(_)));
}

#[test]
fn only_used_volumes_are_requested_in_their_mode() {
    let mount = |name: &str| json!([{"name": name, "mountPath": "/m"}]);
    let pod = typed(json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {
        "volumes": [{"name": "init", "persistentVolumeClaim": {"claimName": "c1"}}, {"name": "late", "ephemeral": {}},
            {"name": "device", "persistentVolumeClaim": {"claimName": "c2"}},
            {"name": "unused", "persistentVolumeClaim": {"claimName": "c3"}}],
        "initContainers": [{"name": "i", "volumeMounts": mount("init")}],
        "containers": [{"name": "c", "volumeDevices": [{"name": "device", "devicePath": "/d"}]}],
        "ephemeralContainers": [{"name": "e", "volumeMounts": mount("late")}]}}));
    let uses = VolumeUses::of(&pod);
    assert_eq!(uses.mounts.iter().collect::<Vec<_>>(), ["init", "late"]);
    assert_eq!(uses.devices.iter().collect::<Vec<_>>(), ["device"]);
    assert_eq!(claim_keys(&pod), ["ns/c1", "ns/p-late", "ns/c2"]);
    let say = |volume: &str, mode: &str| {
        check_mode(volume, mode, &uses).map_or_else(|error| error.to_string(), |()| String::new())
    };
    assert_eq!(say("init", "Filesystem"), "");
    assert_eq!(say("init", "Block"), "volume init has volumeMode Block, but is specified in volumeMounts");
    assert_eq!(say("device", "Block"), "");
    assert_eq!(
        say("device", "Filesystem"),
        "volume device has volumeMode Filesystem, but is specified in volumeDevices"
    );
}

#[test]
fn unsafe_names_never_become_a_path() {
    for name in ["", ".", "..", "a/b", "/", "a\0b", "a\nb", "a\u{7f}", &"x".repeat(256)] {
        assert!(!is_component(name), "{name:?}");
    }
    for name in ["a", "pvc-1", "...", "a..b", "ä", "kubernetes.io~csi", &"x".repeat(255)] {
        assert!(is_component(name), "{name:?}");
    }
}
