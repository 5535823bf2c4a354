//! The file system view of a container: its root, with its volumes, in its own mount namespace. Everything is
//! opened below the directory that must contain it (`openat2`), and mounts are attached to open files, not to
//! names. `sub_path` opens a path inside a volume, `mount_point` attaches a mount to a mount point.

mod mount_point;
mod sub_path;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, StatVfsMountFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount_change, mount_remount, unmount};

use self::mount_point::{inside, memory, place};
use self::sub_path::sub_path;
pub(super) use self::tree::RootfsError;
use self::tree::{at, attach, detached, magic};
use super::launch_spec::{Container, MountPlan, Propagation, message_file};
use crate::mount::table;

/// The directories of the machine that a separate root directory needs.
const SYSTEM: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Changes the root of this process to that of the container. The process is already in its own mount namespace.
pub(super) fn enter(plan: &Container) -> Result<(), RootfsError> {
    // Before the mounts become slaves of the machine's: a bidirectional mount must be cloned while it is still
    // shared.
    let mut mounts = Vec::new();
    for one in &plan.mounts {
        mounts.push((one, source(one)?));
    }
    mounts.sort_by_key(|(one, _)| one.at.components().count());
    let message = message_file(&plan.dir, plan.restart);
    let message_tree = at(message.display(), detached(CWD, &message.to_string_lossy()))?;
    let system: Vec<(&str, OwnedFd)> = match plan.image {
        None => Vec::new(),
        Some(_) => SYSTEM
            .into_iter()
            .map(|path| Ok((path, at(path, detached(CWD, path))?)))
            .collect::<Result<_, RootfsError>>()?,
    };
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    at("mounts of the machine", mount_change("/", slave))?;

    let root = plan.dir.join("rootfs");
    let shown = plan.image.as_deref().unwrap_or(Path::new("/"));
    let tree = at(format!("root directory {}", shown.display()), detached(CWD, &shown.to_string_lossy()))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let spot = at(root.display(), rustix::fs::open(&root, flags, Mode::empty()))?;
    at(root.display(), attach(&tree, &spot))?;
    drop((tree, spot));
    at(root.display(), mount_change(&root, slave))?;
    hide_others(&root, shown, &plan.agent_root)?;
    if plan.read_only_root {
        let keeps =
            |path: &Path| plan.image.is_none() && SYSTEM.iter().any(|one| path.starts_with(&one[1..]));
        make_read_only(&root, keeps)?;
    }
    for (path, tree) in &system {
        place(&root, Path::new(path), tree, true)?;
    }
    for (one, tree) in &mounts {
        let is_dir = at(one.at.display(), rustix::fs::fstat(tree))?;
        let is_dir = FileType::from_raw_mode(is_dir.st_mode) == FileType::Directory;
        place(&root, &one.at, tree, is_dir)?;
        set(one, tree)?;
    }
    let message_at = Path::new(&plan.message_path);
    if message_at.starts_with("/dev") && !message_at.exists() {
        // A `/dev` must show devices that are added later: create an empty file in it instead of copying the directory.
        let made = std::fs::OpenOptions::new().append(true).create(true).open(message_at);
        made.map_err(|error| format!("{}: {error}", message_at.display()))?;
    }
    place(&root, message_at, &message_tree, false)?;
    drop((mounts, system, message_tree));
    pivot(&root)
}

/// Opens what a mount shows: the volume, or a path inside it that cannot leave it. A missing path is created.
fn source(one: &MountPlan) -> Result<OwnedFd, RootfsError> {
    let name = one.volume.display();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let volume = at(format!("volume {name}"), rustix::fs::open(&one.volume, flags, Mode::empty()))?;
    let part = match &one.sub_path {
        None => volume,
        Some(sub) => {
            sub_path(&volume, sub).map_err(|why| format!("subPath {:?} of {name}: {why}", sub.display()))?
        }
    };
    if one.propagation == Propagation::Bidirectional && !is_shared(&part)? {
        return Err(format!(
            "{name} cannot be mounted Bidirectional: it is not on a shared mount of this machine"
        ));
    }
    at(format!("volume {name}"), detached(&part, ""))
}

/// Whether a file is on a mount with shared propagation.
fn is_shared(fd: &OwnedFd) -> Result<bool, RootfsError> {
    let path = std::fs::read_link(magic(fd)).map_err(|error| error.to_string())?;
    let table = mounts()?;
    let on = table
        .iter()
        .filter(|line| path.starts_with(&line.point.target))
        .max_by_key(|line| line.point.target.components().count());
    Ok(on.is_some_and(|line| line.is_shared))
}

/// All mounts of this thread's namespace, in order.
fn mounts() -> Result<Vec<table::MountInfo>, RootfsError> {
    const TABLE: &str = "/proc/thread-self/mountinfo";
    std::fs::read(TABLE).map(|text| table::parse(&text)).map_err(|error| format!("{TABLE}: {error}"))
}

/// Hides the agent's directory from the container, because it contains volumes of other pods. Existing mounts
/// below it are unmounted; later ones propagate into this namespace but are covered by an empty tmpfs.
fn hide_others(root: &Path, shown: &Path, agent_root: &Path) -> Result<(), RootfsError> {
    let Ok(inner) = agent_root.strip_prefix(shown) else { return Ok(()) };
    let below = root.join(inner);
    let table = mounts()?;
    let others = table.iter().rev().map(|line| &line.point.target);
    for path in others.filter(|path| path.starts_with(&below) && **path != below) {
        at(path.display(), unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW))?;
    }
    if inner.as_os_str().is_empty() {
        return Ok(());
    }
    match inside(root, inner) {
        Ok(spot) => at(agent_root.display(), memory().and_then(|tree| attach(&tree, &spot))),
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => at(agent_root.display(), Err(error)),
    }
}

/// Makes the mounts at and below a path read-only, except those for which `keeps` returns true.
fn make_read_only(root: &Path, keeps: impl Fn(&Path) -> bool) -> Result<(), RootfsError> {
    for line in mounts()? {
        let path = line.point.target;
        let Ok(inner) = path.strip_prefix(root) else { continue };
        if !keeps(inner) {
            remount_read_only(&path)?;
        }
    }
    Ok(())
}

/// Remounts read-only and preserves the other restrictions of the mount.
fn remount_read_only(path: &Path) -> Result<(), RootfsError> {
    let found = at(path.display(), rustix::fs::statvfs(path))?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (is, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if found.contains(is) {
            flags |= flag;
        }
    }
    at(format!("read-only {}", path.display()), mount_remount(path, flags, ""))
}

/// Applies the options of a volume that is mounted. `tree` is the mount: its path may lead to another one by now.
fn set(one: &MountPlan, tree: &OwnedFd) -> Result<(), RootfsError> {
    let how = match one.propagation {
        Propagation::None => Some(MountPropagationFlags::PRIVATE | MountPropagationFlags::REC),
        Propagation::HostToContainer => Some(MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC),
        Propagation::Bidirectional => None,
    };
    if let Some(how) = how {
        at(one.at.display(), mount_change(magic(tree), how))?;
    }
    if one.read_only {
        remount_read_only(Path::new(&magic(tree)))?;
    }
    if one.read_only_below {
        let path =
            std::fs::read_link(magic(tree)).map_err(|error| format!("{}: {error}", one.at.display()))?;
        make_read_only(&path, |_| false)?;
    }
    Ok(())
}

/// Changes the root to this directory; the old root is unreachable afterwards.
fn pivot(root: &Path) -> Result<(), RootfsError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = at("/", rustix::fs::open("/", flags, Mode::empty()))?;
    at(root.display(), rustix::process::chdir(root))?;
    match rustix::process::pivot_root(".", ".") {
        Ok(()) => {
            at("old root", rustix::process::fchdir(&old))?;
            at("old root", unmount(".", UnmountFlags::DETACH))?;
        }
        // The machine runs from its initramfs, which pivot_root cannot replace.
        Err(rustix::io::Errno::INVAL) => {
            at("root", rustix::mount::mount_move(".", "/"))?;
            at("root", rustix::process::chroot("."))?;
        }
        Err(error) => return Err(format!("{}: {}", root.display(), io::Error::from(error))),
    }
    at("/", rustix::process::chdir("/"))
}
