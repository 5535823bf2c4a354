//! Attaches a mount at a mount point of a container. A missing mount point is not created in the file system of
//! the machine: the directory that lacks it is covered, in this container, by a tmpfs that shows its entries and
//! takes the new one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use orlop_volume::rooted_fs::open_resolved;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

use super::tree::{RootfsError, at, attach, detached, magic};

/// A directory with more entries than this cannot be covered by a tmpfs.
const ENTRIES: usize = 4096;

/// Attaches a mount tree at a path of the container, which is created if it is missing.
pub(super) fn place(root: &Path, path: &Path, tree: &OwnedFd, is_dir: bool) -> Result<(), RootfsError> {
    let mut target = inside(root, path);
    if matches!(target, Err(rustix::io::Errno::NOENT)) {
        make(root, path, is_dir)?;
        target = inside(root, path);
    }
    let target = at(format!("mount point {}", path.display()), target)?;
    let name = std::fs::read_link(magic(&target)).map_err(|error| format!("{}: {error}", path.display()))?;
    if !name.starts_with(root) || name == root {
        return Err(format!("mount point {} is not inside the container", path.display()));
    }
    at(format!("mount point {}", path.display()), attach(tree, &target))
}

/// Opens a path relative to the container's root.
pub(super) fn inside(root: &Path, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let top = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    open_resolved(top, path, flags, resolve)
}

/// Creates a mount point in a tmpfs.
fn make(root: &Path, path: &Path, is_dir: bool) -> Result<(), RootfsError> {
    let name = path.display();
    let mut missing: Vec<&Path> = Vec::new();
    let mut here = path;
    let parent = loop {
        missing.push(here);
        here = here.parent().ok_or_else(|| format!("mount point {name} is no absolute path"))?;
        match inside(root, here) {
            Ok(fd) => break fd,
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(format!("mount point {name}: {}", io::Error::from(error))),
        }
    };
    let shown = here.display();
    let entries = show_through_memory(root, &parent).map_err(|why| {
        format!("mount point {name} is not there and cannot be made: {shown}: {why}; make it on this machine")
    })?;
    debug_assert!(entries <= ENTRIES);
    while let Some(step) = missing.pop() {
        let last = step.file_name().ok_or_else(|| format!("mount point {name} is no plain path"))?;
        let parent = step.parent().unwrap_or(Path::new("/"));
        let parent = at(parent.display(), inside(root, parent))?;
        let made = if is_dir || !missing.is_empty() {
            rustix::fs::mkdirat(&parent, last, Mode::from_raw_mode(0o755))
        } else {
            empty_file(&parent, last)
        };
        at(step.display(), made)?;
    }
    Ok(())
}

fn empty_file(parent: &OwnedFd, name: &std::ffi::OsStr) -> rustix::io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
}

/// Covers a directory with a tmpfs that shows all its entries. Returns their number.
fn show_through_memory(root: &Path, dir: &OwnedFd) -> Result<usize, String> {
    let words = |error: rustix::io::Errno| io::Error::from(error).to_string();
    let found = rustix::fs::fstat(dir).map_err(words)?;
    let path = std::fs::read_link(magic(dir)).map_err(|error| error.to_string())?;
    if !path.starts_with(root) {
        return Err("it is not inside the container".to_owned());
    }
    let reader =
        rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::new(reader.map_err(words)?).map_err(words)? {
        let name = entry.map_err(words)?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            entries.push(name);
        }
        if entries.len() > ENTRIES {
            return Err(format!("it has more than {ENTRIES} entries"));
        }
    }
    let mut trees = Vec::new();
    for name in &entries {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(words)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let tree = match kind {
            FileType::Symlink => None,
            _ => {
                let text = name.to_str().map_err(|_| "a name in it is no UTF-8".to_owned())?;
                Some(detached(dir, text).map_err(words)?)
            }
        };
        trees.push((name, kind, tree));
    }
    // Attached first, because nothing can be mounted in a detached tree; and to the open directory, whatever its
    // name refers to by now.
    let fresh = memory().map_err(words)?;
    attach(&fresh, dir).map_err(words)?;
    for (name, kind, tree) in &trees {
        match (kind, tree) {
            (FileType::Symlink, _) | (_, None) => {
                let link = rustix::fs::readlinkat(dir, *name, Vec::new()).map_err(words)?;
                rustix::fs::symlinkat(&link, &fresh, *name).map_err(words)?;
            }
            (kind, Some(tree)) => {
                match kind {
                    FileType::Directory => rustix::fs::mkdirat(&fresh, *name, Mode::from_raw_mode(0o755)),
                    _ => empty_file(&fresh, std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())),
                }
                .map_err(words)?;
                let spot = rustix::fs::openat(&fresh, *name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                attach(tree, &spot.map_err(words)?).map_err(words)?;
            }
        }
    }
    let (owner, group) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
    rustix::fs::chownat(&fresh, "", Some(owner), Some(group), AtFlags::EMPTY_PATH).map_err(words)?;
    let mode = Mode::from_raw_mode(found.st_mode & 0o7777);
    rustix::fs::chmodat(&fresh, ".", mode, AtFlags::empty()).map_err(words)?;
    Ok(trees.len())
}

/// A small detached tmpfs.
pub(super) fn memory() -> rustix::io::Result<OwnedFd> {
    let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in [("source", "tmpfs"), ("mode", "0755"), ("size", "1m")] {
        fsconfig_set_string(&made, name, value)?;
    }
    fsconfig_create(&made)?;
    fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rustix::fs::CWD;
    use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

    use super::super::mounts;
    use super::*;

    /// A process with write access to a shared volume swaps a directory for a link while another container's mount
    /// point is created in it.
    #[test]
    fn swapped_directory_does_not_redirect_a_mount_point() {
        use std::os::unix::fs::PermissionsExt as _;
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        if !orlop_test_support::privileges::has_root(
            "a directory that is swapped while a mount point is made",
        ) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (volume, victim) = (dir.path().join("volume"), dir.path().join("victim"));
        for (path, mode) in [(&volume, 0o777), (&volume.join("part"), 0o777), (&victim, 0o700)] {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(&victim, volume.join("link")).unwrap();
        let is_over = AtomicBool::new(false);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(500);
        let swap = || {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let (part, link) = (volume.join("part"), volume.join("link"));
            while !is_over.load(Relaxed) && std::time::Instant::now() < end {
                rustix::fs::renameat_with(CWD, &part, CWD, &link, flags).unwrap();
            }
        };
        let place = || {
            #[allow(deprecated, reason = "the table of open files is not taken apart")]
            rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::FS)
                .unwrap();
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            let mode = || std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777;
            while std::time::Instant::now() < end && mode() == 0o700 {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let Ok(part) = rustix::fs::open(volume.join("part"), flags, Mode::empty()) else { continue };
                // It may fail because of the swap.
                let _ = show_through_memory(dir.path(), &part);
                drop(part);
                let table = mounts().unwrap();
                let made = table.iter().rev().map(|line| &line.point.target);
                for path in made.filter(|path| path.starts_with(dir.path())) {
                    let _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
                }
            }
            is_over.store(true, Relaxed);
            mode()
        };
        let mode = std::thread::scope(|scope| {
            scope.spawn(swap);
            scope.spawn(place).join().unwrap()
        });
        assert_eq!(mode, 0o700, "the mode of a directory outside was changed to {mode:o}");
    }
}
