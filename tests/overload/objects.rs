//! Objects whose numbers or directories are too large for one turn of a controller: none ends the server or delays other objects, also
//! over a restart.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::others::{other_clients, others_are_served};
use crate::harness::plane::{Layout, Plane};

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
/// More than the server needs for these objects, and less than one entry for each replica.
const ENOUGH_MEMORY: u64 = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_set_with_two_billion_replicas_delays_no_other_object() {
    let mut plane = Plane::start().await;
    let labels = json!({"app": "huge"});
    let set = json!({"metadata": {"name": "huge"}, "spec": {"serviceName": "h", "replicas": i32::MAX,
        "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    plane.http().create(STATEFUL_SETS, &set).await;
    for nth in 1..=2 {
        let http = plane.http();
        let ended = CancellationToken::new();
        let others = tokio::spawn(other_clients(plane.http(), ended.clone()));
        let has_pods =
            |set: &serde_json::Value| set["status"]["replicas"].as_u64().is_some_and(|count| count > 100);
        http.until(&format!("{STATEFUL_SETS}/huge"), "has pods", has_pods).await;
        others_are_served(&http, nth).await;
        ended.cancel();
        let peak = plane.server().peak_bytes();
        println!("{nth}: {} MiB; others: {}", peak >> 20, others.await.unwrap());
        assert!(peak < ENOUGH_MEMORY, "{peak} bytes");
        plane.stop().await;
        plane.start_again().await;
    }
    plane.stop().await;
}

/// Creates this many directories, one in another.
fn nest(top: &Path, depth: usize) {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let mut parent: OwnedFd = open(top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&parent, "d", Mode::RWXU).unwrap();
        parent = openat(&parent, "d", flags, Mode::empty()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_path_with_twenty_thousand_nested_directories_is_deleted() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let deep = dir.path().join("deep");
    std::fs::create_dir(&deep).unwrap();
    nest(&deep, 20_000);
    let roots = format!("--host-path-roots={}", dir.path().display());
    let mut plane = Plane::of(Layout::OneProcess).controller_flags(&[&roots]).start().await;
    let http = plane.http();
    let volume = json!({"metadata": {"name": "deep"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": deep.display().to_string()},
        "claimRef": {"namespace": "default", "name": "gone", "uid": "gone"}}});
    http.create("/api/v1/persistentvolumes", &volume).await;
    http.until_gone("/api/v1/persistentvolumes/deep").await;
    assert!(!deep.exists());
    others_are_served(&http, 1).await;
    plane.stop().await;
}
