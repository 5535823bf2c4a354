//! Tests of snapshots, and of volumes created from snapshots and volumes.

use super::*;
use orlop_csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};

async fn take(driver: &Running, name: &str, volume: &str) -> Result<v1::Snapshot, Status> {
    let (name, source_volume_id) = (name.to_owned(), volume.to_owned());
    let request = v1::CreateSnapshotRequest { name, source_volume_id, ..Default::default() };
    Ok(driver.controller().create_snapshot(request).await?.into_inner().snapshot.unwrap())
}

fn of_snapshot(id: &str) -> Option<v1::VolumeContentSource> {
    Some(v1::VolumeContentSource {
        r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: id.to_owned() })),
    })
}

fn of_volume(id: &str) -> Option<v1::VolumeContentSource> {
    Some(v1::VolumeContentSource { r#type: Some(Type::Volume(VolumeSource { volume_id: id.to_owned() })) })
}

#[tokio::test]
async fn snapshots_and_clones_copy_the_content() {
    let driver = Running::start(|_| {}).await;
    let file = |id: &str| driver.dir.path().join("data/volumes").join(id).join("data/hello");
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    std::fs::write(file(&id), "first").unwrap();
    let snapshot = take(&driver, "s", &id).await.unwrap();
    assert!(snapshot.ready_to_use);
    assert_eq!(snapshot.size_bytes, 1 << 20);
    std::fs::write(file(&id), "second").unwrap();
    let restored = v1::CreateVolumeRequest {
        volume_content_source: of_snapshot(&snapshot.snapshot_id),
        ..wanted("restored")
    };
    let restored = driver.create(restored).await.unwrap();
    assert_eq!(restored.content_source, of_snapshot(&snapshot.snapshot_id));
    assert_eq!(std::fs::read_to_string(file(&restored.volume_id)).unwrap(), "first");
    let clone = v1::CreateVolumeRequest { volume_content_source: of_volume(&id), ..wanted("clone") };
    let clone = driver.create(clone).await.unwrap();
    assert_eq!(std::fs::read_to_string(file(&clone.volume_id)).unwrap(), "second");
    // A snapshot outlives its volume.
    let delete = v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
    driver.controller().delete_volume(delete).await.unwrap();
    let late = v1::CreateVolumeRequest {
        volume_content_source: of_snapshot(&snapshot.snapshot_id),
        ..wanted("late")
    };
    let late = driver.create(late).await.unwrap();
    assert_eq!(std::fs::read_to_string(file(&late.volume_id)).unwrap(), "first");
}

#[tokio::test]
async fn sources_must_exist_and_match() {
    let driver = Running::start(|_| {}).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    for (case, source, bytes, capability, want) in [
        ("no snapshot", of_snapshot("x"), 1 << 20, mounted(Mode::SingleNodeWriter), Code::NotFound),
        ("no volume", of_volume("x"), 1 << 20, mounted(Mode::SingleNodeWriter), Code::NotFound),
        ("too small", of_volume(&id), 1 << 19, mounted(Mode::SingleNodeWriter), Code::OutOfRange),
        ("other form", of_volume(&id), 1 << 20, block(), Code::InvalidArgument),
        ("larger", of_volume(&id), 1 << 21, mounted(Mode::SingleNodeWriter), Code::Ok),
    ] {
        let request = v1::CreateVolumeRequest {
            capacity_range: range(bytes, 0),
            volume_content_source: source,
            volume_capabilities: vec![capability],
            ..wanted(case)
        };
        assert_eq!(code(driver.create(request).await), want, "{case}");
    }
}

#[tokio::test]
async fn snapshots_are_idempotent_by_name_and_listed() {
    let driver = Running::start(|_| {}).await;
    let a = driver.create(wanted("a")).await.unwrap().volume_id;
    let b = driver.create(wanted("b")).await.unwrap().volume_id;
    let first = take(&driver, "s1", &a).await.unwrap();
    assert_eq!(take(&driver, "s1", &a).await.unwrap(), first);
    assert_eq!(code(take(&driver, "s1", &b).await), Code::AlreadyExists);
    assert_eq!(code(take(&driver, "s2", "x").await), Code::NotFound);
    assert_eq!(code(take(&driver, "", &a).await), Code::InvalidArgument);
    assert_eq!(code(take(&driver, "s2", "").await), Code::InvalidArgument);
    let second = take(&driver, "s2", &b).await.unwrap();
    let list = async |request: v1::ListSnapshotsRequest| {
        let answer = driver.controller().list_snapshots(request).await.unwrap().into_inner();
        let ids = answer.entries.into_iter().map(|entry| entry.snapshot.unwrap().snapshot_id);
        (ids.collect::<Vec<_>>(), answer.next_token)
    };
    let all = v1::ListSnapshotsRequest::default();
    assert_eq!(list(all.clone()).await.0.len(), 2);
    let of_a = v1::ListSnapshotsRequest { source_volume_id: a, ..all.clone() };
    assert_eq!(list(of_a).await.0, std::slice::from_ref(&first.snapshot_id));
    let by_id = v1::ListSnapshotsRequest { snapshot_id: second.snapshot_id.clone(), ..all.clone() };
    assert_eq!(list(by_id).await.0, std::slice::from_ref(&second.snapshot_id));
    let (page, token) = list(v1::ListSnapshotsRequest { max_entries: 1, ..all.clone() }).await;
    let (rest, end) = list(v1::ListSnapshotsRequest { max_entries: 1, starting_token: token, ..all }).await;
    assert_eq!((page.len(), rest.len(), end.as_str()), (1, 1, ""));
    assert_ne!(page, rest);
    let driver = driver.restart(|_| {}).await;
    let delete = v1::DeleteSnapshotRequest { snapshot_id: first.snapshot_id, ..Default::default() };
    driver.controller().delete_snapshot(delete.clone()).await.unwrap();
    driver.controller().delete_snapshot(delete).await.expect("it is gone already, which is what was wanted");
    assert_eq!(
        code(driver.controller().delete_snapshot(v1::DeleteSnapshotRequest::default()).await),
        Code::InvalidArgument
    );
}
