//! What is in doubt is not relied on: undoings that failed, records that cannot be read, drivers whose wishes are not known yet.

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

/// A driver that has unmounted a volume and then fails answers with an error that says nothing of that.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_undone_is_made_anew_for_the_next_pod() {
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

/// The record of what a pod has is damaged; that of the mount for the node is not.
#[tokio::test(start_paused = true)]
async fn i7_a_mount_for_the_node_stays_while_something_of_a_pod_is_not_understood() {
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
            // The API has it no more, and it still runs.
            true => agent.volumes.hold("u"),
            // It is wanted, and cannot be looked up yet.
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
        // What nobody understands is unmounted as it is; then the mount for the node goes.
        bench.machine.state().places.clear();
        agent.volumes.release("u");
        bench.rest().await;
        assert_eq!(agent.state("u"), PodVolumes::Released, "runs {runs}");
        assert_eq!(agent.in_use(), Vec::<String>::new(), "runs {runs}");
        assert_eq!(bench.machine.take_calls().last().map(String::as_str), Some("unstage a"), "runs {runs}");
    }
}

/// Drivers that set the group themselves have to be told of it.
#[tokio::test(start_paused = true)]
async fn a_volume_is_staged_for_the_group_of_its_first_pod() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteMany", "grouped");
    bench.machine.state().unsynced = true;
    let agent = bench.agent().await;
    agent.volumes.want(grouped("p", "u", "a", 7));
    // The driver is asked when it is needed, after the pod was looked up.
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.machine.state().unsynced = false;
    bench.settle().await;
    assert!(agent.is_ready("u"), "{}", agent.waits("u"));
    assert_eq!(bench.machine.state().groups, [Some(7)]);
    assert_eq!(bench.machine.state().owned, Vec::<String>::new(), "the driver has done it");
}

/// CSIDriver objects may come later than the pod.
#[tokio::test(start_paused = true)]
async fn a_driver_that_needs_no_attachment_says_so_late() {
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

/// Of two pods that share a volume the first has decided about its group, and a restart makes no new first.
#[tokio::test(start_paused = true)]
async fn a_restart_gives_a_shared_volume_to_no_other_group() {
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

/// `requiresRepublish`: the content of such volumes changes without anybody saying so.
#[tokio::test(start_paused = true)]
async fn a_driver_that_wants_to_be_asked_again_is() {
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
