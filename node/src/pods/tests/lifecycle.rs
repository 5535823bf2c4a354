//! Tests of the pod lifecycle.

use std::sync::atomic::Ordering;
use std::time::Duration;

use orlop_test_support::{Fault, FaultKind};
use serde_json::json;

use super::fixture::{Fixture, condition, state};

#[tokio::test(start_paused = true)]
async fn pod_runs_from_waiting_for_volumes_to_deletion() {
    let rig = Fixture::started().await;
    assert_eq!(rig.asked(), ["synced"]);
    rig.room.stuck.lock().insert("a".to_owned());
    rig.pod("a", json!({}));
    rig.settle().await;
    let status = rig.status("a");
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!(condition(&status, "Ready"), ("False".to_owned(), "ContainersNotReady".to_owned()));
    assert_eq!(condition(&status, "PodReadyToStartContainers").0, "False");
    assert_eq!((&status["hostIP"], &status["qosClass"]), (&json!("10.1.2.3"), &json!("BestEffort")));
    tokio::time::sleep(Duration::from_secs(125)).await;
    rig.settle().await;
    let text = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]";
    assert!(rig.api.events().iter().any(|event| event.contains(text)), "{:?}", rig.api.events());

    rig.room.go_on("a");
    rig.settle().await;
    assert_eq!(rig.asked(), ["start a"]);
    let status = rig.status("a");
    assert_eq!((&status["phase"], &status["podIP"]), (&json!("Running"), &json!("10.1.2.3")));
    for type_ in ["Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers", "PodScheduled"] {
        assert_eq!(condition(&status, type_).0, "True", "{type_}");
    }

    // The volumes are released after the containers stop, and the object is deleted after them.
    rig.room.stuck.lock().insert("a".to_owned());
    rig.api.delete("pods", "d/a");
    rig.settle().await;
    assert_eq!(rig.asked(), ["stop a 30", "release a"]);
    let status = rig.status("a");
    assert_eq!((&status["phase"], condition(&status, "Ready").0.as_str()), (&json!("Running"), "False"));
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    let text = "UnmountVolume.TearDown failed for volume \"v\" : it is busy";
    let failures = || rig.api.events().iter().filter(|event| event.contains(text)).count();
    assert_eq!(failures(), 1, "{:?}", rig.api.events());
    rig.room.go_on("a");
    rig.settle().await;
    assert_eq!(rig.get("a"), None);
    assert_eq!(rig.asked(), ["forget a"]);
}

#[tokio::test(start_paused = true)]
async fn unmount_in_progress_is_reported_only_if_it_takes_long() {
    let rig = Fixture::started().await;
    rig.pod("a", json!({}));
    rig.settle().await;
    rig.room.is_slow.store(true, Ordering::SeqCst);
    rig.room.stuck.lock().insert("a".to_owned());
    rig.api.delete("pods", "d/a");
    rig.settle().await;
    // The clock of the test may already have passed the 10 seconds.
    tokio::time::sleep(Duration::from_secs(11)).await;
    rig.settle().await;
    let text = "Unable to unmount volumes of the pod, which has ended: v: it is busy";
    assert!(rig.api.events().iter().any(|event| event.contains(text)), "{:?}", rig.api.events());
    let failures = rig.api.events().iter().filter(|event| event.contains("TearDown failed")).count();
    assert_eq!(failures, 0, "an operation in progress is no failure: {:?}", rig.api.events());
    rig.room.go_on("a");
    rig.settle().await;
    assert_eq!(rig.get("a"), None);
}

#[tokio::test(start_paused = true)]
async fn finished_pod_is_not_started_again_after_a_restart() {
    let mut rig = Fixture::started().await;
    for (name, kind, phase, reason) in
        [("a", "well", "Succeeded", "PodCompleted"), ("b", "ill", "Failed", "PodFailed")]
    {
        rig.pod(name, json!({"spec": {"restartPolicy": "Never"}}));
        rig.settle().await;
        rig.containers.say(name, state(kind));
        rig.settle().await;
        let status = rig.status(name);
        assert_eq!(status["phase"], phase, "{name}");
        assert_eq!(condition(&status, "Ready"), ("False".to_owned(), reason.to_owned()), "{name}");
        assert_eq!(condition(&status, "PodReadyToStartContainers").0, "False", "{name}");
    }
    rig.asked();
    // The next agent does not start it again, and finishes its deletion.
    rig.start();
    rig.settle().await;
    assert_eq!(rig.status("b")["phase"], "Failed");
    rig.api.delete("pods", "d/a");
    rig.settle().await;
    assert_eq!(rig.get("a"), None);
    assert!(!rig.asked().iter().any(|line| line.starts_with("start")));
}

#[tokio::test(start_paused = true)]
async fn pod_that_hangs_does_not_delay_other_pods() {
    let rig = Fixture::started().await;
    rig.room.stuck.lock().insert("a".to_owned());
    rig.containers.stubborn.lock().insert("b".to_owned());
    for name in ["a", "b", "c"] {
        rig.pod(name, json!({}));
    }
    rig.settle().await;
    rig.asked();
    rig.api.delete("pods", "d/b");
    rig.api.delete("pods", "d/c");
    // Less than the grace period of the pod that does not stop.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.status("a")["phase"], "Pending");
    assert!(rig.get("b").is_some());
    assert_eq!(rig.get("c"), None);
    // A shorter grace period applies immediately.
    rig.api.delete_with("pods", "d/b", json!({"gracePeriodSeconds": 2}));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.get("b"), None);
    let asked = rig.asked();
    assert!(asked.contains(&"stop b 30".to_owned()) && asked.contains(&"stop b 2".to_owned()), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn pod_deleted_from_the_api_is_stopped_and_released() {
    let mut rig = Fixture::started().await;
    rig.pod("a", json!({}));
    rig.settle().await;
    rig.asked();
    rig.api.delete_with("pods", "d/a", json!({"gracePeriodSeconds": 0}));
    // Another pod has the same name immediately afterwards.
    rig.pod("a", json!({"metadata": {"uid": "a2"}}));
    rig.settle().await;
    let mut asked = rig.asked();
    asked.sort();
    assert_eq!(asked, ["forget a", "release a", "start a2", "stop a 30"]);
    assert_eq!(rig.status("a")["phase"], "Running");

    // A pod that was deleted while the agent was not running.
    rig.containers.say("lost", state("running"));
    rig.start();
    rig.settle().await;
    let asked = rig.asked();
    let lost: Vec<&String> = asked.iter().filter(|line| line.contains("lost") || *line == "synced").collect();
    assert_eq!(lost, ["hold lost", "synced", "stop lost 30", "release lost", "forget lost"]);
}

#[tokio::test(start_paused = true)]
async fn i12_undecodable_pod_is_not_stopped_by_a_restart_of_the_agent() {
    let mut rig = Fixture::new();
    rig.containers.say("odd", state("running"));
    rig.pod("odd", json!({"spec": {"terminationGracePeriodSeconds": "soon"}}));
    rig.start();
    rig.settle().await;
    assert_eq!(rig.asked(), ["hold odd", "synced"]);
    rig.pod("a", json!({}));
    rig.api.patch("pods", "d/odd", "", json!({"spec": {"terminationGracePeriodSeconds": 30}}));
    rig.settle().await;
    assert_eq!(rig.asked(), ["start a"], "the containers of the mended pod run already");
    assert_eq!(rig.status("odd")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn pod_that_is_not_admitted_fails_with_its_reason() {
    let rig = Fixture::started().await;
    rig.pod("a", json!({"spec": {"nodeSelector": {"disk": "hdd"}}}));
    rig.room.full.lock().insert("v".to_owned());
    rig.pod("v", json!({}));
    rig.settle().await;
    for name in ["b", "c", "d", "e"] {
        rig.pod(name, json!({}));
        rig.settle().await;
    }
    for (name, phase, reason, message) in [
        (
            "a",
            "Failed",
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "v",
            "Failed",
            "VolumeAttachmentLimitExceeded",
            "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[v], \
             unattached volumes=[v], failed to process volumes=[]: no room",
        ),
        ("d", "Running", "", ""),
        (
            "e",
            "Failed",
            "OutOfpods",
            "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
        ),
    ] {
        let status = rig.status(name);
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        let expected = (phase.to_owned(), reason.to_owned(), message.to_owned());
        assert_eq!((text("phase"), text("reason"), text("message")), expected, "{name}");
    }
    assert!(rig.status("a").get("containerStatuses").is_none());
    assert!(!rig.asked().iter().any(|line| line == "start a" || line == "start e"));
}

#[tokio::test(start_paused = true)]
async fn status_is_written_despite_outages_and_conflicts() {
    let rig = Fixture::started().await;
    *rig.containers.failures.lock() = 2;
    rig.pod("a", json!({"status": {"conditions": [{"type": "Mine", "status": "True"}]}}));
    for kind in [FaultKind::Status(409, "Conflict", "changed"), FaultKind::Broken, FaultKind::AnswerLost] {
        rig.api.fail(Fault { verb: "patch", resource: "pods/status", skip: 0, kind });
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    rig.settle().await;
    let status = rig.status("a");
    assert_eq!(status["phase"], "Running");
    assert_eq!(condition(&status, "Mine").0, "True");
    assert!(rig.api.events().iter().any(|event| event.contains("FailedSync")));
    rig.api.set_away(true);
    rig.containers.say("a", state("ill"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.asked().contains(&"release a".to_owned()), "the way back does not wait for the server");
    rig.api.set_away(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    rig.settle().await;
    assert_eq!(rig.status("a")["phase"], "Failed");
    // No write without a change.
    let before = rig.api.take_writes().len();
    rig.settle().await;
    assert!(before > 0 && rig.api.take_writes().is_empty());
}

const LATE: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");

/// The deadline of a pod applies while it waits for its volumes, while the runtime fails to start it, while it
/// runs, and across a restart of the agent.
#[tokio::test(start_paused = true)]
async fn deadline_applies_while_waiting_running_and_across_restarts() {
    let mut rig = Fixture::started().await;
    rig.room.stuck.lock().insert("a".to_owned());
    *rig.containers.failures.lock() = 100;
    for name in ["a", "b"] {
        rig.pod(name, json!({"spec": {"activeDeadlineSeconds": 570, "restartPolicy": "Never"}}));
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    rig.settle().await;
    *rig.containers.failures.lock() = 0;
    rig.pod("c", json!({"spec": {"activeDeadlineSeconds": 240, "terminationGracePeriodSeconds": 7}}));
    rig.settle().await;
    *rig.containers.failures.lock() = 100;
    assert_eq!(rig.status("c")["phase"], "Running");
    rig.start();
    for (after, ended) in [(85, &[][..]), (10, &["c"]), (10, &["a", "b", "c"])] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        rig.settle().await;
        for name in ["a", "b", "c"] {
            let status = rig.status(name);
            let is_over = ended.contains(&name);
            assert_eq!(status["phase"] == "Failed", is_over, "{after} {name}: {status:#}");
            if is_over {
                assert_eq!(
                    (&status["reason"], &status["message"]),
                    (&json!(LATE.0), &json!(LATE.1)),
                    "{name}"
                );
            }
        }
    }
    let asked = rig.asked();
    assert!(asked.contains(&"stop c 7".to_owned()), "its own grace: {asked:?}");
    for name in ["a", "b", "c"] {
        let line = format!("Pod d/{name} Normal {} {}", LATE.0, LATE.1);
        let events = rig.api.events();
        assert_eq!(events.iter().filter(|event| event.contains(&line)).count(), 1, "{events:?}");
        assert!(asked.contains(&format!("release {name}")), "{asked:?}");
    }
}

/// The deletion conflicts with another write to the pod.
#[tokio::test(start_paused = true)]
async fn conflicting_deletion_is_retried() {
    let rig = Fixture::started().await;
    rig.pod("a", json!({}));
    rig.settle().await;
    let kind = FaultKind::Status(409, "Conflict", "the object has been modified");
    rig.api.fail(Fault { verb: "delete", resource: "pods", skip: 0, kind });
    rig.api.delete("pods", "d/a");
    rig.settle().await;
    assert_eq!(rig.api.pending_faults(), 0, "it has happened");
    assert_eq!(rig.get("a"), None);
}
