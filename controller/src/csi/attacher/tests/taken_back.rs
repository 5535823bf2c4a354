//! Published volumes are unpublished even when the driver no longer attaches, or the node changed its id.

use super::*;

#[tokio::test(start_paused = true)]
async fn volume_is_unpublished_when_the_driver_stops_attaching() {
    let mut object = attachment("va", "pv");
    object["metadata"]["finalizers"] = json!(["external-attacher/d-example"]);
    object["metadata"]["annotations"] = json!({"csi.alpha.kubernetes.io/node-id": "id"});
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let none = || Failing::Refuses(Code::Unimplemented, "no such call");
    let table = [
        ("it can", &[][..], None, true),
        ("it cannot", &[], Some(none()), true),
        ("it fails", &[], Some(Failing::Refuses(Code::Internal, "no")), false),
        ("it says that it can, and cannot", &[Rpc::PublishUnpublishVolume], Some(none()), false),
    ];
    for (name, rpcs, failing, ends) in table {
        let (api, double) = (FakeApi::new(), TestDriver::new(DRIVER, rpcs, &[]));
        let mut known = DriverVolume::default();
        known.published.insert("id".to_owned(), false);
        double.state().volumes.insert("h".to_owned(), known);
        let is_well = failing.is_none();
        failing.into_iter().for_each(|kind| double.fail(UNPUBLISH, 0, kind));
        api.seed(volume("pv", "h"));
        api.seed(object.clone());
        put(&api, &double);
        let _running = api.start(&THIS, Options::default());
        shortly().await;
        assert_eq!(double.calls(), [UNPUBLISH], "{name}");
        assert_eq!(double.state().volumes["h"].published.is_empty(), is_well, "{name}");
        assert_eq!(api.get("volumeattachments", "va").is_none(), ends, "{name}");
        api.settle().await;
        assert!(api.get("volumeattachments", "va").is_none(), "{name}: at the latest the second time");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_node_id_unpublishes_from_the_recorded_one() {
    let (api, double) = ground(&[Rpc::ListVolumes, Rpc::ListVolumesPublishedNodes]);
    let period = Duration::from_secs(60);
    let _running = api.start(&THIS, Options { csi_reconcile_sync: period, ..Options::default() });
    api.create(attachment("va", "pv"));
    shortly().await;
    api.patch("csinodes", "n", "", json!({"spec": {"drivers": [{"name": DRIVER, "nodeID": "new"}]}}));
    tokio::time::sleep(2 * period).await;
    let publishes = double.calls().iter().filter(|call| *call == PUBLISH).count();
    assert_eq!(publishes, 1, "the list has it where it was published");
    api.delete("volumeattachments", "va");
    shortly().await;
    assert!(api.get("volumeattachments", "va").is_none());
    assert!(double.state().volumes["h"].published.is_empty(), "taken back from the id it was published to");
}
