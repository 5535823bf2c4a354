//! The emptyDir plugin with recorded mounts, and with real tmpfs mounts.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::mount::Force;
use crate::plugin::testing::{Fixture, inline, place};

fn volume(medium: &str, limit: Option<&str>) -> PodVolume {
    inline(json!({"name": "v", "emptyDir": {"medium": medium, "sizeLimit": limit}}))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn each_step_recovers_from_one_failure() {
    let (rig, plugin) = (Fixture::recorded(), EmptyDirPlugin);
    let target = rig.target(&plugin, "v");
    for (medium, fs_type) in [("", None), ("Memory", Some("tmpfs"))] {
        let check = |rig: &Fixture| {
            assert_eq!(mode(&target), 0o777);
            fs::write(target.join("file"), "x").unwrap();
            assert_eq!(rig.points().first().map(|point| &*point.fs_type), fs_type);
        };
        rig.whole_way(&plugin, &volume(medium, Some("1Mi")), &check).await;
        rig.every_step(&plugin, &volume(medium, Some("1Mi")), &check).await;
    }
}

#[tokio::test]
async fn ready_volume_is_not_changed() {
    let (rig, plugin) = (Fixture::recorded(), EmptyDirPlugin);
    let target = rig.target(&plugin, "v");
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    let mark = rig.host.paths.pod("uid-1").join("plugins/kubernetes.io~empty-dir/v/ready");
    assert!(mark.is_file());
    fs::set_permissions(&target, Permissions::from_mode(0o2770)).unwrap();
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    assert_eq!(mode(&target), 0o2770, "the pod's group is kept");
    fs::remove_dir(&target).unwrap();
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    assert_eq!(mode(&target), 0o777, "removed, but the mark stayed");
    fs::remove_file(&mark).unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    assert_eq!(mode(&target), 0o777, "it was not ready");
    fs::remove_dir(&target).unwrap();
    fs::write(&target, "x").unwrap();
    let error = plugin.set_up(&rig.host, &volume("", None)).await.unwrap_err().to_string();
    assert!(error.contains("is not a directory"), "{error}");
}

#[tokio::test]
async fn memory_and_huge_pages_are_mounted_with_their_size() {
    let (rig, plugin) = (Fixture::recorded(), EmptyDirPlugin);
    for (limit, size) in [(Some("64Mi"), Some("size=65536k")), (None, None), (Some("0"), None)] {
        plugin.set_up(&rig.host, &volume("Memory", limit)).await.unwrap();
        let found = rig.points()[0].options.iter().find(|option| option.starts_with("size=")).cloned();
        assert_eq!(found.as_deref(), size, "{limit:?}");
        plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap();
    }
    let mut huge = volume("HugePages-2Mi", None);
    let containers =
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"hugepages-2Mi": "4Mi"}}}]}});
    let mut pod: Pod = serde_json::from_value(containers).unwrap();
    pod.metadata = huge.pod.metadata.clone();
    huge.pod = std::sync::Arc::new(pod);
    plugin.set_up(&rig.host, &huge).await.unwrap();
    let point = &rig.points()[0];
    assert_eq!((&*point.fs_type, &*point.source), ("hugetlbfs", "nodev"));
    assert!(point.options.contains(&"pagesize=2Mi".to_owned()));
    let error = plugin.set_up(&rig.host, &volume("Memory", None)).await.unwrap_err().to_string();
    assert!(error.contains("must have tmpfs mounted, but has hugetlbfs"), "{error}");
    for (medium, limit, part) in
        [("Disk", None, "unknown storage medium"), ("Memory", Some("x"), "sizeLimit \"x\"")]
    {
        let error = plugin.set_up(&rig.host, &volume(medium, limit)).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn only_the_contents_of_the_volume_are_deleted() {
    let (rig, plugin) = (Fixture::recorded(), EmptyDirPlugin);
    let (target, outer) = (rig.target(&plugin, "v"), rig.base.join("outer"));
    fs::create_dir(&outer).unwrap();
    fs::write(outer.join("dear"), "dear").unwrap();
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    fs::create_dir_all(target.join("a/b/c")).unwrap();
    fs::write(target.join("a/b/file"), "x").unwrap();
    symlink(&outer, target.join("a/link")).unwrap();
    plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap();
    assert_eq!(rig.left(), Vec::<String>::new());
    assert_eq!(fs::read(outer.join("dear")).unwrap(), b"dear");
}

#[tokio::test]
async fn tmpfs_is_full_at_its_size_and_is_unmounted() {
    let Some(rig) = Fixture::real() else { return };
    let plugin = EmptyDirPlugin;
    let target = rig.target(&plugin, "v");
    let check = |_: &Fixture| {
        fs::write(target.join("small"), vec![1; 4096]).unwrap();
        let error = fs::write(target.join("large"), vec![1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        fs::remove_file(target.join("large")).unwrap();
    };
    rig.whole_way(&plugin, &volume("Memory", Some("256Ki")), &check).await;
    rig.every_step(&plugin, &volume("Memory", Some("256Ki")), &check).await;
    plugin.set_up(&rig.host, &volume("Memory", Some("256Ki"))).await.unwrap();
    assert_eq!(mode(&target), 0o1777, "the kernel's mode of such a file system");
    fs::write(target.join("small"), vec![1; 8192]).unwrap();
    let measured = measure(&rig.host, &place(&plugin, "v"), MeasureBounds::default()).await.unwrap();
    assert!(measured.bytes >= 8192 && measured.bytes < 32 << 10 && measured.is_whole, "{measured:?}");
    let open = fs::File::open(target.join("small")).unwrap();
    let error = plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap_err().to_string();
    assert!(error.contains("is busy: open in"), "{error}");
    drop(open);
    plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap();
}

#[tokio::test]
async fn mounts_inside_the_volume_are_not_emptied() {
    let Some(rig) = Fixture::real() else { return };
    let plugin = EmptyDirPlugin;
    let (target, outer) = (rig.target(&plugin, "v"), rig.base.join("outer"));
    fs::create_dir(&outer).unwrap();
    fs::write(outer.join("dear"), "dear").unwrap();
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    let inside = target.join("inside");
    fs::create_dir(&inside).unwrap();
    let origin = Origin::Bind(outer.clone());
    rig.mounter
        .mount(&Mount { origin, target: inside.clone(), options: Vec::new(), read_only: false })
        .unwrap();
    let error = plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap_err().to_string();
    assert!(error.contains("something is mounted on it; nothing behind it was touched"), "{error}");
    assert_eq!(fs::read(outer.join("dear")).unwrap(), b"dear");
    rig.mounter.unmount(&inside, Force::No).unwrap();
    plugin.tear_down(&rig.host, &place(&plugin, "v")).await.unwrap();
    assert_eq!(rig.left(), Vec::<String>::new());
}

#[tokio::test]
async fn measurement_stays_within_its_bounds() {
    let (rig, plugin) = (Fixture::recorded(), EmptyDirPlugin);
    let (target, place) = (rig.target(&plugin, "v"), place(&plugin, "v"));
    let measured = async |bounds| measure(&rig.host, &place, bounds).await.unwrap();
    assert_eq!(measured(MeasureBounds::default()).await, DirUsage { bytes: 0, is_whole: true });
    plugin.set_up(&rig.host, &volume("", None)).await.unwrap();
    let empty = measured(MeasureBounds::default()).await.bytes;
    fs::create_dir(target.join("dir")).unwrap();
    fs::write(target.join("dir/file"), vec![1; 100_000]).unwrap();
    fs::hard_link(target.join("dir/file"), target.join("again")).unwrap();
    fs::File::create(target.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    fs::write(rig.base.join("large"), vec![1; 1_000_000]).unwrap();
    symlink(rig.base.join("large"), target.join("link")).unwrap();
    symlink("..", target.join("up")).unwrap();
    let whole = measured(MeasureBounds::default()).await;
    assert!(
        whole.is_whole && (100_000..160_000).contains(&(whole.bytes - empty)),
        "{whole:?}, empty {empty}"
    );
    for bounds in [
        MeasureBounds { entries: 2, ..MeasureBounds::default() },
        MeasureBounds { time: Duration::ZERO, ..MeasureBounds::default() },
    ] {
        let part = measured(bounds).await;
        assert!(!part.is_whole && part.bytes <= whole.bytes, "{part:?}");
    }
}

#[test]
fn first_volume_over_its_limit_is_found() {
    let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [], "volumes": [
        {"name": "free", "emptyDir": {}},
        {"name": "zero", "emptyDir": {"sizeLimit": "0"}},
        {"name": "odd", "emptyDir": {"sizeLimit": "x"}},
        {"name": "a", "emptyDir": {"sizeLimit": "1Ki"}},
        {"name": "m", "emptyDir": {"sizeLimit": "2Ki", "medium": "Memory"}},
        {"name": "path", "hostPath": {"path": "/"}},
    ]}}))
    .unwrap();
    let over = |used: &[(&str, u64)]| {
        let used: BTreeMap<String, u64> =
            used.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        over_limit(&pod, &used).map(|over| over.message)
    };
    let message = |name: &str, limit: &str| {
        Some(format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". "))
    };
    assert_eq!(over(&[]), None);
    assert_eq!(over(&[("free", u64::MAX), ("zero", 1), ("odd", 1), ("path", 1)]), None);
    assert_eq!(over(&[("a", 1024), ("m", 2048)]), None);
    assert_eq!(over(&[("a", 1025)]), message("a", "1Ki"));
    assert_eq!(over(&[("m", u64::MAX)]), message("m", "2Ki"));
    assert_eq!(over_limit(&Pod::default(), &BTreeMap::new()), None);
}
