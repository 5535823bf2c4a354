//! Group changes of real files. Changing to a group that the process is not a member of requires root; without
//! root the tests use the process's own group.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

const QUICK: ProgressInterval = ProgressInterval { first: Duration::ZERO, then: Duration::ZERO };

fn wanted() -> FsGroupChange {
    let gid = if orlop_test_support::privileges::has_root("a change of the group") {
        4711
    } else {
        rustix::process::getegid().as_raw()
    };
    FsGroupChange { gid, read_only: false, only_on_mismatch: false }
}

fn give(root: &Path, wanted: FsGroupChange) -> FsGroupOutcome {
    let cancel = CancellationToken::new();
    give_to_group(root, Path::new("v"), wanted, ProgressInterval::default(), &cancel, &mut |_| {}).unwrap()
}

fn made(files: &[(&str, u32)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, mode) in files {
        let path = dir.path().join(name);
        if name.ends_with('/') {
            fs::create_dir_all(&path).unwrap();
        } else {
            fs::write(&path, "").unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    dir
}

fn of(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.gid(), found.mode() & 0o7777)
}

#[test]
fn mode_bits_are_added_and_never_removed() {
    let dir = made(&[
        ("v/", 0o700),
        ("v/d/", 0o1705),
        ("v/d/f", 0o600),
        ("v/d/x", 0o6755),
        ("v/none", 0o000),
        ("other", 0o600),
    ]);
    let (root, wanted) = (dir.path(), wanted());
    symlink("../other", root.join("v/link")).unwrap();
    symlink(root, root.join("v/d/up")).unwrap();
    let done = give(root, wanted);
    assert_eq!((done.seen, done.failed, done.first_failure), (7, 0, None));
    for (name, mode) in
        [("v", 0o2770), ("v/d", 0o3775), ("v/d/f", 0o660), ("v/d/x", 0o6775), ("v/none", 0o660)]
    {
        assert_eq!(of(&root.join(name)), (wanted.gid, mode), "{name}");
    }
    assert_eq!(of(&root.join("v/link")).0, wanted.gid, "the link itself");
    assert_eq!(of(&root.join("other")).1, 0o600, "and not what it leads to");
    let again = give(root, wanted);
    assert_eq!((again.seen, again.changed), (7, 2), "links are given without a look");
}

#[test]
fn read_only_volume_gets_no_write_bits() {
    let dir = made(&[("v/", 0o700), ("v/f", 0o400)]);
    let wanted = FsGroupChange { read_only: true, ..wanted() };
    give(dir.path(), wanted);
    assert_eq!(of(&dir.path().join("v")), (wanted.gid, 0o2750));
    assert_eq!(of(&dir.path().join("v/f")), (wanted.gid, 0o440));
}

#[test]
fn on_root_mismatch_checks_only_the_root() {
    let dir = made(&[("v/", 0o700), ("v/f", 0o600)]);
    let wanted = FsGroupChange { only_on_mismatch: true, ..wanted() };
    assert!(!give(dir.path(), wanted).is_skipped);
    fs::set_permissions(dir.path().join("v/f"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(give(dir.path(), wanted).is_skipped);
    assert_eq!(of(&dir.path().join("v/f")).1, 0o600);
    assert!(!give(dir.path(), FsGroupChange { only_on_mismatch: false, ..wanted }).is_skipped);
    let right = FsGroupChange { gid: 7, read_only: false, only_on_mismatch: true };
    for (gid, mode, is_dir, expected) in [
        (7, 0o2770, true, true),
        (7, 0o2777, true, true),
        (8, 0o2770, true, false),
        (7, 0o770, true, false),
        (7, 0o2760, true, false),
        (7, 0o2750, true, false),
        (7, 0o660, false, true),
        (7, 0o640, false, false),
    ] {
        assert_eq!(is_right(right, gid, mode, is_dir), expected, "{gid} {mode:o}");
    }
    assert!(is_right(FsGroupChange { read_only: true, ..right }, 7, 0o2550, true));
}

#[test]
fn cancelled_walk_leaves_the_root_unchanged() {
    let dir = made(&[("v/", 0o700), ("v/a", 0o600), ("v/b", 0o600), ("v/c", 0o600)]);
    let wanted = FsGroupChange { only_on_mismatch: true, ..wanted() };
    let cancel = CancellationToken::new();
    let mut words = Vec::new();
    let mut progress = |files| {
        words.push(files);
        if files == 2 {
            cancel.cancel();
        }
    };
    let outcome = give_to_group(dir.path(), Path::new("v"), wanted, QUICK, &cancel, &mut progress);
    let error = outcome.unwrap_err();
    assert!(matches!(error, FsGroupError::Cancelled { seen: 2, .. }), "{error}");
    assert_eq!(words, [1, 2]);
    let done = give(dir.path(), wanted);
    assert_eq!((done.seen, done.is_skipped), (4, false));
}

#[test]
fn progress_is_reported_at_the_interval() {
    let dir = made(&[("v/", 0o700), ("v/a", 0o600), ("v/b", 0o600), ("v/c", 0o600)]);
    let mut words = Vec::new();
    let pace = ProgressInterval { first: Duration::ZERO, then: Duration::from_secs(3600) };
    let cancel = CancellationToken::new();
    give_to_group(dir.path(), Path::new("v"), wanted(), pace, &cancel, &mut |files| words.push(files))
        .unwrap();
    assert_eq!(words, [1]);
    assert_eq!(
        progress_message("u/volumes/x", 3),
        "Setting volume ownership for u/volumes/x, processed 3 files."
    );
    assert!(slow_message("u").starts_with("Setting volume ownership for u is taking longer than expected"));
}

#[test]
fn acl_group_entry_gets_the_rights_of_the_mask() {
    let dir = made(&[("v/", 0o700), ("v/f", 0o600)]);
    let file = dir.path().join("v/f");
    let before = acl::tests::list(&[(0x01, 6), (0x02, 4), (0x04, 0), (0x10, 4), (0x20, 0)]);
    match setxattr(&file, "system.posix_acl_access", &before, XattrFlags::empty()) {
        Ok(()) => {}
        Err(Errno::NOTSUP) => {
            eprintln!("the file system of {} has no access lists", dir.path().display());
            return;
        }
        Err(errno) => panic!("{errno}"),
    }
    assert_eq!(give(dir.path(), wanted()).failed, 0);
    let mut found = [0; 512];
    let length = getxattr(&file, "system.posix_acl_access", &mut found[..]).unwrap();
    let after = acl::tests::list(&[(0x01, 6), (0x02, 4), (0x04, 6), (0x10, 6), (0x20, 0)]);
    assert_eq!(found[..length], after);
    assert_eq!(of(&file).1, 0o660);
}

#[test]
fn swapped_directory_does_not_expose_files_outside() {
    let dir = made(&[
        ("v/", 0o700),
        ("v/b/", 0o700),
        ("v/b/c/", 0o700),
        ("v/b/c/f", 0o600),
        ("out/", 0o700),
        ("out/c/", 0o700),
        ("out/c/f", 0o600),
    ]);
    let root = dir.path();
    symlink(root.join("out"), root.join("swap")).unwrap();
    let (before, stop) = (of(&root.join("out")), CancellationToken::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.is_cancelled() {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, root.join("v/b"), cwd, root.join("swap"), exchange).unwrap();
            }
        });
        // Until the walk has met links and directories often enough.
        let (mut short, mut long) = (0, 0);
        while short < 100 || long < 100 {
            match give(root, wanted()).seen {
                4 => long += 1,
                _ => short += 1,
            }
        }
        stop.cancel();
    });
    assert_eq!(of(&root.join("out")), before);
    assert_eq!(of(&root.join("out/c")), before);
    assert_eq!(of(&root.join("out/c/f")), (before.0, 0o600));
}

#[test]
fn name_swapped_between_stat_and_open_does_not_lead_out() {
    use orlop_volume::rooted_fs::race_points::{self, RacePoint};
    // At this step of the walk at this path, this name is replaced by a link to that target.
    let of_dir =
        [RacePoint::Seen, RacePoint::Opened, RacePoint::Descend].map(|moment| (moment, "v/b", "v/b", "out"));
    let inside = [RacePoint::Seen, RacePoint::Opened, RacePoint::Descend]
        .map(|moment| (moment, "v/b/c", "v/b", "out"));
    let deep = [RacePoint::Seen, RacePoint::Opened].map(|moment| (moment, "v/b/c/f", "v/b", "out"));
    let files = [RacePoint::Seen, RacePoint::Opened].map(|moment| (moment, "v/b/c/f", "v/b/c/f", "out/c/f"));
    for (moment, place, swapped, outside) in [&of_dir[..], &inside, &deep, &files].concat() {
        let dir = made(&[
            ("v/", 0o700),
            ("v/b/", 0o700),
            ("v/b/c/", 0o700),
            ("v/b/c/f", 0o600),
            ("out/", 0o700),
            ("out/c/", 0o700),
            ("out/c/f", 0o600),
        ]);
        let root = dir.path();
        symlink(root.join(outside), root.join("swap")).unwrap();
        let all = || ["out", "out/c", "out/c/f"].map(|name| of(&root.join(name)));
        let before = all();
        let times = std::rc::Rc::new(std::cell::Cell::new(0));
        let swap = {
            let (root, times) = (root.to_owned(), std::rc::Rc::clone(&times));
            move |at: RacePoint, path: &Path| {
                if at == moment && path == Path::new(place) {
                    let (cwd, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                    rustix::fs::renameat_with(cwd, root.join(swapped), cwd, root.join("swap"), exchange)
                        .unwrap();
                    times.set(times.get() + 1);
                }
            }
        };
        let cancel = CancellationToken::new();
        let walk = || {
            give_to_group(root, Path::new("v"), wanted(), ProgressInterval::default(), &cancel, &mut |_| {})
        };
        race_points::with(swap, walk).unwrap();
        assert_eq!(times.get(), 1, "{moment:?} of {place}: it was not reached");
        assert_eq!(all(), before, "{moment:?} of {place}");
    }
}

#[test]
fn mounts_below_the_volume_are_skipped() {
    use crate::mount::{Force, LinuxMounter, Mount, Mounter, Origin};
    if !orlop_test_support::privileges::has_root("mounts below a volume") {
        return;
    }
    struct Unmount<'a>(&'a LinuxMounter, PathBuf);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _ = self.0.unmount(&self.1, Force::No);
        }
    }
    let dir = made(&[("v/", 0o700), ("v/m/", 0o700), ("outer/", 0o700), ("outer/f", 0o600)]);
    let root = fs::canonicalize(dir.path()).unwrap();
    let mounter = LinuxMounter::new(root.clone());
    let target = root.join("v/m");
    let mount = Mount {
        origin: Origin::Bind(root.join("outer")),
        target: target.clone(),
        options: Vec::new(),
        read_only: false,
    };
    mounter.mount(&mount).unwrap();
    let _guard = Unmount(&mounter, target);
    let done = give(&root, wanted());
    assert_eq!((done.seen, done.mounts), (1, 1));
    assert_eq!(of(&root.join("outer/f")).1, 0o600);
}

/// A pod cannot make a shared volume unmountable by directories below a path that is too long to be opened.
#[test]
fn files_below_the_longest_path_get_the_group() {
    let dir = made(&[("v/", 0o700)]);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let name = "d".repeat(250);
    let mut deepest = rustix::fs::open(dir.path().join("v"), flags, Mode::empty()).unwrap();
    for _ in 0..60 {
        rustix::fs::mkdirat(&deepest, &name, Mode::RWXU).unwrap();
        deepest = rustix::fs::openat(&deepest, &name, flags, Mode::empty()).unwrap();
    }
    let wanted = wanted();
    let done = give(dir.path(), wanted);
    assert_eq!((done.seen, done.failed, done.first_failure), (61, 0, None));
    let found = fstat(&deepest).unwrap();
    assert_eq!((found.st_gid, found.st_mode & 0o2070), (wanted.gid, 0o2070));
    orlop_volume::rooted_fs::remove_content_below(dir.path(), Path::new("v")).unwrap();
}
