//! Tests of an improvement over upstream: a change immediately queues the objects it helps, instead of the next
//! resync. The resync interval of these tests is one year.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::notation::parse;
use super::play::{state, step};
use crate::options::Options;
use crate::pv::binder::Binder;
use crate::pv::controller::standard_plugins;
use crate::testing::FakeApi;
use orlop_client::names;

/// A server and a controller that resyncs once a year.
pub(super) struct World {
    pub(super) api: FakeApi,
    shutdown: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl World {
    pub(super) async fn new(lines: &[&str]) -> Self {
        let api = FakeApi::new();
        for line in lines {
            api.seed(parse(line));
        }
        let shutdown = CancellationToken::new();
        let options =
            Options { pv_claim_binder_sync_period: Duration::from_secs(365 * 86_400), ..Options::default() };
        let plugins = standard_plugins(&options).unwrap();
        let binder = Binder::new(&api.context(options, &shutdown), plugins, names::migrated_driver);
        let token = shutdown.clone();
        tokio::spawn(async move { binder.run(token).await });
        let world = Self { api, shutdown };
        world.api.settle().await;
        world
    }

    /// Applies a change and waits one second.
    async fn after(&self, change: &str) -> Vec<String> {
        step(&self.api, change);
        tokio::time::sleep(Duration::from_secs(1)).await;
        state(&self.api)
    }
}

const BOUND: &str = "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller";

fn has(lines: &[String], start: &str) -> bool {
    lines.iter().any(|line| line.starts_with(start))
}

#[tokio::test(start_paused = true)]
async fn new_volume_queues_the_claim_that_it_fits() {
    let waiting = ["pvc default/c-1 uid-c-1 1Gi RWO Pending", "pvc default/c-2 uid-c-2 9Gi RWO Pending"];
    let world = World::new(&waiting).await;
    let lines = world.after("create pv pv-1 1Gi RWO Pending").await;
    assert!(has(&lines, "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1"), "NEW-WAKE-VOLUME {lines:?}");
    assert!(has(&lines, "pvc default/c-2 uid-c-2 9Gi RWO Pending"), "{lines:?}");
    // A claim that cannot use the volume is not synced again.
    let looks = world.api.events().iter().filter(|event| event.contains("default/c-2")).count();
    assert_eq!(looks, 1);
}

#[tokio::test(start_paused = true)]
async fn changed_volume_queues_the_claim_that_it_fits_now() {
    let start = [
        "pv pv-1 1Gi RWO Available",
        r#"pvc default/c-1 uid-c-1 1Gi RWO Pending selector={"matchLabels":{"x":"y"}}"#,
    ];
    let world = World::new(&start).await;
    let lines = world.after(r#"patch persistentvolumes pv-1 {"metadata":{"labels":{"x":"y"}}}"#).await;
    assert!(has(&lines, "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1"), "NEW-WAKE-VOLUME {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn recreated_volume_returns_to_its_lost_claim_before_others() {
    let start = [
        "pvc default/a-stranger uid-a 1Gi RWO Pending",
        "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1",
        BOUND,
    ];
    let world = World::new(&start).await;
    let lines = world.after("force-delete pv-1").await;
    assert!(has(&lines, "pvc default/c-1 uid-c-1 1Gi RWO Lost"), "{lines:?}");
    let lines = world.after("create pv pv-1 1Gi RWO Available").await;
    assert!(has(&lines, "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1"), "NEW-WAKE-LOST {lines:?}");
    assert!(has(&lines, "pvc default/a-stranger uid-a 1Gi RWO Pending"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn access_mode_and_reference_changes_are_applied_immediately() {
    let world = World::new(&["pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller", BOUND]).await;
    let more = r#"patch persistentvolumes pv-1 {"spec":{"accessModes":["ReadWriteOnce","ReadOnlyMany"]}}"#;
    let lines = world.after(more).await;
    assert!(has(&lines, "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO,ROX/1Gi"), "{lines:?}");
    let lines = world.after(r#"patch persistentvolumes pv-1 {"spec":{"claimRef":null}}"#).await;
    assert!(has(&lines, "pv pv-1 1Gi RWO,ROX Bound ref=default/c-1:uid-c-1"), "NEW-WAKE-LOST {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn new_class_queues_its_claims() {
    let world = World::new(&["pvc default/c-1 uid-c-1 1Gi RWO Pending class=ext"]).await;
    let lines = world.after("create sc ext vendor.example/ext").await;
    let asked = lines.iter().any(|line| line.contains("@provisioner=vendor.example/ext"));
    assert!(asked, "NEW-WAKE-CLASS {lines:?}");
}

#[tokio::test(start_paused = true)]
async fn new_default_class_queues_claims_without_class() {
    let start = ["pvc default/c-1 uid-c-1 1Gi RWO Pending", "pvc default/c-2 uid-c-2 1Gi RWO Pending class="];
    let world = World::new(&start).await;
    let lines = world.after("create sc gold vendor.example/ext @default=true").await;
    assert!(has(&lines, "pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold"), "NEW-WAKE-DEFAULT {lines:?}");
    // An explicit empty class is a choice and stays.
    assert!(lines.contains(&"pvc default/c-2 uid-c-2 1Gi RWO Pending class=".to_owned()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn new_pod_queues_the_claim_that_waits_for_it() {
    let start = [
        "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
        "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
    ];
    let world = World::new(&start).await;
    world.after("create pod default/p1 Pending claims=c-1").await;
    let expected =
        "PersistentVolumeClaim default/c-1 Normal WaitForPodScheduled waiting for pod p1 to be scheduled";
    assert!(
        world.api.events().iter().any(|event| event == expected),
        "NEW-WAKE-POD {:?}",
        world.api.events()
    );
}

#[tokio::test(start_paused = true)]
async fn end_of_the_last_pod_queues_the_volume_for_recycling() {
    let start = [
        r#"pv pv-1 1Gi RWO Released policy=Recycle ref=default/c-1:uid-c-1 @by-controller src={"nfs":{"server":"s","path":"/p"}}"#,
        "pod default/p1 Running claims=c-1",
    ];
    let world = World::new(&start).await;
    assert!(world.api.get("pods", "default/recycler-for-pv-1").is_none());
    world.after("delete pods default/p1").await;
    assert!(world.api.get("pods", "default/recycler-for-pv-1").is_some(), "NEW-WAKE-RECYCLE");
    world.api.patch("pods", "default/recycler-for-pv-1", "status", json!({"status": {"phase": "Succeeded"}}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        has(&state(&world.api), "pv pv-1 1Gi RWO Available policy=Recycle src="),
        "{:?}",
        state(&world.api)
    );
}

/// A claim that is deleted and recreated between two events releases its volume without a resync.
#[tokio::test(start_paused = true)]
async fn recreated_claim_releases_the_volume_of_the_old_one() {
    let world = World::new(&["pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller", BOUND]).await;
    step(&world.api, "delete persistentvolumeclaims default/c-1");
    let lines = world.after("create pvc default/c-1 uid-second 1Gi RWO Pending").await;
    assert!(has(&lines, "pv pv-1 1Gi RWO Released"), "{lines:?}");
    assert!(has(&lines, "pvc default/c-1 uid-second 1Gi RWO Pending"), "{lines:?}");
}
