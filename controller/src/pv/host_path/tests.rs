//! Tests of the deletion below /tmp on the real file system: what it removes, what it refuses, and where it
//! stops.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use orlop_test_support::bind_mount::BindMount;
use orlop_volume::file_location::{FileLocation, MountTable};

use super::*;

fn delete_below_tmp(path: &str) -> Result<(), String> {
    delete(path, &HostPathRoots::new(["/tmp".into()]).unwrap(), &FileIds::new())
}

/// A temporary directory below /tmp, removed on drop.
struct Own(PathBuf);

impl Own {
    fn new() -> Self {
        let path = PathBuf::from(format!("/tmp/orlop-test-{}", uuid::Uuid::new_v4()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, below: &str) -> String {
        self.0.join(below).display().to_string()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = rooted_fs::remove_content_below(Path::new("/tmp"), &self.0);
    }
}

#[test]
fn only_existing_paths_below_a_root_are_deleted() {
    for path in [
        "/tmp",
        "/tmp/",
        "/tmp/.",
        "/tmp/../etc",
        "/tmp/a/../../etc",
        "/tmp/a/..",
        "/tmpfoo/a",
        "/var/tmp/a",
        "tmp/a",
        "",
    ] {
        let error = delete(path, &HostPathRoots::default(), &FileIds::new()).unwrap_err();
        assert_eq!(error, format!("host_path deleter only supports /tmp/.+ but received provided {path}"));
    }
    let own = Own::new();
    fs::create_dir_all(own.path("v/a")).unwrap();
    for (roots, path) in [
        (vec![], "v"),
        (vec![own.path("other")], "v"),
        (vec![own.path("v")], "v"),
        (vec![own.path("v/a")], "v"),
        (vec![own.path("other")], "v/a/../../v"),
    ] {
        let roots = HostPathRoots::new(roots.into_iter().map(PathBuf::from)).unwrap();
        assert!(delete(&own.path(path), &roots, &FileIds::new()).is_err(), "{path}, {roots:?}");
        assert!(fs::exists(own.path("v/a")).unwrap());
    }
    let error = delete(&own.path("v"), &HostPathRoots::default(), &FileIds::new()).unwrap_err();
    assert!(error.contains("--host-path-roots"), "{error}");
    // There is nothing to erase.
    assert_eq!(delete(&own.path("never/was"), &HostPathRoots::default(), &FileIds::new()), Ok(()));
}

/// A thread with a small stack and few open files: the depth costs neither.
#[test]
fn depth_is_unlimited() {
    let own = Own::new();
    fs::create_dir(own.path("v")).unwrap();
    let mut at = rustix::fs::open(own.path("v"), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for _ in 0..6_000 {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    let path = own.path("v");
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(move || delete_below_tmp(&path));
    assert_eq!(thread.unwrap().join().unwrap(), Ok(()));
    assert!(!fs::exists(own.path("v")).unwrap());
}

/// A bind mount has the device of the file system that contains it.
#[test]
fn bind_mounts_are_not_entered() {
    if !orlop_test_support::privileges::has_root("a bind mount in a volume that is deleted") {
        return;
    }
    let own = Own::new();
    fs::create_dir_all(own.path("v/mounted")).unwrap();
    fs::create_dir_all(own.path("precious/inner")).unwrap();
    rustix::mount::mount_bind(own.path("precious"), own.path("v/mounted")).unwrap();
    let outcome = delete_below_tmp(&own.path("v"));
    rustix::mount::unmount(own.path("v/mounted"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(outcome.is_err());
    assert!(fs::exists(own.path("precious/inner")).unwrap());
}

#[test]
fn directories_of_other_volumes_and_of_orlop_are_not_deleted() {
    if !orlop_test_support::privileges::has_root("a volume that is mounted elsewhere") {
        return;
    }
    let own = Own::new();
    fs::create_dir_all(own.path("v/a")).unwrap();
    fs::create_dir_all(own.path("other")).unwrap();
    fs::write(own.path("v/a/dear"), "x").unwrap();
    for mounted in ["v", "v/a"] {
        let _mount = BindMount::new(Path::new(&own.path(mounted)), Path::new(&own.path("other")));
        let roots = HostPathRoots::new(["/tmp".into()]).unwrap();
        let location = FileLocation::of(Path::new(&own.path("other")), &MountTable::default());
        let others = location.id().into_iter().collect();
        for path in ["v", "v/a"] {
            let error = delete(&own.path(path), &roots, &others).unwrap_err();
            assert!(error.contains("mounted elsewhere"), "{mounted}, {path}: {error}");
        }
        let roots = roots.protecting(&[own.path("other").into()]);
        for path in ["v", "v/a"] {
            let error = delete(&own.path(path), &roots, &FileIds::new()).unwrap_err();
            assert!(error.contains("a directory of orlop is in it"), "{mounted}, {path}: {error}");
        }
        assert!(fs::exists(own.path("v/a/dear")).unwrap(), "{mounted}");
    }
}

#[test]
fn directory_is_deleted_recursively_and_deletion_is_idempotent() {
    let own = Own::new();
    fs::create_dir_all(own.path("v/a/b")).unwrap();
    fs::write(own.path("v/a/b/.hidden"), "x").unwrap();
    fs::write(own.path("v/file"), "x").unwrap();
    fs::write(own.path("neighbour"), "x").unwrap();
    assert_eq!(delete_below_tmp(&own.path("v")), Ok(()));
    assert!(!fs::exists(own.path("v")).unwrap() && fs::exists(own.path("neighbour")).unwrap());
    assert_eq!(delete_below_tmp(&own.path("v")), Ok(()));
    assert_eq!(delete_below_tmp(&own.path("never/was")), Ok(()));
}

#[test]
fn links_are_removed_and_never_followed() {
    let own = Own::new();
    fs::create_dir_all(own.path("precious/inner")).unwrap();
    fs::create_dir(own.path("v")).unwrap();
    symlink(own.path("precious"), own.path("v/link")).unwrap();
    assert_eq!(delete_below_tmp(&own.path("v")), Ok(()));
    assert!(fs::exists(own.path("precious/inner")).unwrap(), "a link inside");
    symlink(own.path("precious"), own.path("v")).unwrap();
    assert_eq!(delete_below_tmp(&own.path("v")), Ok(()));
    assert!(fs::exists(own.path("precious/inner")).unwrap(), "the path is a link itself");
    symlink(own.path("precious"), own.path("way")).unwrap();
    assert!(delete_below_tmp(&own.path("way/inner")).is_err());
    assert!(fs::exists(own.path("precious/inner")).unwrap(), "a link on the way");
}

#[test]
fn file_volume_is_deleted() {
    let own = Own::new();
    fs::write(own.path("v"), "x").unwrap();
    assert_eq!(delete_below_tmp(&own.path("v")), Ok(()));
    assert!(!fs::exists(own.path("v")).unwrap());
}
