//! The recording mounter behaves as Linux does.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::mount::Mounts;

fn room() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    for name in ["a/below", "b", "c"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::write(root.join("file"), "").unwrap();
    (dir, root)
}

fn nfs(target: PathBuf) -> Mount {
    Mount {
        origin: Origin::FileSystem { fs_type: "nfs".to_owned(), source: "server:/x".to_owned() },
        target,
        options: vec!["hard".to_owned(), "password=geheim".to_owned()],
        read_only: true,
    }
}

fn bind(source: PathBuf, target: PathBuf) -> Mount {
    Mount { origin: Origin::Bind(source), target, options: Vec::new(), read_only: false }
}

#[test]
fn recorded_mounts_survive_the_mounter() {
    let (_dir, root) = room();
    let mounter = RecordingMounter::new(root.clone()).unwrap();
    mounter.mount(&nfs(root.join("a"))).unwrap();
    mounter.mount(&bind(root.join("a/below"), root.join("b"))).unwrap();
    mounter.mount(&bind(root.join("c"), root.join("c"))).unwrap();
    let points = mounter.points().unwrap();
    assert_eq!(points[0].options, ["ro", "hard", "password=***"]);
    assert_eq!(
        (&*points[1].fs_type, &*points[1].source),
        ("nfs", "server:/x"),
        "what is bound is what is there"
    );
    assert_eq!((&*points[1].root, points[1].device), (Path::new("/below"), points[0].device));
    assert_eq!(points[2].root, root.join("c"));
    let again = RecordingMounter::new(root.clone()).unwrap();
    assert_eq!(again.points().unwrap(), points);
    for name in ["c", "b", "a", "a", "no/such"] {
        again.unmount(&root.join(name), Force::No).unwrap();
    }
    assert_eq!(RecordingMounter::new(root).unwrap().points().unwrap(), []);
}

#[test]
fn mounts_refused_by_linux_are_refused() {
    let (_dir, root) = room();
    let mounter = RecordingMounter::new(root.clone()).unwrap();
    std::os::unix::fs::symlink(root.join("b"), root.join("link")).unwrap();
    for (mount, part) in [
        (nfs(root.join("none")), "does not exist"),
        (nfs(root.join("link")), "links are not followed"),
        (nfs(PathBuf::from("/etc")), "not below"),
        (nfs(root.clone()), "the directory that everything is below"),
        (nfs(root.join("file")), "not a directory"),
        (bind(root.join("file"), root.join("a")), "only a directory can be mounted on a directory"),
        (bind(root.join("none"), root.join("a")), "cannot be opened"),
        (Mount { options: vec!["bind".to_owned()], ..nfs(root.join("a")) }, "mount option bind"),
    ] {
        let error = mounter.mount(&mount).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(mounter.points().unwrap(), []);
    mounter.mount(&bind(root.join("file"), root.join("file"))).unwrap();
}

#[test]
fn topmost_mount_is_unmounted_and_busy_mounts_stay() {
    let (_dir, root) = room();
    let mounter = RecordingMounter::new(root.clone()).unwrap();
    let target = root.join("a");
    mounter.mount(&nfs(target.clone())).unwrap();
    mounter.mount(&bind(root.join("c"), target.clone())).unwrap();
    mounter.mount(&nfs(root.join("a/below"))).unwrap();
    let error = mounter.unmount(&target, Force::Yes).unwrap_err().to_string();
    assert!(error.contains("mounts are below it"), "{error}");
    mounter.unmount(&root.join("a/below"), Force::No).unwrap();
    mounter.unmount(&target, Force::No).unwrap();
    assert_eq!(mounter.points().unwrap()[0].fs_type, "nfs");
    mounter.set_busy(&target, true);
    assert!(matches!(mounter.unmount(&target, Force::No), Err(MountError::Busy { .. })));
    mounter.set_busy(&target, false);
    mounter.unmount(&target, Force::No).unwrap();
    mounter.fail_next_mount("no");
    mounter.fail_next_unmount("nor this");
    let error = mounter.mount(&nfs(target.clone())).unwrap_err().to_string();
    assert_eq!(error, format!("mounting server:/x at {}: no", target.display()));
    mounter.mount(&nfs(target.clone())).unwrap();
    assert!(mounter.unmount(&target, Force::No).is_err());
    assert_eq!(mounter.points().unwrap().len(), 1);
    assert_eq!(mounter.calls().last().unwrap(), &format!("unmounting {}", target.display()));
}

#[test]
fn damaged_record_is_an_error() {
    let (_dir, root) = room();
    fs::write(root.join(FILE), "{").unwrap();
    let error = RecordingMounter::new(root).unwrap_err().to_string();
    assert!(error.contains("reading the record of mounts"), "{error}");
}

#[tokio::test]
async fn hung_call_ends_when_it_is_released() {
    let (_dir, root) = room();
    let mounter = Arc::new(RecordingMounter::new(root.clone()).unwrap());
    let mounts = Mounts::new(mounter.clone(), Duration::from_millis(100));
    let mut changes = mounter.changes().unwrap();
    let release = mounter.hang_next_mount();
    let error = mounts.mount("v", nfs(root.join("a"))).await.unwrap_err();
    assert!(error.is_uncertain(), "{error}");
    assert_eq!(mounter.points().unwrap(), []);
    drop(release);
    changes.changed().await.unwrap();
    assert_eq!(mounter.points().unwrap().len(), 1);
    let release = mounter.hang_next_unmount();
    assert!(mounts.unmount("v", &root.join("a"), Force::No).await.is_err());
    drop(release);
    changes.changed().await.unwrap();
    assert_eq!(mounter.points().unwrap(), []);
}
