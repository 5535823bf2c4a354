//! Tests of uncertain states: failed unmounts, unreadable records, drivers whose capabilities are not known yet.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::fixture::{Bench, Fault, pod, pod_json};
use crate::volumes::PodVolumes;

fn grouped(name: &str, uid: &str, volume: &str, group: i64) -> Arc<Pod> {
    let mut value = pod_json(name, uid, &[volume]);
    value["spec"]["securityContext"] = json!({"fsGroup": group});
    Arc::new(serde_json::from_value(value).unwrap())
}

/// A driver may unmount a volume and then fail with an error that does not show this.
#[tokio::test(start_paused = true)]
async fn device_is_remounted_after_a_failed_unmount() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u1", &["a"]));
    bench.settle().await;
    bench.machine.take_calls();
    bench.machine.plan("unstage a", 0, Fault::Denied);
    agent.volumes.release("u1");
    let mut state = agent.volumes.state("u1");
    state.wait_for(|state| *state == PodVolumes::Released).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    agent.volumes.want(pod("q", "u2", &["a"]));
    bench.settle().await;
    assert!(agent.is_ready("u2"), "{}", agent.waits("u2"));
    assert_eq!(bench.machine.take_calls(), ["unpublish a u1", "unstage a", "stage a", "publish a u2"]);
    bench.nothing_wrong();
}

/// The record of a pod's mount is damaged; that of the device mount is not.
#[tokio::test(start_paused = true)]
async fn i7_device_mount_stays_while_a_pod_mount_is_unrecognized() {
    for runs in [true, false] {
        let bench = Bench::new();
        bench.disk("a", "ReadWriteOnce", "d");
        let agent = bench.agent().await;
        agent.volumes.want(pod("p", "u", &["a"]));
        bench.settle().await;
        agent.crash().await;
        bench.machine.take_calls();
        bench.machine.state().unreadable.insert("u".to_owned());
        let claim = bench.api.get("persistentvolumeclaims", "ns/a").unwrap();
        bench.api.delete("persistentvolumeclaims", "ns/a");
        let agent = bench.quiet_agent().await;
        match runs {
            // The API server no longer has the pod, but its containers run.
            true => agent.volumes.hold("u"),
            // The pod is requested, but its claim cannot be read yet.
            false => agent.volumes.want(pod("p", "u", &["a"])),
        }
        agent.volumes.synced();
        bench.register(&agent);
        bench.rest().await;
        assert_eq!(bench.machine.take_calls(), Vec::<String>::new(), "runs {runs}");
        assert_eq!(agent.in_use(), ["test/disk/a"], "runs {runs}");
        bench.nothing_wrong();
        if !runs {
            bench.api.seed(claim);
            bench.rest().await;
            assert!(agent.is_ready("u"), "{}", agent.waits("u"));
            assert_eq!(bench.machine.take_calls(), ["stage a", "publish a u"]);
            bench.nothing_wrong();
        }
        // The unrecognized mount is removed first, then the device mount.
        bench.machine.state().places.clear();
        agent.volumes.release("u");
        bench.rest().await;
        assert_eq!(agent.state("u"), PodVolumes::Released, "runs {runs}");
        assert_eq!(agent.in_use(), Vec::<String>::new(), "runs {runs}");
        assert_eq!(bench.machine.take_calls().last().map(String::as_str), Some("unstage a"), "runs {runs}");
    }
}

/// A driver that applies the group itself needs it when the volume is staged.
#[tokio::test(start_paused = true)]
async fn volume_is_staged_with_the_group_of_its_first_pod() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteMany", "grouped");
    bench.machine.state().unsynced = true;
    let agent = bench.agent().await;
    agent.volumes.want(grouped("p", "u", "a", 7));
    // The driver is called when it is needed, after the lookup of the pod.
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.machine.state().unsynced = false;
    bench.settle().await;
    assert!(agent.is_ready("u"), "{}", agent.waits("u"));
    assert_eq!(bench.machine.state().groups, [Some(7)]);
    assert_eq!(bench.machine.state().owned, Vec::<String>::new(), "the driver has done it");
}

/// CSIDriver objects may arrive later than the pod.
#[tokio::test(start_paused = true)]
async fn driver_without_attachment_is_recognized_late() {
    let bench = Bench::new();
    bench.disk("loose", "ReadWriteOnce", "unattached");
    bench.machine.state().unsynced = true;
    let agent = bench.quiet_agent().await;
    agent.volumes.synced();
    agent.volumes.want(pod("p", "u", &["loose"]));
    bench.settle().await;
    assert!(agent.waits("u").contains("unattached volumes=[loose]"), "{}", agent.waits("u"));
    bench.machine.state().unsynced = false;
    bench.settle().await;
    assert!(agent.is_ready("u"), "{}", agent.waits("u"));
    assert_eq!(agent.in_use(), Vec::<String>::new());
}

/// Of two pods that share a volume, the first one decides its group, even after a restart.
#[tokio::test(start_paused = true)]
async fn restart_keeps_the_group_of_a_shared_volume() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteMany", "once");
    let agent = bench.agent().await;
    agent.volumes.want(grouped("p", "u1", "a", 7));
    bench.settle().await;
    agent.volumes.want(grouped("q", "u2", "a", 8));
    bench.settle().await;
    agent.crash().await;
    let agent = bench.quiet_agent().await;
    bench.register(&agent);
    agent.volumes.want(grouped("q", "u2", "a", 8));
    agent.volumes.want(grouped("p", "u1", "a", 7));
    agent.volumes.synced();
    bench.settle().await;
    assert!(agent.is_ready("u1") && agent.is_ready("u2"));
    assert_eq!(bench.machine.state().owned, ["test/disk/a 7"]);
}

/// `requiresRepublish`: the content of such volumes changes without a notification.
#[tokio::test(start_paused = true)]
async fn republish_runs_about_once_a_minute() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "again");
    bench.disk("b", "ReadWriteOnce", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a", "b"]));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(agent.is_ready("u"));
    bench.machine.take_calls();
    tokio::time::sleep(Duration::from_secs(170)).await;
    assert_eq!(bench.machine.take_calls(), ["publish a u", "publish a u"], "about once a minute");
    bench.machine.plan("publish a", 0, Fault::Final);
    tokio::time::sleep(Duration::from_secs(80)).await;
    assert_eq!(bench.machine.take_calls(), ["publish a u", "publish a u"], "a failure is tried again soon");
    assert!(agent.is_ready("u"));
    bench.nothing_wrong();
}
