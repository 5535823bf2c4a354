//! Clones, and the finalizers of their sources.

use super::*;
use orlop_client::names::FINALIZER_CLONING;

fn clone(name: &str, of: &str) -> Value {
    claim(name, json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": of}}}))
}

#[tokio::test(start_paused = true)]
async fn clone_waits_for_its_source_and_protects_it() {
    let rig = Rig::new(&[Rpc::CloneVolume], &[]).await;
    let _running = rig.start();
    rig.api.create(clone("copy", "a"));
    rig.api.settle().await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    assert!(
        rig.events("ProvisioningFailed")[0]
            .contains("error getting handle for DataSource Type PersistentVolumeClaim")
    );
    rig.api.create(claim("a", json!({})));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(
        (rig.phase("a").as_str(), rig.phase("copy").as_str()),
        ("Bound", "Bound"),
        "woken by its source"
    );
    let request = rig.double.requests::<CreateVolumeRequest>().pop().unwrap();
    assert_eq!(
        request.volume_content_source.unwrap(),
        super::super::Content::Volume("vol-1".to_owned()).message()
    );
    assert!(rig.claim("a").metadata.finalizers.unwrap().contains(&FINALIZER_CLONING.to_owned()));
    rig.double.fail_times("CreateVolume", 0, 2, Failing::Broken);
    rig.api.create(clone("late", "a"));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(rig.api.delete("persistentvolumeclaims", "ns/a"));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(rig.api.get("persistentvolumeclaims", "ns/a").is_some(), "a clone is being made of it");
    rig.api.settle().await;
    assert_eq!(rig.phase("late"), "Bound");
    assert!(rig.api.get("persistentvolumeclaims", "ns/a").is_none());
    rig.nothing_leaks("at the end");
}

#[tokio::test(start_paused = true)]
async fn response_without_content_source_is_rejected() {
    let rig = Rig::new(&[Rpc::CloneVolume], &[]).await;
    let _running = rig.start();
    rig.api.create(claim("a", json!({})));
    rig.api.settle().await;
    rig.double.state().volume_lie = Some(Box::new(|volume| volume.content_source = None));
    rig.api.create(clone("copy", "a"));
    rig.api.settle().await;
    assert!(rig.events("ProvisioningFailed")[0].contains("volume content source missing"));
    rig.nothing_leaks("it went back");
    assert_eq!(rig.phase("copy"), "Pending");
}

#[tokio::test(start_paused = true)]
async fn claim_with_a_foreign_data_source_is_ignored() {
    let rig = Rig::simple().await;
    let _running = rig.start();
    let source = json!({"apiGroup": "example.com", "kind": "Backup", "name": "b"});
    rig.api.create(claim("a", json!({"spec": {"dataSourceRef": source}})));
    rig.api.settle().await;
    assert_eq!(rig.double.calls(), Vec::<String>::new());
    assert!(
        rig.events("Provisioning")[0].contains("Assuming an external populator")
            || rig.events("Provisioning").len() == 2
    );
}
