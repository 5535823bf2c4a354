//! Tests of the Node service. Mounting needs root; tests that this machine cannot run print a line.

use std::io::Write as _;
use std::path::Path;

use super::*;

fn stage(id: &str, path: &Path, capability: v1::VolumeCapability) -> v1::NodeStageVolumeRequest {
    v1::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: path.display().to_string(),
        volume_capability: Some(capability),
        ..Default::default()
    }
}

fn publish(id: &str, staging: &Path, target: &Path, readonly: bool) -> v1::NodePublishVolumeRequest {
    v1::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: staging.display().to_string(),
        target_path: target.display().to_string(),
        volume_capability: Some(mounted(Mode::SingleNodeWriter)),
        readonly,
        ..Default::default()
    }
}

async fn down(driver: &Running, id: &str, staging: &Path, targets: &[&Path]) {
    for target in targets {
        let target_path = target.display().to_string();
        let request = v1::NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path };
        driver.node().node_unpublish_volume(request.clone()).await.unwrap();
        driver.node().node_unpublish_volume(request).await.expect("nothing to do is no error");
        assert!(!target.exists());
    }
    let staging_target_path = staging.display().to_string();
    let request = v1::NodeUnstageVolumeRequest { volume_id: id.to_owned(), staging_target_path };
    driver.node().node_unstage_volume(request.clone()).await.unwrap();
    driver.node().node_unstage_volume(request).await.expect("nothing to do is no error");
    assert!(!staging.exists());
}

/// Reports a test that this machine cannot run, on stderr itself: the test runner captures `eprintln!` in a test
/// that passes.
///
/// # Panics
/// Panics if `CI=true` or `ORLOP_REQUIRE_ROOT=1` is set.
fn skipped(what: &str) {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    assert!(!is("ORLOP_REQUIRE_ROOT", "1") && !is("CI", "true"), "{what}");
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {what}");
}

/// Whether this machine permits mounts.
fn can_mount(driver: &Running) -> bool {
    let (a, b) = (driver.dir.path().join("probe-a"), driver.dir.path().join("probe-b"));
    std::fs::create_dir_all(&a).unwrap();
    let result = crate::mounts::bind(&a, &b, false).and_then(|()| crate::mounts::clear(&b));
    if let Err(error) = &result {
        skipped(&format!("mounts of the hostpath driver: {error}. They need root"));
    }
    result.is_ok()
}

#[tokio::test]
async fn directory_volume_is_staged_published_and_removed() {
    let driver = Running::start(|_| {}).await;
    if !can_mount(&driver) {
        return;
    }
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let root = driver.dir.path();
    let (staging, one, two) = (root.join("staging"), root.join("pods/one"), root.join("pods/two"));
    let mut node = driver.node();
    assert_eq!(
        code(node.node_publish_volume(publish(&id, &staging, &one, false)).await),
        Code::FailedPrecondition
    );
    let capability = mounted(Mode::SingleNodeWriter);
    node.node_stage_volume(stage(&id, &staging, capability.clone())).await.unwrap();
    node.node_stage_volume(stage(&id, &staging, capability)).await.expect("again");
    node.node_publish_volume(publish(&id, &staging, &one, false)).await.unwrap();
    node.node_publish_volume(publish(&id, &staging, &one, false)).await.expect("again");
    assert_eq!(code(node.node_publish_volume(publish(&id, &staging, &one, true)).await), Code::AlreadyExists);
    node.node_publish_volume(publish(&id, &staging, &two, true)).await.unwrap();
    std::fs::write(one.join("x"), "1").unwrap();
    assert_eq!(std::fs::read_to_string(two.join("x")).unwrap(), "1");
    let refused = std::fs::write(two.join("x"), "2").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let (volume_id, volume_path) = (id.clone(), one.display().to_string());
    let stats = v1::NodeGetVolumeStatsRequest { volume_id, volume_path, ..Default::default() };
    assert_eq!(node.node_get_volume_stats(stats.clone()).await.unwrap().into_inner().usage.len(), 2);
    let elsewhere = v1::NodeGetVolumeStatsRequest { volume_path: "/nowhere".to_owned(), ..stats };
    assert_eq!(code(node.node_get_volume_stats(elsewhere).await), Code::NotFound);
    let delete = v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
    assert_eq!(code(driver.controller().delete_volume(delete.clone()).await), Code::FailedPrecondition);
    let driver = driver.restart(|_| {}).await;
    down(&driver, &id, &staging, &[&one, &two]).await;
    driver.controller().delete_volume(delete).await.unwrap();
}

/// For nodes that only record mounts: the driver records all staging and target paths, across restarts too, and
/// mounts nothing.
#[tokio::test]
async fn driver_without_mounts_only_records() {
    let without = |options: &mut crate::Options| options.mounts = false;
    let driver = Running::start(without).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let root = driver.dir.path();
    let (staging, target) = (root.join("staging"), root.join("pods/one"));
    let mut node = driver.node();
    assert_eq!(
        code(node.node_publish_volume(publish(&id, &staging, &target, false)).await),
        Code::FailedPrecondition
    );
    let capability = mounted(Mode::SingleNodeWriter);
    node.node_stage_volume(stage(&id, &staging, capability)).await.unwrap();
    node.node_publish_volume(publish(&id, &staging, &target, false)).await.unwrap();
    for path in [&staging, &target] {
        assert!(path.is_dir() && !crate::mounts::is_mounted(path).unwrap(), "{}", path.display());
    }
    let driver = driver.restart(without).await;
    let delete = v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
    assert_eq!(code(driver.controller().delete_volume(delete.clone()).await), Code::FailedPrecondition);
    down(&driver, &id, &staging, &[&target]).await;
    driver.controller().delete_volume(delete).await.unwrap();
}

#[tokio::test]
async fn single_writer_volume_has_one_target() {
    let driver = Running::start(|_| {}).await;
    if !can_mount(&driver) {
        return;
    }
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let root = driver.dir.path();
    let (staging, one, two) = (root.join("staging"), root.join("one"), root.join("two"));
    let single = mounted(Mode::SingleNodeSingleWriter);
    driver.node().node_stage_volume(stage(&id, &staging, single.clone())).await.unwrap();
    let of = |target: &Path| v1::NodePublishVolumeRequest {
        volume_capability: Some(single.clone()),
        ..publish(&id, &staging, target, false)
    };
    driver.node().node_publish_volume(of(&one)).await.unwrap();
    assert_eq!(code(driver.node().node_publish_volume(of(&two)).await), Code::FailedPrecondition);
    down(&driver, &id, &staging, &[&one]).await;
}

#[tokio::test]
async fn nodes_with_own_sockets_mount_only_published_volumes() {
    let mut second = String::new();
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}", dir.path().join("n2.sock").display());
    let driver = Running::start_in(dir, |options| {
        second.clone_from(&socket);
        options.node_endpoints = [("n2".to_owned(), socket)].into();
    })
    .await;
    let mut node = NodeClient::new(connect(&second).unwrap());
    let info = node.node_get_info(v1::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.node_id, "n2");
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let capability = mounted(Mode::SingleNodeWriter);
    let root = driver.dir.path();
    let stagings = [root.join("one/staging"), root.join("two/staging")];
    let refused = node.node_stage_volume(stage(&id, &stagings[1], capability.clone())).await;
    assert_eq!(code(refused), Code::FailedPrecondition, "not published");
    let published = |node: &str| v1::ControllerPublishVolumeRequest {
        volume_id: id.clone(),
        node_id: node.to_owned(),
        volume_capability: Some(capability.clone()),
        ..Default::default()
    };
    driver.controller().controller_publish_volume(published("n1")).await.unwrap();
    let refused = driver.controller().controller_publish_volume(published("n2")).await;
    assert_eq!(code(refused), Code::FailedPrecondition, "it is on another node");
    if !can_mount(&driver) {
        return;
    }
    driver.node().node_stage_volume(stage(&id, &stagings[0], capability.clone())).await.unwrap();
    let refused = node.node_stage_volume(stage(&id, &stagings[1], capability.clone())).await;
    assert_eq!(code(refused), Code::FailedPrecondition, "it is published to the other node");
    // Force-detached: the volume is still mounted on the first node, which unmounts it later.
    let taken = v1::ControllerUnpublishVolumeRequest {
        volume_id: id.clone(),
        node_id: "n1".to_owned(),
        ..Default::default()
    };
    driver.controller().controller_unpublish_volume(taken).await.unwrap();
    driver.controller().controller_publish_volume(published("n2")).await.unwrap();
    node.node_stage_volume(stage(&id, &stagings[1], capability)).await.unwrap();
    for staging in &stagings {
        down(&driver, &id, staging, &[]).await;
    }
}

#[tokio::test]
async fn invalid_node_requests_are_rejected() {
    let driver = Running::start(|_| {}).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let capability = mounted(Mode::SingleNodeWriter);
    let mut node = driver.node();
    for (case, request, want) in [
        ("no volume", stage("", Path::new("/s"), capability.clone()), Code::InvalidArgument),
        ("no path", stage(&id, Path::new(""), capability.clone()), Code::InvalidArgument),
        ("relative path", stage(&id, Path::new("s"), capability.clone()), Code::InvalidArgument),
        ("unknown volume", stage("x", Path::new("/s"), capability), Code::NotFound),
        ("as block", stage(&id, Path::new("/s"), block()), Code::InvalidArgument),
    ] {
        assert_eq!(code(node.node_stage_volume(request).await), want, "{case}");
    }
    assert_eq!(
        code(node.node_publish_volume(v1::NodePublishVolumeRequest::default()).await),
        Code::InvalidArgument
    );
    assert_eq!(
        code(node.node_unpublish_volume(v1::NodeUnpublishVolumeRequest::default()).await),
        Code::InvalidArgument
    );
    assert_eq!(
        code(node.node_unstage_volume(v1::NodeUnstageVolumeRequest::default()).await),
        Code::InvalidArgument
    );
    assert_eq!(
        code(node.node_expand_volume(v1::NodeExpandVolumeRequest::default()).await),
        Code::InvalidArgument
    );
}

/// Whether a mounted file system can grow on this machine (capabilities(7): CAP_SYS_RESOURCE).
fn can_grow_online() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 24) != 0
}

#[tokio::test]
async fn images_and_block_devices_grow_while_in_use() {
    let driver = Running::start(|_| {}).await;
    let has_loops = can_mount(&driver) && Path::new("/dev/loop-control").exists();
    if !has_loops {
        skipped("images of the hostpath driver: there are no loop devices here");
        return;
    }
    for (name, request) in [
        (
            "image",
            v1::CreateVolumeRequest { parameters: parameters(&[("form", "image")]), ..wanted("image") },
        ),
        ("block", v1::CreateVolumeRequest { volume_capabilities: vec![block()], ..wanted("block") }),
    ] {
        let request = v1::CreateVolumeRequest { capacity_range: range(16 << 20, 0), ..request };
        let capability = request.volume_capabilities[0].clone();
        let id = driver.create(request).await.unwrap().volume_id;
        let (staging, target) = (driver.dir.path().join(format!("{name}-s")), driver.dir.path().join(name));
        let mut node = driver.node();
        node.node_stage_volume(stage(&id, &staging, capability.clone())).await.unwrap();
        let to_publish = v1::NodePublishVolumeRequest {
            volume_capability: Some(capability),
            ..publish(&id, &staging, &target, false)
        };
        node.node_publish_volume(to_publish).await.unwrap();
        let size = || match name {
            "image" => crate::content::room(&target).unwrap()[0].0,
            _ => {
                use std::io::{Seek, SeekFrom};
                std::fs::File::open(&target).unwrap().seek(SeekFrom::End(0)).unwrap() as i64
            }
        };
        let before = size();
        let (volume_id, capacity_range) = (id.clone(), range(64 << 20, 0));
        let grow = v1::ControllerExpandVolumeRequest { volume_id, capacity_range, ..Default::default() };
        let grown = driver.controller().controller_expand_volume(grow).await.unwrap().into_inner();
        assert!(grown.node_expansion_required);
        let (volume_id, volume_path) = (id.clone(), target.display().to_string());
        let expand = v1::NodeExpandVolumeRequest { volume_id, volume_path, ..Default::default() };
        if name == "image" && !can_grow_online() {
            let _ = writeln!(
                std::io::stderr(),
                "\nNOT POSSIBLE HERE: growth of a mounted image: even root lacks CAP_SYS_RESOURCE"
            );
        } else {
            node.node_expand_volume(expand).await.unwrap();
            assert!(size() > before * 2, "{name}: {before} and then {}", size());
        }
        down(&driver, &id, &staging, &[&target]).await;
    }
}
