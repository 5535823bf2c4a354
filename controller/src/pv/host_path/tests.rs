//! Tests of the deletion below /tmp on the real file system: what it removes, what it refuses, and where it
//! stops.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

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
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn only_paths_below_tmp_are_accepted() {
    let names = |path: &str| names_below_root(path).map(|names| names.join("|"));
    let table = [
        ("/tmp/a", Some("a")),
        ("/tmp//a/./b/", Some("a|b")),
        ("/tmp", None),
        ("/tmp/", None),
        ("/tmp/.", None),
        ("/tmp/../etc", None),
        ("/tmp/a/../../etc", None),
        ("/tmp/a/..", None),
        ("/tmpfoo/a", None),
        // Upstream's expression is not anchored and would accept these.
        ("/var/tmp/a", None),
        ("/data/tmp/a", None),
        ("tmp/a", None),
        ("", None),
    ];
    for (path, expected) in table {
        assert_eq!(names(path).as_deref(), expected, "{path}");
    }
    let error = delete_below_tmp("/var/data").unwrap_err();
    assert_eq!(error, "host_path deleter only supports /tmp/.+ but received provided /var/data");
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
    let error = delete_below_tmp(&own.path("way/inner")).unwrap_err();
    assert!(error.contains("way on the way is no directory"), "{error}");
    assert!(fs::exists(own.path("precious/inner")).unwrap(), "a link on the way");
}

#[test]
fn file_volume_is_deleted() {
    let own = Own::new();
    fs::write(own.path("v"), "x").unwrap();
    assert_eq!(delete_below_tmp(&own.path("v")), Ok(()));
    assert!(!fs::exists(own.path("v")).unwrap());
}
