//! Room, published for schedulers.

use k8s_openapi::api::storage::v1::CSIStorageCapacity;

use super::*;

/// Class, zone and room of everything that is published.
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
async fn one_object_for_each_segment_and_class() {
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
    // A volume takes room, a class comes, a segment goes.
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(published(&rig), [row("c", "a", "3Gi"), row("c", "b", "3Gi")].into());
    rig.api.create(class("d", json!({})));
    rig.api.delete("nodes", "n1");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(published(&rig), [row("c", "b", "3Gi"), row("d", "b", "3Gi")].into());
    // A driver that does not answer has not lost its room.
    rig.double.fail_times("GetCapacity", 0, 100, Failing::Refuses(Code::Unavailable, "away"));
    rig.api.settle().await;
    assert_eq!(published(&rig).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_topology_has_one_room_for_all_nodes() {
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
