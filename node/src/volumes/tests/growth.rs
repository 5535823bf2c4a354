//! Tests of volume expansion: while mounted, before the mount, and with failures.

use orlop_csi::error::{CallError, Code};
use serde_json::{Value, json};

use super::fixture::{Bench, pod};
use crate::plugin::PluginError;

/// The controller has expanded the volume; the node must follow.
fn grow(bench: &Bench) {
    bench.api.patch("persistentvolumes", "pv-a", "", json!({"spec": {"capacity": {"storage": "2Gi"}}}));
    let status = json!({"status": {"allocatedResources": {"storage": "2Gi"},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}});
    bench.api.patch("persistentvolumeclaims", "ns/a", "status", status);
}

fn status(bench: &Bench) -> Value {
    bench.api.get("persistentvolumeclaims", "ns/a").unwrap()["status"].clone()
}

fn expansions(bench: &Bench) -> usize {
    bench.machine.take_calls().iter().filter(|call| call.starts_with("expand a 2147483648")).count()
}

fn is_finished(status: &Value) -> bool {
    status["capacity"]["storage"] == "2Gi"
        && status["allocatedResourceStatuses"].get("storage").is_none()
        && status["conditions"].as_array().is_none_or(Vec::is_empty)
}

#[tokio::test(start_paused = true)]
async fn mounted_volume_is_expanded_once() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a"]));
    bench.settle().await;
    assert_eq!(expansions(&bench), 0);
    grow(&bench);
    bench.settle().await;
    assert_eq!(expansions(&bench), 1);
    assert!(is_finished(&status(&bench)), "{}", status(&bench));
    let done = bench.events("FileSystemResizeSuccessful");
    assert_eq!(done.len(), 2, "on the pod and on the claim: {done:?}");
    assert!(done[0].ends_with("MountVolume.NodeExpandVolume succeeded for volume \"pv-a\" n"));
    bench.rest().await;
    assert_eq!(expansions(&bench), 0, "once is enough");
    assert!(agent.is_ready("u"));
}

#[tokio::test(start_paused = true)]
async fn expanded_volume_grows_before_the_pod_sees_it() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    grow(&bench);
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a"]));
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["stage a", "expand a 2147483648", "publish a u"]);
    assert!(is_finished(&status(&bench)), "{}", status(&bench));
    assert!(agent.is_ready("u"));
}

#[tokio::test(start_paused = true)]
async fn expansion_recovers_from_every_failed_write() {
    use orlop_test_support::FaultKind;
    for nth in 0..2 {
        for kind in [FaultKind::Broken, FaultKind::AnswerLost, FaultKind::Status(409, "Conflict", "changed")]
        {
            let bench = Bench::new();
            bench.disk("a", "ReadWriteOnce", "d");
            let agent = bench.agent().await;
            agent.volumes.want(pod("p", "u", &["a"]));
            bench.settle().await;
            bench.api.take_writes();
            bench.api.fail(orlop_test_support::Fault {
                verb: "patch",
                resource: "persistentvolumeclaims/status",
                skip: nth,
                kind: kind.clone(),
            });
            grow(&bench);
            bench.rest().await;
            assert!(is_finished(&status(&bench)), "write {nth} {kind:?}: {}", status(&bench));
            assert_eq!(bench.api.pending_faults(), 0, "it has happened");
            assert!(agent.is_ready("u"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn infeasible_expansion_is_reported_and_the_pod_starts() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    grow(&bench);
    bench.machine.state().expand_error =
        Some(|| PluginError::plain("too large").caused(CallError::answered(Code::OutOfRange, "too large")));
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a"]));
    bench.settle().await;
    assert!(agent.is_ready("u"));
    let status = status(&bench);
    assert_eq!(status["allocatedResourceStatuses"]["storage"], "NodeResizeInfeasible");
    let conditions = status["conditions"].to_string();
    assert!(
        conditions.contains("NodeResizeError") && conditions.contains("failed to expand pvc with too large")
    );
    let failed = bench.events("FileSystemResizeFailed");
    assert!(
        failed[0].ends_with("MountVolume.NodeExpandVolume failed for volume \"pv-a\" : too large"),
        "{failed:?}"
    );
    assert_eq!(expansions(&bench), 1);
    bench.rest().await;
    assert_eq!(expansions(&bench), 0, "it is not tried again");
}

#[tokio::test(start_paused = true)]
async fn refused_expansion_is_retried_and_the_pod_starts() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    grow(&bench);
    bench.machine.state().expand_error =
        Some(|| PluginError::plain("in use").caused(CallError::answered(Code::FailedPrecondition, "in use")));
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a"]));
    bench.settle().await;
    assert!(agent.is_ready("u"));
    assert!(expansions(&bench) > 1);
    assert!(!bench.events("VolumeResizeFailed").is_empty(), "that of a volume in use has its own reason");
    bench.machine.state().expand_error = None;
    bench.rest().await;
    assert!(is_finished(&status(&bench)), "{}", status(&bench));
}
