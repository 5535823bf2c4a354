//! Tests of mounting and unmounting without faults, and of the order between pods.

use std::time::Duration;

use serde_json::json;

use super::fixture::{Bench, Fault, pod, pod_json, tell};
use crate::volumes::PodVolumes;

#[tokio::test(start_paused = true)]
async fn volumes_are_mounted_and_unmounted_in_order() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    let agent = bench.agent().await;
    let mut state = {
        agent.volumes.want(pod("p", "u", &["a", "+x"]));
        agent.volumes.state("u")
    };
    let ready = state.wait_for(|state| matches!(state, PodVolumes::Ready(_))).await.unwrap().clone();
    let PodVolumes::Ready(paths) = ready else { unreachable!() };
    let shown: Vec<(String, String)> = paths
        .iter()
        .map(|path| {
            let below = path.path.strip_prefix(bench.root.path()).unwrap();
            (path.volume.clone(), below.display().to_string())
        })
        .collect();
    let wanted = [("a", "pods/u/volumes/test~disk/pv-a"), ("x", "pods/u/volumes/test~own/x")];
    assert_eq!(shown, wanted.map(|(name, path)| (name.to_owned(), path.to_owned())));
    assert_eq!(agent.in_use(), ["test/disk/a"]);
    let mut calls = bench.machine.take_calls();
    calls.sort();
    assert_eq!(calls, ["publish a u", "publish x u", "stage a"]);
    agent.volumes.release("u");
    assert!(matches!(agent.state("u"), PodVolumes::Releasing(_)));
    state.wait_for(|state| *state == PodVolumes::Released).await.unwrap();
    bench.settle().await;
    let mut calls = bench.machine.take_calls();
    assert_eq!(calls.pop().unwrap(), "unstage a", "the mount for the node goes last");
    calls.sort();
    assert_eq!(calls, ["unpublish a u", "unpublish x u"]);
    assert_eq!(agent.in_use(), Vec::<String>::new());
    assert!(!bench.paths().pod("u").exists(), "its directory is empty and goes too");
    assert_eq!(agent.state("u"), PodVolumes::Released);
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn lookups_of_a_pod_are_bounded() {
    let bench = Bench::new();
    let names: Vec<String> = (0..100).map(|at| format!("v{at}")).collect();
    names.iter().for_each(|name| bench.disk(name, "ReadWriteOnce", "d"));
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    bench.settle().await;
    assert!(agent.is_ready("u"), "{}", agent.waits("u"));
    // Each lookup reads its claim and then its volume.
    let (mut running, mut most) = (0_usize, 0);
    for request in bench.api.requests() {
        let is_of = |plural: &str| request.contains(&format!("/{plural}/"));
        running += usize::from(is_of("persistentvolumeclaims"));
        running = running.saturating_sub(usize::from(is_of("persistentvolumes")));
        most = most.max(running);
    }
    assert!((2..=16).contains(&most), "{most} lookups at a time");
}

#[tokio::test(start_paused = true)]
async fn changes_of_many_volumes_share_a_report() {
    const COUNT: usize = 300;
    let bench = Bench::new();
    let names: Vec<String> = (0..COUNT).map(|at| format!("+v{at}")).collect();
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    let mut state = agent.volumes.state("u");
    state.wait_for(|state| matches!(state, PodVolumes::Ready(_))).await.unwrap();
    // With a report per volume, each would contain half of the volumes on average.
    let paths = bench.machine.state().paths;
    assert!(paths < 20 * COUNT, "{paths} paths in the reports of {COUNT} volumes");
    agent.volumes.release("u");
    state.wait_for(|state| *state == PodVolumes::Released).await.unwrap();
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn i7_volume_is_not_mounted_before_it_is_attached() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    bench.disk("loose", "ReadWriteOnce", "unattached");
    let agent = bench.quiet_agent().await;
    agent.volumes.synced();
    agent.volumes.want(pod("p", "u", &["a", "loose"]));
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["stage loose", "publish loose u"], "that one is not attached");
    let attached = json!([{"name": "test/disk/a", "devicePath": ""}]);
    let status = |in_use: &[&str]| json!({"status": {"volumesInUse": in_use, "volumesAttached": attached}});
    // An earlier agent has left the volume in both lists.
    bench.api.patch("nodes", "n", "status", status(&["test/disk/a"]));
    tell(&bench.api, &agent.volumes);
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new());
    assert_eq!(agent.in_use(), Vec::<String>::new(), "the server has to be seen without it first");
    assert!(
        agent
            .waits("u")
            .starts_with("unmounted volumes=[a], unattached volumes=[a], failed to process volumes=[]: ")
    );
    bench.api.patch("nodes", "n", "status", status(&[]));
    tell(&bench.api, &agent.volumes);
    bench.settle().await;
    assert_eq!(agent.in_use(), ["test/disk/a"]);
    assert_eq!(
        bench.machine.take_calls(),
        Vec::<String>::new(),
        "listed as attached, and not reported as in use"
    );
    for _ in 0..11 {
        bench.settle().await;
    }
    assert_eq!(bench.events("FailedAttachVolume").len(), 1, "an event is recorded after ten minutes");
    let old = bench.api.get_as("n").unwrap();
    bench.machine.state().attached.insert("test/disk/a".to_owned());
    bench.api.patch("nodes", "n", "status", status(&["test/disk/a"]));
    tell(&bench.api, &agent.volumes);
    agent.volumes.node_seen(&old, &Default::default());
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["stage a", "publish a u"], "an older version is passed over");
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn two_pods_share_a_device_mount() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteMany", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u1", &["a"]));
    agent.volumes.want(pod("q", "u2", &["a"]));
    bench.settle().await;
    assert!(agent.is_ready("u1") && agent.is_ready("u2"));
    assert_eq!(bench.machine.take_calls(), ["stage a", "publish a u1", "publish a u2"]);
    agent.volumes.release("u1");
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["unpublish a u1"]);
    assert_eq!(agent.in_use(), ["test/disk/a"]);
    agent.volumes.release("u2");
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["unpublish a u2", "unstage a"]);
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn single_pod_volume_is_refused_until_the_first_pod_is_gone() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOncePod", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u1", &["a"]));
    bench.settle().await;
    agent.volumes.want(pod("q", "u2", &["a"]));
    bench.settle().await;
    assert!(agent.is_ready("u1") && !agent.is_ready("u2"));
    let text = "MountVolume.SetUp failed for volume \"pv-a\" : volume uses the ReadWriteOncePod access mode and is already in use by another pod";
    assert!(bench.events("FailedMount")[0].ends_with(text), "{:?}", bench.events("FailedMount"));
    assert!(agent.waits("u2").ends_with(text));
    agent.volumes.release("u1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(agent.is_ready("u2"), "at once, whatever the delay of the refusal");
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn pod_is_replaced_by_one_of_the_same_name() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOncePod", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u1", &["a", "+x"]));
    bench.settle().await;
    bench.machine.take_calls();
    agent.volumes.want(pod("p", "u2", &["a", "+x"]));
    agent.volumes.release("u1");
    bench.settle().await;
    assert!(agent.is_ready("u2"));
    assert_eq!(agent.state("u1"), PodVolumes::Released);
    let of_disk: Vec<String> =
        bench.machine.take_calls().into_iter().filter(|call| call.contains(" a")).collect();
    assert_eq!(of_disk, ["unpublish a u1", "publish a u2"], "the mount for the node stays");
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn i12_hanging_volume_delays_only_its_own_pod() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.disk(name, "ReadWriteOnce", "d");
    }
    let agent = bench.agent().await;
    agent.volumes.want(pod("r", "u3", &["c"]));
    bench.settle().await;
    bench.machine.always("stage a", Fault::HangsBefore);
    bench.machine.always("unpublish c", Fault::HangsAfter);
    agent.volumes.want(pod("p", "u1", &["a", "b"]));
    agent.volumes.release("u3");
    bench.settle().await;
    agent.volumes.want(pod("q", "u2", &["b", "+x"]));
    bench.settle().await;
    assert!(agent.is_ready("u2"));
    assert!(
        agent.waits("u1").starts_with("unmounted volumes=[a], unattached volumes=[], failed"),
        "b is there"
    );
    assert!(matches!(agent.state("u3"), PodVolumes::Releasing(_)));
    agent.volumes.release("u2");
    bench.settle().await;
    assert_eq!(agent.state("u2"), PodVolumes::Released);
    agent.volumes.release("u1");
    bench.settle().await;
    assert_eq!(agent.in_use(), ["test/disk/a", "test/disk/c"], "what hangs is in use, b is not");
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn changed_content_is_refreshed_and_a_failed_refresh_unmounts_nothing() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "d");
    let agent = bench.agent().await;
    let mut value = pod_json("p", "u", &["a", "+x"]);
    let as_pod =
        |value: &serde_json::Value| std::sync::Arc::new(serde_json::from_value(value.clone()).unwrap());
    agent.volumes.want(as_pod(&value));
    bench.settle().await;
    bench.machine.take_calls();
    value["status"] = json!({"phase": "Running"});
    agent.volumes.want(as_pod(&value));
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new(), "no volume shows the status");
    value["metadata"]["annotations"] = json!({"k": "v"});
    bench.machine.plan("publish x", 0, Fault::Lost);
    agent.volumes.want(as_pod(&value));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(agent.is_ready("u"));
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["publish x u", "publish x u"]);
    let place = crate::plugin::Place {
        uid: "u".to_owned(),
        plugin: "test/own".to_owned(),
        dir_name: "x".to_owned(),
        block: false,
    };
    agent.volumes.refresh(&place);
    bench.settle().await;
    assert_eq!(bench.machine.take_calls(), ["publish x u"], "a ConfigMap has changed");
    // An ephemeral container uses one more volume.
    value["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "y", "emptyDir": {}}));
    value["spec"]["ephemeralContainers"] =
        json!([{"name": "e", "image": "i", "volumeMounts": [{"name": "y", "mountPath": "/y"}]}]);
    agent.volumes.want(as_pod(&value));
    assert!(!agent.is_ready("u"));
    bench.settle().await;
    assert!(agent.is_ready("u"));
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn failed_fs_group_delays_the_pod_and_the_first_group_wins() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteMany", "once");
    let agent = bench.agent().await;
    let grouped = |name: &str, uid: &str, group: i64| {
        let mut value = pod_json(name, uid, &["a"]);
        value["spec"]["securityContext"] = json!({"fsGroup": group});
        std::sync::Arc::new(serde_json::from_value(value).unwrap())
    };
    {
        let mut state = bench.machine.state();
        (state.own_fails, state.own_for) = (1, Some(Duration::from_secs(100)));
    }
    agent.volumes.want(grouped("p", "u1", 7));
    bench.settle().await;
    assert!(!agent.is_ready("u1"));
    bench.rest().await;
    assert!(agent.is_ready("u1"));
    assert_eq!(bench.machine.state().owned, ["test/disk/a 7", "test/disk/a 7"]);
    let slow = bench.events("VolumePermissionChangeInProgress");
    assert!(slow[0].contains("is taking longer than expected, consider using OnRootMismatch"), "{slow:?}");
    assert!(slow.iter().any(|event| event.contains("processed 77 files.")), "{slow:?}");
    assert!(
        bench.events("FailedMount")[0].ends_with("MountVolume.SetUp failed for volume \"pv-a\" : chown: no")
    );
    agent.volumes.want(grouped("q", "u2", 8));
    bench.settle().await;
    assert!(agent.is_ready("u2"));
    assert_eq!(bench.machine.state().owned.len(), 2, "the first pod has decided");
    let other = bench.events("AlreadyMountedVolume");
    assert!(other[0].ends_with(
        "The requested fsGroup is 8, but the volume pv-a has GID 7. The volume may not be shareable."
    ));
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn driver_with_group_support_gets_the_pod_and_no_chown() {
    let bench = Bench::new();
    bench.disk("a", "ReadWriteOnce", "group");
    let agent = bench.agent().await;
    let mut value = pod_json("p", "u", &["a"]);
    value["spec"]["securityContext"] = json!({"fsGroup": 7});
    agent.volumes.want(std::sync::Arc::new(serde_json::from_value(value).unwrap()));
    bench.settle().await;
    assert!(agent.is_ready("u"));
    let state = bench.machine.state();
    assert_eq!(state.staged_for, ["u"]);
    assert_eq!(state.owned, Vec::<String>::new(), "the driver has said meanwhile that it does it");
}

#[tokio::test(start_paused = true)]
async fn content_written_by_the_agent_is_read_only() {
    let bench = Bench::new();
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["+shown", "+x"]));
    bench.settle().await;
    let PodVolumes::Ready(paths) = agent.state("u") else { panic!("{}", agent.waits("u")) };
    let paths: Vec<_> = paths.iter().map(|path| (path.volume.as_str(), path.read_only)).collect();
    assert_eq!(paths, [("shown", true), ("x", false)]);
}

#[tokio::test(start_paused = true)]
async fn pod_is_released_while_a_mount_fails() {
    for call in ["stage a", "publish a", "publish x", "unpublish a"] {
        let bench = Bench::new();
        bench.disk("a", "ReadWriteOnce", "d");
        let agent = bench.agent().await;
        agent.volumes.want(pod("p", "u", &["a", "+x"]));
        bench.machine.plan(call, 0, Fault::Late);
        let mut state = agent.volumes.state("u");
        tokio::time::sleep(Duration::from_secs(3)).await;
        agent.volumes.release("u");
        let released = state.wait_for(|state| *state == PodVolumes::Released);
        assert!(tokio::time::timeout(Duration::from_secs(60), released).await.is_ok(), "{call}");
        bench.settle().await;
        assert!(!bench.paths().pod("u").exists(), "{call}");
        assert_eq!(agent.in_use(), Vec::<String>::new(), "{call}");
        bench.nothing_wrong();
    }
}

#[tokio::test(start_paused = true)]
async fn idle_agent_makes_no_calls_and_reads_no_mount_table() {
    let bench = Bench::new();
    let agent = bench.agent().await;
    let uids: Vec<String> = (0..20).map(|number| format!("u{number}")).collect();
    for uid in &uids {
        let disk = format!("disk-{uid}");
        bench.disk(&disk, "ReadWriteOnce", "d");
        agent.volumes.want(pod(&format!("p-{uid}"), uid, &[&disk, "+x"]));
    }
    bench.rest().await;
    assert!(uids.iter().all(|uid| agent.is_ready(uid)), "all are mounted");
    let asked = || bench.api.requests().len();
    bench.machine.take_calls();
    let before = (bench.machine.state().readings, asked());
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        // The pod workers do this every minute.
        assert!(agent.volumes.gc(false).await.is_empty());
    }
    assert_eq!((bench.machine.state().readings, asked()), before, "readings of the table, requests");
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new());
    agent.volumes.release("u0");
    bench.rest().await;
    assert!(bench.machine.state().readings > before.0, "readings are counted");
    bench.nothing_wrong();
}
