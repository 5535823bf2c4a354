//! Published capacity.

use k8s_openapi::api::storage::v1::CSIStorageCapacity;

use super::*;

/// Class, zone and capacity of all published objects.
fn published(rig: &Rig) -> BTreeSet<(String, String, String)> {
    let all = rig.api.list("csistoragecapacities").into_iter();
    let all = all.map(|one| serde_json::from_value::<CSIStorageCapacity>(one).unwrap());
    all.map(|one| {
        let zone = one.node_topology.unwrap().match_labels.map(|labels| labels["zone"].clone());
        (one.storage_class_name, zone.unwrap_or_default(), one.capacity.unwrap().0)
    })
    .collect()
}

fn row(class: &str, zone: &str, room: &str) -> (String, String, String) {
    (class.to_owned(), zone.to_owned(), room.to_owned())
}

#[tokio::test(start_paused = true)]
async fn each_segment_and_class_has_one_object() {
    let rig = Rig::new(&[Rpc::GetCapacity], &[Service::VolumeAccessibilityConstraints]).await;
    rig.double.state().room = Some(4 << 30);
    rig.api.seed(class("other", json!({"provisioner": "other.example"})));
    for node in ["n1", "n2", "n3"] {
        let zone = if node == "n1" { "a" } else { "b" };
        rig.api.seed(json!({"kind": "Node", "metadata": {"name": node, "labels": {"zone": zone}}}));
        let entry = json!({"name": DRIVER, "nodeID": node, "topologyKeys": ["zone"]});
        rig.api.seed(json!({"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [entry]}}));
    }
    let _running = rig.start();
    rig.api.settle().await;
    assert_eq!(published(&rig), [row("c", "a", "4Gi"), row("c", "b", "4Gi")].into());
    // A volume uses capacity, a class is created, a segment disappears.
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(published(&rig), [row("c", "a", "3Gi"), row("c", "b", "3Gi")].into());
    rig.api.create(class("d", json!({})));
    rig.api.delete("nodes", "n1");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(published(&rig), [row("c", "b", "3Gi"), row("d", "b", "3Gi")].into());
    // A driver that does not answer has not lost its capacity.
    rig.double.fail_times("GetCapacity", 0, 100, Failing::Refuses(Code::Unavailable, "away"));
    rig.api.settle().await;
    assert_eq!(published(&rig).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn driver_without_topology_has_one_capacity_for_all_nodes() {
    let rig = Rig::new(&[Rpc::GetCapacity], &[]).await;
    rig.double.state().room = Some(1 << 30);
    let running = rig.start();
    rig.api.settle().await;
    assert_eq!(published(&rig), [row("c", "", "1Gi")].into());
    drop(running);
    rig.api.take_writes();
    let again = rig.start();
    rig.api.settle().await;
    assert_eq!(rig.api.take_writes(), [], "what is right is not written again");
    drop(again);
    let other = Rig::new(&[Rpc::GetCapacity], &[]).await;
    let _running = other.api.start(&THESE, Options { csi_enable_capacity: false, ..Options::default() });
    other.api.settle().await;
    assert_eq!(published(&other).len(), 0, "switched off");
}

/// Nodes in `count` zones, with these drivers on each.
fn zones(rig: &Rig, count: usize, drivers: &[&str]) {
    for zone in 0..count {
        let node = format!("n{zone}");
        rig.api.seed(json!({"kind": "Node", "metadata": {"name": node, "labels": {"zone": node}}}));
        let entry = |name: &&str| json!({"name": name, "nodeID": node, "topologyKeys": ["zone"]});
        let drivers: Vec<Value> = drivers.iter().map(entry).collect();
        rig.api.seed(json!({"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": drivers}}));
    }
}

#[tokio::test(start_paused = true)]
async fn i12_dead_driver_delays_no_other_and_is_not_polled_for_every_capacity() {
    let (rpcs, services) = (&[Rpc::GetCapacity], &[Service::VolumeAccessibilityConstraints]);
    let rig = Rig::new(rpcs, services).await;
    rig.double.state().room = Some(1 << 30);
    // It is the first by name.
    let dead = TestDriver::new("a.example", rpcs, services);
    rig.api.drivers().put(dead.driver().await);
    rig.api.seed(class("dead", json!({"provisioner": "a.example"})));
    zones(&rig, 12, &[DRIVER, "a.example"]);
    dead.fail_times("GetCapacity", 0, 1000, Failing::NoAnswer);
    let _running = rig.start();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!((published(&rig).len(), rig.double.calls().len()), (12, 12), "at once");
    assert_eq!(dead.calls().len(), 4, "no more at a time");
    // While the dead driver's first calls are running, the other one is polled again.
    rig.double.state().room = Some(2 << 30);
    rig.api.create(class("d", json!({})));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(published(&rig).len(), 24);
    assert!(published(&rig).contains(&row("c", "n11", "2Gi")));
    assert_eq!(dead.calls().len(), 4);
    // A call takes at most 10 s; a class created in the meantime leads to a second round.
    tokio::time::sleep(std::time::Duration::from_secs(45)).await;
    let asked = dead.calls().len();
    assert!((8..=12).contains(&asked), "each round ends with its first lost answer: {asked}");
}

#[tokio::test(start_paused = true)]
async fn unpolled_capacity_is_preserved_and_a_refusal_removes_one() {
    let rig = Rig::new(&[Rpc::GetCapacity], &[Service::VolumeAccessibilityConstraints]).await;
    rig.double.state().room = Some(1 << 30);
    zones(&rig, 8, &[DRIVER]);
    let _running = rig.start();
    rig.api.settle().await;
    assert_eq!(published(&rig).len(), 8);
    for (kind, fresh) in [
        (Failing::Refuses(Code::Unavailable, "away"), 2),
        (Failing::Refuses(Code::InvalidArgument, "no such zone"), 7),
    ] {
        rig.double.state().room = Some(1 << 30);
        rig.api.settle().await;
        rig.double.state().room = Some(2 << 30);
        rig.double.fail("GetCapacity", 2, kind.clone());
        tokio::time::sleep(std::time::Duration::from_secs(45)).await;
        let rooms = published(&rig);
        let new = rooms.iter().filter(|(_, _, room)| room == "2Gi").count();
        assert_eq!((rooms.len(), new), (8, fresh), "{kind:?}");
    }
}
