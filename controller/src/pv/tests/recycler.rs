//! Tests of the recycler pod: its spec, the effect of its result, and the events.

use std::time::Duration;

use serde_json::{Value, json};

use super::functions::volume;
use super::play::{Stage, stage, state};
use super::table::{Case, NO_CASE};
use crate::pv::bind::volume_without_claim;

const NFS: Case = Case {
    given: &[
        r#"pv pv-a 25Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
    ],
    ..NO_CASE
};

const POD: &str = "default/recycler-for-pv-a";

async fn second() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// A stage on which the recycler pod has just been created.
async fn recycling(case: &Case) -> Stage {
    let stage = stage(case, false);
    stage.start();
    second().await;
    assert!(stage.api.get("pods", POD).is_some(), "there is a recycler pod");
    stage
}

fn pod_uid(stage: &Stage) -> Option<String> {
    stage.api.get("pods", POD)?["metadata"]["uid"].as_str().map(str::to_owned)
}

fn message(stage: &Stage) -> String {
    let line = state(&stage.api).remove(0);
    line.split_once(" msg=").map(|(_, message)| message.to_owned()).unwrap_or_default()
}

fn has_event(stage: &Stage, event: &str) -> bool {
    stage.api.events().iter().any(|line| line == event)
}

#[tokio::test(start_paused = true)]
async fn recycler_pod_mounts_the_volume_and_has_a_deadline_by_size() {
    let stage = recycling(&NFS).await;
    let pod = stage.api.get("pods", POD).unwrap();
    let spec = &pod["spec"];
    assert_eq!(
        spec["volumes"],
        json!([{"name": "vol", "nfs": {"server": "nfs.example.test", "path": "/export/a"}}])
    );
    assert_eq!(spec["activeDeadlineSeconds"], 750);
    assert_eq!(spec["restartPolicy"], "Never");
    let container = &spec["containers"][0];
    assert_eq!(container["name"], "pv-recycler");
    assert_eq!(container["image"], "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6");
    assert_eq!(container["command"], json!(["/bin/sh"]));
    assert_eq!(container["args"][0], "-c");
    assert_eq!(container["volumeMounts"], json!([{"name": "vol", "mountPath": "/scrub"}]));
}

#[tokio::test(start_paused = true)]
async fn host_path_recycler_pod_has_at_least_one_minute() {
    let case = Case {
        given: &["pv pv-a 1Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller"],
        ..NO_CASE
    };
    let stage = recycling(&case).await;
    let spec = stage.api.get("pods", POD).unwrap()["spec"].clone();
    assert_eq!(spec["activeDeadlineSeconds"], 60);
    assert_eq!(spec["volumes"], json!([{"name": "vol", "hostPath": {"path": "/tmp/pv-cases/pv-a"}}]));
}

#[tokio::test(start_paused = true)]
async fn successful_recycling_frees_the_volume_and_removes_the_pod() {
    let stage = recycling(&NFS).await;
    stage.api.patch("pods", POD, "status", json!({"status": {"phase": "Succeeded"}}));
    second().await;
    let line = state(&stage.api).remove(0);
    assert!(line.starts_with("pv pv-a 25Gi RWO Available policy=Recycle src="), "{line}");
    assert!(stage.api.get("pods", POD).is_none());
    assert!(has_event(&stage, "PersistentVolume pv-a Normal VolumeRecycled Volume recycled"));
}

#[tokio::test(start_paused = true)]
async fn failures_are_recorded_on_the_volume() {
    let table: [(&str, Value, &str); 2] = [
        ("with a message", json!({"phase": "Failed", "message": "no space"}), "no space"),
        ("without", json!({"phase": "Failed"}), "pod failed, pod.Status.Message unknown"),
    ];
    for (name, status, text) in table {
        let stage = recycling(&NFS).await;
        let first = pod_uid(&stage);
        stage.api.patch("pods", POD, "status", json!({"status": status}));
        second().await;
        let wanted = format!("Recycle failed: failed to recycle volume: {text}");
        assert_eq!(message(&stage), wanted, "{name}");
        assert!(
            has_event(&stage, &format!("PersistentVolume pv-a Warning VolumeFailedRecycle {wanted}")),
            "{name}"
        );
        // The pod is removed in every case. The change of phase triggers a second attempt immediately, as upstream: a
        // failed recycling has no back-off.
        let again = pod_uid(&stage);
        assert!(again.is_some() && again != first, "{name}");
        stage.api.patch("pods", POD, "status", json!({"status": {"phase": "Succeeded"}}));
        second().await;
        assert!(
            state(&stage.api)[0].starts_with("pv pv-a 25Gi RWO Available"),
            "{name}: {:?}",
            state(&stage.api)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_recycler_pod_is_a_failure() {
    let stage = recycling(&NFS).await;
    stage.api.delete("pods", POD);
    second().await;
    assert_eq!(message(&stage), "Recycle failed: failed to recycle volume: recycler pod was deleted");
}

#[tokio::test(start_paused = true)]
async fn result_of_an_earlier_recycler_pod_is_discarded() {
    let stage = stage(&NFS, false);
    stage.api.seed(json!({"kind": "Pod", "metadata": {"namespace": "default", "name": "recycler-for-pv-a"},
        "spec": {"containers": []}, "status": {"phase": "Succeeded"}}));
    let old = pod_uid(&stage);
    stage.start();
    second().await;
    assert_eq!(message(&stage), "Recycle failed: old recycler pod found, will retry later");
    // The old pod is removed and its success was ignored; the second attempt has its own pod.
    let own = pod_uid(&stage);
    assert!(own.is_some() && own != old, "{own:?}");
    assert!(state(&stage.api)[0].starts_with("pv pv-a 25Gi RWO Failed"), "{:?}", state(&stage.api));
}

#[tokio::test(start_paused = true)]
async fn recycler_pod_events_are_copied_to_the_volume() {
    let stage = recycling(&NFS).await;
    let pod = stage.api.get("pods", POD).unwrap();
    let about = json!({"kind": "Pod", "namespace": "default", "name": "recycler-for-pv-a", "uid": pod["metadata"]["uid"]});
    stage.api.seed(
        json!({"kind": "Event", "metadata": {"namespace": "default", "name": "e-1"}, "involvedObject": about,
        "type": "Warning", "reason": "FailedMount", "message": "mount failed"}),
    );
    second().await;
    let wanted = "PersistentVolume pv-a Warning RecyclerPod Recycler pod: mount failed";
    assert!(has_event(&stage, wanted), "{:?}", stage.api.events());
}

/// I8: the pod is deleted, without a failure event, when its volume is freed, reserved for another claim or set
/// to Retain while the pod runs.
#[tokio::test(start_paused = true)]
async fn i8_recycler_pod_is_stopped_when_its_volume_must_not_be_scrubbed() {
    let table: [(&str, Value, bool); 4] = [
        ("freed", json!({"spec": {"claimRef": null}}), true),
        ("given to another", json!({"spec": {"claimRef": {"name": "c-2", "uid": null}}}), true),
        ("kept", json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}), true),
        ("only labelled", json!({"metadata": {"labels": {"a": "b"}}}), false),
    ];
    for (name, patch, goes) in table {
        let stage = recycling(&NFS).await;
        let uid = pod_uid(&stage);
        stage.api.patch("persistentvolumes", "pv-a", "", patch);
        second().await;
        // On a node, the kubelet must first terminate it.
        let now = stage.api.get("pods", POD).unwrap_or_default();
        let is_deleted = now["metadata"]["deletionTimestamp"].is_string();
        assert_eq!(now.is_null() || is_deleted, goes, "{name}: {now:#}");
        assert!(now.is_null() || pod_uid(&stage) == uid, "{name}: the same pod");
        assert!(!stage.api.events().iter().any(|event| event.contains("Failed")), "{name}");
    }
}

/// `orlop pv reclaim --scrub` requests one recycling: the write that frees the volume restores the previous
/// policy.
#[tokio::test(start_paused = true)]
async fn one_time_scrub_restores_the_reclaim_policy() {
    let case = Case {
        given: &[
            r#"pv pv-a 25Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller @orlop.dev/reclaim-policy-after-scrub=Retain src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
        ],
        ..NO_CASE
    };
    let stage = recycling(&case).await;
    stage.api.patch("pods", POD, "status", json!({"status": {"phase": "Succeeded"}}));
    second().await;
    let line = state(&stage.api).remove(0);
    let wanted = r#"pv pv-a 25Gi RWO Available src={"nfs":{"path":"/export/a","server":"nfs.example.test"}}"#;
    assert_eq!(line, wanted);
}

#[test]
fn restored_policy_is_the_recorded_one_unless_changed_or_invalid() {
    const MARK: &str = "@orlop.dev/reclaim-policy-after-scrub";
    for (case, before, wanted) in [
        ("1 nothing was asked for", "policy=Recycle".to_owned(), "Recycle"),
        ("2 as it was", format!("policy=Recycle {MARK}=Retain"), "Retain"),
        ("3 deleted from now on", format!("policy=Recycle {MARK}=Delete"), "Delete"),
        ("4 a person has chosen meanwhile", format!("policy=Delete {MARK}=Retain"), "Delete"),
        ("5 what is no policy", format!("policy=Recycle {MARK}=Shred"), "Recycle"),
    ] {
        let line = format!("pv pv-a 1Gi RWO Released ref=default/c-1:uid-old @by-controller {before}");
        let freed = volume_without_claim(&volume(&line)).unwrap();
        let spec = freed.spec.unwrap();
        assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some(wanted), "{case}");
        assert_eq!(
            (spec.claim_ref, freed.metadata.annotations.unwrap_or_default().len()),
            (None, 0),
            "{case}"
        );
    }
}
