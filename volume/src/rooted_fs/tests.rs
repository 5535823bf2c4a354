//! Tests of both resolvers: created and removed entries, refused paths, and no escape when another process
//! replaces directories by links.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::*;

const BOTH: [Resolver; 2] = [Resolver::Kernel, Resolver::Steps];

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// A root directory `in` to work in, and `out` beside it with a file that must survive.
fn rooms() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (inner, outer) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&inner).unwrap();
    fs::create_dir_all(outer.join("c")).unwrap();
    fs::write(outer.join("c/dear"), "dear").unwrap();
    (dir, inner, outer)
}

#[test]
fn kernel_supports_openat2() {
    assert_eq!(Resolver::best(), Resolver::Kernel, "otherwise only the fallback was tested here");
}

/// The kernel fails such lookups with EAGAIN, whichever files are renamed.
#[test]
fn lookups_through_parents_succeed_while_files_are_renamed() {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let (_dir, root, outer) = rooms();
    fs::create_dir(root.join("a")).unwrap();
    let dir = rustix::fs::open(&root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH;
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (outer.join("one"), outer.join("other"));
            fs::write(&one, "").unwrap();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::fs::renameat(CWD, &one, CWD, &other).unwrap();
                rustix::fs::renameat(CWD, &other, CWD, &one).unwrap();
            }
        });
        let path = Path::new("a/../a");
        let mut disturbed = 0;
        let lookups = std::iter::repeat_with(|| {
            let plain = openat2(&dir, path, flags, Mode::empty(), resolve);
            disturbed += u32::from(matches!(plain, Err(rustix::io::Errno::AGAIN)));
            (open_resolved(&dir, path, flags, resolve).map(drop), disturbed)
        });
        let failed = lookups.take_while(|(_, disturbed)| *disturbed < 20).find(|(result, _)| result.is_err());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

#[test]
fn directory_is_created_with_its_parents_and_mode() {
    for walk in BOTH {
        let (_dir, root, _) = rooms();
        walk.make_dir(&root, &root.join("a/b/ c\n\u{1f40b}"), 0o777).unwrap();
        assert_eq!(mode(&root.join("a")), 0o750);
        assert_eq!(mode(&root.join("a/b")), 0o750);
        assert_eq!(mode(&root.join("a/b/ c\n\u{1f40b}")), 0o777, "whatever the umask is");
        fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
        walk.make_dir(&root, Path::new("a/b"), 0o755).unwrap();
        assert_eq!(mode(&root.join("a/b")), 0o700, "what exists stays as it is");
        walk.make_dir(&root, &root, 0o755).unwrap();
    }
}

#[test]
fn error_names_the_obstacle() {
    for walk in BOTH {
        let (_dir, root, outer) = rooms();
        fs::write(root.join("file"), "").unwrap();
        symlink(&outer, root.join("link")).unwrap();
        for (path, part) in [
            ("file", "file is not a directory"),
            ("file/x", "file is not a directory"),
            ("link", "link is a link; links are not followed"),
            ("link/new", "link is a link"),
            ("../out/new", "`..`"),
            ("/etc/new", "not below"),
        ] {
            let error = walk.make_dir(&root, Path::new(path), 0o755).unwrap_err().to_string();
            assert!(error.contains(part), "{walk:?} {path}: {error}");
        }
        for path in ["link/c/dear", "link"] {
            let error = walk.read_file(&root, Path::new(path), 99).unwrap_err();
            assert!(matches!(error, RootedFsError::Unsafe { .. }), "{walk:?} {path}: {error}");
            let error = walk.open_path(&root, Path::new(path), OFlags::PATH).unwrap_err();
            assert!(matches!(error, RootedFsError::Unsafe { .. }), "{walk:?} {path}: {error}");
        }
        assert!(!outer.join("new").exists());
        assert!(walk.write_file(&root, Path::new("link/c/dear"), b"", 0o600, Durability::Disk).is_err());
        assert!(walk.remove_content(&root, Path::new("link/c")).is_err());
        assert!(walk.remove_content(&root, &root).is_err(), "not the directory itself");
        assert_eq!(fs::read(outer.join("c/dear")).unwrap(), b"dear");
    }
}

#[test]
fn non_empty_directory_is_not_removed() {
    for walk in BOTH {
        let (_dir, root, _) = rooms();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let error = walk.remove_dir(&root, Path::new("a")).unwrap_err().to_string();
        assert!(error.contains("not empty"), "{error}");
        let error = walk.remove_dir(&root, Path::new("file")).unwrap_err().to_string();
        assert!(error.contains("not a directory"), "{error}");
        for path in ["a/b", "a", "a", "a/b/c", "never/was"] {
            walk.remove_dir(&root, Path::new(path)).unwrap();
        }
        assert!(!root.join("a").exists());
    }
}

#[test]
fn deletion_does_not_follow_links() {
    for walk in BOTH {
        let (_dir, root, outer) = rooms();
        fs::create_dir_all(root.join("v/a/b")).unwrap();
        fs::write(root.join("v/a/file"), "x").unwrap();
        symlink(&outer, root.join("v/a/b/out")).unwrap();
        symlink(outer.join("c"), root.join("link")).unwrap();
        for path in ["v", "link", "v", "no/such"] {
            walk.remove_content(&root, Path::new(path)).unwrap();
        }
        assert_eq!(walk.list(&root, &root).unwrap(), []);
        assert_eq!(fs::read(outer.join("c/dear")).unwrap(), b"dear");
    }
}

#[test]
fn very_deep_and_very_wide_trees_are_deleted() {
    for walk in BOTH {
        let (_dir, root, _) = rooms();
        let top = root.join("v");
        fs::create_dir(&top).unwrap();
        for number in 0..500 {
            fs::write(top.join(format!("file-{number}")), "").unwrap();
        }
        // Deeper than the maximum path length, so built from the bottom up.
        let mut at = walk.open_path(&root, &top, OFlags::PATH | OFlags::DIRECTORY).unwrap();
        let long = "d".repeat(250);
        for _ in 0..200 {
            rustix::fs::mkdirat(&at, &*long, rustix::fs::Mode::RWXU).unwrap();
            at = walk.open(&at, Path::new(&long), OFlags::PATH | OFlags::DIRECTORY, Stay::Anywhere).unwrap();
        }
        drop(at);
        walk.remove_content(&root, &top).unwrap();
        assert_eq!(walk.list(&root, &root).unwrap(), []);
    }
}

#[test]
fn file_writes_are_atomic_and_reads_are_limited() {
    for walk in BOTH {
        let (_dir, root, _) = rooms();
        let path = root.join("f");
        walk.write_file(&root, &path, b"one", 0o644, Durability::Disk).unwrap();
        assert_eq!(mode(&path), 0o644, "whatever the umask is");
        walk.write_file(&root, &path, b"other", 0o600, Durability::Disk).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(walk.read_file(&root, &path, 5).unwrap(), b"other");
        let error = walk.read_file(&root, &path, 4).unwrap_err().to_string();
        assert!(error.contains("more than 4 bytes"), "{error}");
        assert!(walk.read_file(&root, Path::new("none"), 4).unwrap_err().is_missing());
        assert!(walk.read_file(&root, Path::new("no/ne"), 4).unwrap_err().is_missing());
        fs::create_dir(root.join("d")).unwrap();
        assert!(walk.write_file(&root, Path::new("d"), b"", 0o600, Durability::Disk).is_err());
        assert!(walk.read_file(&root, Path::new("d"), 9).unwrap_err().to_string().contains("regular"));
        rustix::fs::mkfifoat(CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        assert!(walk.read_file(&root, Path::new("pipe"), 9).unwrap_err().to_string().contains("regular"));
        let left: Vec<_> = walk.list(&root, &root).unwrap();
        assert_eq!(left.len(), 3, "no passing names stay: {left:?}");
        for name in [".f.0123456789abcdef", ".f.0123456789abcde", ".ff.0123456789abcdef"] {
            fs::write(root.join(name), "").unwrap();
        }
        walk.remove_file(&root, &path).unwrap();
        walk.remove_file(&root, &path).unwrap();
        let left: Vec<_> = walk.list(&root, &root).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, [".f.0123456789abcde", ".ff.0123456789abcdef", "d", "pipe"]);
        assert!(walk.remove_file(&root, Path::new("d")).is_err());
    }
}

#[test]
fn links_are_created_replaced_and_read() {
    for walk in BOTH {
        let (_dir, root, outer) = rooms();
        walk.link(&root, Path::new("l"), Path::new("/one")).unwrap();
        walk.link(&root, Path::new("l"), &outer).unwrap();
        assert_eq!(walk.read_link(&root, Path::new("l")).unwrap(), outer);
        assert_eq!(walk.kind(&root, Path::new("l")).unwrap(), Some(FileKind::Link));
        assert_eq!(walk.kind(&root, Path::new("none")).unwrap(), None);
        assert!(walk.read_link(&root, Path::new("none")).unwrap_err().is_missing());
        fs::write(root.join("f"), "").unwrap();
        fs::create_dir(root.join("d")).unwrap();
        let found: Vec<_> = walk.list(&root, &root).unwrap().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(found, [FileKind::Dir, FileKind::File, FileKind::Link]);
        assert!(walk.link(&root, Path::new("d"), &outer).is_err());
        assert!(walk.list(&root, Path::new("none")).unwrap_err().is_missing());
    }
}

/// Swaps two names until `stop` is set.
fn swap_until(stop: &AtomicBool, one: &Path, other: &Path) {
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn swapping_a_directory_for_a_link_does_not_escape_the_root() {
    for walk in BOTH {
        let (_dir, root, outer) = rooms();
        fs::create_dir(root.join("b")).unwrap();
        symlink(&outer, root.join("swap")).unwrap();
        let stop = AtomicBool::new(false);
        let (mut good, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| swap_until(&stop, &root.join("b"), &root.join("swap")));
            // Until both outcomes of the race were seen often enough.
            while good < 100 || refused < 100 {
                for outcome in [
                    walk.make_dir(&root, Path::new("b/new/deep"), 0o777),
                    walk.write_file(&root, Path::new("b/file"), b"x", 0o666, Durability::Disk),
                    walk.write_file(&root, Path::new("b/c/dear"), b"x", 0o666, Durability::Disk),
                    walk.link(&root, Path::new("b/link"), Path::new("x")),
                    walk.remove_file(&root, Path::new("b/c/dear")),
                    walk.remove_dir(&root, Path::new("b/c")),
                    walk.remove_content(&root, Path::new("b/c")),
                    walk.remove_content(&root, Path::new("b/new")),
                    walk.remove_content(&root, Path::new("b/file")),
                ] {
                    match outcome {
                        Ok(()) => good += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let left: Vec<_> = list_below(&outer, &outer).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["c"], "{walk:?}");
        assert_eq!(fs::read(outer.join("c/dear")).unwrap(), b"dear", "{walk:?}");
    }
}

#[test]
fn bind_mounts_of_the_same_file_system_are_detected() {
    if !orlop_test_support::privileges::has_root("mounts below a directory that is deleted") {
        return;
    }
    for walk in BOTH {
        let (_dir, root, outer) = rooms();
        for (source, target, path) in [
            (outer.clone(), root.join("v/d/m"), "v"),
            (outer.clone(), root.join("v/d/m"), "v/d/m"),
            (outer.join("c/dear"), root.join("v/f"), "v"),
        ] {
            fs::create_dir_all(root.join("v/d/m")).unwrap();
            fs::write(root.join("v/f"), "").unwrap();
            let guard = orlop_test_support::bind_mount::BindMount::new(&source, &target);
            let error = walk.remove_content(&root, Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("something is mounted on it"), "{walk:?}: {error}");
            drop(guard);
            assert_eq!(fs::read(outer.join("c/dear")).unwrap(), b"dear", "{walk:?}");
        }
        walk.remove_content(&root, Path::new("v")).unwrap();
    }
}

#[test]
fn name_swapped_between_lookup_and_deletion_does_not_escape_the_root() {
    use super::race_points::{self, RacePoint};
    // The race point, its path, and the directory that is swapped for a link there.
    let places = [
        (RacePoint::Seen, "v", "v"),
        (RacePoint::Descend, "v", "v"),
        (RacePoint::Opened, "v/b", "v"),
        (RacePoint::Seen, "v/b", "v/b"),
        (RacePoint::Seen, "v/b", "v"),
        (RacePoint::Descend, "v/b", "v/b"),
        (RacePoint::Opened, "v/b/c", "v/b"),
        (RacePoint::Seen, "v/b/c", "v/b"),
        (RacePoint::Opened, "v/b/c/dear", "v/b"),
    ];
    for (walk, (moment, place, swapped)) in BOTH.into_iter().flat_map(|walk| places.map(|at| (walk, at))) {
        let (_dir, root, outer) = rooms();
        // Every entry of the tree has a counterpart behind the link.
        fs::create_dir_all(root.join("v/b/c")).unwrap();
        fs::write(root.join("v/b/c/dear"), "").unwrap();
        let behind = if swapped == "v" { outer.join("b") } else { outer.clone() };
        fs::create_dir_all(behind.join("c")).unwrap();
        fs::write(behind.join("c/dear"), "dear").unwrap();
        symlink(&outer, root.join("swap")).unwrap();
        let times = std::rc::Rc::new(std::cell::Cell::new(0));
        let swap = {
            let (root, times) = (root.clone(), std::rc::Rc::clone(&times));
            move |at: RacePoint, path: &Path| {
                if times.get() == 0 && at == moment && path == Path::new(place) {
                    renameat_with(CWD, root.join(swapped), CWD, root.join("swap"), RenameFlags::EXCHANGE)
                        .unwrap();
                    times.set(1);
                }
            }
        };
        // The call may fail, and it may delete the link.
        let _ = race_points::with(swap, || walk.remove_content(&root, Path::new("v")));
        assert_eq!(times.get(), 1, "{walk:?}, {moment:?} of {place}: it was not reached");
        assert_eq!(fs::read(behind.join("c/dear")).unwrap(), b"dear", "{walk:?}, {moment:?} of {place}");
        assert_eq!(fs::read(outer.join("c/dear")).unwrap(), b"dear", "{walk:?}, {moment:?} of {place}");
    }
}

#[test]
fn tree_swapped_during_deletion_does_not_escape_the_root() {
    for walk in BOTH {
        let (_dir, root, outer) = rooms();
        let stop = AtomicBool::new(false);
        symlink(&outer, root.join("swap")).unwrap();
        fs::create_dir(root.join("v")).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Swaps a directory and a link to one with the same names; only the directory may be traversed.
                while !stop.load(Ordering::Relaxed) {
                    let _ = fs::create_dir_all(root.join("new/c"));
                    let _ = fs::write(root.join("new/c/dear"), "");
                    let _ = fs::rename(root.join("new"), root.join("v/b"));
                    let _ =
                        renameat_with(CWD, root.join("v/b"), CWD, root.join("swap"), RenameFlags::EXCHANGE);
                }
            });
            for _ in 0..1000 {
                // The call may fail because entries are added. It may delete the link and the directory, but nothing behind the
                // link.
                let _ = walk.remove_content(&root, Path::new("v/b"));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read(outer.join("c/dear")).unwrap(), b"dear", "{walk:?}");
    }
}
