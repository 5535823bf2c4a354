//! Tests of the comparison: of given identities, and of real bind mounts.
#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use orlop_test_support::bind_mount::BindMount;

fn id(inode: u64) -> FileId {
    FileId { device: 1, inode }
}

#[test]
fn locations_overlap_if_one_contains_the_other() {
    let location = |own: Option<u64>, above: &[u64], inside: Option<(u32, &str)>| FileLocation {
        id: own.map(id),
        above: above.iter().copied().map(id).collect(),
        inside: inside.map(|(minor, path)| ((8, minor), PathBuf::from(path))),
    };
    let by_id = |own, above: &[u64]| location(own, above, None);
    let by_path = |minor, path| location(None, &[], Some((minor, path)));
    for (case, one, other, expected) in [
        ("same identity", by_id(Some(5), &[2]), by_id(Some(5), &[7]), true),
        ("a directory above", by_id(Some(5), &[2]), by_id(Some(9), &[8, 5, 1]), true),
        ("a new directory below", by_id(Some(5), &[2]), by_id(None, &[5, 1]), true),
        ("siblings", by_id(Some(5), &[2, 1]), by_id(Some(6), &[2, 1]), false),
        ("two new directories", by_id(None, &[2, 1]), by_id(None, &[2, 1]), false),
        ("same path in a file system", by_path(1, "/a"), by_path(1, "/a"), true),
        ("a path below", by_path(1, "/a"), by_path(1, "/a/b/c"), true),
        ("a common beginning", by_path(1, "/a"), by_path(1, "/ab"), false),
        ("other file systems", by_path(1, "/a"), by_path(2, "/a"), false),
        ("no path in one of them", by_path(1, "/a"), by_id(Some(5), &[1]), false),
        ("nothing exists", FileLocation::default(), FileLocation::default(), false),
        (
            "only the path",
            location(Some(5), &[1], Some((1, "/a/b"))),
            location(Some(6), &[2], Some((1, "/a"))),
            true,
        ),
        (
            "only the identity",
            location(Some(5), &[1], Some((1, "/a"))),
            location(Some(5), &[2], Some((2, "/b"))),
            true,
        ),
    ] {
        assert_eq!(one.overlaps(&other), expected, "{case}");
        assert_eq!(other.overlaps(&one), expected, "{case}, the other way round");
    }
}

#[test]
fn bind_mounts_are_the_same_location() {
    if !orlop_test_support::privileges::has_root("locations of bind mounts") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    for name in ["a/real/sub/deep", "a/other", "alias", "part"] {
        fs::create_dir_all(top.join(name)).unwrap();
    }
    fs::write(top.join("a/real/sub/file"), "x").unwrap();
    fs::write(top.join("file"), "").unwrap();
    let _mounts = [
        BindMount::new(&top.join("a/real"), &top.join("alias")),
        BindMount::new(&top.join("a/real/sub"), &top.join("part")),
        BindMount::new(&top.join("a/real/sub/file"), &top.join("file")),
    ];
    let table = MountTable::read();
    let at = |path: &str, table: &MountTable| FileLocation::of(&top.join(path), table);
    // The last column: also without a mount table, by identities only.
    for (one, other, expected, expected_without_table) in [
        ("a/real", "alias", true, true),
        ("a/real", "alias/sub/deep", true, true),
        ("a/real/sub", "alias", true, true),
        ("a/real/sub", "part", true, true),
        ("a/real", "part", true, false),
        ("a/real/new", "alias/new", true, false),
        ("a/real/new", "alias", true, true),
        ("alias", "part/deep", true, false),
        ("a", "part/new", true, false),
        ("a/real", "file", true, false),
        ("a/real/sub/file", "file", true, true),
        ("a/real/sub/deep", "file", false, false),
        ("a/other", "alias", false, false),
        ("a/other", "part", false, false),
        ("a/real/new", "alias/other", false, false),
    ] {
        assert_eq!(at(one, &table).overlaps(&at(other, &table)), expected, "{one}, {other}");
        let none = MountTable::default();
        assert_eq!(
            at(one, &none).overlaps(&at(other, &none)),
            expected_without_table,
            "{one}, {other}, no table"
        );
    }
}
