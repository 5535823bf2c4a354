//! The local plugin: directories with recorded and real mounts, and image files on real loop devices.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::*;
use crate::plugin::testing::{Fixture, Side, inline, persistent, place, with};
use crate::plugin::{Outcome, PluginError};

const MIB: u64 = 1 << 20;

fn volume(path: &str) -> PodVolume {
    persistent("pv-1", json!({"local": {"path": path}}))
}

fn image_volume(image: &Image, spec: Value) -> PodVolume {
    let mut source = json!({"local": {"path": image.path.display().to_string()}});
    orlop_test_support::merge_into(&mut source, &spec);
    let volume = persistent("pv-1", source);
    with(&volume, |spec| {
        let Source::Persistent(volume) = &mut spec.source else { panic!("it is one") };
        let mut annotated = (**volume).clone();
        annotated.metadata.annotations = Some([(ANN_IMAGE_FILE.to_owned(), "true".to_owned())].into());
        *volume = annotated.into();
    })
}

/// An image file that is detached on drop, even when the test panics.
struct Image {
    path: PathBuf,
}

impl Image {
    fn new(rig: &Fixture) -> Self {
        let path = rig.base.join("image");
        fs::File::create(&path).unwrap().set_len(16 * MIB).unwrap();
        Self { path }
    }

    fn attached(&self) -> Vec<PathBuf> {
        Devices::default().attached(&self.path).unwrap_or_default()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for device in self.attached() {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

#[tokio::test]
async fn each_step_recovers_from_one_failure() {
    let (rig, plugin) = (Fixture::recorded(), LocalPlugin::default());
    let dir = rig.base.join("disk");
    fs::create_dir(&dir).unwrap();
    let check = |rig: &Fixture| assert_eq!(rig.points().len(), 1);
    let volume = volume(&dir.display().to_string());
    rig.whole_way(&plugin, &volume, &check).await;
    rig.every_step(&plugin, &volume, &check).await;
    assert!(dir.is_dir());
}

#[tokio::test]
async fn unmountable_paths_are_rejected() {
    let (rig, plugin) = (Fixture::recorded(), LocalPlugin::default());
    fs::write(rig.base.join("file"), "x").unwrap();
    let file = rig.base.join("file").display().to_string();
    let missing = rig.base.join("none").display().to_string();
    for (path, expected) in [
        ("/a/../b", "invalid path: /a/../b must not contain '..'".to_owned()),
        ("", "LocalVolume volume \"pv-1\" path is empty".to_owned()),
        (&missing, format!("path {missing:?} does not exist; make it, or correct the PersistentVolume")),
        (&file, "only directory and block device are supported".to_owned()),
        ("/dev/null", "only directory and block device are supported".to_owned()),
    ] {
        for outcome in [
            plugin.set_up(&rig.host, &volume(path)).await,
            plugin.mount_device(&rig.host, &volume(path).spec).await,
        ] {
            let error = outcome.unwrap_err();
            assert_eq!((error.to_string(), error.outcome), (expected.clone(), Outcome::Final), "{path}");
        }
    }
    let odd = persistent("a/b", json!({"local": {"path": "/"}}));
    assert!(
        plugin
            .set_up(&rig.host, &odd)
            .await
            .unwrap_err()
            .message
            .contains("cannot be the name of a directory")
    );
    assert!(plugin.unmount_device(&rig.host, "..").await.is_err());
    assert!(!plugin.can_support(&inline(json!({"name": "v", "hostPath": {"path": "/"}})).spec.source));
    assert_eq!((rig.points(), rig.left()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn capabilities_and_volume_names() {
    let (rig, plugin) = (Fixture::recorded(), LocalPlugin::default());
    let files = volume("/x");
    let can = plugin.abilities(&rig.host, &files.spec);
    assert!(can.device && can.owned && can.owned_once && can.block && can.mount_options && !can.attach);
    let device = with(&files, |spec| spec.block = true);
    let can = plugin.abilities(&rig.host, &device.spec);
    assert!(!can.device && !can.owned && can.block);
    assert_eq!(plugin.volume_name(&files.spec).unwrap(), "pv-1");
    let at = place(&plugin, "pv-1");
    assert_eq!(plugin.found(&rig.host, &at).await.unwrap().as_deref(), Some("pv-1"));
    assert_eq!(plugin.found(&rig.host, &Place { block: true, ..at }).await.unwrap(), None);
}

#[tokio::test]
async fn directory_is_bound_read_write_or_read_only() {
    let Some(rig) = Fixture::real() else { return };
    let plugin = LocalPlugin::default();
    let dir = rig.base.join("disk");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("dear"), "dear").unwrap();
    let volume = volume(&dir.display().to_string());
    let target = rig.target(&plugin, "pv-1");
    let check = |_: &Fixture| {
        assert_eq!(fs::read(target.join("dear")).unwrap(), b"dear");
        fs::write(target.join("new"), "x").unwrap();
    };
    rig.whole_way(&plugin, &volume, &check).await;
    rig.every_step(&plugin, &volume, &check).await;
    let read_only = with(&volume, |spec| spec.read_only = true);
    plugin.set_up(&rig.host, &read_only).await.unwrap();
    let error = fs::write(target.join("other"), "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap();
    assert_eq!(fs::read(dir.join("dear")).unwrap(), b"dear");
}

#[tokio::test]
async fn image_is_formatted_once_and_keeps_its_data() {
    let Some(rig) = Fixture::real() else { return };
    let (plugin, image) = (LocalPlugin::default(), Image::new(&rig));
    let volume = image_volume(&image, json!({}));
    let error = plugin.set_up(&rig.host, &volume).await.unwrap_err();
    assert!(error.message.contains("is not mounted at") && error.outcome == Outcome::Final, "{error}");
    let target = rig.target(&plugin, "pv-1");
    let is_new = std::sync::atomic::AtomicBool::new(true);
    let check = |rig: &Fixture| {
        let point = rig.points().into_iter().find(|point| point.target == target).unwrap();
        assert_eq!(point.fs_type, "ext4");
        if !is_new.swap(false, std::sync::atomic::Ordering::Relaxed) {
            assert_eq!(fs::read(target.join("dear")).unwrap(), b"dear");
        }
        fs::write(target.join("dear"), "dear").unwrap();
    };
    rig.whole_way(&plugin, &volume, &check).await;
    assert_eq!(image.attached(), Vec::<PathBuf>::new());
    rig.every_step_fails(Side::Before, &plugin, &volume, &check).await;
    assert_eq!(image.attached(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn two_pods_share_a_disk_across_a_restart() {
    let Some(rig) = Fixture::real() else { return };
    let (plugin, image) = (LocalPlugin::default(), Image::new(&rig));
    let volume = image_volume(&image, json!({"local": {"fsType": "ext4"}}));
    let mut other = volume.clone();
    let mut pod = (*other.pod).clone();
    pod.metadata.uid = Some("uid-2".to_owned());
    other.pod = pod.into();
    plugin.mount_device(&rig.host, &volume.spec).await.unwrap();
    plugin.set_up(&rig.host, &volume).await.unwrap();
    plugin.set_up(&rig.host, &other).await.unwrap();
    let (one, two) = (rig.target(&plugin, "pv-1"), rig.host.paths.pod_volume("uid-2", NAME, "pv-1"));
    fs::write(one.join("shared"), "x").unwrap();
    assert_eq!(fs::read(two.join("shared")).unwrap(), b"x");
    assert_eq!(plugin.devices(&rig.host).await.unwrap(), ["pv-1"]);
    // A restarted agent, which has only the state on disk.
    let plugin = LocalPlugin::default();
    let first = place(&plugin, "pv-1");
    plugin.tear_down(&rig.host, &first).await.unwrap();
    assert_eq!(fs::read(two.join("shared")).unwrap(), b"x");
    plugin.tear_down(&rig.host, &Place { uid: "uid-2".to_owned(), ..first }).await.unwrap();
    plugin.unmount_device(&rig.host, "pv-1").await.unwrap();
    assert_eq!((plugin.devices(&rig.host).await.unwrap(), image.attached()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn disk_is_written_only_when_requested() {
    let Some(rig) = Fixture::real() else { return };
    let (plugin, image) = (LocalPlugin::default(), Image::new(&rig));
    let read_only = image_volume(&image, json!({"accessModes": ["ReadOnlyMany"]}));
    let error = plugin.mount_device(&rig.host, &read_only.spec).await.unwrap_err();
    assert!(error.message.contains("cannot mount unformatted disk"), "{error}");
    assert_eq!(image.attached(), Vec::<PathBuf>::new());
    fs::write(&image.path, vec![7; (2 * MIB) as usize]).unwrap();
    let error = plugin.mount_device(&rig.host, &image_volume(&image, json!({})).spec).await.unwrap_err();
    assert!(error.message.contains("was left alone"), "{error}");
    assert!(fs::read(&image.path).unwrap().iter().all(|byte| *byte == 7));
    assert_eq!((image.attached(), plugin.devices(&rig.host).await.unwrap()), (Vec::new(), Vec::new()));
}

/// An image that was deleted while it was mounted retains its loop device and its blocks until it is detached.
#[tokio::test]
async fn deleted_image_is_detached_from_its_loop_device() {
    let Some(rig) = Fixture::real() else { return };
    let (plugin, image) = (LocalPlugin::default(), Image::new(&rig));
    let volume = image_volume(&image, json!({}));
    plugin.mount_device(&rig.host, &volume.spec).await.unwrap();
    let devices = image.attached();
    fs::remove_file(&image.path).unwrap();
    plugin.unmount_device(&rig.host, "pv-1").await.unwrap();
    let backing = |device: &PathBuf| {
        let file =
            std::path::Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
        fs::read_to_string(file).unwrap_or_default()
    };
    let name = image.path.display().to_string();
    let left: Vec<&PathBuf> = devices.iter().filter(|device| backing(device).starts_with(&name)).collect();
    for device in &left {
        let _ = Command::new("losetup").arg("--detach").arg(device).status();
    }
    assert_eq!((devices.len(), left), (1, Vec::<&PathBuf>::new()));
}

#[tokio::test]
async fn block_volume_is_a_link_to_the_device() {
    let Some(rig) = Fixture::real() else { return };
    let (plugin, image) = (LocalPlugin::default(), Image::new(&rig));
    let device = Devices::default().attach(&image.path, false).unwrap();
    let block = |path: &std::path::Path| with(&volume(&path.display().to_string()), |spec| spec.block = true);
    let at = Place { block: true, ..place(&plugin, "pv-1") };
    let link = plugin.path(&rig.host, &at);
    let check = |_: &Fixture| assert_eq!(fs::read_link(&link).unwrap(), device);
    rig.whole_way(&plugin, &block(&device), &check).await;
    rig.every_step(&plugin, &block(&device), &check).await;
    for (path, part) in
        [(rig.base.as_path(), "is a directory"), (&image.path, "only directory and block device")]
    {
        let error: PluginError = plugin.set_up(&rig.host, &block(path)).await.unwrap_err();
        assert!(error.message.contains(part), "{error}");
    }
    fs::create_dir_all(&link).unwrap();
    for outcome in [plugin.set_up(&rig.host, &block(&device)).await, plugin.tear_down(&rig.host, &at).await] {
        assert!(outcome.unwrap_err().message.contains("it should be a link, and is none"));
    }
}

#[tokio::test]
async fn virtual_node_records_the_mount() {
    let (mut rig, plugin) = (Fixture::recorded(), LocalPlugin::default());
    std::sync::Arc::make_mut(&mut rig.host.config).is_virtual = true;
    let check = |rig: &Fixture| assert_eq!(rig.points()[0].source, "/no/such");
    rig.whole_way(&plugin, &volume("/no/such"), &check).await;
}
