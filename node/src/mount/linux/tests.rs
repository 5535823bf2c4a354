//! Real mounts below the directories of the tests, unmounted even when a test fails. They require root; without
//! it, each test reports this and checks the error.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::*;
use crate::mount::Mounts;
use orlop_volume::rooted_fs;

/// A mounter with a directory of its own.
struct Fixture {
    mounter: LinuxMounter,
    root: PathBuf,
    outer: PathBuf,
    dir: TempDir,
}

impl Fixture {
    /// None where mounting is not possible.
    fn new() -> Option<Self> {
        Self::with_programs(Programs::default())
    }

    fn with_programs(programs: Programs) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, outer) = (base.join("root"), base.join("outer"));
        for path in [root.join("a"), root.join("b"), outer.join("c")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(outer.join("file"), "outer").unwrap();
        let room = Self { mounter: LinuxMounter::with_programs(root.clone(), programs), root, outer, dir };
        if orlop_test_support::privileges::has_root("mounts of Linux") {
            return Some(room);
        }
        let error = room.mounter.mount(&room.memory("a")).unwrap_err().to_string();
        assert!(error.contains("needs root"), "{error}");
        None
    }

    fn memory(&self, name: &str) -> Mount {
        Mount {
            origin: Origin::Memory { bytes: Some(1 << 20) },
            target: self.root.join(name),
            options: Vec::new(),
            read_only: false,
        }
    }

    fn bind(&self, source: impl Into<PathBuf>, name: &str) -> Mount {
        Mount { origin: Origin::Bind(source.into()), ..self.memory(name) }
    }

    fn file_system(&self, fs_type: &str, source: &str, name: &str) -> Mount {
        let origin = Origin::FileSystem { fs_type: fs_type.to_owned(), source: source.to_owned() };
        Mount { origin, ..self.memory(name) }
    }

    /// Mount points below the directory of the test, as the kernel reports them.
    fn points(&self) -> Vec<MountPoint> {
        let base = self.root.parent().unwrap();
        // Read again: renaming a directory moves its mounts, and the kernel does not report that as a change.
        let lines = Table::default().lines().unwrap();
        let points = lines.iter().map(|line| line.point.clone());
        points.filter(|point| point.target.starts_with(base)).collect()
    }

    fn targets(&self) -> Vec<String> {
        let base = self.root.parent().unwrap();
        let points = self.points();
        points.iter().map(|point| point.target.strip_prefix(base).unwrap().display().to_string()).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for point in self.points().iter().rev() {
            let _ = unmount(&point.target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        // The directory has its own guard, which is dropped after this one.
        let _ = &self.dir;
    }
}

fn programs(dir: &Path, scripts: &[(&str, &str)]) -> Programs {
    fs::create_dir_all(dir).unwrap();
    for (name, script) in scripts {
        let path = dir.join(name);
        // A file that one thread writes while another starts a child is busy, so it is created elsewhere and linked.
        let status = Command::new("/bin/sh")
            .args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
            .arg(format!("#!/bin/sh\n{script}\n"))
            .arg(&path)
            .status()
            .unwrap();
        assert!(status.success());
        assert!(fs::metadata(&path).unwrap().permissions().mode() & 0o100 != 0);
    }
    Programs { mount: dir.join("mount"), search: vec![dir.to_owned()] }
}

#[test]
fn directory_is_bound_and_unmounted() {
    let Some(room) = Fixture::new() else { return };
    room.mounter.mount(&room.bind(&room.outer, "a")).unwrap();
    assert_eq!(fs::read(room.root.join("a/file")).unwrap(), b"outer");
    fs::write(room.root.join("a/new"), "x").unwrap();
    assert!(room.outer.join("new").exists());
    assert_eq!(room.targets(), ["root/a"], "nothing else is left");
    room.mounter.unmount(&room.root.join("a"), Force::No).unwrap();
    room.mounter.unmount(&room.root.join("a"), Force::No).unwrap();
    room.mounter.unmount(&room.root.join("no/such"), Force::Yes).unwrap();
    assert_eq!(room.targets(), Vec::<String>::new());
}

#[test]
fn bind_mount_has_its_own_flags_and_those_of_its_source() {
    let Some(room) = Fixture::new() else { return };
    let source = Mount { options: vec!["nosuid".to_owned(), "noexec".to_owned()], ..room.memory("a") };
    room.mounter.mount(&source).unwrap();
    let mut mount = room.bind(room.root.join("a"), "b");
    (mount.read_only, mount.options) = (true, vec!["nodev".to_owned(), "discard".to_owned()]);
    room.mounter.mount(&mount).unwrap();
    let error = fs::write(room.root.join("b/x"), "").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    fs::write(room.root.join("a/x"), "").unwrap();
    let points = room.points();
    assert_eq!(room.targets(), ["root/a", "root/b"]);
    for flag in ["ro", "nodev", "nosuid", "noexec"] {
        assert!(points[1].options.iter().any(|option| option == flag), "{flag}: {:?}", points[1].options);
    }
    assert!(points[0].options.iter().any(|option| option == "rw"), "{:?}", points[0].options);
}

#[test]
fn files_are_bound_on_files_under_any_name() {
    let Some(room) = Fixture::new() else { return };
    let name = "sp ace\nline\t\\040 \u{1f40b}";
    fs::write(room.root.join(name), "").unwrap();
    let mut mount = room.bind(room.outer.join("file"), name);
    mount.read_only = true;
    room.mounter.mount(&mount).unwrap();
    assert_eq!(fs::read(room.root.join(name)).unwrap(), b"outer");
    assert!(fs::write(room.root.join(name), "").is_err());
    assert_eq!(room.targets(), [format!("root/{name}")]);
    room.mounter.unmount(&room.root.join(name), Force::No).unwrap();
    assert_eq!(room.targets(), Vec::<String>::new());
    room.mounter.mount(&room.bind("/dev/zero", name)).unwrap();
    let mut bytes = [1; 4];
    std::io::Read::read_exact(&mut File::open(room.root.join(name)).unwrap(), &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4], "a device is mounted on a file");
    room.mounter.unmount(&room.root.join(name), Force::No).unwrap();
    for (source, target) in [(room.outer.join("file"), "a"), (room.outer.clone(), name)] {
        for read_only in [false, true] {
            let mount = Mount { read_only, ..room.bind(&source, target) };
            let error = room.mounter.mount(&mount).unwrap_err().to_string();
            assert!(error.contains("only a directory can be mounted on a directory"), "{error}");
        }
    }
    assert_eq!(room.targets(), Vec::<String>::new());
}

#[test]
fn tmpfs_has_the_requested_size() {
    let Some(room) = Fixture::new() else { return };
    let mut mount = room.memory("a");
    mount.options = vec!["mode=0770".to_owned(), "noexec".to_owned()];
    room.mounter.mount(&mount).unwrap();
    let found = rustix::fs::statvfs(room.root.join("a")).unwrap();
    assert_eq!(found.f_blocks * found.f_frsize, 1 << 20);
    assert_eq!(fs::metadata(room.root.join("a")).unwrap().permissions().mode() & 0o7777, 0o770);
    let points = room.points();
    assert_eq!((&*points[0].fs_type, &*points[0].source), ("tmpfs", "tmpfs"));
    assert!(points[0].options.iter().any(|option| option == "noexec"));
    mount.options = vec!["size=many".to_owned()];
    let error = room.mounter.mount(&mount).unwrap_err().to_string();
    assert!(error.contains("tmpfs: size=many: Invalid argument"), "{error}");
    mount.options = vec!["remount".to_owned()];
    let error = room.mounter.mount(&mount).unwrap_err().to_string();
    assert!(error.contains("mount option remount"), "{error}");
    room.mounter.mount(&Mount { read_only: true, ..room.memory("b") }).unwrap();
    assert!(fs::write(room.root.join("b/x"), "").is_err());
}

#[test]
fn missing_linked_and_outside_targets_are_refused() {
    let Some(room) = Fixture::new() else { return };
    symlink(&room.outer, room.root.join("link")).unwrap();
    for (target, part) in [
        (room.root.join("none"), "does not exist"),
        (room.root.join("link"), "links are not followed"),
        (room.root.join("link/c"), "links are not followed"),
        (room.root.join("a/../../outer"), "`..`"),
        (room.outer.clone(), "not below"),
        (room.root.clone(), "the directory that everything is below"),
    ] {
        for mount in [room.memory("a"), room.bind("/", "a"), room.file_system("tmpfs", "tmpfs", "a")] {
            let mount = Mount { target: target.clone(), ..mount };
            let error = room.mounter.mount(&mount).unwrap_err().to_string();
            assert!(error.contains(part), "{}: {error}", target.display());
        }
    }
    let error = room.mounter.mount(&room.bind(room.outer.join("none"), "a")).unwrap_err().to_string();
    assert!(error.contains("none cannot be opened: No such file"), "{error}");
    let error = room.mounter.unmount(&room.root.join("link/c"), Force::No).unwrap_err();
    assert!(matches!(error, MountError::Unsafe { .. }), "{error}");
    assert_eq!(room.targets(), Vec::<String>::new());
}

#[test]
fn unmount_of_a_busy_mount_names_its_users() {
    let Some(room) = Fixture::new() else { return };
    let target = room.root.join("a");
    room.mounter.mount(&room.memory("a")).unwrap();
    let held = File::create(target.join("held")).unwrap();
    let error = room.mounter.unmount(&target, Force::No).unwrap_err();
    assert!(matches!(error, MountError::Busy { .. }), "{error}");
    let who = format!("({})", std::process::id());
    assert!(error.to_string().contains(&who), "{error}");
    drop(held);
    fs::create_dir(target.join("below")).unwrap();
    room.mounter.mount(&room.memory("a/below")).unwrap();
    let error = room.mounter.unmount(&target, Force::No).unwrap_err().to_string();
    assert!(error.contains("1 mounts are below it"), "{error}");
    room.mounter.unmount(&target.join("below"), Force::No).unwrap();
    room.mounter.unmount(&target, Force::No).unwrap();
}

#[test]
fn stacked_mounts_are_unmounted_from_the_top() {
    let Some(room) = Fixture::new() else { return };
    let target = room.root.join("a");
    for number in 0..3 {
        room.mounter.mount(&room.memory("a")).unwrap();
        fs::write(target.join(number.to_string()), "").unwrap();
    }
    assert_eq!(room.targets().len(), 3);
    for number in (0..3).rev() {
        assert!(target.join(number.to_string()).exists());
        room.mounter.unmount(&target, Force::No).unwrap();
    }
    assert_eq!(room.targets(), Vec::<String>::new());
}

#[test]
fn contents_of_mounts_are_not_deleted() {
    let Some(room) = Fixture::new() else { return };
    fs::create_dir_all(room.root.join("a/x/y")).unwrap();
    fs::write(room.root.join("a/file"), "").unwrap();
    // The device number is the same; only the mount id differs.
    room.mounter.mount(&room.bind(&room.outer, "a/x/y")).unwrap();
    for path in ["a", "a/x/y"] {
        let error =
            rooted_fs::remove_content_below(&room.root, &room.root.join(path)).unwrap_err().to_string();
        assert!(error.contains("a/x/y: something is mounted on it"), "{error}");
    }
    let error = rooted_fs::remove_dir_below(&room.root, &room.root.join("a/x/y")).unwrap_err().to_string();
    assert!(error.contains("something is mounted"), "{error}");
    assert_eq!(fs::read(room.outer.join("file")).unwrap(), b"outer");
    room.mounter.unmount(&room.root.join("a/x/y"), Force::No).unwrap();
    rooted_fs::remove_content_below(&room.root, &room.root.join("a")).unwrap();
    assert!(room.outer.join("file").exists());
}

#[test]
fn mounts_below_shared_mounts_are_private_and_read_only_in_all_peers() {
    let Some(room) = Fixture::new() else { return };
    // A peer of the whole directory, as in another mount namespace.
    let (root, peer) = (room.root.clone(), room.outer.join("c"));
    rustix::mount::mount_bind(&root, &root).unwrap();
    mount_change(&root, MountPropagationFlags::SHARED).unwrap();
    rustix::mount::mount_bind(&root, &peer).unwrap();
    fs::write(root.join("b/x"), "").unwrap();
    room.mounter.mount(&Mount { read_only: true, ..room.bind(root.join("b"), "a") }).unwrap();
    for path in [root.join("a/x"), peer.join("a/x")] {
        let error = fs::write(&path, "").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{}", path.display());
    }
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.contains(&format!(" {}/a ", root.display()))).unwrap();
    assert!(!line.contains("shared:"), "{line}");
    room.mounter.unmount(&root.join("a"), Force::No).unwrap();
    assert_eq!(room.targets(), ["root", "outer/c"], "the peer's went too");
}

#[test]
fn failed_helper_leaves_no_mount() {
    let dir = tempfile::tempdir().unwrap();
    let programs = programs(
        dir.path(),
        &[(
            "mount",
            "for last; do :; done; /bin/mount -n -t tmpfs x \"$last\"; echo \"no $last today, pw=geheim\" >&2; exit 32",
        )],
    );
    let Some(room) = Fixture::with_programs(programs) else { return };
    let mut mount = room.file_system("ext4", "/dev/none", "a");
    mount.options = vec!["password=geheim".to_owned()];
    let error = room.mounter.mount(&mount).unwrap_err().to_string();
    let target = room.root.join("a");
    assert!(error.contains(&format!("no {} today, pw=***", target.display())), "{error}");
    assert_eq!(room.targets(), Vec::<String>::new());
    assert_eq!(rooted_fs::list_below(&room.root, Path::new("mounting")).unwrap(), []);
}

#[test]
fn missing_and_ineffective_helpers_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let programs = programs(dir.path(), &[("mount", "echo fine")]);
    let Some(room) = Fixture::with_programs(programs) else { return };
    for (fs_type, source, part) in [
        ("nfs", "server:/x", "nfs-common (Debian, Ubuntu)"),
        ("cifs", "//server/x", "cifs-utils"),
        ("ext4", "/dev/none", "nothing is mounted; its output: fine"),
        ("ext4", "-o", "is no source"),
        ("-t", "x", "is no file system type"),
        ("../x", "x", "is no file system type"),
    ] {
        let error = room.mounter.mount(&room.file_system(fs_type, source, "a")).unwrap_err().to_string();
        assert!(error.contains(part), "{fs_type}: {error}");
    }
    let nowhere = Programs { mount: dir.path().join("nowhere"), search: Vec::new() };
    let mounter = LinuxMounter::with_programs(room.root.clone(), nowhere);
    let error = mounter.mount(&room.file_system("ext4", "x", "a")).unwrap_err().to_string();
    assert!(error.contains("nowhere is not installed"), "{error}");
}

#[test]
fn system_mount_succeeds_and_reports_refusals() {
    let Some(room) = Fixture::new() else { return };
    let mut mount = room.file_system("tmpfs", "some thing", "a");
    (mount.options, mount.read_only) = (vec!["size=64k".to_owned(), "nosuid".to_owned()], true);
    room.mounter.mount(&mount).unwrap();
    let points = room.points();
    assert_eq!(room.targets(), ["root/a"]);
    assert_eq!((&*points[0].fs_type, &*points[0].source), ("tmpfs", "some thing"));
    for option in ["ro", "nosuid", "size=64k"] {
        assert!(points[0].options.iter().any(|found| found == option), "{:?}", points[0].options);
    }
    let error = room.mounter.mount(&room.file_system("nosuchfs", "x", "b")).unwrap_err().to_string();
    assert!(error.contains("special device x does not exist"), "{error}");
    assert!(
        error.contains(&room.root.join("b").display().to_string()) && !error.contains("mounting/"),
        "{error}"
    );
    assert_eq!(room.targets(), ["root/a"]);
}

#[tokio::test]
async fn hung_helper_is_reported_and_mounts_later() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let script =
        format!("read x < {}; for last; do :; done; exec /bin/mount -n -t tmpfs x \"$last\"", pipe.display());
    let programs = programs(&dir.path().join("bin"), &[("mount", &script), ("mount.nfs", "")]);
    let Some(room) = Fixture::with_programs(programs.clone()) else { return };
    let mounter = LinuxMounter::with_programs(room.root.clone(), programs);
    let mounts = Mounts::new(std::sync::Arc::new(mounter), Duration::from_millis(200));
    let error = mounts.mount("v", room.file_system("nfs", "gone:/x", "a")).await.unwrap_err();
    assert!(matches!(error, MountError::Hangs { .. }), "{error}");
    assert_eq!(room.targets(), Vec::<String>::new());
    let mut changes = room.mounter.changes().unwrap();
    fs::write(&pipe, "go\n").unwrap();
    while !room.targets().iter().any(|target| target == "root/a") {
        tokio::time::timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
    }
    // The worker first attaches the mount to the target and then unmounts it.
    while mounts.unmount("v", &room.root.join("a"), Force::No).await.is_err() {}
    assert_eq!(room.targets(), Vec::<String>::new());
}

#[test]
fn leftovers_of_a_killed_agent_are_cleared() {
    let Some(room) = Fixture::new() else { return };
    for name in ["mounting/one", "mounting/two"] {
        fs::create_dir_all(room.root.join(name)).unwrap();
    }
    fs::write(room.root.join("mounting/three"), "").unwrap();
    for name in ["mounting/one", "mounting/one", "mounting/two"] {
        room.mounter.mount(&room.memory(name)).unwrap();
    }
    room.mounter.mount(&room.bind(room.outer.join("file"), "mounting/three")).unwrap();
    let _held = File::create(room.root.join("mounting/two/held")).unwrap();
    room.mounter.clear_leftovers().unwrap();
    assert_eq!(room.targets(), Vec::<String>::new());
    assert_eq!(rooted_fs::list_below(&room.root, Path::new("mounting")).unwrap(), []);
    room.mounter.clear_leftovers().unwrap();
}

#[test]
fn swapped_directory_never_leads_to_a_mount_outside() {
    let Some(room) = Fixture::new() else { return };
    // `b/c` exists on both sides of the swap.
    fs::create_dir(room.root.join("b/c")).unwrap();
    symlink(&room.outer, room.root.join("swap")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut good, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let (one, other) = (room.root.join("b"), room.root.join("swap"));
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let source = room.root.join("a");
        for round in 0.. {
            let mount = match round % 3 {
                0 => room.memory("b/c"),
                1 => room.bind(&source, "b/c"),
                _ => Mount { read_only: true, ..room.bind(&source, "b/c") },
            };
            match room.mounter.mount(&mount) {
                Ok(()) => good += 1,
                Err(_) => refused += 1,
            }
            let outside = room.targets().into_iter().filter(|target| target.starts_with("outer")).count();
            if outside > 0 || (good >= 40 && refused >= 40) {
                stop.store(true, Ordering::Relaxed);
                assert_eq!(outside, 0, "round {round}");
                break;
            }
            // Under either name, or not at all when the mount was refused.
            for name in ["b/c", "swap/c"] {
                let _ = room.mounter.unmount(&room.root.join(name), Force::No);
            }
        }
    });
    let left = rooted_fs::list_below(&room.outer, &room.outer).unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn table_reports_changes_and_is_read_only_after_changes() {
    let Some(room) = Fixture::new() else { return };
    let mut changes = room.mounter.changes().unwrap();
    room.mounter.mount(&room.memory("a")).unwrap();
    tokio::time::timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
    let target = room.root.join("a");
    let is_there = || room.mounter.points().unwrap().iter().any(|point| point.target == target);
    assert!(is_there());
    let reads = room.mounter.table.reads();
    room.mounter.unmount(&target, Force::No).unwrap();
    assert!(!is_there());
    assert!(room.mounter.table.reads() > reads);
    // Again after a notification: changes by other processes may have caused it, so this waits until none arrive.
    while tokio::time::timeout(Duration::from_millis(100), changes.changed()).await.is_ok() {}
    room.mounter.mount(&room.memory("b")).unwrap();
    tokio::time::timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
}

#[test]
fn renamed_directory_moves_its_mounts_in_the_table() {
    let Some(room) = Fixture::new() else { return };
    fs::create_dir(room.root.join("a/below")).unwrap();
    room.mounter.mount(&room.memory("a/below")).unwrap();
    let is_at = |name: &str| {
        let points = room.mounter.points().unwrap();
        points.iter().any(|point| point.target == room.root.join(name))
    };
    assert!(is_at("a/below"));
    fs::rename(room.root.join("a"), room.root.join("moved")).unwrap();
    room.mounter.renamed();
    assert!(is_at("moved/below") && !is_at("a/below"));
    room.mounter.unmount(&room.root.join("moved/below"), Force::No).unwrap();
    assert!(!is_at("moved/below"));
}
